# SPDX-License-Identifier: MIT
"""Tensors made from a shape: filled, counted, one-hot."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from ipu._text.arguments import as_int
from ipu.tf._tensor import open_sizes
from ipu.tf._tensor.convert import (
    Tensor,
    apply,
    known_count,
    known_value,
    like,
    sizes_of,
)
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype, float32


@op
def fill(dims: Any, value: Any, name: str | None = None) -> Tensor:
    """Return a tensor of shape ``dims`` whose elements are all ``value``.

    Example:
        >>> tf.fill((2,), 9).numpy().tolist()
        [9, 9]
    """
    return apply("broadcast", (Tensor(value),), {"shape": sizes_of(dims)})


def _filled(shape: Any, value: float, dtype: Any) -> Tensor:
    kind = as_dtype(dtype)
    number = Tensor(bool(value) if kind.is_bool else value, kind.name)
    return apply("broadcast", (number,), {"shape": sizes_of(shape)})


@op
def zeros(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Return a tensor of zeros.

    Example:
        >>> tf.zeros((2,)).numpy().tolist()
        [0.0, 0.0]
    """
    return _filled(shape, 0, dtype)


@op
def ones(shape: Any, dtype: Any = float32, name: str | None = None) -> Tensor:
    """Return a tensor of ones.

    Example:
        >>> tf.ones((2,), tf.int32).numpy().tolist()
        [1, 1]
    """
    return _filled(shape, 1, dtype)


