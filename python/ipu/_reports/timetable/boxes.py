# SPDX-License-Identifier: MIT
"""The parts of pictures of schedules: boxes on lanes, and the colours of stages."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ipu import _core

KINDS = "FBIW"
WORDS = {
    "F": "forward",
    "B": "backward",
    "I": "backward, gradients of the inputs",
    "W": "backward, gradients of the weights",
}
# of legends
LETTERS = {
    "F": "F forward",
    "B": "B backward",
    "I": "I backward for inputs",
    "W": "W for weights",
}


class Box(NamedTuple):
    """One pass of a micro-batch through a stage.

    Attributes:
        ipu: Where it runs.
        kind: A letter of ``KINDS``.
        stage: Which stage.
        micro_batch: Of which micro-batch.
        begin: Its first time step, or nanosecond.
        end: Behind its last one.
    """

    ipu: int
    kind: str
    stage: int
    micro_batch: int
    begin: float
    end: float

    @property
    def name(self) -> str:
        return f"{self.kind}{self.stage}({self.micro_batch})"


class Window(NamedTuple):
    """The time steps that are shown: ``head`` first ones, ``tail`` last ones."""

    head: int
    tail: int
    time_steps: int

    @classmethod
    def of(cls, time_steps: int, most: int) -> Window:
        """Return all of them, or where they are more than ``most``, the ends."""
        if time_steps <= most:
            return cls(time_steps, 0, time_steps)
        return cls((most + 1) // 2, most // 2, time_steps)

    @property
    def hidden(self) -> int:
        return self.time_steps - self.head - self.tail

    @property
    def columns(self) -> list[int]:
        """The time step of each column."""
        tail = range(self.time_steps - self.tail, self.time_steps)
        return [*range(self.head), *tail]


def boxes_of(schedule: _core.Schedule, window: Window) -> Iterator[Box]:
    """Yield what a schedule runs in the time steps of a window, IPU by IPU."""
    for ipu in range(schedule.ipu_count):
        actions: Any = schedule.actions(ipu)
        times = actions[:, 3]
        shown = (times < window.head) | (times >= window.time_steps - window.tail)
        for kind, stage, micro_batch, time in actions[shown].tolist():
            yield Box(ipu, KINDS[kind], stage, micro_batch, time, time + 1)


def lanes_of(
    schedule: _core.Schedule, recorded: bool = False
) -> dict[int, list[tuple[str, list[int]]]]:
    """Return the lanes of each IPU, as (kinds, stages).

    One is enough where an IPU does one thing at a time. Else each stage has one for its
    forwards and, from the last stage on, one for its backwards; concurrent stages of
    an IPU have one each.
    """
    found: dict[int, list[tuple[str, list[int]]]] = {}
    for ipu in sorted(set(schedule.ipus)):
        stages = [stage for stage, at in enumerate(schedule.ipus) if at == ipu]
        positions = {schedule.positions[stage] for stage in stages}
        if recorded:
            found[ipu] = [(KINDS, stages)]
        elif not schedule.is_one_at_a_time:
            found[ipu] = [("F", [stage]) for stage in stages]
            if schedule.is_training:
                found[ipu] += [("BIW", [stage]) for stage in reversed(stages)]
        elif len(positions) < len(stages):
            found[ipu] = [(KINDS, [stage]) for stage in stages]
        else:
            found[ipu] = [(KINDS, stages)]
    return found


def bands(schedule: _core.Schedule) -> list[tuple[str, int, int]]:
    """Return the parts of a timetable, as (name, first time step, the one after the
    last).

    It is steady while every routine has begun and none has ended.
    """
    first: dict[tuple[int, int], int] = {}
    last: dict[tuple[int, int], int] = {}
    for ipu in range(schedule.ipu_count):
        actions: Any = schedule.actions(ipu)
        # a routine's micro-batches come in order
        for kind, stage, micro_batch, time in actions[
            (actions[:, 2] == 0) | (actions[:, 2] == schedule.micro_batches - 1)
        ].tolist():
            if micro_batch == 0:
                first[kind, stage] = time
            if micro_batch == schedule.micro_batches - 1:
                last[kind, stage] = time
    begin, end = max(first.values()), min(last.values()) + 1
    steps = schedule.time_steps
    if schedule.in_flight == 1:
        return []
    if begin < end:
        found = [("ramp-up", 0, begin), ("steady", begin, end)]
        return [*found, ("ramp-down", end, steps)]
    forwards = [time for (kind, _), time in last.items() if kind == 0]
    backwards = [time for (kind, _), time in first.items() if kind != 0]
    if backwards and max(forwards) < min(backwards):
        turn = min(backwards)
        return [("forward passes", 0, turn), ("backward passes", turn, steps)]
    return []


def shortened(name: str) -> str:
    """Return a stage's name for a table or legend: 40 characters at most."""
    return name if len(name) <= 40 else name[:39] + "…"


# --- colours --------------------------------------------------------------------------

# neighbours are far apart; degrees of OKLCH
_HUES = (255, 55, 150, 320, 95, 200, 15, 285)
# lightness and chroma
_TONES = {"F": (0.83, 0.09), "B": (0.51, 0.13), "I": (0.51, 0.13), "W": (0.71, 0.12)}


def _hex(lightness: float, chroma: float, hue: float) -> str:
    """Return an sRGB colour of OKLCH (Ottosson, "A perceptual color space", 2020)."""
    a = chroma * math.cos(math.radians(hue))
    b = chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )
    channels = []
    for part in linear:
        part = min(max(part, 0.0), 1.0)
        curved = 1.055 * part ** (1 / 2.4) - 0.055 if part > 0.0031308 else 12.92 * part
        channels.append(round(255 * curved))
    return "#{:02x}{:02x}{:02x}".format(*channels)


def colour(stage: int, kind: str) -> str:
    """Return the hue of a stage's boxes, light for forward, dark for backward
    passes."""
    lap, place = divmod(stage, len(_HUES))
    hue = _HUES[place] + 22 * lap
    return _hex(*_TONES[kind], hue)


def ink(kind: str) -> str:
    """Return the colour of the text on them."""
    return "#ffffff" if kind in "BI" else "#11161d"
