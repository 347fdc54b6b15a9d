# SPDX-License-Identifier: MIT
"""Where the boxes of a drawing lie: rows of boxes, each below what it gets data from.

A line that passes rows has a place in each of them, so that it goes around boxes. The
order within rows is improved by means of neighbours, as Sugiyama, Tagawa and Toda do
(1981).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ipu.keras._drawing.boxes import Box

LINE = 18.0  # height of a line of text
PADDING = 9.0
_LETTER = 7.3  # about the width of one, at 12 pixels
_GAP = 24.0
_BETWEEN_ROWS = 30.0
_SWEEPS = 8


class Point(NamedTuple):
    """A place, in pixels."""

    x: float
    y: float


class Drawing(NamedTuple):
    """A model that is laid out.

    Attributes:
        boxes: The boxes, placed.
        lines: The lines from box to box: two ends of each part of one.
        width: The width of all.
        height: The height of all.
    """

    boxes: list[Box]
    lines: list[list[Point]]
    width: float
    height: float


@dataclass(eq=False)
class _Spot:
    """A place in a row: a box, or a line that passes."""

    row: int
    box: Box | None
    breadth: float  # across the flow
    above: list[_Spot] = field(default_factory=list)
    below: list[_Spot] = field(default_factory=list)
    middle: float = 0.0


def lay_out(boxes: Sequence[Box], direction: str = "TB") -> Drawing:
    """Place boxes."""
    across = direction in ("LR", "RL")
    inner = {id(box): lay_out(box.inner, direction) for box in boxes if box.inner}
    for box in boxes:
        _measure(box, inner.get(id(box)))
    rows, chains = _rows(boxes, across)
    _arrange(rows)
    depths = [
        max((_depth(s.box, across) for s in row if s.box is not None), default=0.0)
        for row in rows
    ]
    begins = [sum(depths[:i]) + i * _BETWEEN_ROWS for i in range(len(rows))]
    length = sum(depths) + max(len(rows) - 1, 0) * _BETWEEN_ROWS
    breadth = max((s.middle + s.breadth / 2 for row in rows for s in row), default=0.0)

    def place(along: float, aside: float) -> Point:
        if direction in ("BT", "RL"):
            along = length - along
        return Point(along, aside) if across else Point(aside, along)

    for row, begin, depth in zip(rows, begins, depths, strict=True):
        for spot in row:
            if spot.box is not None:
                centre = place(begin + depth / 2, spot.middle)
                _move(spot.box, centre, inner.get(id(spot.box)))
    lines = []
    for chain in chains:
        points = []
        for spot in chain:
            depth = depths[spot.row]
            own = depth if spot.box is None else _depth(spot.box, across)
            begin = begins[spot.row] + (depth - own) / 2
            points += [place(begin, spot.middle), place(begin + own, spot.middle)]
        lines.append(points[1:-1])
    lines += [line for drawing in inner.values() for line in drawing.lines]
    size = (length, breadth) if across else (breadth, length)
    return Drawing(list(boxes), lines, *size)


def _measure(box: Box, inside: Drawing | None) -> None:
    longest = max(len(line) for line in box.lines)
    box.width = longest * _LETTER + 2 * PADDING
    box.height = len(box.lines) * LINE + 2 * PADDING - 4
    if inside is not None:
        box.width = max(box.width, inside.width + 2 * PADDING)
        box.height += inside.height + PADDING


def _depth(box: Box, across: bool) -> float:
    return box.width if across else box.height


def _move(box: Box, centre: Point, inside: Drawing | None) -> None:
    """Put a box, and what is drawn in it, around a place."""
    box.x, box.y = centre.x - box.width / 2, centre.y - box.height / 2
    if inside is None:
        return
    right = box.x + (box.width - inside.width) / 2
    down = box.y + PADDING + len(box.lines) * LINE
    _shift(inside, right, down)


def _shift(drawing: Drawing, right: float, down: float) -> None:
    for box in _all_of(drawing.boxes):
        box.x, box.y = box.x + right, box.y + down
    for line in drawing.lines:
        line[:] = [Point(p.x + right, p.y + down) for p in line]


def _all_of(boxes: Sequence[Box]) -> list[Box]:
    return [one for box in boxes for one in (box, *_all_of(box.inner))]


def _rows(
    boxes: Sequence[Box], across: bool
) -> tuple[list[list[_Spot]], list[list[_Spot]]]:
    """Return the rows from the first to the last, and the spots of each line."""
    spots: dict[int, _Spot] = {}
    rows: list[list[_Spot]] = []
    edges: list[tuple[Box, Box]] = []
    for box in boxes:
        # a layer that is called again may have a source that comes later
        known = [source for source in box.sources if id(source) in spots]
        row = max((spots[id(source)].row + 1 for source in known), default=0)
        spots[id(box)] = _Spot(row, box, box.height if across else box.width)
        rows += [[] for _ in range(row + 1 - len(rows))]
        rows[row].append(spots[id(box)])
        edges += [(source, box) for source in known]
    chains = []
    for source, target in edges:
        begin, end = spots[id(source)], spots[id(target)]
        passed = [_Spot(row, None, _GAP / 2) for row in range(begin.row + 1, end.row)]
        for spot in passed:
            rows[spot.row].append(spot)
        chain = [begin, *passed, end]
        for upper, lower in itertools.pairwise(chain):
            upper.below.append(lower)
            lower.above.append(upper)
        chains.append(chain)
    return rows, chains


def _arrange(rows: list[list[_Spot]]) -> None:
    """Find the order within rows, and the places."""
    for row in rows:
        _spread(row, [0.0] * len(row))
    for sweep in range(_SWEEPS):
        downwards = sweep % 2 == 0
        for row in rows if downwards else rows[::-1]:
            wanted = [_wanted(spot, downwards) for spot in row]
            order = sorted(range(len(row)), key=wanted.__getitem__)
            row[:] = [row[i] for i in order]
            _spread(row, [wanted[i] for i in order])
    least = min((s.middle - s.breadth / 2 for row in rows for s in row), default=0.0)
    for row in rows:
        for spot in row:
            spot.middle -= least


def _wanted(spot: _Spot, downwards: bool) -> float:
    """Return the middle of its neighbours."""
    near = spot.above if downwards else spot.below
    if not near:
        return spot.middle
    return sum(other.middle for other in near) / len(near)


def _spread(row: list[_Spot], wanted: list[float]) -> None:
    """Place spots near where they want to be, without overlap, in their order."""
    if not row:
        return
    steps = [
        (left.breadth + right.breadth) / 2 + _GAP
        for left, right in itertools.pairwise(row)
    ]
    from_left, from_right = list(wanted), list(wanted)
    for i, step in enumerate(steps):
        from_left[i + 1] = max(from_left[i + 1], from_left[i] + step)
    for i in reversed(range(len(steps))):
        from_right[i] = min(from_right[i], from_right[i + 1] - steps[i])
    for spot, left, right in zip(row, from_left, from_right, strict=True):
        spot.middle = (left + right) / 2
