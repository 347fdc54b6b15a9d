# SPDX-License-Identifier: MIT
"""The common parts of the package's SVG pictures.

Text takes the colour of the page around it, so that a picture suits a light and a dark
one; a file of its own asks the viewer which of both it is.
"""

from __future__ import annotations

from html import escape

FONT = "ui-sans-serif,system-ui,'Segoe UI',Helvetica,Arial,sans-serif"
PAGE_COLOURS = (
    "<style>:root{color:#1f2328}"
    "@media(prefers-color-scheme:dark){:root{color:#e6edf3}}</style>"
)


def number(value: float) -> str:
    """Return a coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".rstrip("0").rstrip(".")


def text(x: float, y: float, content: str, more: str = "") -> str:
    """Return a text whose line begins, or has its anchor, at a place."""
    return f'<text x="{number(x)}" y="{number(y)}"{more}>{escape(content)}</text>'


def rect(x: float, y: float, width: float, height: float, more: str = "") -> str:
    return (
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
        f'height="{number(height)}"{more}/>'
    )
