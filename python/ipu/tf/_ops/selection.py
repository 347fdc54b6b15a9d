# SPDX-License-Identifier: MIT
"""Elements by index, by mask, by order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu import _core
from ipu.tf._ops.shapes import reshape
from ipu.tf._tensor import open_sizes
from ipu.tf._tensor.convert import (
    Tensor,
    apply,
    axis_of,
    cast,
    known_count,
    like,
    on_device,
    pair,
    sizes_of,
)
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype, int32


class TopK(NamedTuple):
    """The result of :func:`top_k`."""

    values: Tensor
    indices: Tensor


class Unique(NamedTuple):
    """The result of :func:`unique`."""

    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    """The result of :func:`unique_with_counts`."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]  # TensorFlow's name


def _open_shape(
    what: str, instead: str, *results: tuple[Any, Sequence[int | None]]
) -> Any:
    error = TypeError(
        f"{what} gives a shape that depends on values, which are not known when a "
        f"function is compiled: shapes on the device are static. {instead}"
    )
    return open_sizes.guessed_or(error, *results)


@op
def where(condition: Any, x: Any = None, y: Any = None, name: str = "") -> Tensor:
    """Return elements of ``x`` where ``condition`` holds, else of ``y``; all three
    broadcast.

    With the condition alone, the places where it holds: int64 [count, dimensions], or
    int32 in a function for a device. That works on values that are known, not on those
    of a function that is being traced.

    Args:
        condition: bool.
        x: Taken where True.
        y: Taken where False; of the dtype of ``x``.

    Raises:
        TypeError: Places are asked for within a traced function.

    Example:
        >>> tf.where([True, False], [1.0, 2.0], 0.0).numpy().tolist()
        [1.0, 0.0]
        >>> tf.where([False, True]).numpy().tolist()
        [[1]]
    """
    mask = Tensor(condition)
    if x is None and y is None:
        kind = np.int32 if on_device() else np.int64
        if mask.is_symbolic:
            places: Tensor = _open_shape(
                "tf.where(condition)",
                "Use tf.where(condition, x, y) with both sides.",
                (kind.__name__, (None, mask.ndim)),
            )
            return places
        return Tensor(np.argwhere(np.asarray(mask)).astype(kind))
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    return apply("select", (mask, *pair(x, y)))


@op
def boolean_mask(
    tensor: Any, mask: Any, axis: int | None = None, name: str = "boolean_mask"
) -> Tensor:
    """Return the elements of ``tensor`` where ``mask`` holds.

    Args:
        tensor: Anything that converts to a tensor.
        mask: bool, of the shape of the masked axes; its value must be known.
        axis: The first masked axis; 0 by default.

    Raises:
        TypeError: The mask is computed by a function that is being traced.

    Example:
        >>> tf.boolean_mask([1, 2, 3], [True, False, True]).numpy().tolist()
        [1, 3]
    """
    flags, value = Tensor(mask), Tensor(tensor)
    first = 0 if axis is None else axis_of(axis, value.ndim)
    masked = value.shape[first : first + flags.ndim]
    if masked != flags.shape or not flags.ndim:
        raise ValueError(f"Shapes {masked} and {flags.shape} are incompatible")
    rest = value.shape[first + flags.ndim :]
    if flags.is_symbolic:
        chosen: Tensor = _open_shape(
            "A boolean mask",
            "Use tf.where(mask, tensor, 0) instead.",
            (value.dtype, [*value.shape[:first], None, *rest]),
        )
        return chosen
    flat = reshape(value, [*value.shape[:first], int(np.prod(masked)), *rest])
    places = np.flatnonzero(np.asarray(flags)).astype(np.int32)
    return apply("gather", (flat, Tensor(places)), {"axis": first})


@op
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: int | None = None,
    batch_dims: int = 0,
    name: str = "",
) -> Tensor:
    """Return the slices of ``params`` along ``axis`` at ``indices``.

    Args:
        params: Anything that converts to a tensor.
        indices: Integers.
        validate_indices: Accepted: indices are always checked.
        axis: Which axis; the first one after the batch axes by default.
        batch_dims: How many leading axes of both run side by side.

    Raises:
        InvalidArgumentError: An index is out of range.

    Example:
        >>> tf.gather([10, 20, 30], [2, 0]).numpy().tolist()
        [30, 10]
        >>> tf.gather([[1, 2], [3, 4]], [[1], [0]], batch_dims=1).numpy().tolist()
        [[2], [3]]
    """
    look_up = getattr(type(params), "_look_up", None)  # of variables
    if look_up is not None and axis in (None, 0) and batch_dims == 0:
        rows: Tensor = look_up(params, Tensor(indices))
        return rows
    value, places = Tensor(params), Tensor(indices)
    batch = batch_dims if batch_dims >= 0 else batch_dims + places.ndim
    index = batch if axis is None else axis_of(axis, value.ndim)
    attrs = {"axis": index, "batch_dims": batch}
    return apply("gather", (value, places), attrs)


