# SPDX-License-Identifier: MIT
"""Tables of results, as text and for notebooks."""

from __future__ import annotations

from collections.abc import Sequence


def shown(value: object) -> str:
    """Return a result with as many digits as a reader wants.

    Example:
        >>> shown(0.25), shown(1e-6), shown(3)
        ('0.2500', '1.0000e-06', '3')
    """
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if abs(value) > 1e-3 or value == 0 else f"{value:.4e}"


def unit_of(nanoseconds: float) -> tuple[str, float]:
    """Return a unit for times up to so many nanoseconds, and how many one of it has.

    Example:
        >>> unit_of(1_350_000)
        ('ms', 1000000.0)
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size:
            return unit, size
    return "ns", 1.0


def duration(nanoseconds: float) -> str:
    """Return a time with three digits, in the unit that a reader would choose.

    Example:
        >>> duration(1_350_000), duration(52_340), duration(0)
        ('1.35 ms', '52.3 µs', '0 ns')
    """
    unit, size = unit_of(nanoseconds)
    count = nanoseconds / size
    digits = 0 if unit == "ns" else max(2 - len(str(int(count))) + 1, 0)
    return f"{count:,.{digits}f} {unit}"


def as_text(rows: Sequence[Sequence[str]], left: int = 0) -> str:
    """Return rows of cells as lines, with the columns' right sides below each other.

    Args:
        rows: The head first. A row may be shorter: its cells widen no column.
        left: How many columns, the first ones, have their left sides below each other.

    Example:
        >>> print(as_text([["epoch", "loss"], ["1", "0.25"]]))
        epoch  loss
            1  0.25
    """
    whole = [row for row in rows if len(row) == len(rows[0])]
    widths = [max(map(len, column)) for column in zip(*whole, strict=True)]
    sides = [str.ljust] * left + [str.rjust] * (len(widths) - left)
    return "\n".join(
        "  ".join(
            side(cell, width)
            for side, cell, width in zip(sides, row, widths, strict=False)
        ).rstrip()
        for row in rows
    )


def as_html(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table for a notebook; the last cell of a short row takes the rest.

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
