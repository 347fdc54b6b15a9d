# SPDX-License-Identifier: MIT
"""Rows of `benchmarks.ops` that may be slower than is wanted, and why.

The table may only shrink: `tests/test_op_benchmark.py` knows how long it is.
"""

from __future__ import annotations

UNFUSED = "one formula for every class: no tables, no multiply-adds but exact ones"
TURNED = "one tree of sums for every form of a product: terms are turned to the lanes"
WIDER = "products of float32 and float16 are made in float64"
READ_AGAIN = "reads the values and the maxima again, whose places PyTorch is given"
KEYS = "the keys of bytes are of 32 bits, too"
LAPACK = "LAPACK's: reflections and roots one after another, on one thread"

# (a row's name, or how it begins, a dtype or "", a size or "") -> the reason
EXCEPTIONS: dict[tuple[str, str, str], str] = {
    **{
        (op, "float64", ""): UNFUSED
        for op in "log2 log1p tanh sigmoid sinh cosh tan atan gelu pow".split()
    },
    ("matmul, 1x1000000", "float32", ""): TURNED,
    ("matmul, 1024x1024 1024x1", "float32", ""): TURNED,
    ("matmul, 1x1024 1024x1024^T", "float32", ""): TURNED,
    ("prod", "", ""): WIDER,
    ("cumprod, first axis", "float16", ""): WIDER,
    ("max_pool_grad, 3x3", "", ""): READ_AGAIN,
    ("top_k, few", "int8", ""): KEYS,
    ("qr, 127 x 127", "float32", ""): LAPACK,
    ("eigh, 127 x 127", "", ""): LAPACK,
}


def covers(row: str, name: str) -> bool:
    """Whether a name is a row's, or begins with all of its words."""
    return name == row or name.startswith(tuple(row + end for end in ",^ "))


def reason_of(name: str, dtype: str, size: str) -> str | None:
    """The reason that covers a figure; None: there is none."""
    for (row, kind, extent), reason in EXCEPTIONS.items():
        if covers(row, name) and kind in ("", dtype) and extent in ("", size):
            return reason
    return None
