# SPDX-License-Identifier: MIT
"""A timetable as a grid of text for a terminal of 80 columns."""

from __future__ import annotations

from ipu import _core
from ipu._reports.timetable.boxes import LETTERS, Box, Window, bands, boxes_of, lanes_of

_GAP = "... "
_SHORT = {"ramp-up": "up", "ramp-down": "down"}


def draw(schedule: _core.Schedule, width: int = 80) -> list[str]:
    """Return the grid's lines: a row for each IPU, a column for each time step.

    Where forwards and backwards share time steps, an IPU has a row for each. Columns
    that find no room are left out in the middle.
    """
    return _Grid(schedule, width).lines()


class _Grid:
    """The texts of rows and cells, and where columns begin."""

    def __init__(self, schedule: _core.Schedule, width: int) -> None:
        self.schedule = schedule
        self.names_stage = len(set(schedule.ipus)) < len(schedule.ipus)
        self.label_width = len(f"IPU {schedule.ipu_count - 1} ")
        room = max(width - self.label_width, 20)
        # no column has less than two characters and a blank
        boxes = list(boxes_of(schedule, Window.of(schedule.time_steps, room // 2)))
        self.window = self._window(boxes, room)
        self.boxes = [box for box in boxes if box.begin in set(self.window.columns)]
        self.begins = self._columns()

    def _text(self, box: Box) -> str:
        stage = f"{box.stage}." if self.names_stage else ""
        return f"{box.kind}{stage}{box.micro_batch}"

    def _widths(self, boxes: list[Box]) -> dict[int, int]:
        """Return the width of each time step that has a box: its longest text and a
        blank."""
        widths: dict[int, int] = {}
        for box in boxes:
            time = int(box.begin)
            widths[time] = max(widths.get(time, 0), len(self._text(box)) + 1)
        return widths

    def _window(self, boxes: list[Box], room: int) -> Window:
        """Return as many columns at both ends as find room."""
        steps, widths = self.schedule.time_steps, self._widths(boxes)
        if len(widths) == steps and sum(widths.values()) - 1 <= room:
            return Window(steps, 0, steps)
        head, tail, room = 0, 0, room - len(_GAP)
        while head + tail < steps:
            is_head = head <= tail
            time = head if is_head else steps - 1 - tail
            room -= widths.get(time, 3)
            if room < -1:
                break
            head, tail = head + is_head, tail + (not is_head)
        return Window(head, tail, steps)

    def _columns(self) -> dict[int, int]:
        """Return the column of characters where each time step begins; also the
        end's."""
        at, widths = self.label_width, self._widths(self.boxes)
        begins = {}
        for column, time in enumerate(self.window.columns):
            if self.window.hidden and column == self.window.head:
                at += len(_GAP)
            begins[time] = at
            at += widths.get(time, 3)
        begins[self.schedule.time_steps] = at
        return begins

    def _begin(self, time: int) -> int:
        """Return where a time step begins, or the next one that is shown."""
        window = self.window
        if window.head <= time < window.head + window.hidden:
            time = window.head + window.hidden
        return self.begins[time]

    def _overlay(self, texts: list[tuple[int, str]]) -> str:
        """Return texts at columns of characters; what would touch the last is left
        out."""
        line = ""
        for at, text in texts:
            if line == "" or at > len(line):
                line = line.ljust(at) + text
        return line

    def _band_line(self) -> str:
        marks = []
        for name, begin, end in bands(self.schedule):
            first = self._begin(begin)
            room = self._begin(end) - first - 1
            if room <= 0:
                continue
            if len(name) > room:
                name = _SHORT.get(name, "")
            if name and len(name) + 4 > room:  # no room for a dash on each side
                marks.append((first, name[:room].ljust(room)))
            else:
                name = f" {name} " if name else ""
                marks.append((first, name.center(room, "-")))
        return self._overlay(marks)

    def _step_line(self) -> str:
        columns = self.window.columns
        tight = min(self._widths(self.boxes).values(), default=3)
        every = 1 if tight > len(str(self.schedule.time_steps - 1)) else 5
        ticks = [(self.begins[t], str(t)) for t in columns if t % every == 0]
        return self._overlay([(0, "step"), *ticks])

    def _row(self, label: str, ipu: int, kinds: str, stages: list[int]) -> str:
        texts = {
            self.begins[int(box.begin)]: self._text(box)
            for box in self.boxes
            if box.ipu == ipu and box.kind in kinds and box.stage in stages
        }
        if self.window.hidden:
            texts[self._begin(self.window.head) - len(_GAP)] = _GAP.strip()
        return self._overlay([(0, label), *sorted(texts.items())])

    def _legend(self) -> str:
        kinds = [k for k in LETTERS if k in {box.kind for box in self.boxes}]
        stage = "stage.micro-batch" if self.names_stage else "micro-batch"
        return f"{', '.join(LETTERS[k] for k in kinds)}; number: {stage}"

    def lines(self) -> list[str]:
        found = [self._band_line(), self._step_line()]
        for ipu, lanes in lanes_of(self.schedule).items():
            label = f"IPU {ipu}"
            for kinds, stages in lanes:
                found.append(self._row(label, ipu, kinds, stages))
                label = " "
        lines = [line.rstrip() for line in found]
        return [*(line for line in lines if line), "", self._legend()]
