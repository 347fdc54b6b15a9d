# SPDX-License-Identifier: MIT
"""Nested lists with tensors in them, as one tensor. Called by the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipu import _core


def stack_nested(items: Any, dtype: int) -> _core.Tensor:
    """Stack a nested list of tensors and numbers along new leading axes.

    Args:
        items: A list or tuple; its leaves are tensors, arrays, numbers or variables.
        dtype: Unused: the dtype of the tensors decides.
    """
    leaves = list(_leaves(items))
    # numbers take the dtype of the tensor beside them
    first = next(leaf for leaf in leaves if not isinstance(leaf, (int, float)))
    return _stack(items, _core.Tensor(first).dtype_name)


def _leaves(items: Any) -> Iterator[Any]:
    for item in items:
        if isinstance(item, (list, tuple)):
            yield from _leaves(item)
        else:
            yield item


def _stack(item: Any, dtype: str) -> _core.Tensor:
    if not isinstance(item, (list, tuple)):
        return _core.Tensor(item, dtype if isinstance(item, (int, float)) else None)
    parts = [_stack(part, dtype) for part in item]
    rows = [_core.apply("reshape", (p,), {"shape": (1, *p.shape)}) for p in parts]
    result: _core.Tensor = _core.apply("concat", rows, {"axis": 0})
    return result
