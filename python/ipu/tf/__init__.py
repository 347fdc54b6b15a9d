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

from ipu._core import Tensor
from ipu._text.faces import face
from ipu.tf import errors, nest
from ipu.tf._ops.clip import (
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
)
from ipu.tf._ops.creation import (
    eye,
    fill,
    linspace,
    meshgrid,
    one_hot,
    ones,
    ones_like,
    range,
    sequence_mask,
    zeros,
    zeros_like,
)
from ipu.tf._ops.elementwise import (
    abs,
    acos,
    acosh,
    add,
    add_n,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    divide,
    equal,
    exp,
    floor,
    greater,
    greater_equal,
    identity,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    pow,
    round,
    saturate_cast,
    scalar_mul,
    sigmoid,
    sign,
    sin,
    sinh,
    sqrt,
    square,
    stop_gradient,
    subtract,
    tan,
    tanh,
    truediv,
    truncatediv,
    truncatemod,
)
from ipu.tf._ops.partitions import (
    broadcast_dynamic_shape,
    dynamic_partition,
    dynamic_stitch,
    histogram_fixed_width,
    histogram_fixed_width_bins,
    reverse_sequence,
    unravel_index,
)
from ipu.tf._ops.products import (
    einsum,
    matmul,
    tensordot,
)
from ipu.tf._ops.rearrange import (
    pad,
    repeat,
    reverse,
    roll,
    tile,
)
from ipu.tf._ops.reductions import (
    argmax,
    argmin,
    cumsum,
    reduce_all,
    reduce_any,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
)
from ipu.tf._ops.selection import (
    argsort,
    boolean_mask,
    gather,
    gather_nd,
    scatter_nd,
    searchsorted,
    sort,
    tensor_scatter_nd_add,
    tensor_scatter_nd_max,
    tensor_scatter_nd_min,
    tensor_scatter_nd_sub,
    tensor_scatter_nd_update,
    unique,
    unique_with_counts,
    where,
)
from ipu.tf._ops.shapes import (
    bitcast,
    broadcast_static_shape,
    broadcast_to,
    concat,
    ensure_shape,
    expand_dims,
    rank,
    reshape,
    shape,
    shape_n,
    size,
    split,
    squeeze,
    stack,
    strided_slice,
    transpose,
    unstack,
)
from ipu.tf._ops.shapes import (
    slice_ as slice,
)
from ipu.tf._ops.space import (
    batch_to_space,
    batch_to_space_nd,
    space_to_batch,
    space_to_batch_nd,
)
from ipu.tf._ops.tensor_array import TensorArray
from ipu.tf._tensor.convert import (
    cast,
    constant,
    convert_to_tensor,
)
from ipu.tf.control_flow import case, cond, switch_case, while_loop
from ipu.tf.dtypes import (
    DType,
    as_dtype,
    bool,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ipu.tf.functional_ops import foldl, foldr, map_fn, scan, vectorized_map
from ipu.tf.indexed_slices import IndexedSlices
from ipu.tf.tensor_shape import TensorShape
from ipu.tf.tensor_spec import TensorSpec

from ipu.tf._tensor.composite_specs import RaggedTensorSpec, SparseTensorSpec  # isort: skip
from ipu.tf import bitwise, math, nn  # isort: skip
from ipu.tf.variable import Variable  # isort: skip
from ipu.tf import data, random  # isort: skip
from ipu.tf import autograph, config, debugging, version  # isort: skip
from ipu._device.placement import device  # isort: skip
from ipu.tf._functions.decorator import function  # isort: skip
from ipu.tf._functions.function import init_scope, inside_function  # isort: skip
from ipu.tf._functions.scopes import (  # isort: skip
    control_dependencies,
    executing_eagerly,
    group,
    is_tensor,
    name_scope,
    no_op,
    numpy_function,
    py_function,
    tuple_of as tuple,
)
from ipu.tf.custom_gradient import (  # isort: skip
    custom_gradient,
    grad_pass_through,
    recompute_grad,
)
from ipu.tf.debugging import Assert, assert_equal  # isort: skip
from ipu.tf.gradient_tape import (  # isort: skip
    GradientTape,
    UnconnectedGradients,
    gradients,
)
from ipu.tf.logging_ops import print_values as print  # isort: skip
from ipu.tf.module import Module  # isort: skip
from ipu.tf.version import VERSION as __version__  # isort: skip

newaxis = None
realdiv = truediv

if TYPE_CHECKING:
    from ipu import keras as keras
    from ipu.keras import initializers as initializers
    from ipu.keras import losses as losses
    from ipu.keras import metrics as metrics
    from ipu.keras import optimizers as optimizers
    from ipu.tf import compat as compat
    from ipu.tf import distribute as distribute
    from ipu.tf import estimator as estimator
    from ipu.tf import image as image
    from ipu.tf import io as io
    from ipu.tf import linalg as linalg
    from ipu.tf import lookup as lookup
    from ipu.tf import ragged as ragged
    from ipu.tf import raw_ops as raw_ops
    from ipu.tf import sparse as sparse
    from ipu.tf import strings as strings
    from ipu.tf import summary as summary
    from ipu.tf import test as test
    from ipu.tf import train as train
    from ipu.tf.linalg import norm as norm
    from ipu.tf.ragged import RaggedTensor as RaggedTensor

__all__ = [
    "Assert",
    "DType",
    "GradientTape",
    "IndexedSlices",
    "Module",
    "RaggedTensor",
    "RaggedTensorSpec",
    "SparseTensorSpec",
    "Tensor",
    "TensorArray",
    "TensorShape",
    "TensorSpec",
    "UnconnectedGradients",
    "Variable",
    "__version__",
    "abs",
    "acos",
    "acosh",
    "add",
    "add_n",
    "argmax",
    "argmin",
    "argsort",
    "as_dtype",
    "asin",
    "asinh",
    "assert_equal",
    "atan",
    "atan2",
    "atanh",
    "autograph",
    "batch_to_space",
    "batch_to_space_nd",
    "bitcast",
    "bitwise",
    "bool",
    "boolean_mask",
    "broadcast_dynamic_shape",
    "broadcast_static_shape",
    "broadcast_to",
    "case",
    "cast",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "compat",
    "concat",
    "cond",
    "config",
    "constant",
    "control_dependencies",
    "convert_to_tensor",
    "cos",
    "cosh",
    "cumsum",
    "custom_gradient",
    "data",
    "debugging",
    "device",
    "distribute",
    "divide",
    "double",
    "dynamic_partition",
    "dynamic_stitch",
    "einsum",
    "ensure_shape",
    "equal",
    "errors",
    "estimator",
    "executing_eagerly",
    "exp",
    "expand_dims",
    "eye",
    "fill",
    "float16",
    "float32",
    "float64",
    "floor",
    "foldl",
    "foldr",
    "function",
    "gather",
    "gather_nd",
    "grad_pass_through",
    "gradients",
    "greater",
    "greater_equal",
    "group",
    "half",
    "histogram_fixed_width",
    "histogram_fixed_width_bins",
    "identity",
    "image",
    "init_scope",
    "initializers",
    "inside_function",
    "int8",
    "int16",
    "int32",
    "int64",
    "io",
    "is_tensor",
    "keras",
    "less",
    "less_equal",
    "linalg",
    "linspace",
    "logical_and",
    "logical_not",
    "logical_or",
    "lookup",
    "losses",
    "map_fn",
    "math",
    "matmul",
    "maximum",
    "meshgrid",
    "metrics",
    "minimum",
    "multiply",
    "name_scope",
    "negative",
    "nest",
    "newaxis",
    "nn",
    "no_op",
    "norm",
    "not_equal",
    "numpy_function",
    "one_hot",
    "ones",
    "ones_like",
    "optimizers",
    "pad",
    "pow",
    "print",
    "py_function",
    "ragged",
    "random",
    "range",
    "rank",
    "raw_ops",
    "realdiv",
    "recompute_grad",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "repeat",
    "reshape",
    "reverse",
    "reverse_sequence",
    "roll",
    "round",
    "saturate_cast",
    "scalar_mul",
    "scan",
    "scatter_nd",
    "searchsorted",
    "sequence_mask",
    "shape",
    "shape_n",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "size",
    "slice",
    "sort",
    "space_to_batch",
    "space_to_batch_nd",
    "sparse",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "strided_slice",
    "string",
    "strings",
    "subtract",
    "summary",
    "switch_case",
    "tan",
    "tanh",
    "tensor_scatter_nd_add",
    "tensor_scatter_nd_max",
    "tensor_scatter_nd_min",
    "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update",
    "tensordot",
    "test",
    "tile",
    "train",
    "transpose",
    "truediv",
    "truncatediv",
    "truncatemod",
    "tuple",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique",
    "unique_with_counts",
    "unravel_index",
    "unstack",
    "vectorized_map",
    "version",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]


# Modules that are imported when they are first used.
_LAZY = {
    "RaggedTensor": "ipu.tf.ragged:RaggedTensor",
    "compat": "ipu.tf.compat",
    "distribute": "ipu.tf.distribute",
    "estimator": "ipu.tf.estimator",
    "initializers": "ipu.keras.initializers",
    "image": "ipu.tf.image",
    "io": "ipu.tf.io",
    "linalg": "ipu.tf.linalg",
    "lookup": "ipu.tf.lookup",
    "keras": "ipu.keras",
    "losses": "ipu.keras.losses",
    "metrics": "ipu.keras.metrics",
    "norm": "ipu.tf.linalg:norm",
    "optimizers": "ipu.keras.optimizers",
    "ragged": "ipu.tf.ragged",
    "raw_ops": "ipu.tf.raw_ops",
    "sparse": "ipu.tf.sparse",
    "strings": "ipu.tf.strings",
    "summary": "ipu.tf.summary",
    "train": "ipu.tf.train",
    "test": "ipu.tf.test",  # unittest is slow to import
}


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__, _LAZY)
