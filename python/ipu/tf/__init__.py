# SPDX-License-Identifier: MIT
"""The TensorFlow-2-style front end: tensors, ops, variables, data sets.

Names and semantics are TensorFlow's, so that programs written for it read the same;
what is there is computed by ``ipu``'s own core. ``name`` arguments name the operation
in a graph of TensorFlow 1; elsewhere they change nothing.

The examples of this package begin with ``import ipu.tf as tf``, ``import numpy as np``
and ``from ipu.tf.compat import v1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._core import Tensor as Tensor
from ipu._device.placement import device as device
from ipu._device.strategy_state import (
    VariableAggregation as VariableAggregation,
    VariableSynchronization as VariableSynchronization,
)
from ipu._text.exports import export, offered
from ipu.tf import (
    autograph as autograph,
    bitwise as bitwise,
    config as config,
    data as data,
    debugging as debugging,
    errors as errors,
    logging_ops as _logging_ops,
    math as math,
    nest as nest,
    nn as nn,
    random as random,
    version as version,
)
from ipu.tf._functions import scopes as _scopes
from ipu.tf._functions.function import (
    function as function,
    init_scope as init_scope,
    inside_function as inside_function,
)
from ipu.tf._functions.scopes import (
    control_dependencies as control_dependencies,
    executing_eagerly as executing_eagerly,
    group as group,
    is_tensor as is_tensor,
    name_scope as name_scope,
    no_op as no_op,
    numpy_function as numpy_function,
    py_function as py_function,
)
from ipu.tf._ops import shapes as _shapes
from ipu.tf._ops.clip import (
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    clip_by_value as clip_by_value,
)
from ipu.tf._ops.creation import (
    eye as eye,
    fill as fill,
    linspace as linspace,
    meshgrid as meshgrid,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    range as range,
    sequence_mask as sequence_mask,
    zeros as zeros,
    zeros_like as zeros_like,
)
from ipu.tf._ops.elementwise import (
    abs as abs,
    acos as acos,
    acosh as acosh,
    add as add,
    add_n as add_n,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cos as cos,
    cosh as cosh,
    divide as divide,
    equal as equal,
    exp as exp,
    floor as floor,
    greater as greater,
    greater_equal as greater_equal,
    identity as identity,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    negative as negative,
    not_equal as not_equal,
    pow as pow,
    round as round,
    saturate_cast as saturate_cast,
    scalar_mul as scalar_mul,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sinh as sinh,
    sqrt as sqrt,
    square as square,
    stop_gradient as stop_gradient,
    subtract as subtract,
    tan as tan,
    tanh as tanh,
    truediv as truediv,
    truncatediv as truncatediv,
    truncatemod as truncatemod,
)
from ipu.tf._ops.partitions import (
    broadcast_dynamic_shape as broadcast_dynamic_shape,
    dynamic_partition as dynamic_partition,
    dynamic_stitch as dynamic_stitch,
    histogram_fixed_width as histogram_fixed_width,
    histogram_fixed_width_bins as histogram_fixed_width_bins,
    reverse_sequence as reverse_sequence,
    unravel_index as unravel_index,
)
from ipu.tf._ops.products import (
    einsum as einsum,
    matmul as matmul,
    tensordot as tensordot,
)
from ipu.tf._ops.rearrange import (
    pad as pad,
    repeat as repeat,
    reverse as reverse,
    roll as roll,
    tile as tile,
)
from ipu.tf._ops.reductions import (
    argmax as argmax,
    argmin as argmin,
    cumsum as cumsum,
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_logsumexp as reduce_logsumexp,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
)
from ipu.tf._ops.selection import (
    argsort as argsort,
    boolean_mask as boolean_mask,
    gather as gather,
    gather_nd as gather_nd,
    scatter_nd as scatter_nd,
    searchsorted as searchsorted,
    sort as sort,
    tensor_scatter_nd_add as tensor_scatter_nd_add,
    tensor_scatter_nd_max as tensor_scatter_nd_max,
    tensor_scatter_nd_min as tensor_scatter_nd_min,
    tensor_scatter_nd_sub as tensor_scatter_nd_sub,
    tensor_scatter_nd_update as tensor_scatter_nd_update,
    unique as unique,
    unique_with_counts as unique_with_counts,
    where as where,
)
from ipu.tf._ops.shapes import (
    bitcast as bitcast,
    broadcast_static_shape as broadcast_static_shape,
    broadcast_to as broadcast_to,
    concat as concat,
    ensure_shape as ensure_shape,
    expand_dims as expand_dims,
    rank as rank,
    reshape as reshape,
    shape as shape,
    shape_n as shape_n,
    size as size,
    split as split,
    squeeze as squeeze,
    stack as stack,
    strided_slice as strided_slice,
    transpose as transpose,
    unstack as unstack,
)
from ipu.tf._ops.space import (
    batch_to_space as batch_to_space,
    batch_to_space_nd as batch_to_space_nd,
    space_to_batch as space_to_batch,
    space_to_batch_nd as space_to_batch_nd,
)
from ipu.tf._ops.tensor_array import TensorArray as TensorArray
from ipu.tf._tensor.composite_specs import (
    RaggedTensorSpec as RaggedTensorSpec,
    SparseTensorSpec as SparseTensorSpec,
)
from ipu.tf._tensor.convert import (
    cast as cast,
    constant as constant,
    convert_to_tensor as convert_to_tensor,
)
from ipu.tf.control_flow import (
    case as case,
    cond as cond,
    switch_case as switch_case,
    while_loop as while_loop,
)
from ipu.tf.custom_gradient import (
    custom_gradient as custom_gradient,
    grad_pass_through as grad_pass_through,
    recompute_grad as recompute_grad,
)
from ipu.tf.debugging import Assert as Assert, assert_equal as assert_equal
from ipu.tf.dtypes import (
    DType as DType,
    as_dtype as as_dtype,
    bool as bool,
    double as double,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    string as string,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from ipu.tf.functional_ops import (
    foldl as foldl,
    foldr as foldr,
    map_fn as map_fn,
    scan as scan,
    vectorized_map as vectorized_map,
)
from ipu.tf.gradient_tape import (
    GradientTape as GradientTape,
    UnconnectedGradients as UnconnectedGradients,
    gradients as gradients,
)
from ipu.tf.indexed_slices import IndexedSlices as IndexedSlices
from ipu.tf.module import Module as Module
from ipu.tf.tensor_shape import TensorShape as TensorShape
from ipu.tf.tensor_spec import TensorSpec as TensorSpec
from ipu.tf.variable import Variable as Variable

__version__ = version.VERSION
newaxis = None
print = _logging_ops.print_values
realdiv = truediv
slice = _shapes.slice_
tuple = _scopes.tuple_of

if TYPE_CHECKING:
    from ipu import keras as keras
    from ipu.keras import (
        initializers as initializers,
        losses as losses,
        metrics as metrics,
        optimizers as optimizers,
    )
    from ipu.tf import (
        compat as compat,
        distribute as distribute,
        estimator as estimator,
        image as image,
        io as io,
        linalg as linalg,
        lookup as lookup,
        ragged as ragged,
        raw_ops as raw_ops,
        sparse as sparse,
        strings as strings,
        summary as summary,
        test as test,
        train as train,
    )
    from ipu.tf.linalg import norm as norm
    from ipu.tf.ragged import RaggedTensor as RaggedTensor

# Modules and names that are imported when they are first used; ``unittest`` is slow.
_LAZY = {
    "RaggedTensor": "ipu.tf.ragged:RaggedTensor",
    "keras": "ipu.keras",
    "norm": "ipu.tf.linalg:norm",
    **{
        name: f"ipu.keras.{name}"
        for name in "initializers losses metrics optimizers".split()
    },
    **{
        name: f"ipu.tf.{name}"
        for name in """compat distribute estimator image io linalg lookup ragged raw_ops
        sparse strings summary test train""".split()
    },
}
_MODULES = "autograph bitwise config data debugging errors math nest nn random version"

if not TYPE_CHECKING:
    __all__ = ["__version__", *offered(__name__, [*_LAZY, *_MODULES.split()])]
    export(__name__, None, _LAZY)
