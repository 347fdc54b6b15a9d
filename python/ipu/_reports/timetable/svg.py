# SPDX-License-Identifier: MIT
"""A timetable as an SVG picture: one row an IPU, a colour a stage.

         ramp-up        steady   ramp-down      bands
    IPU 0 [0][1][2][3]                          a lane; two where forwards and
                   [0][1][2][3]                 backwards share time steps
    IPU 1    [0][1][2][3]
                [0][1][2][3]
          0  1  2  3  4  5  6                   axis
    [F][B] stage 0   [F][B] stage 1             legend

Text takes the colour of the page around it, so that the picture suits a light and a
dark one; a file of its own asks the viewer which of both it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from ipu._reports.svg import FONT, PAGE_COLOURS, number, rect, text
from ipu._reports.timetable.boxes import (
    LETTERS,
    WORDS,
    Box,
    Window,
    bands,
    boxes_of,
    colour,
    ink,
    lanes_of,
    shortened,
)
from ipu._text.tables import unit_of

if TYPE_CHECKING:
    from ipu._reports.timetable.table import Timetable

_STEP = 26.0  # width of a time step
_MOST_STEPS = 40
_CUT = 34.0  # width of what stands for left out time steps
_LANE = 22.0
_ROW_GAP = 10.0
_LEFT = 62.0
_RIGHT = 16.0
_TOP = 50.0
_BANDS = 24.0  # height of the line with their names
_RECORDED_WIDTH = 40 * _STEP
_MOST_RECORDED = 6000
_LEAST_WIDTH = 0.8  # of a pass that is short beside the others


class _Tick(NamedTuple):
    x: float
    text: str


class _Picture(NamedTuple):
    """The drawing, in pixels: boxes on lanes, an axis, bands."""

    boxes: list[tuple[Box, float, float, float]]  # and its x, y and width
    rows: list[tuple[int, float, int]]  # IPU, y and number of lanes
    spans: list[tuple[float, float]]  # where lanes are, between cuts
    ticks: list[_Tick]
    bands: list[tuple[str, float, float]]
    unit: str
    note: str

    @property
    def right(self) -> float:
        return self.spans[-1][1]

    @property
    def bottom(self) -> float:
        _, y, lanes = self.rows[-1]
        return y + lanes * _LANE


def document(timetable: Timetable) -> str:
    return _draw(timetable, PAGE_COLOURS)


def embedded(timetable: Timetable) -> str:
    """Return the picture in a page of HTML."""
    return f'<div style="overflow-x:auto">{_draw(timetable, "")}</div>'


# --- where things are -----------------------------------------------------------------


def _place_boxes(
    timetable: Timetable,
    boxes: Iterable[Box],
    place: Callable[[float], float],
) -> tuple[list[tuple[Box, float, float, float]], list[tuple[int, float, int]]]:
    rows, y = [], _TOP if timetable._boxes else _TOP + _BANDS
    lane_of: dict[tuple[int, str, int], float] = {}
    for ipu, lanes in lanes_of(timetable._core, bool(timetable._boxes)).items():
        rows.append((ipu, y, len(lanes)))
        for kinds, stages in lanes:
            for kind, stage in itertools.product(kinds, stages):
                lane_of[ipu, kind, stage] = y
            y += _LANE
        y += _ROW_GAP
    placed = []
    for box in boxes:
        x = place(box.begin)
        lane = lane_of[box.ipu, box.kind, box.stage]
        placed.append((box, x, lane, place(box.end) - x))
    return placed, rows


def _of_steps(timetable: Timetable) -> _Picture:
    window = Window.of(timetable.time_steps, _MOST_STEPS)
    later = window.head + window.hidden
    tail_x = _LEFT + window.head * _STEP + _CUT

    def place(time: float) -> float:
        if time <= window.head or not window.hidden:
            return _LEFT + time * _STEP
        return tail_x + max(time - later, 0) * _STEP

    boxes, rows = _place_boxes(timetable, boxes_of(timetable._core, window), place)
    end = place(timetable.time_steps)
    spans = [(_LEFT, end)]
    if window.hidden:
        spans = [(_LEFT, place(window.head)), (tail_x, end)]
    every = 1 if timetable.time_steps <= 100 else 5
    ticks = []
    for column, time in enumerate(window.columns):
        cut = _CUT if column >= window.head else 0.0
        if time % every == 0:
            ticks.append(_Tick(_LEFT + (column + 0.5) * _STEP + cut, str(time)))
    spans_of_bands = [(n, place(b), place(e)) for n, b, e in bands(timetable._core)]
    costs = timetable._costs()
    return _Picture(boxes, rows, spans, ticks, spans_of_bands, "time step", costs)


def _of_record(timetable: Timetable) -> _Picture:
    passes = timetable._boxes
    shown = sorted(passes, key=lambda box: box.begin)[:_MOST_RECORDED]
    total = max(max(box.end for box in shown), 1)
    scale = _RECORDED_WIDTH / total

    def place(time: float) -> float:
        return _LEFT + time * scale

    boxes, rows = _place_boxes(timetable, shown, place)
    unit, size = _unit_of(total, timetable._clock)
    every = _round_step(total / size / 12)
    count = int(total / size / every) + 1
    ticks = [_Tick(place(i * every * size), f"{i * every:g}") for i in range(count)]
    note = timetable._recorded_costs()
    if len(shown) < len(passes):
        note += f"; the first {len(shown)} of {len(passes)} passes"
    span = (_LEFT, _LEFT + _RECORDED_WIDTH)
    return _Picture(boxes, rows, [span], ticks, [], unit, note)


def _unit_of(total: float, clock: float | None) -> tuple[str, float]:
    """Return what the axis counts, and how many nanoseconds one of it has."""
    if clock is None:
        return unit_of(total)
    cycles = total * clock / 1e9
    for unit, size in (("M cycles", 1e6), ("k cycles", 1e3)):
        if cycles >= 10 * size:
            return unit, size * 1e9 / clock
    return "cycles", 1e9 / clock


def _round_step(least: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, ... from ``least`` on."""
    size = 10.0 ** next(p for p in range(-9, 20) if 10.0 ** (p + 1) > least)
    return next(size * part for part in (1, 2, 5, 10) if size * part >= least)


