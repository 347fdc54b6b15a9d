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
from ipu._text.faces import face
from ipu.tf._graph.graph import Graph
from ipu.tf._graph.operation import GraphOperation as Operation
from ipu.tf._graph.scopes import AUTO_REUSE, VariableScope
from ipu.tf._graph.session import InteractiveSession, Session
from ipu.tf.compat.v1._assignments import (
    assign,
    assign_add,
    assign_sub,
    disable_resource_variables,
    enable_resource_variables,
    resource_variables_enabled,
)
from ipu.tf.compat.v1._casts import (
    control_flow_v2_enabled,
    enable_control_flow_v2,
    enable_v2_dtype_behavior,
    enable_v2_tensorshape,
    to_bool,
    to_float,
    to_int32,
)
from ipu.tf.compat.v1._graphs import (
    ConfigProto,
    GPUOptions,
    GraphKeys,
    Print,
    RunMetadata,
    RunOptions,
    add_to_collection,
    add_to_collections,
    disable_eager_execution,
    disable_v2_behavior,
    enable_eager_execution,
    enable_v2_behavior,
    executing_eagerly_outside_functions,
    get_collection,
    get_collection_ref,
    get_default_graph,
    get_default_session,
    placeholder,
    placeholder_with_default,
    py_func,
    reset_default_graph,
)
from ipu.tf.compat.v1._initializers import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    orthogonal_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    uniform_unit_scaling_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from ipu.tf.compat.v1._math import div, where, where_v2
from ipu.tf.compat.v1._old_arguments import (
    argmax,
    argmin,
    cond,
    expand_dims,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_sum,
    squeeze,
    while_loop,
)
from ipu.tf.compat.v1._variables import (
    get_variable,
    get_variable_scope,
    global_variables,
    global_variables_initializer,
    initialize_all_variables,
    is_variable_initialized,
    local_variables,
    local_variables_initializer,
    model_variables,
    report_uninitialized_variables,
    tables_initializer,
    trainable_variables,
    variable_scope,
    variables_initializer,
)
from ipu.tf.math import (
    erf,
    floordiv,
    floormod,
    is_inf,
    is_nan,
    log,
    reciprocal,
    rsqrt,
)
from ipu.tf.random import normal as random_normal
from ipu.tf.random import set_seed as set_random_seed
from ipu.tf.random import shuffle as random_shuffle
from ipu.tf.random import truncated_normal
from ipu.tf.random import uniform as random_uniform

mul = _tf.multiply
sub = _tf.subtract
neg = _tf.negative
arg_max = argmax
arg_min = argmin

__all__ = [
    "AUTO_REUSE",
    "ConfigProto",
    "GPUOptions",
    "Graph",
    "GraphKeys",
    "InteractiveSession",
    "Operation",
    "Print",
    "RunMetadata",
    "RunOptions",
    "Session",
    "VariableScope",
    "add_to_collection",
    "add_to_collections",
    "arg_max",
    "arg_min",
    "argmax",
    "argmin",
    "assign",
    "assign_add",
    "assign_sub",
    "cond",
    "constant_initializer",
    "control_flow_v2_enabled",
    "data",
    "disable_eager_execution",
    "disable_resource_variables",
    "disable_v2_behavior",
    "div",
    "enable_control_flow_v2",
    "enable_eager_execution",
    "enable_resource_variables",
    "enable_v2_behavior",
    "enable_v2_dtype_behavior",
    "enable_v2_tensorshape",
    "erf",
    "executing_eagerly_outside_functions",
    "expand_dims",
    "floordiv",
    "floormod",
    "get_collection",
    "get_collection_ref",
    "get_default_graph",
    "get_default_session",
    "get_variable",
    "get_variable_scope",
    "global_variables",
    "global_variables_initializer",
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "image",
    "initialize_all_variables",
    "is_inf",
    "is_nan",
    "is_variable_initialized",
    "layers",
    "local_variables",
    "local_variables_initializer",
    "log",
    "losses",
    "metrics",
    "model_variables",
    "mul",
    "neg",
    "nn",
    "ones_initializer",
    "orthogonal_initializer",
    "placeholder",
    "placeholder_with_default",
    "py_func",
    "random_normal",
    "random_normal_initializer",
    "random_shuffle",
    "random_uniform",
    "random_uniform_initializer",
    "reciprocal",
    "reduce_all",
    "reduce_any",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "report_uninitialized_variables",
    "reset_default_graph",
    "resource_variables_enabled",
    "rsqrt",
    "set_random_seed",
    "squeeze",
    "sub",
    "summary",
    "tables_initializer",
    "to_bool",
    "to_float",
    "to_int32",
    "train",
    "trainable_variables",
    "truncated_normal",
    "truncated_normal_initializer",
    "uniform_unit_scaling_initializer",
    "variable_scope",
    "variables_initializer",
    "variance_scaling_initializer",
    "where",
    "where_v2",
    "while_loop",
    "zeros_initializer",
]

# what ``ipu.tf`` has besides, and modules that are other than its
_LAZY = {
    **{name: f"ipu.tf:{name}" for name in _tf.__all__ if name not in __all__},
    "app": "ipu.tf.compat.v1._app",
    "data": "ipu.tf.compat.v1.data",
    "flags": "ipu.tf.compat.v1._app:flags",
    "gfile": "ipu.tf.compat.v1._gfile",
    "image": "ipu.tf.compat.v1.image",
    "initializers": "ipu.keras.initializers",
    "layers": "ipu.tf.compat.v1.layers",
    "logging": "ipu.tf.compat.v1._logging",
    "losses": "ipu.tf.compat.v1.losses",
    "metrics": "ipu.tf.compat.v1.metrics",
    "nn": "ipu.tf.compat.v1.nn",
    "summary": "ipu.tf.compat.v1.summary",
    "Summary": "ipu.tf.compat.v1.summary:Summary",
    "train": "ipu.tf.compat.v1.train",
}

if TYPE_CHECKING:
    from ipu.keras import initializers as initializers
    from ipu.tf import *  # type: ignore[assignment]  # noqa: F403
    from ipu.tf.compat.v1 import _app as app  # noqa: F401
    from ipu.tf.compat.v1 import _gfile as gfile  # noqa: F401
    from ipu.tf.compat.v1 import _logging as logging  # noqa: F401
    from ipu.tf.compat.v1 import data as data  # type: ignore[no-redef]
    from ipu.tf.compat.v1 import image as image  # type: ignore[no-redef]
    from ipu.tf.compat.v1 import layers as layers
    from ipu.tf.compat.v1 import losses as losses  # type: ignore[no-redef]
    from ipu.tf.compat.v1 import metrics as metrics  # type: ignore[no-redef]
    from ipu.tf.compat.v1 import nn as nn  # type: ignore[no-redef]
    from ipu.tf.compat.v1 import summary as summary  # type: ignore[no-redef]
    from ipu.tf.compat.v1 import train as train  # type: ignore[no-redef]
    from ipu.tf.compat.v1._app import flags as flags
    from ipu.tf.compat.v1.summary import Summary as Summary
else:
    __getattr__, __dir__ = face(__name__, [*__all__, *_LAZY], _LAZY)
