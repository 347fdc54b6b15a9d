# SPDX-License-Identifier: MIT
"""``tf.compat.v1``: graphs and sessions.

Everything of ``ipu.tf`` is here as well. After :func:`disable_v2_behavior`, or inside
of ``with Graph().as_default():``, ops are not computed but added to a graph, which a
:class:`Session` runs.

Example:
    >>> import ipu.tf.compat.v1 as tf
    >>> tf.disable_v2_behavior()
    >>> x = tf.placeholder(tf.float32, [2])
    >>> doubled = x * 2.0
    >>> with tf.Session() as session:
    ...     print(session.run(doubled, feed_dict={x: [1.0, 2.0]}))
    [2. 4.]
    >>> tf.enable_v2_behavior()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu import tf as _tf
from ipu._text.exports import export, offered
from ipu.tf._graph import operation as _operation
from ipu.tf._graph.graph import Graph as Graph
from ipu.tf._graph.scopes import (
    AUTO_REUSE as AUTO_REUSE,
    VariableScope as VariableScope,
    get_variable as get_variable,
    get_variable_scope as get_variable_scope,
    variable_scope as variable_scope,
)
from ipu.tf._graph.session import (
    InteractiveSession as InteractiveSession,
    Session as Session,
)
from ipu.tf.compat.v1._graphs import (
    ConfigProto as ConfigProto,
    GPUOptions as GPUOptions,
    GraphKeys as GraphKeys,
    GraphOptions as GraphOptions,
    OptimizerOptions as OptimizerOptions,
    Print as Print,
    RunMetadata as RunMetadata,
    RunOptions as RunOptions,
    add_to_collection as add_to_collection,
    add_to_collections as add_to_collections,
    disable_eager_execution as disable_eager_execution,
    disable_v2_behavior as disable_v2_behavior,
    enable_eager_execution as enable_eager_execution,
    enable_v2_behavior as enable_v2_behavior,
    executing_eagerly_outside_functions as executing_eagerly_outside_functions,
    get_collection as get_collection,
    get_collection_ref as get_collection_ref,
    get_default_graph as get_default_graph,
    get_default_session as get_default_session,
    placeholder as placeholder,
    placeholder_with_default as placeholder_with_default,
    py_func as py_func,
    reset_default_graph as reset_default_graph,
)
from ipu.tf.compat.v1._helpers import (
    batch_gather as batch_gather,
    colocate_with as colocate_with,
    container as container,
    get_local_variable as get_local_variable,
    identity_n as identity_n,
    make_template as make_template,
    parallel_stack as parallel_stack,
    scatter_nd_update as scatter_nd_update,
    sparse_to_dense as sparse_to_dense,
    verify_tensor_all_finite as verify_tensor_all_finite,
)
from ipu.tf.compat.v1._initializers import (
    constant_initializer as constant_initializer,
    glorot_normal_initializer as glorot_normal_initializer,
    glorot_uniform_initializer as glorot_uniform_initializer,
    ones_initializer as ones_initializer,
    orthogonal_initializer as orthogonal_initializer,
    random_normal_initializer as random_normal_initializer,
    random_uniform_initializer as random_uniform_initializer,
    truncated_normal_initializer as truncated_normal_initializer,
    uniform_unit_scaling_initializer as uniform_unit_scaling_initializer,
    variance_scaling_initializer as variance_scaling_initializer,
    zeros_initializer as zeros_initializer,
)
from ipu.tf.compat.v1._old_arguments import (
    argmax as argmax,
    argmin as argmin,
    batch_to_space as batch_to_space,
    case as case,
    cond as cond,
    confusion_matrix as confusion_matrix,
    control_flow_v2_enabled as control_flow_v2_enabled,
    count_nonzero as count_nonzero,
    device as device,
    div as div,
    enable_control_flow_v2 as enable_control_flow_v2,
    enable_v2_dtype_behavior as enable_v2_dtype_behavior,
    enable_v2_tensorshape as enable_v2_tensorshape,
    expand_dims as expand_dims,
    gradients as gradients,
    norm as norm,
    pad as pad,
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_logsumexp as reduce_logsumexp,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
    reverse_sequence as reverse_sequence,
    scatter_add as scatter_add,
    scatter_max as scatter_max,
    scatter_min as scatter_min,
    scatter_sub as scatter_sub,
    scatter_update as scatter_update,
    setdiff1d as setdiff1d,
    space_to_batch as space_to_batch,
    squeeze as squeeze,
    to_bool as to_bool,
    to_double as to_double,
    to_float as to_float,
    to_int32 as to_int32,
    to_int64 as to_int64,
    where as where,
    where_v2 as where_v2,
    while_loop as while_loop,
)
from ipu.tf.compat.v1._partitioners import (
    fixed_size_partitioner as fixed_size_partitioner,
    min_max_variable_partitioner as min_max_variable_partitioner,
    variable_axis_size_partitioner as variable_axis_size_partitioner,
)
from ipu.tf.compat.v1._queues import (
    FIFOQueue as FIFOQueue,
    QueueBase as QueueBase,
    RandomShuffleQueue as RandomShuffleQueue,
)
from ipu.tf.compat.v1._tensor_kind import Tensor as Tensor
from ipu.tf.compat.v1._variables import (
    assign as assign,
    assign_add as assign_add,
    assign_sub as assign_sub,
    disable_resource_variables as disable_resource_variables,
    enable_resource_variables as enable_resource_variables,
    global_variables as global_variables,
    global_variables_initializer as global_variables_initializer,
    initialize_all_variables as initialize_all_variables,
    is_variable_initialized as is_variable_initialized,
    local_variables as local_variables,
    local_variables_initializer as local_variables_initializer,
    model_variables as model_variables,
    moving_average_variables as moving_average_variables,
    report_uninitialized_variables as report_uninitialized_variables,
    resource_variables_enabled as resource_variables_enabled,
    tables_initializer as tables_initializer,
    trainable_variables as trainable_variables,
    variables_initializer as variables_initializer,
)
from ipu.tf.math import (
    erf as erf,
    floordiv as floordiv,
    floormod as floormod,
    is_inf as is_inf,
    is_nan as is_nan,
    log as log,
    reciprocal as reciprocal,
    rsqrt as rsqrt,
)
from ipu.tf.random import truncated_normal as truncated_normal

Operation = _operation.GraphOperation
arg_max = argmax
arg_min = argmin
mul = _tf.multiply
neg = _tf.negative
random_normal = _tf.random.normal
random_shuffle = _tf.random.shuffle
random_uniform = _tf.random.uniform
set_random_seed = _tf.random.set_seed
sub = _tf.subtract

# what TensorFlow 1 has at its top, and TensorFlow 2 in a module, by the module
_OLDER = {
    "debugging": (
        "assert_greater assert_greater_equal assert_integer assert_less "
        "assert_less_equal assert_near assert_negative assert_non_negative "
        "assert_non_positive assert_none_equal assert_positive assert_rank "
        "assert_rank_at_least assert_rank_in assert_same_float_dtype assert_scalar "
        "assert_type check_numerics is_numeric_tensor"
    ),
    "io": (
        "FixedLenFeature FixedLenSequenceFeature VarLenFeature decode_csv decode_raw "
        "matching_files parse_example parse_single_example read_file write_file"
    ),
    "compat.v1.image": "extract_image_patches",
    "image": "random_crop",
    "linalg": (
        "cholesky cholesky_solve cross diag=tensor_diag matrix_diag=diag "
        "diag_part=tensor_diag_part matrix_diag_part=diag_part global_norm "
        "matrix_band_part=band_part matrix_determinant=det matrix_inverse=inv "
        "matrix_set_diag=set_diag matrix_solve=solve matrix_transpose "
        "matrix_triangular_solve=triangular_solve qr self_adjoint_eig=eigh "
        "self_adjoint_eigvals=eigvalsh svd trace"
    ),
    "math": (
        "accumulate_n bincount ceil cumprod digamma "
        "div_no_nan=divide_no_nan erfc expm1 floor_div=floordiv igamma igammac "
        "invert_permutation is_finite is_non_decreasing is_strictly_increasing lbeta "
        "lgamma log1p log_sigmoid logical_xor mod polygamma rint segment_max "
        "segment_mean segment_min segment_prod segment_sum squared_difference "
        "unsorted_segment_max unsorted_segment_mean unsorted_segment_min "
        "unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum zeta"
    ),
    "nn": "depth_to_space space_to_depth",
    "random": "multinomial=categorical random_gamma=gamma random_poisson=poisson",
    "sparse": "SparseTensor sparse_tensor_to_dense=to_dense",
    "strings": (
        "as_string reduce_join regex_replace string_join=join string_strip=strip "
        "string_to_hash_bucket=to_hash_bucket substr "
        "string_to_hash_bucket_fast=to_hash_bucket_fast string_to_number=to_number"
    ),
    "tensor_shape": "Dimension",
    "version": "VERSION GIT_VERSION COMPILER_VERSION",
}

if TYPE_CHECKING:
    from ipu.keras import initializers as initializers
    from ipu.tf import (
        linalg as _linalg,
        math as _math,
        random as _random,
        sparse as _sparse,
        strings as _strings,
    )
    from ipu.tf.compat.v1 import (
        _app as app,  # noqa: F401
        _gfile as gfile,  # noqa: F401
        _logging as logging,  # noqa: F401
        data as data,
        image as image,
        layers as layers,
        losses as losses,
        metrics as metrics,
        nn as nn,
        queue as queue,
        random as random,
        summary as summary,
        train as train,
    )
    from ipu.tf.compat.v1._app import flags as flags
    from ipu.tf.compat.v1.image import extract_image_patches as extract_image_patches
    from ipu.tf.compat.v1.summary import Summary as Summary
    from ipu.tf.debugging import (
        assert_greater as assert_greater,
        assert_greater_equal as assert_greater_equal,
        assert_integer as assert_integer,
        assert_less as assert_less,
        assert_less_equal as assert_less_equal,
        assert_near as assert_near,
        assert_negative as assert_negative,
        assert_non_negative as assert_non_negative,
        assert_non_positive as assert_non_positive,
        assert_none_equal as assert_none_equal,
        assert_positive as assert_positive,
        assert_rank as assert_rank,
        assert_rank_at_least as assert_rank_at_least,
        assert_rank_in as assert_rank_in,
        assert_same_float_dtype as assert_same_float_dtype,
        assert_scalar as assert_scalar,
        assert_type as assert_type,
        check_numerics as check_numerics,
        is_numeric_tensor as is_numeric_tensor,
    )
    from ipu.tf.image import (
        random_crop as random_crop,
    )
    from ipu.tf.io import (
        FixedLenFeature as FixedLenFeature,
        FixedLenSequenceFeature as FixedLenSequenceFeature,
        VarLenFeature as VarLenFeature,
        decode_csv as decode_csv,
        decode_raw as decode_raw,
        matching_files as matching_files,
        parse_example as parse_example,
        parse_single_example as parse_single_example,
        read_file as read_file,
        write_file as write_file,
    )
    from ipu.tf.linalg import (
        cholesky as cholesky,
        cholesky_solve as cholesky_solve,
        cross as cross,
        global_norm as global_norm,
        matrix_transpose as matrix_transpose,
        qr as qr,
        svd as svd,
        trace as trace,
    )
    from ipu.tf.math import (
        accumulate_n as accumulate_n,
        bincount as bincount,
        ceil as ceil,
        cumprod as cumprod,
        digamma as digamma,
        erfc as erfc,
        expm1 as expm1,
        igamma as igamma,
        igammac as igammac,
        invert_permutation as invert_permutation,
        is_finite as is_finite,
        is_non_decreasing as is_non_decreasing,
        is_strictly_increasing as is_strictly_increasing,
        lbeta as lbeta,
        lgamma as lgamma,
        log1p as log1p,
        log_sigmoid as log_sigmoid,
        logical_xor as logical_xor,
        mod as mod,
        polygamma as polygamma,
        rint as rint,
        segment_max as segment_max,
        segment_mean as segment_mean,
        segment_min as segment_min,
        segment_prod as segment_prod,
        segment_sum as segment_sum,
        squared_difference as squared_difference,
        unsorted_segment_max as unsorted_segment_max,
        unsorted_segment_mean as unsorted_segment_mean,
        unsorted_segment_min as unsorted_segment_min,
        unsorted_segment_prod as unsorted_segment_prod,
        unsorted_segment_sqrt_n as unsorted_segment_sqrt_n,
        unsorted_segment_sum as unsorted_segment_sum,
        zeta as zeta,
    )
    from ipu.tf.nn import (
        depth_to_space as depth_to_space,
        space_to_depth as space_to_depth,
    )
    from ipu.tf.sparse import (
        SparseTensor as SparseTensor,
    )
    from ipu.tf.strings import (
        as_string as as_string,
        reduce_join as reduce_join,
        regex_replace as regex_replace,
        substr as substr,
    )
    from ipu.tf.tensor_shape import (
        Dimension as Dimension,
    )
    from ipu.tf.version import (
        COMPILER_VERSION as COMPILER_VERSION,
        GIT_VERSION as GIT_VERSION,
        VERSION as VERSION,
    )

    diag = _linalg.tensor_diag
    diag_part = _linalg.tensor_diag_part
    div_no_nan = _math.divide_no_nan
    floor_div = _math.floordiv
    matrix_band_part = _linalg.band_part
    matrix_determinant = _linalg.det
    matrix_diag = _linalg.diag
    matrix_diag_part = _linalg.diag_part
    matrix_inverse = _linalg.inv
    matrix_set_diag = _linalg.set_diag
    matrix_solve = _linalg.solve
    matrix_triangular_solve = _linalg.triangular_solve
    multinomial = _random.categorical
    self_adjoint_eig = _linalg.eigh
    self_adjoint_eigvals = _linalg.eigvalsh
    random_gamma = _random.gamma
    random_poisson = _random.poisson
    sparse_tensor_to_dense = _sparse.to_dense
    string_join = _strings.join
    string_strip = _strings.strip
    string_to_hash_bucket = _strings.to_hash_bucket
    string_to_hash_bucket_fast = _strings.to_hash_bucket_fast
    string_to_number = _strings.to_number

    # isort: split
    from ipu.tf import *  # type: ignore[assignment, no-redef]  # noqa: F403
else:
    _MODULES = "data image layers losses metrics nn queue random summary train".split()
    _PLACES = {
        name: f"ipu.tf.{module}:{now or name}"
        for module, names in _OLDER.items()
        for name, _, now in (one.partition("=") for one in names.split())
    }
    __all__ = offered(__name__, [*_MODULES, *_PLACES, "Summary"])
    _LAZY = {
        **{name: f"ipu.tf:{name}" for name in _tf.__all__ if name not in __all__},
        **_PLACES,
        **{name: f"ipu.tf.compat.v1.{name}" for name in _MODULES},
        "app": "ipu.tf.compat.v1._app",
        "flags": "ipu.tf.compat.v1._app:flags",
        "gfile": "ipu.tf.compat.v1._gfile",
        "initializers": "ipu.keras.initializers",
        "logging": "ipu.tf.compat.v1._logging",
        "Summary": "ipu.tf.compat.v1.summary:Summary",
    }
    export(__name__, [*__all__, *_LAZY], _LAZY)