# --- drawing --------------------------------------------------------------------------


def _draw(timetable: Timetable, style: str) -> str:
    picture = _of_record(timetable) if timetable._boxes else _of_steps(timetable)
    least = _LEFT + 7.6 * len(timetable._title())
    width = max(picture.right, least) + _RIGHT
    legend, legend_height = _legend(timetable, picture, width - _RIGHT)
    height = picture.bottom + 42 + legend_height
    title = escape(timetable._title())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" '
        f'height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}" '
        f'style="max-width:none" role="img" aria-label="{title}" '
        f'font-family="{FONT}" font-size="12" fill="currentColor">',
        style,
        f"<title>{title}</title>",
        *_head(timetable, picture),
        *_bands(picture),
        *_frame(picture),
        *_boxes(timetable, picture),
        *_axis(picture),
        *legend,
        "</svg>",
    ]
    return "".join(parts)


def _head(timetable: Timetable, picture: _Picture) -> Iterator[str]:
    name, rest = timetable._title().split(":", 1)
    yield (
        f'<text x="{number(_LEFT)}" y="20" font-size="15">'
        f'<tspan font-weight="600">{escape(name)}</tspan>'
        f'<tspan opacity=".75">{escape(rest)}</tspan></text>'
    )
    yield text(_LEFT, 39, picture.note, ' opacity=".75"')


def _bands(picture: _Picture) -> Iterator[str]:
    top = picture.rows[0][1]
    y = top - 14
    for name, begin, end in picture.bands:
        if end - begin <= 0:
            continue
        if name == "steady":
            height = picture.bottom - top + 12
            yield rect(begin, top - 6, end - begin, height, ' rx="4" opacity=".05"')
        line = f"M{number(begin + 2)} {y + 6}v-4H{number(end - 2)}v4"
        yield f'<path d="{line}" fill="none" stroke="currentColor" opacity=".45"/>'
        if end - begin > 6.2 * len(name):
            yield text(
                (begin + end) / 2,
                y - 3,
                name,
                ' text-anchor="middle" font-size="11" opacity=".75"',
            )


