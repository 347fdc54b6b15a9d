# SPDX-License-Identifier: MIT
"""NumPy-style indexing of tensors: ints, slices, ``...``, ``None``, index tensors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ipu import _core
from ipu._tracebacks import boundary

__all__ = ["getitem"]


def _expand(key: Any, rank: int) -> list[Any]:
    """The key as a list without ``...``, with one entry for each axis, None aside."""
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


@boundary
def getitem(tensor: _core.Tensor, key: Any) -> _core.Tensor:
    """``tensor[key]``.

    Args:
        tensor: The tensor.
        key: Ints (also scalar tensors of known value), slices, ``...``, ``None``; one
            index tensor or list of ints may stand alone (a gather along the first
            axis), or a symbolic scalar may be the first index.

    Raises:
        IndexError: An index is out of range, or there are too many.
    """
    if isinstance(key, _core.Tensor) and key.is_symbolic:
        if key.dtype.is_bool:
            raise TypeError(
                "A boolean mask gives a shape that is not known when the function is "
                "compiled. Use tf.where(mask, tensor, 0) instead."
            )
        return _core.apply("gather", (tensor, key), {"axis": 0})
    if _is_index_tensor(key):
        return _core.apply("gather", (tensor, _core.Tensor(key)), {"axis": 0})
    begin: list[int] = []
    size: list[int] = []
    strides: list[int] = []
    shape: list[int] = []
    axis = 0
    for item in _expand(key, tensor.ndim):
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
