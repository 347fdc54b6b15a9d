# SPDX-License-Identifier: MIT
"""What the package itself imports of its ops: conversion, and the commonest functions.

The functions live in one file for each family (``_elementwise``, ``_reductions``,
``_shapes``, ...); users find them as ``ipu.tf.*``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import _core
from ipu.tf._clip import (
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
)
from ipu.tf._convert import (
    Tensor,
    apply,
    cast,
    constant,
    convert_to_tensor,
    dtype_of,
)
from ipu.tf._creation import (
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
from ipu.tf._elementwise import (
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
    floordiv,
    floormod,
    greater,
    greater_equal,
    identity,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    pow,
    relu,
    round,
    rsqrt,
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
from ipu.tf._products import (
    einsum,
    matmul,
    tensordot,
)
from ipu.tf._rearrange import (
    pad,
    repeat,
    reverse,
    roll,
    tile,
)
from ipu.tf._reductions import (
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
from ipu.tf._selection import (
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
from ipu.tf._shapes import (
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

__all__ = [
    "Tensor",
    "abs",
    "acos",
    "acosh",
    "add",
    "add_n",
    "apply",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitcast",
    "boolean_mask",
    "broadcast_static_shape",
    "broadcast_to",
    "cast",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "concat",
    "constant",
    "convert_to_tensor",
    "cos",
    "cosh",
    "cumsum",
    "divide",
    "dtype_of",
    "einsum",
    "ensure_shape",
    "equal",
    "exp",
    "expand_dims",
    "eye",
    "fill",
    "floor",
    "floordiv",
    "floormod",
    "gather",
    "gather_nd",
    "gradients",
    "greater",
    "greater_equal",
    "identity",
    "less",
    "less_equal",
    "linspace",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "matmul",
    "maximum",
    "meshgrid",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "one_hot",
    "ones",
    "ones_like",
    "pad",
    "pow",
    "range",
    "rank",
    "reduce_all",
    "reduce_any",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "relu",
    "repeat",
    "reshape",
    "reverse",
    "roll",
    "round",
    "rsqrt",
    "saturate_cast",
    "scalar_mul",
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
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "stop_gradient",
    "strided_slice",
    "subtract",
    "tan",
    "tanh",
    "tensor_scatter_nd_add",
    "tensor_scatter_nd_max",
    "tensor_scatter_nd_min",
    "tensor_scatter_nd_sub",
    "tensor_scatter_nd_update",
    "tensordot",
    "tile",
    "transpose",
    "truediv",
    "truncatediv",
    "truncatemod",
    "unique",
    "unique_with_counts",
    "unstack",
    "where",
    "zeros",
    "zeros_like",
]


def gradients(
    ys: Any, xs: Sequence[Any], grad_ys: Any = None, name: str = ""
) -> list[Tensor | None]:
    """Derivatives of the sum of ``ys`` (times ``grad_ys``) with respect to each of
    ``xs``.

    Only inside a function that is being traced.

    Args:
        ys: A tensor or a list of tensors.
        xs: Tensors or variables.
        grad_ys: For each of ``ys`` a tensor of its shape or None (ones).
        name: Accepted and not used.

    Returns:
        For each of ``xs`` a tensor of its shape, or None where ``ys`` do not depend on
        it.

    Raises:
        RuntimeError: No function is being traced.
        UnimplementedError: An op on the way has no gradient.
    """
    trace = _core.open_trace()
    if trace is None:
        raise RuntimeError(
            "tf.gradients works on a function that is being traced. Outside of one, "
            "record with tf.GradientTape."
        )
    y_list = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    if grad_ys is None:
        grads: list[Any] = []
    else:
        grads = list(grad_ys) if isinstance(grad_ys, (list, tuple)) else [grad_ys]
    result: list[Tensor | None] = trace.gradients(
        y_list, grads, [getattr(x, "_id", x) for x in xs]
    )
    return result