def _frame(picture: _Picture) -> Iterator[str]:
    """Yield lanes, which show where an IPU is idle, and the rows' names."""
    yield '<g opacity=".07">'
    for _, y, lanes in picture.rows:
        for lane, (begin, end) in itertools.product(range(lanes), picture.spans):
            yield rect(begin, y + lane * _LANE + 1, end - begin, _LANE - 2, ' rx="3"')
    yield "</g>"
    for ipu, y, lanes in picture.rows:
        middle = y + lanes * _LANE / 2 + 4
        more = ' text-anchor="end" font-weight="600"'
        yield text(_LEFT - 10, middle, f"IPU {ipu}", more)
        for before, behind in itertools.pairwise(picture.spans):
            yield text(
                (before[1] + behind[0]) / 2,
                middle,
                "· · ·",
                ' text-anchor="middle" opacity=".6"',
            )


def _boxes(timetable: Timetable, picture: _Picture) -> Iterator[str]:
    """Yield the boxes grouped by what they share, so that each is short."""
    groups: dict[tuple[int, str], list[tuple[Box, float, float, float]]] = {}
    for placed in picture.boxes:
        groups.setdefault((placed[0].stage, placed[0].kind), []).append(placed)
    for (stage, kind), members in sorted(groups.items()):
        name = timetable.names[stage]
        yield f'<g fill="{colour(stage, kind)}">'
        for box, x, y, width in members:
            width = max(width, _LEAST_WIDTH)
            inset = min(1.0, (width - _LEAST_WIDTH) / 8)
            place = "" if timetable._boxes else f", time step {box.begin:g}"
            yield (
                rect(x + inset, y + 1, width - 2 * inset, _LANE - 2, ' rx="3"')[:-2]
                + f"><title>{escape(name)}, {WORDS[kind]}, micro-batch "
                f"{box.micro_batch}, IPU {box.ipu}{place}</title></rect>"
            )
        yield f'</g><g fill="{ink(kind)}" text-anchor="middle" pointer-events="none">'
        for box, x, y, width in members:
            label = str(box.micro_batch)
            size = min(12.0, 1.35 * (width - 2) / len(label))
            if size >= 6:
                more = "" if size == 12 else f' font-size="{number(size)}"'
                yield text(x + width / 2, y + _LANE / 2 + 0.35 * size, label, more)
        yield "</g>"


def _axis(picture: _Picture) -> Iterator[str]:
    y = picture.bottom + 18
    yield '<g font-size="10" text-anchor="middle" opacity=".65">'
    for tick in picture.ticks:
        yield text(tick.x, y, tick.text)
    yield "</g>"
    yield text(
        _LEFT - 10, y, picture.unit, ' text-anchor="end" font-size="10" opacity=".65"'
    )


def _legend(
    timetable: Timetable, picture: _Picture, right: float
) -> tuple[list[str], float]:
    """Return the legend's elements and height: chips of each stage's kinds, and the
    stage's name."""
    kinds = sorted({box.kind for box, *_ in picture.boxes}, key="FBIW".index)
    top = picture.bottom + 36
    x, y = _LEFT, top
    parts = []
    for stage, name in enumerate(map(shortened, timetable.names)):
        chips, label = 20.0 * len(kinds), 6.6 * len(name) + 20
        if x > _LEFT and x + chips + label > right:
            x, y = _LEFT, y + 22
        for i, kind in enumerate(kinds):
            at, fill = x + 20.0 * i, colour(stage, kind)
            parts.append(rect(at, y, 18, 16, f' rx="3" fill="{fill}"'))
            more = f' text-anchor="middle" font-size="10" fill="{ink(kind)}"'
            parts.append(text(at + 9, y + 12, kind, more))
        parts.append(text(x + chips + 5, y + 12.5, name))
        x += chips + label
    note = ", ".join(LETTERS[kind] for kind in kinds) + "; numbers: micro-batches"
    parts.append(text(_LEFT, y + 38, note, ' font-size="11" opacity=".65"'))
    return parts, y + 50 - top
