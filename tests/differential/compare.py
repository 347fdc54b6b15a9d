# SPDX-License-Identifier: MIT
"""What differs between the results of two sides."""

from __future__ import annotations

from typing import Any

import numpy as np

# relative, absolute
ROOM = {
    "float16": (4e-3, 1e-4),
    "float32": (2e-5, 2e-6),
    "float64": (1e-6, 1e-9),
}
# What TensorFlow finds at once it raises as InvalidArgumentError, and what it finds
# while it traces as one of these. There is one kind here: see docs/differences.md.
EAGER_ERROR = "InvalidArgumentError"
TRACED_ERRORS = {"ValueError", "TypeError", "IndexError"}
# numbers that Python holds as float are float32 inside
PYTHON_FLOAT = (2e-5, 2e-6)


def difference(mine: Any, theirs: Any) -> str:
    """What is different, or nothing."""
    if mine[0] != theirs[0]:
        return f"here it {said(mine)}; TensorFlow's {said(theirs)}"
    if mine[0] == "raises":
        if set(mine[1]) & set(theirs[1]):
            return ""
        if EAGER_ERROR in theirs[1] and set(mine[1]) & TRACED_ERRORS:
            return ""
        return f"here it {said(mine)}; TensorFlow's {said(theirs)}"
    return inside(mine[1], theirs[1], "")


def said(outcome: Any) -> str:
    if outcome[0] == "gives":
        return f"gives {str(outcome[1])[:200]}"
    return f"raises {outcome[1][0]} ({outcome[2].strip()[:150]})"


def inside(mine: Any, theirs: Any, where: str) -> str:
    """Compare two results, or parts of them at `where`."""
    if isinstance(mine, np.ndarray) and isinstance(theirs, np.ndarray):
        return arrays(mine, theirs, where)
    if isinstance(mine, float) and isinstance(theirs, float):
        same = np.isclose(mine, theirs, *PYTHON_FLOAT, equal_nan=True)
        return "" if same else f"{where}: {mine!r}, not {theirs!r}"
    if type(mine) is not type(theirs):
        return f"{where}: {type(mine).__name__} {mine!r}, not {theirs!r}"[:400]
    if isinstance(mine, dict):
        if list(mine) != list(theirs):
            return f"{where}: keys {list(mine)}, not {list(theirs)}"
        parts = [inside(mine[k], theirs[k], f"{where}[{k!r}]") for k in mine]
        return next(filter(None, parts), "")
    if isinstance(mine, (list, tuple)):
        if len(mine) != len(theirs):
            return f"{where}: {len(mine)} parts, not {len(theirs)}: {mine}, {theirs}"
        pairs = enumerate(zip(mine, theirs, strict=True))
        parts = [inside(a, b, f"{where}[{k}]") for k, (a, b) in pairs]
        return next(filter(None, parts), "")
    return "" if mine == theirs else f"{where}: {mine!r}, not {theirs!r}"


def arrays(mine: Any, theirs: Any, where: str) -> str:
    if mine.dtype != theirs.dtype:
        return f"{where}: dtype {mine.dtype}, not {theirs.dtype}"
    if mine.shape != theirs.shape:
        return f"{where}: shape {mine.shape}, not {theirs.shape}"
    if mine.dtype.name in ROOM:
        room = ROOM[mine.dtype.name]
        same = np.allclose(mine, theirs, *room, equal_nan=True)
    else:
        same = np.array_equal(mine, theirs)
    return "" if same else f"{where}: {mine.tolist()}, not {theirs.tolist()}"[:600]
