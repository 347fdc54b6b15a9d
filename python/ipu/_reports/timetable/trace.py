# SPDX-License-Identifier: MIT
"""A timetable as a trace in Chrome's event format, which Perfetto opens.

Source: "Trace Event Format", the Chromium project. Times are in microseconds.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ipu._reports.timetable.boxes import WORDS, Box, Window, boxes_of

if TYPE_CHECKING:
    from ipu._reports.timetable.table import Timetable

_STEP_US = 1000.0
_Event = dict[str, Any]


def save(timetable: Timetable, path: str | os.PathLike[str]) -> None:
    boxes = timetable._boxes
    if not boxes:
        boxes = [*_spread(timetable)]
    else:
        boxes = [b._replace(begin=b.begin / 1000, end=b.end / 1000) for b in boxes]
    events = [
        *_tracks(timetable),
        *_passes(timetable, boxes),
        *_arrows(timetable, boxes),
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


def _spread(timetable: Timetable) -> Iterator[Box]:
    """Yield the passes that share a time step of an IPU after one another, forwards
    first."""
    steps = timetable.time_steps
    cells: dict[tuple[int, float], list[Box]] = {}
    for box in boxes_of(timetable._core, Window.of(steps, steps)):
        cells.setdefault((box.ipu, box.begin), []).append(box)
    halves = timetable.training and not timetable._core.is_one_at_a_time
    for (_, time), together in cells.items():
        for kinds in ("F", "BIW"):
            part = [box for box in together if box.kind in kinds]
            start = 0.5 if halves and kinds != "F" else 0.0
            whole = 0.5 if halves else 1.0
            for i, box in enumerate(part):
                begin = time + start + whole * i / len(part)
                end = time + start + whole * (i + 1) / len(part)
                yield box._replace(begin=begin * _STEP_US, end=end * _STEP_US)


def _tracks(timetable: Timetable) -> Iterator[_Event]:
    title = timetable._title()
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": title}}
    for ipu in sorted(set(timetable.ipus)):
        track = {"ph": "M", "pid": 1, "tid": ipu}
        yield {**track, "name": "thread_name", "args": {"name": f"IPU {ipu}"}}
        yield {**track, "name": "thread_sort_index", "args": {"sort_index": ipu}}


def _passes(timetable: Timetable, boxes: Iterable[Box]) -> Iterator[_Event]:
    for box in boxes:
        yield {
            "ph": "X",
            "pid": 1,
            "tid": box.ipu,
            "name": box.name,
            "cat": WORDS[box.kind],
            "ts": box.begin,
            "dur": box.end - box.begin,
            "args": {
                "pass": WORDS[box.kind],
                "stage": timetable.names[box.stage],
                "micro-batch": box.micro_batch,
            },
        }


def _arrows(timetable: Timetable, boxes: Iterable[Box]) -> Iterator[_Event]:
    """Yield an arrow from each pass of a micro-batch to the next one, weight parts left
    aside."""
    ways: dict[tuple[int, int], list[Box]] = {}
    runs: dict[tuple[str, int, int], int] = {}
    for box in boxes:
        if box.kind != "W":
            # a recorded pipeline may have run several times
            this = (box.kind, box.stage, box.micro_batch)
            runs[this] = runs.get(this, -1) + 1
            ways.setdefault((runs[this], box.micro_batch), []).append(box)
    for number, ((_, micro_batch), way) in enumerate(ways.items()):
        way.sort(key=lambda box: (box.begin, box.stage))
        for i, box in enumerate(way):
            phase = "s" if i == 0 else "f" if i == len(way) - 1 else "t"
            arrow = {
                "ph": phase,
                "pid": 1,
                "tid": box.ipu,
                "id": number,
                "name": f"micro-batch {micro_batch}",
                "cat": "micro-batch",
                "ts": box.begin,
            }
            yield {**arrow, "bp": "e"} if phase == "f" else arrow
