# SPDX-License-Identifier: MIT
"""Rows of `benchmarks.ops` that may be slower than is wanted, and why.

The table may only shrink: `tests/test_op_benchmark.py` knows how long it is.
"""

from __future__ import annotations

UNFUSED = "without rounded fused multiply-adds: not all classes have them for float64"
WIDER = "products of float32 are made in float64"
FOUND_AGAIN = "finds the maxima again, whose places PyTorch is given"

# (a row's name or its op, a dtype or "", a size or "") -> the reason
EXCEPTIONS: dict[tuple[str, str, str], str] = {
    **{
        (op, "float64", ""): UNFUSED
        for op in "exp log tanh sigmoid expm1 sinh cosh asinh atanh".split()
    },
    ("prod", "float32", ""): WIDER,
    ("max_pool_grad, 3x3", "", ""): FOUND_AGAIN,
}


def reason_of(name: str, dtype: str, size: str) -> str | None:
    """The reason that covers a figure; None: there is none."""
    for (row, kind, extent), reason in EXCEPTIONS.items():
        rows, kinds, extents = (name, name.split(",")[0]), ("", dtype), ("", size)
        if row in rows and kind in kinds and extent in extents:
            return reason
    return None
