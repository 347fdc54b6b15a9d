# SPDX-License-Identifier: MIT
"""Reductions, running totals, and the places of extremes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu.tf._tensor.convert import (
    Tensor,
    apply,
    axes_of,
    axis_of,
    cast,
    like,
    on_device,
)
from ipu.tf._tensor.dispatch import Reduction, op
from ipu.tf.dtypes import as_dtype, int32


def _reduce(row: str, value: Any, axis: Any, keepdims: bool) -> Tensor:
    tensor = Tensor(value)
    axes = axes_of(axis, tensor.ndim)
    return apply(row, (tensor,), {"axes": axes, "keep_dims": bool(keepdims)})


def _reduction(row: str, name: str, text: str, example: str) -> Reduction:
    def function(
        input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str = ""
    ) -> Tensor:
        return _reduce(row, input_tensor, axis, keepdims)

    code, result = example.split(" -> ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return {text} over ``axis``.

    Args:
        input_tensor: Anything that converts to a tensor.
        axis: An int, a list of ints, or None for all axes.
        keepdims: Keep reduced axes, with size 1.

    Example:
        >>> tf.{code}.numpy().tolist()
        {result}
    """
    return op(function)


# fmt: off
reduce_sum = _reduction("sum", "reduce_sum", "the sum",
                        "reduce_sum([[1, 2], [3, 4]], axis=1) -> [3, 7]")
reduce_prod = _reduction("prod", "reduce_prod", "the product",
                         "reduce_prod([[1, 2], [3, 4]], axis=1) -> [2, 12]")
reduce_max = _reduction("max", "reduce_max", "the largest element",
                        "reduce_max([[1, 2], [3, 4]], axis=0) -> [3, 4]")
reduce_min = _reduction("min", "reduce_min", "the least element",
                        "reduce_min([[1, 2], [3, 4]], axis=0) -> [1, 2]")
reduce_any = _reduction("any", "reduce_any", "whether any element is true",
                        "reduce_any([[True, False]], axis=1) -> [True]")
reduce_all = _reduction("all", "reduce_all", "whether all elements are true",
                        "reduce_all([[True, False]], axis=1) -> [False]")
# fmt: on


def _count(tensor: Tensor, axis: Any) -> int:
    axes = axes_of(axis, tensor.ndim)
    return int(np.prod([tensor.shape[a] for a in axes], dtype=np.int64))


@op
def reduce_mean(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str = ""
) -> Tensor:
    """Return the mean over ``axis``; of integers an integer, rounded towards 0.

    Args:
        input_tensor: Anything that converts to a tensor.
        axis: An int, a list of ints, or None for all axes.
        keepdims: Keep reduced axes, with size 1.

    Example:
        >>> tf.reduce_mean([[1.0, 2.0], [3.0, 4.0]], axis=1).numpy().tolist()
        [1.5, 3.5]
    """
    return _reduce("mean", Tensor(input_tensor), axis, keepdims)


@op
def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str = ""
) -> Tensor:
    """Return the mean squared distance from the mean, over ``axis``.

    Args:
        input_tensor: A floating-point tensor.
        axis: An int, a list of ints, or None for all axes.
        keepdims: Keep reduced axes, with size 1.

    Example:
        >>> float(tf.math.reduce_variance([1.0, 3.0]))
        1.0
    """
    tensor = Tensor(input_tensor)
    centred = tensor - _reduce("mean", tensor, axis, True)
    return _reduce("mean", apply("square", (centred,)), axis, keepdims)


@op
def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str = ""
) -> Tensor:
    """Return the square root of :func:`reduce_variance`, with the same arguments.

    Example:
        >>> float(tf.math.reduce_std([1.0, 5.0]))
        2.0
    """
    return apply("sqrt", (reduce_variance(input_tensor, axis, keepdims),))


@op
def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str = ""
) -> Tensor:
    """Return the square root of the sum of squares over ``axis``.

    Example:
        >>> float(tf.math.reduce_euclidean_norm([3.0, 4.0]))
        5.0
    """
    squares = apply("square", (Tensor(input_tensor),))
    return apply("sqrt", (_reduce("sum", squares, axis, keepdims),))


@op
def reduce_logsumexp(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str = ""
) -> Tensor:
    """Return ``log(sum(exp(x)))`` over ``axis``, without leaving the range of floats.

    Args:
        input_tensor: A floating-point tensor.
        axis: An int, a list of ints, or None for all axes.
        keepdims: Keep reduced axes, with size 1.

    Example:
        >>> round(float(tf.reduce_logsumexp([1000.0, 1000.0])), 3)
        1000.693
    """
    tensor = Tensor(input_tensor)
    if _count(tensor, axis) == 0:
        total = _reduce("sum", apply("exp", (tensor,)), axis, keepdims)
        return apply("log", (total,))
    largest = apply("stop_gradient", (_reduce("max", tensor, axis, True),))
    finite = apply("is_finite", (largest,))
    shift = apply("select", (finite, largest, like(0.0, largest)))
    total = _reduce("sum", apply("exp", (tensor - shift,)), axis, keepdims)
    shift = apply("reshape", (shift,), {"shape": total.shape})
    return apply("log", (total,)) + shift


