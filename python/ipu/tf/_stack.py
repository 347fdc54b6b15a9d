# SPDX-License-Identifier: MIT
"""Nested lists with tensors in them, as one tensor. Called by the core."""

from __future__ import annotations

from typing import Any

from ipu import _core

__all__ = ["stack_nested"]


def stack_nested(items: Any, dtype: int) -> _core.Tensor:
    """Stack a nested list of tensors and numbers along new leading axes.

    Args:
        items: A list or tuple; its leaves are tensors, arrays, numbers or variables.
        dtype: Unused: the dtype of the tensors decides.
    """
    parts = [
        stack_nested(item, dtype) if isinstance(item, (list, tuple)) else item
        for item in items
    ]
    # numbers take the dtype of the tensor beside them
    first = next(p for p in parts if not isinstance(p, (int, float)))
    name = _core.Tensor(first).dtype_name
    rows = [
        _core.apply("reshape", (t,), {"shape": (1, *t.shape)})
        for t in (
            _core.Tensor(p, name if isinstance(p, (int, float)) else None) for p in parts
        )
    ]
    result: _core.Tensor = _core.apply("concat", rows, {"axis": 0})
    return result
