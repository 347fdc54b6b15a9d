# SPDX-License-Identifier: MIT
"""Rows dealt out and put together again, places counted, sequences reversed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu._text.arguments import checked_list
from ipu.tf._ops.clip import clip_by_value
from ipu.tf._ops.shapes import concat, reshape, stack, transpose
from ipu.tf._tensor import open_sizes
from ipu.tf._tensor.convert import (
    Tensor,
    apply,
    axis_of,
    cast,
    known_count,
    known_value,
    like,
)
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype, int32


@op
def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Tensor]:
    """Return the rows of ``data``, dealt out by number.

    Works where the numbers are known, not where a function that is being traced
    computes them.

    Args:
        data: Anything that converts to a tensor.
        partitions: For each row (or each element of the first axes) its number.
        num_partitions: How many numbers there are.

    Returns:
        A tensor for each number, with the rows that have it, in their order.

    Raises:
        TypeError: A function is being traced that computes the numbers.
        ValueError: The shapes do not fit, or there is no such number.

    Example:
        >>> first, second = tf.dynamic_partition([5, 6, 7], [0, 1, 0], 2)
        >>> first.numpy().tolist(), second.numpy().tolist()
        ([5, 7], [6])
    """
    value = Tensor(data)
    numbers = known_value(Tensor(partitions), "partitions")
    if value.shape[: numbers.ndim] != numbers.shape:
        raise ValueError(
            f"data.shape must start with partitions.shape, got {value.shape} and "
            f"{numbers.shape}."
        )
    if numbers.size and open_sizes.is_guess(numbers.flat[0]):
        part = (value.dtype, (None, *value.shape[numbers.ndim :]))
        return [open_sizes.guessed(part) for _ in range(num_partitions)]
    if numbers.size and not 0 <= numbers.min() <= numbers.max() < num_partitions:
        raise ValueError(
            f"partitions must be in [0, {num_partitions}). Received: "
            f"{numbers.min()} to {numbers.max()}."
        )
    rows = reshape(value, [numbers.size, *value.shape[numbers.ndim :]])
    places = (
        np.flatnonzero(numbers.ravel() == k).astype(np.int32)
        for k in range(num_partitions)
    )
    return [apply("gather", (rows, Tensor(p)), {"axis": 0}) for p in places]


@op
def dynamic_stitch(
    indices: Sequence[Any], data: Sequence[Any], name: str | None = None
) -> Tensor:
    """Return rows put together: undoes :func:`dynamic_partition`.

    Args:
        indices: Tensors of places, whose values are known.
        data: For each of them the rows that go there; of several for one place the last
            one holds.

    Raises:
        TypeError: A function is being traced that computes the places.
        ValueError: The shapes do not fit.

    Example:
        >>> tf.dynamic_stitch([[0, 2], [1]], [[5, 7], [6]]).numpy().tolist()
        [5, 6, 7]
    """
    places = [
        np.asarray(known_value(Tensor(i), "indices"))
        for i in checked_list("indices", indices)
    ]
    parts = [Tensor(d) for d in checked_list("data", data)]
    if not parts or len(parts) != len(places):
        raise ValueError(
            f"dynamic_stitch takes as many indices as data, at least one of each. "
            f"Received: {len(places)} and {len(parts)}."
        )
    rest = parts[0].shape[places[0].ndim :]
    for at, part in zip(places, parts, strict=True):
        if part.shape != (*at.shape, *rest):
            raise ValueError(
                f"Data of shape {part.shape} does not fit indices of shape {at.shape} "
                f"and rows of shape {tuple(rest)}."
            )
    flat = np.concatenate([at.ravel() for at in places]).astype(np.int32)
    count = int(flat.max()) + 1 if flat.size else 0
    rows = concat(
        [
            reshape(part, [at.size, *rest])
            for at, part in zip(places, parts, strict=True)
        ],
        0,
    )
    empty = apply("broadcast", (like(0, rows),), {"shape": [count, *rest]})
    points = Tensor(flat[:, None])
    return apply("tensor_scatter", (empty, points, rows), {"reduction": 0})


@op
def reverse_sequence(
    input: Any,
    seq_lengths: Any,
    seq_axis: int | None = None,
    batch_axis: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the first elements of each sequence in the other order, as many as it is
    long.

    Args:
        input: Anything that converts to a tensor.
        seq_lengths: How long the sequence of each sample is.
        seq_axis: The axis of the sequences; 0 where it is None.
        batch_axis: The axis of the samples; 0 where it is None.

    Raises:
        ValueError: The two axes are the same, or the lengths do not fit.

    Example:
        >>> tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], 1).numpy().tolist()
        [[2, 1, 3], [6, 5, 4]]
    """
    value, lengths = Tensor(input), Tensor(seq_lengths)
    along = axis_of(seq_axis or 0, value.ndim)
    batch = axis_of(batch_axis or 0, value.ndim)
    if along == batch:
        raise ValueError(f"batch_axis and seq_axis must differ. Both are {batch}.")
    if lengths.shape != (value.shape[batch],):
        raise ValueError(
            f"seq_lengths must have the shape ({value.shape[batch]},). Received shape "
            f"{lengths.shape}."
        )
    order = [batch, along, *(k for k in range(value.ndim) if k not in (batch, along))]
    own = cast(lengths, int32)[:, None]
    steps = Tensor(np.arange(value.shape[along], dtype=np.int32))
    places = apply("select", (steps < own, own - 1 - steps, steps))
    rows = transpose(value, order)
    turned = apply("gather", (rows, places), {"axis": 1, "batch_dims": 1})
    return transpose(turned, np.argsort(order).tolist())