@op
def gather_nd(
    params: Any, indices: Any, batch_dims: int = 0, name: str | None = None
) -> Tensor:
    """Return the slices of ``params`` at points, each of which names the first axes.

    Args:
        params: Anything that converts to a tensor.
        indices: Integers [..., k].
        batch_dims: How many leading axes of both run side by side.

    Returns:
        [..., the axes of ``params`` that a point does not name].

    Raises:
        InvalidArgumentError: An index is out of range.

    Example:
        >>> tf.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]).numpy().tolist()
        [2, 3]
    """
    value, points = Tensor(params), Tensor(indices)
    if batch_dims:
        lead = points.shape[:batch_dims]
        grid = np.stack(list(np.indices(lead)), -1).astype(points.dtype.as_numpy_dtype)
        inner = [1] * (points.ndim - 1 - batch_dims)
        own = Tensor(grid.reshape(*lead, *inner, batch_dims))
        own = apply("broadcast", (own,), {"shape": [*points.shape[:-1], batch_dims]})
        points = apply("concat", (own, points), {"axis": points.ndim - 1})
    return apply("gather_nd", (value, points))


@op
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str = "") -> Tensor:
    """Return zeros of ``shape`` to which updates are added at points.

    Args:
        indices: Integers [..., k]; each names the first k axes.
        updates: For each point a slice of the remaining axes.
        shape: Of the result.

    Example:
        >>> tf.scatter_nd([[1], [1]], [5, 6], [3]).numpy().tolist()
        [0, 11, 0]
    """
    points, parts = Tensor(indices), Tensor(updates)
    return apply("scatter_nd", (points, parts), {"shape": sizes_of(shape)})


def _scatter(
    kind: str, reduction: int, text: str, updates: str, result: str
) -> Callable[..., Tensor]:
    def function(tensor: Any, indices: Any, updates: Any, name: str = "") -> Tensor:
        value = Tensor(tensor)
        new = -like(updates, value) if kind == "sub" else like(updates, value)
        operands = (value, Tensor(indices), new)
        return apply("tensor_scatter", operands, {"reduction": reduction})

    name = f"tensor_scatter_nd_{kind}"
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return ``tensor`` with {text}.

    Args:
        tensor: Anything that converts to a tensor.
        indices: Integers [..., k]; each names the first k axes.
        updates: For each point a slice of the remaining axes.

    Example:
        >>> tf.{name}([1, 2, 3], {updates}).numpy().tolist()
        {result}
    """
    return op(function)


# fmt: off
tensor_scatter_nd_update = _scatter(
    "update", 0, "other values at points; of several for one point the last holds",
    "[[1]], [9]", "[1, 9, 3]")
tensor_scatter_nd_add = _scatter(
    "add", 1, "updates added at points, in their order",
    "[[1], [1]], [9, 1]", "[1, 12, 3]")
tensor_scatter_nd_sub = _scatter(
    "sub", 1, "updates subtracted at points", "[[1]], [9]", "[1, -7, 3]")
tensor_scatter_nd_min = _scatter(
    "min", 3, "the smaller of value and update at points", "[[1]], [0]", "[1, 0, 3]")
tensor_scatter_nd_max = _scatter(
    "max", 4, "the larger of value and update at points", "[[1]], [9]", "[1, 9, 3]")
# fmt: on


@op
def top_k(
    input: Any,
    k: Any = 1,
    sorted: bool = True,
    index_type: Any = int32,
    name: str | None = None,
) -> TopK:
    """Return the ``k`` largest elements of the last axis and their places.

    Args:
        input: Anything that converts to a tensor of numbers.
        k: How many.
        sorted: Accepted: they are always in descending order.
        index_type: The dtype of the places.

    Returns:
        ``(values, indices)``; of equal elements the first comes first.

    Example:
        >>> values, indices = tf.math.top_k([3, 9, 5], k=2)
        >>> values.numpy().tolist(), indices.numpy().tolist()
        ([9, 5], [1, 2])
    """
    source = Tensor(input)
    count = known_count(k, "k")
    if open_sizes.is_guess(count):
        shape = (*source.shape[:-1], None)
        values, places = open_sizes.guessed((source.dtype, shape), ("int32", shape))
    else:
        values, places = _core.apply("top_k", (source,), {"depth": count})
    return TopK(values, cast(places, index_type))


@op
def in_top_k(targets: Any, predictions: Any, k: Any, name: str = "") -> Tensor:
    """Return whether the target class is among the ``k`` best predictions of each row.

    Args:
        targets: Class numbers [batch].
        predictions: [batch, classes].
        k: How many.

    Example:
        >>> tf.math.in_top_k([1], [[0.1, 0.7, 0.2]], 1).numpy().tolist()
        [True]
    """
    scores = Tensor(predictions)
    column = reshape(targets, [scores.shape[0], 1])
    own = apply("gather", (scores, column), {"axis": 1, "batch_dims": 1})
    better = apply("cast", (apply("less", (own, scores)),), {"dtype": "int32"})
    count = apply("sum", (better,), {"axes": [1], "keep_dims": False})
    valid = apply("is_finite", (apply("reshape", (own,), {"shape": count.shape}),))
    return apply("logical_and", (count < known_count(k, "k"), valid))


def _ordered(values: Any, axis: int, direction: str) -> tuple[Tensor, Tensor]:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(
            "Argument `direction` should be one of 'ASCENDING' or 'DESCENDING'. "
            f"Received: direction={direction}"
        )
    tensor = Tensor(values)
    index = axis_of(axis, tensor.ndim)
    last = tensor.ndim - 1
    perm = list(range(tensor.ndim))
    perm[index], perm[last] = perm[last], perm[index]
    if index != last:
        tensor = apply("transpose", (tensor,), {"perm": perm})
    attrs = {"depth": tensor.shape[-1], "ascending": direction == "ASCENDING"}
    both = _core.apply("top_k", (tensor,), attrs)
    if index == last:
        return both[0], both[1]
    first, second = (apply("transpose", (t,), {"perm": perm}) for t in both)
    return first, second


@op
def sort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Tensor:
    """Return the elements in order along ``axis``; NaN counts as the largest.

    Args:
        values: Anything that converts to a tensor of numbers.
        axis: Which axis.
        direction: "ASCENDING" or "DESCENDING".

    Example:
        >>> tf.sort([3, 1, 2]).numpy().tolist()
        [1, 2, 3]
    """
    return _ordered(values, axis, direction)[0]


@op
def argsort(
    values: Any,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return the places that put the elements in order, int32; equal ones stay in
    theirs.

    Args:
        values, axis, direction: As for :func:`sort`.
        stable: Accepted: the order is always stable.

    Example:
        >>> tf.argsort([3, 1, 2]).numpy().tolist()
        [1, 2, 0]
    """
    return _ordered(values, axis, direction)[1]


