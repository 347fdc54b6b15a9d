# SPDX-License-Identifier: MIT
"""A drawing as SVG, as text for Graphviz, and by matplotlib as pixels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from ipu._reports.svg import FONT, PAGE_COLOURS, number, rect, text
from ipu.keras._drawing.boxes import Box
from ipu.keras._drawing.layout import LINE, PADDING, Drawing, Point

_MARGIN = 12.0
_ARROW = 7.0
_INK = "#1f2328"


def _every(boxes: Sequence[Box]) -> Iterator[Box]:
    for box in boxes:
        yield box
        yield from _every(box.inner)


def _curves(line: Sequence[Point], across: bool) -> Iterator[tuple[Point, ...]]:
    """Yield the two handles and the end of each part of a line: it leaves and arrives
    in the direction of the flow."""
    for begin, end in itertools.pairwise(line):
        if across:
            middle = (begin.x + end.x) / 2
            yield Point(middle, begin.y), Point(middle, end.y), end
        else:
            middle = (begin.y + end.y) / 2
            yield Point(begin.x, middle), Point(end.x, middle), end


def _arrow(line: Sequence[Point], across: bool) -> list[Point]:
    """Return the corners of a line's head."""
    tip, before = line[-1], line[-2]
    if across:
        back = math.copysign(_ARROW, before.x - tip.x)
        sides = (-_ARROW / 2, _ARROW / 2)
        return [tip, *(Point(tip.x + back, tip.y + side) for side in sides)]
    back = math.copysign(_ARROW, before.y - tip.y)
    return [
        tip,
        *(Point(tip.x + side, tip.y + back) for side in (-_ARROW / 2, _ARROW / 2)),
    ]


# --- SVG ------------------------------------------------------------------------------


def as_svg(drawing: Drawing, across: bool, is_file: bool) -> str:
    """Draw as SVG."""
    width, height = drawing.width + 2 * _MARGIN, drawing.height + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" '
        f'height="{number(height)}" viewBox="{-_MARGIN:g} {-_MARGIN:g} '
        f'{number(width)} {number(height)}" font-family="{FONT}" font-size="12" '
        'fill="currentColor">',
        PAGE_COLOURS if is_file else "",
    ]
    for line in drawing.lines:
        parts += _svg_line(line, across)
    for box in _every(drawing.boxes):
        more = ' rx="5" fill="currentColor" fill-opacity=".06" stroke="currentColor"'
        parts.append(rect(box.x, box.y, box.width, box.height, more))
        middle = box.x + box.width / 2
        for i, content in enumerate(box.lines):
            weight = ' font-weight="600"' if i == 0 else ' opacity=".75"'
            y = box.y + PADDING + i * LINE + 11
            parts.append(text(middle, y, content, f' text-anchor="middle"{weight}'))
    return "".join([*parts, "</svg>"])


def _svg_line(line: Sequence[Point], across: bool) -> Iterator[str]:
    def at(point: Point) -> str:
        return f"{number(point.x)} {number(point.y)}"

    curves = "".join(
        f"C{' '.join(at(point) for point in curve)}" for curve in _curves(line, across)
    )
    yield (
        f'<path d="M{at(line[0])}{curves}" fill="none" stroke="currentColor" '
        'opacity=".6"/>'
    )
    corners = "L".join(at(point) for point in _arrow(line, across))
    yield f'<path d="M{corners}z" opacity=".6"/>'


# --- Graphviz -------------------------------------------------------------------------


def _quoted(content: str) -> str:
    escaped = content.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def as_dot(boxes: Sequence[Box], direction: str, dpi: int, name: str) -> str:
    """Write a graph in Graphviz's language."""
    lines = [
        f"digraph {_quoted(name)} {{",
        f"rankdir={direction};",
        f"dpi={dpi};",
        "concentrate=true;",
        "compound=true;",
        "node [shape=box];",
        *_dot_nodes(boxes),
    ]
    for box in _every(boxes):
        for source in box.sources:
            lines.append(f"{_quoted(_last(source))} -> {_quoted(_first(box))};")
    return "\n".join([*lines, "}", ""])


def _dot_nodes(boxes: Sequence[Box]) -> Iterator[str]:
    for box in boxes:
        label = "\\n".join(_quoted(line)[1:-1] for line in box.lines)
        if not box.inner:
            yield f'{_quoted(box.name)} [label="{label}"];'
            continue
        yield f"subgraph {_quoted('cluster_' + box.name)} {{"
        yield f'label="{label}";'
        yield from _dot_nodes(box.inner)
        yield "}"


def _first(box: Box) -> str:
    return _first(box.inner[0]) if box.inner else box.name


def _last(box: Box) -> str:
    return _last(box.inner[-1]) if box.inner else box.name


# --- pixels ---------------------------------------------------------------------------


def save_pixels(drawing: Drawing, across: bool, path: str, dpi: int) -> None:
    """Draw by matplotlib, in the format that the file's suffix says."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyBboxPatch, PathPatch
    from matplotlib.path import Path

    width, height = drawing.width + 2 * _MARGIN, drawing.height + 2 * _MARGIN
    figure = Figure(figsize=(width / 96, height / 96), dpi=dpi)
    axes: Any = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-_MARGIN, drawing.width + _MARGIN)
    axes.set_ylim(drawing.height + _MARGIN, -_MARGIN)
    axes.axis("off")
    for box in _every(drawing.boxes):
        place = (box.x + 5, box.y + 5)
        style = "round,pad=5,rounding_size=5"
        shape = FancyBboxPatch(place, box.width - 10, box.height - 10, style)
        shape.set(facecolor="#f2f3f5", edgecolor=_INK, linewidth=0.8)
        axes.add_patch(shape)
        for i, content in enumerate(box.lines):
            axes.text(
                box.x + box.width / 2,
                box.y + PADDING + i * LINE + 11,
                content,
                ha="center",
                fontsize=9,
                fontweight="bold" if i == 0 else "normal",
                color=_INK,
            )
    for line in drawing.lines:
        points = [line[0]]
        for curve in _curves(line, across):
            points += curve
        codes = [Path.MOVETO] + [Path.CURVE4] * (len(points) - 1)
        axes.add_patch(PathPatch(Path(points, codes), fill=False, edgecolor="#777"))
        axes.fill(*zip(*_arrow(line, across), strict=True), color="#777")
    figure.savefig(path, dpi=dpi)
