# SPDX-License-Identifier: MIT
"""Elements in other places: reversed, repeated, rolled, padded."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ipu._text.arguments import as_int
from ipu.tf._ops.shapes import concat, reshape
from ipu.tf._tensor.convert import (
    Tensor,
    apply,
    axes_of,
    axis_of,
    known_value,
    like,
    sizes_of,
)
from ipu.tf._tensor.dispatch import op


@op
def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Return the elements in the opposite order along each axis of ``axis``.

    Example:
        >>> tf.reverse([[1, 2], [3, 4]], axis=[1]).numpy().tolist()
        [[2, 1], [4, 3]]
    """
    value = Tensor(tensor)
    axes = axes_of(axis, value.ndim)
    key = tuple(
        slice(None, None, -1) if i in axes else slice(None)
        for i in builtins.range(value.ndim)
    )
    result: Tensor = value[key]
    return result


def _repeat_axis(tensor: Tensor, axis: int, count: int, within: bool) -> Tensor:
    """Return ``count`` copies of the axis one after another, or (within) of each
    element."""
    shape = tensor.shape
    outer = int(np.prod(shape[:axis], dtype=np.int64))
    inner = int(np.prod(shape[axis + 1 :], dtype=np.int64))
    size = shape[axis]
    three = [outer, size, 1, inner] if within else [outer, 1, size, inner]
    wide = [outer, size, count, inner] if within else [outer, count, size, inner]
    parts = apply("reshape", (tensor,), {"shape": three})
    parts = apply("broadcast", (parts,), {"shape": wide})
    result = [*shape[:axis], size * count, *shape[axis + 1 :]]
    return apply("reshape", (parts,), {"shape": result})


@op
def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Return the tensor several times along each axis.

    Args:
        input: Anything that converts to a tensor.
        multiples: How many times, for each axis.

    Example:
        >>> tf.tile([[1, 2]], [2, 2]).numpy().tolist()
        [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    tensor = Tensor(input)
    counts = sizes_of(multiples)
    if len(counts) != tensor.ndim:
        raise ValueError(
            f"multiples has {len(counts)} entries for {tensor.ndim} dimensions."
        )
    for axis, count in enumerate(counts):
        if count != 1:
            tensor = _repeat_axis(tensor, axis, count, within=False)
    return tensor


@op
def repeat(input: Any, repeats: Any, axis: int | None = None, name: str = "") -> Tensor:
    """Return each element several times along ``axis``.

    Args:
        input: Anything that converts to a tensor.
        repeats: One number, or one for each element of the axis.
        axis: Which axis; None takes the elements as one row.

    Example:
        >>> tf.repeat([1, 2], [1, 3]).numpy().tolist()
        [1, 2, 2, 2]
    """
    tensor = Tensor(input)
    if axis is None:
        tensor, axis = reshape(tensor, [-1]), 0
    index = axis_of(axis, tensor.ndim)
    counts = known_value(repeats, "repeats").reshape(-1)
    if counts.size == 1:
        return _repeat_axis(tensor, index, int(counts[0]), within=True)
    if counts.size != tensor.shape[index]:
        raise ValueError(
            f"{counts.size} repeats for an axis of {tensor.shape[index]} elements."
        )
    places = np.repeat(np.arange(counts.size, dtype=np.int32), counts)
    return apply("gather", (tensor, Tensor(places)), {"axis": index})


@op
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Return elements moved along axes; those that leave at the end come in at the
    start.

    Example:
        >>> tf.roll([1, 2, 3, 4], shift=1, axis=0).numpy().tolist()
        [4, 1, 2, 3]
    """
    tensor = Tensor(input)
    shifts = [as_int(n) for n in np.atleast_1d(known_value(shift, "shift")).tolist()]
    axes = np.atleast_1d(known_value(axis, "axis")).tolist()
    for count, item in zip(shifts, axes, strict=True):
        index = axis_of(item, tensor.ndim)
        size = tensor.shape[index]
        cut = size - count % size if size else 0
        before: tuple[Any, ...] = (slice(None),) * index
        if 0 < cut < size:
            indices = [(*before, slice(cut, None)), (*before, slice(0, cut))]
            tensor = concat([tensor[place] for place in indices], index)
    return tensor


def _pad_axis(tensor: Tensor, axis: int, low: int, high: int, skip: int) -> Tensor:
    """Return the mirrored ends; `skip` is 1 where the border element is not doubled."""
    size = tensor.shape[axis]
    if max(low, high) > size - skip:
        raise ValueError(
            f"paddings must be no greater than the dimension size: {low}, {high} "
            f"for {size} elements of axis {axis}."
        )
    places = np.pad(
        np.arange(size, dtype=np.int32), (low, high), "reflect" if skip else "symmetric"
    )
    return apply("gather", (tensor, Tensor(places)), {"axis": axis})


@op
def pad(
    tensor: Any,
    paddings: Any,
    mode: str = "CONSTANT",
    constant_values: Any = 0,
    name: str | None = None,
) -> Tensor:
    """Add elements before and after along each axis.

    Args:
        tensor: Anything that converts to a tensor.
        paddings: For each axis how many before and how many after.
        mode: "CONSTANT", "REFLECT" (mirrored at the border element) or "SYMMETRIC"
            (mirrored after it).
        constant_values: The number that is added in the first mode.

    Raises:
        ValueError: The mode is unknown, or a mirrored padding is longer than the axis.

    Example:
        >>> tf.pad([1, 2], [[1, 2]]).numpy().tolist()
        [0, 1, 2, 0, 0]
        >>> tf.pad([1, 2, 3], [[2, 0]], "REFLECT").numpy().tolist()
        [3, 2, 1, 2, 3]
    """
    value = Tensor(tensor)
    ends = known_value(paddings, "paddings").reshape(-1, 2).tolist()
    if len(ends) != value.ndim or any(n < 0 for both in ends for n in both):
        raise ValueError(
            f"paddings must be {value.ndim} pairs of numbers that are not negative. "
            f"Received: {ends}."
        )
    kind = mode.upper()
    if kind in ("REFLECT", "SYMMETRIC"):
        for axis, (low, high) in enumerate(ends):
            if low or high:
                value = _pad_axis(value, axis, low, high, int(kind == "REFLECT"))
        return value
    if kind != "CONSTANT":
        raise ValueError(
            "Value of argument `mode` expected to be one of 'REFLECT', 'SYMMETRIC', "
            f"or 'CONSTANT'. Received `mode` = {mode}"
        )
    zero = isinstance(constant_values, (int, float)) and constant_values == 0
    if zero and not value.dtype.is_bool:
        shape = [s + a + b for s, (a, b) in zip(value.shape, ends, strict=True)]
        attrs = {"shape": shape, "begin": [a for a, _ in ends], "size": value.shape}
        return apply("slice_grad", (value,), attrs)
    fill = like(
        bool(constant_values) if value.dtype.is_bool else constant_values, value
    )
    for axis, counts in enumerate(ends):
        edges = []
        for count in counts:
            shape = [*value.shape[:axis], count, *value.shape[axis + 1 :]]
            edges.append(apply("broadcast", (fill,), {"shape": shape}))
        if any(counts):
            value = concat([edges[0], value, edges[1]], axis)
    return value
