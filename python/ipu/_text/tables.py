# SPDX-License-Identifier: MIT
"""Tables of results, as text and for notebooks."""

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


def as_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Give a table for a notebook; the last cell of a short row takes the rest.

    Example:
        >>> as_html(["a"], [["<1>"]]).partition("<tbody>")[2]
        '<tr><td>&lt;1&gt;</td></tr></tbody></table>'
    """
    import html  # slow to import

    def line(cells: Sequence[str], tag: str) -> str:
        rest = len(head) - len(cells) + 1
        spans = [""] * (len(cells) - 1) + [f' colspan="{rest}"' if rest > 1 else ""]
        inner = "".join(
            f"<{tag}{span}>{html.escape(cell)}</{tag}>"
            for cell, span in zip(cells, spans, strict=True)
        )
        return f"<tr>{inner}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(head, 'th')}</thead><tbody>{body}</tbody></table>"
