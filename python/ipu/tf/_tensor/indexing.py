# SPDX-License-Identifier: MIT
"""NumPy-style indexing of tensors: ints, slices, ``...``, ``None``, index tensors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ipu import _core
from ipu._text.tracebacks import boundary
from ipu.tf._tensor import open_sizes


def _expand(key: Any, rank: int) -> list[Any]:
    """Return the key as a list without ``...``, with one entry for each axis, None
    aside."""
    items = list(key) if isinstance(key, tuple) else [key]
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can hold only one ellipsis ('...')")
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > rank:
        raise IndexError(f"too many indices: {used} for a tensor of {rank} dimensions")
    fill: list[Any] = [slice(None)] * (rank - used)
    if Ellipsis in [item for item in items if item is Ellipsis]:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        return items[:at] + fill + items[at + 1 :]
    return items + fill


def _is_index_tensor(item: Any) -> bool:
    return isinstance(item, (list, np.ndarray)) or (
        hasattr(item, "shape") and len(item.shape) > 0
    )


def _whole_number(item: Any) -> int:
    try:
        return operator.index(item)
    except TypeError as error:
        if isinstance(item, _core.Tensor):
            raise
        raise TypeError(
            "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and "
            f"scalar integer tensors are valid indices. Received: {item!r}."
        ) from error


def _is_symbolic(item: Any) -> bool:
    return isinstance(item, _core.Tensor) and item.is_symbolic


def _has_symbolic(item: Any) -> bool:
    if isinstance(item, slice):
        return any(_is_symbolic(part) for part in (item.start, item.stop, item.step))
    return _is_symbolic(item)


def _window(item: Any) -> tuple[_core.Tensor, int]:
    """Return where an index or slice of the trace begins, and how long it is.

    Raises:
        TypeError: The length is not known when the function is traced.
    """
    if not isinstance(item, slice):
        return item, 1
    trace = _core.open_trace()
    if (
        trace is not None
        and item.step is None
        and _is_symbolic(item.start)
        and _is_symbolic(item.stop)
    ):
        *start, begin = trace.linear(item.start)
        *stop, end = trace.linear(item.stop)
        if start == stop:
            return item.start, max(end - begin, 0)
    guess = open_sizes.take()
    if guess is not None:
        return _core.Tensor(0), guess
    error = TypeError(
        "How long a slice is must be known when the function is traced, but here it "
        "depends on tensors. Write x[i : i + n] with a number n, or choose elements "
        "with tf.where."
    )
    raise open_sizes.about_values(error)


def _moving(tensor: _core.Tensor, items: list[Any]) -> _core.Tensor:
    """Return ``tensor[items]`` where some of them are known only when the program
    runs."""
    at_rest = [
        slice(None)
        if _has_symbolic(item)
        else item
        if isinstance(item, slice)
        else slice(_whole_number(item), _whole_number(item) + 1 or None)
        for item in items
        if item is not None
    ]
    part = getitem(tensor, tuple(at_rest))
    size, shape, starts = list(part.shape), [], []
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        if not isinstance(item, slice) and part.shape[axis] == 0:
            raise IndexError(
                f"index {item} is out of bounds for axis {axis} with size "
                f"{tensor.shape[axis]}"
            )
        start = _core.Tensor(0)
        if _has_symbolic(item):
            start, size[axis] = _window(item)
            if size[axis] > part.shape[axis] and not open_sizes.is_guess(size[axis]):
                raise IndexError(
                    f"a slice of {size[axis]} is longer than axis {axis} with size "
                    f"{part.shape[axis]}"
                )
        starts.append(start)
        if isinstance(item, slice):
            shape.append(size[axis])
        axis += 1
    if open_sizes.is_guess(*size):
        return open_sizes.stand_in(part.dtype, shape)
    if 0 not in size:
        part = _core.apply("dynamic_slice", (part, *starts), {"size": tuple(size)})
        return _core.apply("reshape", (part,), {"shape": tuple(shape)})
    return _core.Tensor(np.zeros(shape, part.dtype.as_numpy_dtype))


@boundary
def getitem(tensor: _core.Tensor, key: Any) -> _core.Tensor:
    """Return ``tensor[key]``.

    Args:
        key: Ints and scalar tensors, slices, ``...``, ``None``; one index tensor or
            list of ints may stand alone (a gather along the first axis), and so may a
            mask of known value. In a function that is traced a slice ``i : i + n`` may
            begin at a tensor; where it would reach over the end it begins earlier.

    Raises:
        IndexError: An index is out of range, or there are too many.
        TypeError: The shape of the result would not be known.
    """
    if _is_symbolic(key):
        if key.dtype.is_bool:
            error = TypeError(
                "A boolean mask gives a shape that is not known when the function is "
                "compiled. Use tf.where(mask, tensor, 0) instead."
            )
            rest = tensor.shape[key.ndim :]
            found: _core.Tensor = open_sizes.guessed_or(
                error, (tensor.dtype, (None, *rest))
            )
            return found
        return _core.apply("gather", (tensor, key), {"axis": 0})
    if _is_index_tensor(key):
        indices = _core.Tensor(key)
        if indices.dtype.is_bool:
            from ipu.tf._ops.selection import boolean_mask

            return boolean_mask(tensor, indices)
        return _core.apply("gather", (tensor, indices), {"axis": 0})
    items = _expand(key, tensor.ndim)
    if any(_has_symbolic(item) for item in items):
        return _moving(tensor, items)
    begin: list[int] = []
    size: list[int] = []
    strides: list[int] = []
    shape: list[int] = []
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        length = tensor.shape[axis]
        if isinstance(item, slice):
            start, stop, step = item.indices(length)
            count = len(range(start, stop, step))
            begin.append(start if count else 0)
            size.append(count)
            strides.append(step)
            shape.append(count)
        else:
            index = _whole_number(item)
            if not -length <= index < length:
                raise IndexError(
                    f"index {index} is out of bounds for axis {axis} with size {length}"
                )
            begin.append(index % length)
            size.append(1)
            strides.append(1)
        axis += 1
    whole = all(
        b == 0 and s == n and d == 1
        for b, s, d, n in zip(begin, size, strides, tensor.shape, strict=True)
    )
    part = (
        tensor
        if whole
        else _core.apply(
            "slice", (tensor,), {"begin": begin, "size": size, "strides": strides}
        )
    )
    if tuple(shape) == tuple(part.shape):
        return part
    return _core.apply("reshape", (part,), {"shape": shape})
