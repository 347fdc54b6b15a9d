# SPDX-License-Identifier: MIT
"""Special functions, and running sums of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu.tf._ops.creation import ones_like, zeros_like
from ipu.tf._ops.elementwise import (
    add_n,
    bessel_i0e,
    bessel_i1e,
    is_nan,
    lgamma,
    ndtri,
)
from ipu.tf._ops.rearrange import reverse
from ipu.tf._ops.reductions import reduce_sum
from ipu.tf._ops.selection import where
from ipu.tf._ops.shapes import bitcast, concat
from ipu.tf._tensor.convert import Tensor, apply, axis_of, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.custom_gradient import custom_gradient


@op
def accumulate_n(
    inputs: Any, shape: Any = None, tensor_dtype: Any = None, name: str | None = None
) -> Tensor:
    """Return the same as ``tf.add_n``.

    Example:
        >>> tf.math.accumulate_n([[1.0], [2.0]]).numpy().tolist()
        [3.0]
    """
    return add_n(inputs)


@op
def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """Return the inverse of erfc of each element, exact far out.

    Example:
        >>> tf.math.erfcinv([1.0, 0.5]).numpy().tolist()
        [-0.0, 0.477]
    """
    return ndtri(Tensor(x) * 0.5) * -float(np.sqrt(0.5))


@op
def bessel_i0(x: Any, name: str | None = None) -> Tensor:
    """Return the modified Bessel function I0 of each element.

    Example:
        >>> tf.math.bessel_i0([0.0, 1.0]).numpy().tolist()
        [1.0, 1.266]
    """
    value = Tensor(x)
    return bessel_i0e(value) * apply("exp", (abs(value),))


@op
def bessel_i1(x: Any, name: str | None = None) -> Tensor:
    """Return the modified Bessel function I1 of each element.

    Example:
        >>> tf.math.bessel_i1([0.0, 1.0]).numpy().tolist()
        [0.0, 0.565]
    """
    value = Tensor(x)
    return bessel_i1e(value) * apply("exp", (abs(value),))


@op
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Return the logarithm of the beta function's size, of the numbers of the last
    axis.

    Args:
        x: [..., n]: of two numbers, a and b, the beta function of them.

    Returns:
        [...].

    Example:
        >>> float(tf.math.lbeta([2.0, 3.0]))
        -2.485
    """
    value = Tensor(x)
    return reduce_sum(lgamma(value), -1) - lgamma(reduce_sum(value, -1))


@op
def cumulative_logsumexp(
    x: Any,
    axis: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the logarithm of the running sum of exponentials along an axis.

    Args:
        x: A floating-point tensor.
        axis: Which axis.
        exclusive: Without the element itself: the first one is then minus infinity.
        reverse: From the end.

    Returns:
        A tensor like ``x``, to within the precision of its dtype also where the
        exponentials leave its range.

    Example:
        >>> tf.math.cumulative_logsumexp([0.0, 0.0, 1000.0]).numpy().tolist()
        [0.0, 0.693, 1000.0]
    """
    value = Tensor(x)
    place = axis_of(axis, value.ndim)
    return _scan(value, place, exclusive, reverse)


def _scan(value: Tensor, axis: int, exclusive: bool, backwards: bool) -> Tensor:
    """Combine pairs, fours, eights, ... that end at each element: log2(n) steps."""
    size = value.shape[axis]
    if backwards:
        value = reverse(value, [axis])
    least = -np.inf
    if exclusive and size:
        start = _filled(value, axis, 1, least)
        value = concat([start, _part(value, axis, 0, size - 1)], axis)
    reach = 1
    while reach < size:
        before = concat(
            [_filled(value, axis, reach, least), _part(value, axis, 0, size - reach)],
            axis,
        )
        value = _add(value, before)
        reach *= 2
    return reverse(value, [axis]) if backwards else value


def _part(value: Tensor, axis: int, begin: int, end: int) -> Tensor:
    places: list[Any] = [slice(None)] * value.ndim
    places[axis] = slice(begin, end)
    part: Tensor = value[tuple(places)]
    return part


def _filled(value: Tensor, axis: int, count: int, number: float) -> Tensor:
    shape = [count if i == axis else n for i, n in enumerate(value.shape)]
    return apply("broadcast", (like(number, value),), {"shape": shape})


@custom_gradient
def _add(a: Tensor, b: Tensor) -> Any:
    """Return log(exp(a) + exp(b))."""
    larger = apply("maximum", (a, b))
    smaller = apply("minimum", (a, b))
    same = apply("equal", (a, b))  # two infinite ones have no distance

    def gradient(g: Tensor) -> tuple[Tensor, Tensor]:
        share = apply("sigmoid", (apply("select", (same, like(0, a), a - b)),))
        return g * share, g * (1.0 - share)

    gap = apply("select", (same, like(0, a), smaller - larger))
    return larger + apply("log1p", (apply("exp", (gap,)),)), gradient


@op
def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """Return the number next to each element of ``x1`` on the way to that of ``x2``.

    Args:
        x1: float32; float64 on the host.
        x2: Of the same dtype; the shapes broadcast.

    Raises:
        TypeError: Another dtype.

    Example:
        >>> tf.math.nextafter([1.0, 0.0], 2.0).numpy().tolist()
        [1.0000001192092896, 1.401298464324817e-45]
    """
    start, goal = Tensor(x1), like(x2, Tensor(x1))
    kinds = {"float32": "int32", "float64": "int64"}
    if start.dtype_name not in kinds:
        raise TypeError(
            f"nextafter takes float32 or float64. Received: x1 of {start.dtype_name}."
        )
    kind = kinds[start.dtype_name]
    start, goal = start + zeros_like(goal), goal + zeros_like(start)
    # the bits of floats of one sign are in the order of their sizes
    bits = bitcast(start, kind)
    away = (goal > start) == (start > 0)
    step = where(away, ones_like(bits), -ones_like(bits))
    moved = bitcast(bits + step, start.dtype)
    least = bitcast(ones_like(bits), start.dtype)
    moved = where(start == 0, where(goal > 0, least, -least), moved)
    either = where(start == goal, goal, moved)
    return where(is_nan(start + goal), start + goal, either)
