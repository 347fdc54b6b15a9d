# SPDX-License-Identifier: MIT
"""Tables of results, as text."""

from __future__ import annotations

from collections.abc import Sequence


def as_text(rows: Sequence[Sequence[str]]) -> str:
    """Give rows of cells as lines, with the columns' right sides below each other.

    Args:
        rows: The head first; all of one length.

    Example:
        >>> print(as_text([["epoch", "loss"], ["1", "0.25"]]))
        epoch  loss
            1  0.25
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
