# SPDX-License-Identifier: MIT
"""The TensorFlow-2-style front end: tensors, ops, variables, data sets.

Names and semantics are TensorFlow's, so that programs written for it read the same;
what is there is computed by ``ipu``'s own core.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ipu._core import Tensor
from ipu.tf import errors, nest
from ipu.tf._tensor_array import TensorArray
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
    uint8,
    uint16,
    uint32,
    uint64,
)
from ipu.tf.functional_ops import foldl, foldr, map_fn, scan, vectorized_map
from ipu.tf.ops import (
    abs,
    add,
    argmax,
    broadcast_to,
    cast,
    concat,
    constant,
    convert_to_tensor,
    divide,
    equal,
    exp,
    expand_dims,
    fill,
    floor,
    gather,
    gradients,
    greater,
    greater_equal,
    identity,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    matmul,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    one_hot,
    ones,
    ones_like,
    pow,
    range,
    rank,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
    reshape,
    shape,
    sigmoid,
    sign,
    size,
    sqrt,
    square,
    squeeze,
    stack,
    stop_gradient,
    subtract,
    tanh,
    transpose,
    unstack,
    where,
    zeros,
    zeros_like,
)
from ipu.tf.tensor_spec import TensorSpec

from ipu.tf import math, nn, random  # isort: skip
from ipu.tf.variable import Variable  # isort: skip
from ipu.tf import data  # isort: skip
from ipu.tf import autograph  # isort: skip
from ipu.tf._function import function, init_scope, inside_function  # isort: skip
from ipu.tf._placement import device  # isort: skip

newaxis = None

if TYPE_CHECKING:
    from ipu import keras as keras
    from ipu.tf import distribute as distribute
    from ipu.tf import test as test

__all__ = [
    "DType",
    "Tensor",
    "TensorArray",
    "TensorSpec",
    "Variable",
    "abs",
    "add",
    "argmax",
    "as_dtype",
    "bool",
    "broadcast_to",
    "case",
    "cast",
    "concat",
    "cond",
    "constant",
    "convert_to_tensor",
    "data",
    "distribute",
    "divide",
    "double",
    "equal",
    "errors",
    "exp",
    "expand_dims",
    "fill",
    "float16",
    "float32",
    "float64",
    "floor",
    "foldl",
    "foldr",
    "gather",
    "gradients",
    "greater",
    "greater_equal",
    "half",
    "identity",
    "int8",
    "int16",
    "int32",
    "int64",
    "keras",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "map_fn",
    "math",
    "matmul",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nest",
    "newaxis",
    "nn",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "pow",
    "random",
    "range",
    "rank",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "reshape",
    "scan",
    "shape",
    "sigmoid",
    "sign",
    "size",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "subtract",
    "switch_case",
    "tanh",
    "test",
    "transpose",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unstack",
    "vectorized_map",
    "where",
    "while_loop",
    "zeros",
    "zeros_like",
]


# Modules that are imported when they are first used.
_LAZY = {
    "distribute": "ipu.tf.distribute",
    "keras": "ipu.keras",
    "test": "ipu.tf.test",  # unittest is slow to import
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(_LAZY[name])
    if name.startswith("__"):
        raise AttributeError(name)
    from ipu._missing import MissingNameError

    raise MissingNameError(f"tf.{name}", __all__)
