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

newaxis = None

if TYPE_CHECKING:
    from ipu import keras as keras
    from ipu.tf import distribute as distribute

__all__ = [
    "DType",
    "Tensor",
    "TensorSpec",
    "Variable",
    "abs",
    "add",
    "argmax",
    "as_dtype",
    "bool",
    "broadcast_to",
    "cast",
    "concat",
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
    "tanh",
    "transpose",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unstack",
    "where",
    "zeros",
    "zeros_like",
]


def __getattr__(name: str) -> Any:
    # ipu.keras is built on this module, so it cannot be imported while this one is
    if name == "keras":
        from ipu import keras

        return keras
    if name == "distribute":
        return importlib.import_module("ipu.tf.distribute")
    raise AttributeError(
        f"ipu.tf has no '{name}'. See ipu.tf.__all__ for what there is."
    )