@op
def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = int32,
    name: str | None = None,
) -> Tensor:
    """Return where values would go into sorted rows: how many elements are less than
    each.

    Args:
        sorted_sequence: [..., n], each row in ascending order.
        values: [..., m].
        side: "left"; or "right", which counts equal elements too.
        out_type: The dtype of the result.

    Example:
        >>> tf.searchsorted([1, 3, 5], [3, 4]).numpy().tolist()
        [1, 2]
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be either 'right' or 'left'. Saw: {side}.")
    rows, wanted = pair(sorted_sequence, values)
    row = apply("reshape", (rows,), {"shape": [*rows.shape[:-1], 1, rows.shape[-1]]})
    column = apply("reshape", (wanted,), {"shape": [*wanted.shape, 1]})
    before = "less" if side == "left" else "less_equal"
    hits = apply("cast", (apply(before, (row, column)),), {"dtype": "int32"})
    axes = {"axes": [hits.ndim - 1], "keep_dims": False}
    return cast(apply("sum", (hits,), axes), out_type)


def _unique(x: Any, what: str, kind: Any) -> tuple[Tensor, Tensor, Tensor]:
    tensor = Tensor(x)
    if tensor.is_symbolic:
        found: tuple[Tensor, Tensor, Tensor] = _open_shape(
            what,
            "Compute it outside of the function.",
            (tensor.dtype, (None,)),
            (kind, tensor.shape),
            (kind, (None,)),
        )
        return found
    array = np.asarray(tensor)
    if array.ndim != 1:
        raise ValueError(f"unique expects a 1D vector. Received shape {array.shape}.")
    values, first, places, counts = np.unique(
        array, return_index=True, return_inverse=True, return_counts=True
    )
    order = np.argsort(first)  # in the order of appearance
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    dtype = kind.as_numpy_dtype
    return (
        Tensor(values[order]),
        Tensor(rank[places].astype(dtype)),
        Tensor(counts[order].astype(dtype)),
    )


@op
def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> Unique:
    """Return the different elements of a vector, as they appear, and which one each is.

    Works on values that are known, not on those of a function that is being traced.

    Example:
        >>> y, idx = tf.unique([5, 7, 5])
        >>> y.numpy().tolist(), idx.numpy().tolist()
        ([5, 7], [0, 1, 0])
    """
    return Unique(*_unique(x, "tf.unique", as_dtype(out_idx))[:2])


@op
def unique_with_counts(
    x: Any, out_idx: Any = int32, name: str | None = None
) -> UniqueWithCounts:
    """Work like :func:`unique`, with how often each one appears.

    Example:
        >>> tf.unique_with_counts([5, 7, 5]).count.numpy().tolist()
        [2, 1]
    """
    return UniqueWithCounts(*_unique(x, "tf.unique_with_counts", as_dtype(out_idx)))


@op
def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """Return the permutation that undoes ``x``.

    Example:
        >>> tf.math.invert_permutation([2, 0, 1]).numpy().tolist()
        [1, 2, 0]
    """
    order = Tensor(x)
    places = Tensor(np.arange(order.shape[0]), order.dtype_name)
    column = reshape(order, [order.shape[0], 1])
    return apply("scatter_nd", (column, places), {"shape": order.shape})
