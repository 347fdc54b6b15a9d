# SPDX-License-Identifier: MIT
"""A timetable drawn with matplotlib, which is imported here and nowhere else."""

from __future__ import annotations

import itertools
import textwrap
from typing import TYPE_CHECKING, Any

from ipu._reports.timetable.boxes import (
    KINDS,
    LETTERS,
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

_MOST_LABELS = 1500
_LETTER = 0.08  # inches, of a title
_ROW = 0.84  # of the distance of rows


def draw(timetable: Timetable, axes: Any) -> Any:
    try:
        from matplotlib import patches, pyplot
    except ImportError as error:
        raise ImportError(
            "Timetable.plot draws with matplotlib, which is not installed: "
            "pip install ipu[plot]. Without it: to_svg(), or the picture that a "
            "notebook shows"
        ) from error
    boxes, unit, scale = _boxes(timetable)
    ipus = sorted(set(timetable.ipus))
    span = max(box.end for box in boxes) / scale
    title = timetable._title()
    if axes is None:
        wide = min(max(_LETTER * len(title) + 2, 0.3 * timetable.time_steps), 16.0)
        _, axes = pyplot.subplots(figsize=(wide, 2.2 + 0.55 * len(ipus)))
    figure = axes.figure
    if figure.get_layout_engine() is None:
        figure.set_layout_engine("constrained")  # room for labels, titles, legends
    inches = figure.get_figwidth() * axes.get_position().width
    places = _places(timetable)
    for box in boxes:
        low, height = places[ipus.index(box.ipu), box.kind, box.stage]
        width = max((box.end - box.begin) / scale, span / (100 * inches))
        face = colour(box.stage, box.kind)
        place = (box.begin / scale, low)
        # an edge would hide a narrow pass
        edge = axes.get_facecolor() if width > span / 250 else face
        axes.add_patch(
            patches.Rectangle(place, width, height, facecolor=face, edgecolor=edge)
        )
        if len(boxes) <= _MOST_LABELS and width > span / 80:
            axes.text(
                place[0] + width / 2,
                low + height / 2,
                str(box.micro_batch),
                color=ink(box.kind),
                fontsize=8,
                ha="center",
                va="center",
                clip_on=True,
            )
    axes.set_xlim(0, span)
    axes.set_ylim(len(ipus) - 0.5, -0.5)
    axes.set_yticks(range(len(ipus)), [f"IPU {ipu}" for ipu in ipus])
    axes.set_xlabel(unit)
    axes.set_title(
        textwrap.fill(title, max(int(inches / _LETTER), 20), break_on_hyphens=False),
        fontsize=10,
    )
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    if not timetable._boxes:
        axes.xaxis.get_major_locator().set_params(integer=True)
        for _, begin, _ in bands(timetable._core)[1:]:
            axes.axvline(begin, color="gray", linewidth=0.8, linestyle=":", zorder=0)
    _add_legend(timetable, axes, patches, boxes, inches)
    return axes


def _boxes(timetable: Timetable) -> tuple[list[Box], str, float]:
    """Return all boxes, the axis' unit, and how much of theirs makes one of it."""
    if timetable._boxes:
        end = max(box.end for box in timetable._boxes)
        return timetable._boxes, *unit_of(end)
    steps = timetable.time_steps
    boxes = boxes_of(timetable._core, Window.of(steps, steps))
    return list(boxes), "time step", 1.0


def _places(timetable: Timetable) -> dict[tuple[int, str, int], tuple[float, float]]:
    """Return the upper edge and the height of each lane, in rows, by IPU, kind and
    stage."""
    places = {}
    lanes = lanes_of(timetable._core, bool(timetable._boxes))
    for row, of_ipu in enumerate(lanes.values()):
        for i, (kinds, stages) in enumerate(of_ipu):
            height = _ROW / len(of_ipu)
            for kind, stage in itertools.product(kinds, stages):
                places[row, kind, stage] = (row - _ROW / 2 + i * height, height)
    return places


def _add_legend(
    timetable: Timetable, axes: Any, patches: Any, boxes: list[Box], inches: float
) -> None:
    kinds = sorted({box.kind for box in boxes}, key=KINDS.index)
    handles = [
        patches.Patch(
            facecolor=colour(stage, kind),
            label=f"{shortened(name)}, {LETTERS[kind][2:]}",
        )
        for stage, name in enumerate(timetable.names[:8])
        for kind in kinds
    ]
    longest = max(len(handle.get_label()) for handle in handles)
    axes.legend(
        handles=handles,
        ncols=max(1, min(timetable.stages, 8, int(inches / (0.7 + _LETTER * longest)))),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        borderaxespad=5.0,  # below the axis and its label, in letters
        fontsize=8,
        frameon=False,
    )