@op
def histogram_fixed_width_bins(
    values: Any,
    value_range: Any,
    nbins: Any = 100,
    dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Return the bin of each value; what is out of range is in the first or the last
    one.

    Args:
        values: Numbers.
        value_range: Where the first bin begins and the last one ends.
        nbins: How many bins there are, all of one width.
        dtype: Of the result.

    Raises:
        ValueError: There are no bins.

    Example:
        >>> tf.histogram_fixed_width_bins([-1.0, 0.2, 9.0], [0.0, 1.0], 5).numpy()
        array([0, 1, 4], dtype=int32)
    """
    value = Tensor(values)
    count = known_count(nbins, "nbins")
    if count < 1:
        raise ValueError(f"nbins should be a positive number. Received: {count}.")
    if not value.dtype.is_floating:
        value = cast(value, "float32")
    ends = like(value_range, value)
    share = (value - ends[0]) / (ends[1] - ends[0])
    bins = apply("floor", (share * float(count),))
    return cast(clip_by_value(bins, 0.0, count - 1.0), dtype)


@op
def histogram_fixed_width(
    values: Any,
    value_range: Any,
    nbins: Any = 100,
    dtype: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Return how many values are in each bin; see :func:`histogram_fixed_width_bins`.

    Example:
        >>> tf.histogram_fixed_width([0.1, 0.2, 0.9], [0.0, 1.0], 2).numpy().tolist()
        [2, 1]
    """
    bins = histogram_fixed_width_bins(values, value_range, nbins)
    flat = reshape(bins, [-1])
    kind = as_dtype(dtype).name
    ones = apply("broadcast", (Tensor(1, kind),), {"shape": flat.shape})
    attrs = {"shape": [known_count(nbins, "nbins")], "axis": 0}
    return apply("gather_grad", (flat, ones), attrs)


@op
def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Return the place on each axis of elements that are counted along all of them.

    Args:
        indices: Integers of any shape.
        dims: The sizes of the axes, known when a function is traced.

    Returns:
        [len(dims), the shape of ``indices``].

    Example:
        >>> tf.unravel_index([2, 5], [3, 2]).numpy().tolist()
        [[1, 2], [0, 1]]
    """
    rest = Tensor(indices)
    places = []
    for size in reversed(known_value(dims, "dims").tolist()):
        places.append(rest % like(size, rest))
        rest = rest // like(size, rest)
    return stack(places[::-1], 0)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Return the shape that two shapes broadcast to, int32.

    Raises:
        ValueError: They do not fit.

    Example:
        >>> tf.broadcast_dynamic_shape([2, 1], [3]).numpy().tolist()
        [2, 3]
    """
    both = (tuple(known_value(s, "A shape").tolist()) for s in (shape_x, shape_y))
    return Tensor(np.array(np.broadcast_shapes(*both), np.int32))