@op
def count_nonzero(
    input: Any,
    axis: Any = None,
    keepdims: bool = False,
    dtype: Any = None,
    name: str = "",
) -> Tensor:
    """Return how many elements are not 0, over ``axis``.

    Args:
        input: Anything that converts to a tensor.
        axis: An int, a list of ints, or None for all axes.
        keepdims: Keep reduced axes, with size 1.
        dtype: Of the result; int64 by default, int32 on a device, which has no wider
            one.

    Example:
        >>> int(tf.math.count_nonzero([0, 3, 5]))
        2
    """
    tensor = Tensor(input)
    hits = tensor if tensor.dtype.is_bool else tensor != like(0, tensor)
    wide = "int32" if on_device() else "int64"
    if dtype is None or (on_device() and as_dtype(dtype).name == "int64"):
        dtype = wide
    return cast(_reduce("sum", cast(hits, wide), axis, keepdims), dtype)


@op
def zero_fraction(value: Any, name: str = "") -> Tensor:
    """Return the share of elements that are 0, a float32 scalar.

    Example:
        >>> float(tf.math.zero_fraction([0.0, 1.0]))
        0.5
    """
    tensor = Tensor(value)
    hits = cast(apply("equal", (tensor, like(0, tensor))), "float32")
    return _reduce("mean", hits, None, False)


def _place(row: str, value: Any, axis: int | None, output_type: Any) -> Tensor:
    tensor = Tensor(value)
    index = 0 if axis is None else axis_of(axis, tensor.ndim)
    dtype = "int64" if output_type is None else as_dtype(output_type).name
    if dtype == "int64" and on_device():
        dtype = "int32"
    if tensor.dtype.is_bool:
        tensor = cast(tensor, int32)
    return apply(row, (tensor,), {"axis": index, "dtype": dtype})


@op
def argmax(
    input: Any, axis: int | None = None, output_type: Any = None, name: str = ""
) -> Tensor:
    """Return the place of the largest element along ``axis``, the first of equal ones.

    Args:
        input: Anything that converts to a tensor.
        axis: Which axis; the first one by default.
        output_type: int64 (the default; int32 on a device, which has no wider one) or
            int32.

    Example:
        >>> tf.argmax([[1, 5, 5], [7, 0, 1]], axis=1).numpy().tolist()
        [1, 0]
    """
    return _place("argmax", input, axis, output_type)


@op
def argmin(
    input: Any, axis: int | None = None, output_type: Any = None, name: str = ""
) -> Tensor:
    """Return the place of the least element along ``axis``; see :func:`argmax`.

    Example:
        >>> tf.argmin([[1, 5, 5], [7, 0, 1]], axis=1).numpy().tolist()
        [0, 1]
    """
    return _place("argmin", input, axis, output_type)


def _scan(row: str, x: Any, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    tensor = Tensor(x)
    attrs = {
        "axis": axis_of(axis, tensor.ndim),
        "exclusive": bool(exclusive),
        "reverse": bool(reverse),
    }
    return apply(row, (tensor,), attrs)


@op
def cumsum(
    x: Any,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "",
) -> Tensor:
    """Return the running sums along ``axis``.

    Args:
        x: Anything that converts to a tensor of numbers.
        axis: Which axis.
        exclusive: Leave the element itself out of its sum.
        reverse: Start at the end.

    Example:
        >>> tf.cumsum([1, 2, 3]).numpy().tolist()
        [1, 3, 6]
        >>> tf.cumsum([1, 2, 3], exclusive=True, reverse=True).numpy().tolist()
        [5, 3, 0]
    """
    return _scan("cumsum", x, axis, exclusive, reverse)


@op
def cumprod(
    x: Any,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str = "",
) -> Tensor:
    """Return the running products along ``axis``; see :func:`cumsum`.

    Example:
        >>> tf.math.cumprod([1, 2, 3]).numpy().tolist()
        [1, 2, 6]
    """
    return _scan("cumprod", x, axis, exclusive, reverse)


@op
def is_non_decreasing(x: Any, name: str = "") -> Tensor:
    """Return whether each element is at least the one before it, in row-major order.

    Example:
        >>> bool(tf.math.is_non_decreasing([1, 1, 2]))
        True
    """
    flat = apply("reshape", (Tensor(x),), {"shape": [_count(Tensor(x), None)]})
    return _reduce("all", flat[:-1] <= flat[1:], None, False)


@op
def is_strictly_increasing(x: Any, name: str = "") -> Tensor:
    """Return whether each element is more than the one before it, in row-major order.

    Example:
        >>> bool(tf.math.is_strictly_increasing([1, 1, 2]))
        False
    """
    flat = apply("reshape", (Tensor(x),), {"shape": [_count(Tensor(x), None)]})
    return _reduce("all", flat[:-1] < flat[1:], None, False)