@op
def zeros_like(input: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Return zeros in the shape (and, unless given, the dtype) of ``input``.

    Example:
        >>> tf.zeros_like([1.5, 2.5]).numpy().tolist()
        [0.0, 0.0]
    """
    value = input if hasattr(input, "dtype") else Tensor(input)
    return _filled(list(value.shape), 0, value.dtype if dtype is None else dtype)


@op
def ones_like(input: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Return ones in the shape (and, unless given, the dtype) of ``input``.

    Example:
        >>> tf.ones_like([[7, 8]]).numpy().tolist()
        [[1, 1]]
    """
    value = input if hasattr(input, "dtype") else Tensor(input)
    return _filled(list(value.shape), 1, value.dtype if dtype is None else dtype)


@op
def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """Return ones on the diagonal of a matrix, or of a batch of them.

    Example:
        >>> tf.eye(2).numpy().tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    rows = known_count(num_rows, "num_rows")
    columns = rows if num_columns is None else known_count(num_columns, "columns")
    matrix = Tensor(np.eye(rows, columns, dtype=as_dtype(dtype).as_numpy_dtype))
    if batch_shape is None:
        return matrix
    return apply(
        "broadcast", (matrix,), {"shape": [*sizes_of(batch_shape), rows, columns]}
    )


@op
def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = ""
) -> Tensor:
    """Return numbers from ``start`` (0 if only one is given) up to ``limit`` by
    ``delta``.

    Args:
        start: The first number, or the limit where that is the only one.
        limit: The end, which is not included.
        delta: The step.
        dtype: Of the result; None: the widest of the arguments'.

    Example:
        >>> tf.range(2, 8, 3).numpy().tolist()
        [2, 5]
    """
    if limit is None:
        start, limit = 0, start
    given = [Tensor(known_value(v, "range")) if hasattr(v, "dtype") else as_int(v)
             for v in (start, limit, delta)]  # fmt: skip
    if dtype is None:
        names = [v.dtype.name if isinstance(v, Tensor) else type(v).__name__
                 for v in given]  # fmt: skip
        order = ("float64", "float16", "float32", "float", "int64")
        found = next((n for n in order if n in names), "int32")
        dtype = "float32" if found == "float" else found
    numbers = [v.numpy() if isinstance(v, Tensor) else v for v in given]
    if numbers[2] == 0:
        raise ValueError("tf.range needs a step that is not 0. Received: delta=0.")
    kind = as_dtype(dtype)
    if open_sizes.is_guess(*(n for n in numbers if np.ndim(n) == 0)):
        counts: Tensor = open_sizes.guessed((kind, (None,)))
        return counts
    counted = np.arange(
        *numbers, dtype=None if kind.is_integer else kind.as_numpy_dtype
    )
    return Tensor(counted, kind.name)


@op
def linspace(
    start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0
) -> Tensor:
    """Return ``num`` evenly spaced numbers; the first is ``start``, the last ``stop``.

    Args:
        start: Where it starts; a tensor of numbers, of any shape.
        stop: Where it ends; of the same shape.
        num: How many.
        axis: Where the new axis goes.

    Example:
        >>> tf.linspace(0.0, 1.0, 5).numpy().tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    first = Tensor(start)
    last = like(stop, first)
    if first.dtype.is_integer:  # they divide in floating point
        first, last = first / 1, last / 1
    count = known_count(num, "num")
    if count < 0:
        raise ValueError(f"tf.linspace needs num >= 0. Received: num={count}.")
    at = axis if axis >= 0 else axis + first.ndim + 1
    shape = [*first.shape[:at], 1, *first.shape[at:]]
    if count == 0:
        shape[at] = 0
        return Tensor(np.empty(shape), first.dtype_name)
    low = apply("reshape", (first,), {"shape": shape})
    high = apply("reshape", (last,), {"shape": shape})
    if count == 1:
        return low
    steps = np.arange(count - 1) / (count - 1)
    column = [count - 1] + [1] * (len(shape) - 1 - at)
    share = Tensor(steps.reshape(column), first.dtype_name)
    return apply("concat", (low + (high - low) * share, high), {"axis": at})


@op
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return ``on_value`` at the index, ``off_value`` elsewhere, along a new axis.

    Args:
        indices: Integers; one that is not in [0, depth) gives no ``on_value``.
        depth: How long the new axis is.
        on_value: A number; 1 by default.
        off_value: A number; 0 by default.
        axis: Where the new axis goes; the end by default.
        dtype: Of the result; that of the values where they are tensors, else float32.

    Example:
        >>> tf.one_hot([0, 2], 3).numpy().tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if dtype is None:
        given = [v for v in (on_value, off_value) if v is not None]
        dtype = Tensor(given[0]).dtype if given else float32
    on, off = (
        float(
            Tensor(known_value(value, "on_value and off_value"), as_dtype(dtype).name)
        )
        for value in (
            1 if on_value is None else on_value,
            0 if off_value is None else off_value,
        )
    )
    return apply(
        "one_hot",
        (Tensor(indices),),
        {
            "depth": known_count(depth, "depth"),
            "axis": -1 if axis is None else axis,
            "on_value": on,
            "off_value": off,
            "dtype": as_dtype(dtype).name,
        },
    )


@op
def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = "bool", name: str | None = None
) -> Tensor:
    """Return whether position j is within length i, along a new last axis.

    Args:
        lengths: Integers of any shape.
        maxlen: How long the new axis is; None: the largest length, which then must be
            known when a function is traced.
        dtype: Of the result.

    Example:
        >>> tf.sequence_mask([1, 3], 3).numpy().tolist()
        [[True, False, False], [True, True, True]]
    """
    values = Tensor(lengths)
    if maxlen is None:
        maxlen = known_value(values, "sequence_mask needs maxlen: the longest length")
        maxlen = maxlen.max(initial=0)
    count = known_count(maxlen, "maxlen")
    places = Tensor(np.arange(count), values.dtype_name)
    column = apply("reshape", (values,), {"shape": [*values.shape, 1]})
    mask = apply("less", (places, column))
    return apply("cast", (mask,), {"dtype": as_dtype(dtype).name})


@op
def meshgrid(*args: Any, indexing: str = "xy", name: str = "") -> list[Tensor]:
    """Return the coordinates of a grid from the coordinates of its axes.

    Args:
        args: One vector for each axis.
        indexing: "xy", where the first two axes are exchanged, or "ij".

    Example:
        >>> x, y = tf.meshgrid([1, 2, 3], [4, 5])
        >>> x.numpy().tolist(), y.numpy().tolist()
        ([[1, 2, 3], [1, 2, 3]], [[4, 4, 4], [5, 5, 5]])
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(
            f"Argument `indexing` must be 'xy' or 'ij'. Received: {indexing!r}."
        )
    vectors = [Tensor(a) for a in args]
    sizes = [int(np.prod(v.shape, dtype=np.int64)) for v in vectors]
    order = list(builtins.range(len(vectors)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = order[1], order[0]
    whole = [sizes[i] for i in order]
    grids = []
    for i, vector in enumerate(vectors):
        shape = [sizes[i] if axis == i else 1 for axis in order]
        column = apply("reshape", (vector,), {"shape": shape})
        grids.append(apply("broadcast", (column,), {"shape": whole}))
    return grids
