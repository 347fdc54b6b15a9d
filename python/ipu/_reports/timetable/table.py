# SPDX-License-Identifier: MIT
"""``ipu.Timetable``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from ipu import _core
from ipu._config.schedules import (
    PipelineSchedule,
    ScheduleName,
    call_core,
    schedule_text,
)
from ipu._reports.timetable import text, trace
from ipu._reports.timetable.boxes import Box, shortened
from ipu._text.tables import as_text, unit_of

Recorded = tuple[int, str, int, int, int, int]


class Timetable:
    """A pipeline's passes on each IPU over time: to print, to draw, to measure.

    ``print(timetable)`` gives a grid of 80 columns. In a notebook it draws itself: a
    row for each IPU, a colour for each stage, light for forward and dark for backward
    passes, each with the number of its micro-batch.

    In a *time step* an IPU makes one pass of a stage, however long that takes; under
    ``Grouped`` a forward and a backward one.

    Args:
        schedule: A :class:`~ipu.pipelining_ops.PipelineSchedule` or its name:
            "Grouped" (the default), "Interleaved", "Sequential", "GPipe", "1F1B",
            "Interleaved1F1B" or "ZeroBubble". A timetable stands for its own order.
        stages: The number of stages, an int; or their names, a list of str. Concurrent
            stages count once, and are a list of names in it. Default: as many as
            ``device_mapping`` has, else 2.
        device_mapping: For each stage the number of its IPU, a list of ints; a list of
            ints in it for concurrent stages. Default: 0, 1, 2, ...
        micro_batches: How many micro-batches go through the pipeline before the weights
            are updated (``gradient_accumulation_count``). Default: the smallest legal
            number that is at least twice the number of stages.
        training: Whether there are backward passes. Default: True.
        recorded: The passes that ran: (IPU, kind, stage, micro-batch, start, end) for
            each, with kind "F" or "B" ("I" and "W" for the gradients of inputs and
            weights), and times in nanoseconds. The pictures then show these times.

    Attributes:
        schedule: The schedule's name, a str.
        training: Whether there are backward passes.
        stages: The number of stages; each of several concurrent ones counts.
        names: Their names, or "stage 0", "stage 1", ..., a list of str.
        ipus: The IPU of each stage, a list of ints.
        positions: The place of each stage in the pipeline, which concurrent stages
            share; a list of ints.
        micro_batches: How many go through.
        time_steps: How many there are.
        in_flight: How many micro-batches are begun and not yet ended, at most.
        idle_share: The share of time steps in which an IPU has nothing to do (the
            *bubble*), from 0 to 1. Under ``Grouped`` forward and backward passes count
            apart.
        fifo_depths: For each stage, of how many micro-batches it keeps the activations,
            beside those it is at; a list of ints.
        stash_depths: The same with those it is at: how many slots it needs.
        legal_counts: The legal numbers of micro-batches, a range.
        recorded: The passes that really ran, a list, or None.

    Raises:
        tf.errors.FailedPreconditionError: The number of micro-batches is not legal, or
            ``Interleaved1F1B`` cannot deal the stages out.
        NotImplementedError: ``Interleaved`` would train several stages on one IPU.
        ValueError: There is no such schedule, or a stage has no IPU.
        TypeError: An argument is of another kind.

    Example:
        >>> timetable = ipu.Timetable("Interleaved", stages=2, micro_batches=4)
        >>> print(timetable)
        Interleaved: training of 2 stages on 2 IPUs, 4 micro-batches
        10 time steps, 20.0 % idle, 2 micro-batches in flight
        micro-batches may be 2, 4, 6, ...
        <BLANKLINE>
              ramp-up  -- steady - - down -
        step  0  1  2  3  4  5  6  7  8  9
        IPU 0 F0    F1 B0 F2 B1 F3 B2    B3
        IPU 1    F0 B0 F1 B1 F2 B2 F3 B3
        <BLANKLINE>
        F forward, B backward; number: micro-batch
        <BLANKLINE>
        stage  IPU  keeps the activations of
        0      0    1 micro-batch
        1      1    0 micro-batches
        >>> timetable.fifo_depths, 6 in timetable.legal_counts
        ([1, 0], True)
    """

    def __init__(
        self,
        schedule: PipelineSchedule | ScheduleName | Timetable = "Grouped",
        stages: int | Sequence[Any] | None = None,
        device_mapping: Sequence[int | Sequence[int]] | None = None,
        micro_batches: int | None = None,
        training: bool = True,
        *,
        recorded: Iterable[Recorded] | None = None,
    ) -> None:
        name = schedule_text(schedule, training)
        ipus, positions, names = _mapping(stages, device_mapping)
        if isinstance(schedule, Timetable) and name == schedule.grid:
            legal = range(schedule.micro_batches, schedule.micro_batches + 1)
        else:
            length = call_core(_core.Schedule.overlap, name, ipus, training, positions)
            legal = range(length, 2**31, length)
        if micro_batches is None:
            least = 2 * (positions[-1] + 1)
            micro_batches = next((n for n in legal if n >= least), legal[0])
        core = call_core(_core.Schedule, name, ipus, micro_batches, training, positions)
        self._fill(core, names, legal, recorded)

    def _fill(
        self,
        core: _core.Schedule,
        names: list[str] | None,
        legal_counts: range,
        recorded: Iterable[Recorded] | None,
    ) -> None:
        self._core = core
        self.schedule = core.name
        self.training = core.is_training
        self.ipus = core.ipus
        self.positions = core.positions
        self.stages = len(self.ipus)
        self.names = names or [f"stage {k}" for k in range(self.stages)]
        self.micro_batches = core.micro_batches
        self.time_steps = core.time_steps
        self.in_flight = core.in_flight
        self.idle_share = core.idle_share
        self.fifo_depths = core.fifo_depths
        self.stash_depths = core.stash_depths
        self.legal_counts = legal_counts
        self._record(recorded)

    def _record(
        self, recorded: Iterable[Recorded] | None, clock: float | None = None
    ) -> None:
        """Take what ran; with the clock of the IPUs where they tell the times."""
        self._clock = clock
        self.recorded = None if recorded is None else list(recorded)
        self._boxes = [] if self.recorded is None else self._recorded_boxes()

    @classmethod
    def parse(cls, text: str) -> Timetable:
        """Return the timetable of a grid, as :attr:`grid` has it, or written by hand.

        Args:
            text: The grid.

        Raises:
            tf.errors.InvalidArgumentError: It cannot be read, or is not a schedule: the
                message says which pass is missing, too early or in the way.

        Example:
            >>> timetable = ipu.Timetable("1F1B", 2)
            >>> ipu.Timetable.parse(timetable.grid).grid == timetable.grid
            True
        """
        core = _core.Schedule.parse(text)
        result = cls.__new__(cls)
        count = core.micro_batches
        result._fill(core, None, range(count, count + 1), None)
        return result

    @property
    def grid(self) -> str:
        """The whole timetable as text, which :meth:`parse` reads. A str.

        ``F1(3)`` is the forward pass of stage 1 with micro-batch 3, ``B`` a backward
        pass, ``I`` and ``W`` its parts for inputs and weights.

        Example:
            >>> print(ipu.Timetable("Sequential", 2, micro_batches=1).grid)
            schedule: Sequential
            training: yes
            one micro-batch at a time: yes
            micro-batches: 1
            time steps: 4
            stage:    0 1
            position: 0 1
            ipu:      0 1
            stash:    1 1
            <BLANKLINE>
            step  | 0     | 1     | 2     | 3     |
            ipu 0 | F0(0) |       |       | B0(0) |
            ipu 1 |       | F1(0) | B1(0) |       |
            <BLANKLINE>
        """
        return str(self._core)

    @property
    def recorded_idle_share(self) -> float | None:
        """The share of the recorded time in which IPUs had nothing to do, or None."""
        if not self._boxes:
            return None
        busy = sum(box.end - box.begin for box in self._boxes)
        span = max(box.end for box in self._boxes)
        return 1 - busy / (span * len(set(self.ipus))) if span > 0 else 0.0

    def to_text(self, width: int = 80) -> str:
        """Return what ``print`` shows.

        Args:
            width: The number of columns; time steps in the middle that find no room are
                left out. Default: 80.

        Returns:
            A str of several lines.
        """
        grid = text.draw(self._core, width)
        return "\n".join([*self._head(), "", *grid, "", *self._stage_lines()])

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"<ipu.Timetable: {self._head()[0]}>"

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace that https://ui.perfetto.dev and chrome://tracing open.

        One track for each IPU; arrows follow a micro-batch from stage to stage. Without
        recorded times a time step lasts a millisecond.

        Args:
            path: The file, which should end in ``.json``.

        Example:
            >>> ipu.Timetable("1F1B", 4).save_trace("1f1b.json")
        """
        trace.save(self, path)

    def plot(self, ax: Any = None) -> Any:
        """Draw the timetable with matplotlib.

        Args:
            ax: The axes to draw on; default: new ones.

        Returns:
            The axes.

        Raises:
            ImportError: matplotlib is not installed: ``pip install ipu[plot]``.
        """
        from ipu._reports.timetable import plot

        return plot.draw(self, ax)

    def to_svg(self) -> str:
        """Return the picture as an SVG file's text, for light and dark pages. A str."""
        from ipu._reports.timetable import svg

        return svg.document(self)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        from ipu._reports.timetable import svg

        return svg.embedded(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        del cycle
        printer.text(str(self))

    # --- what the pictures are made of ------------------------------------------------

    def _title(self) -> str:
        what = "training" if self.training else "inference"
        ipus = len(set(self.ipus))
        return (
            f"{self.schedule}: {what} of {_count(self.stages, 'stage')} on "
            f"{_count(ipus, 'IPU')}, {_count(self.micro_batches, 'micro-batch')}"
        )

    def _costs(self) -> str:
        steps = _count(self.time_steps, "time step")
        in_flight = _count(self.in_flight, "micro-batch")
        return f"{steps}, {100 * self.idle_share:.1f} % idle, {in_flight} in flight"

    def _recorded_costs(self) -> str:
        end = max(box.end for box in self._boxes)
        unit, size = unit_of(end)
        idle = self.recorded_idle_share or 0.0
        costs = f"{end / size:.3g} {unit}, {100 * idle:.1f} % idle"
        if self._clock is None:
            return f"recorded: {costs}"
        return f"on IPUs: {end * self._clock / 1e9:,.0f} cycles, {costs}"

    def _legal(self) -> str:
        first = [str(count) for count in self.legal_counts[:3]]
        more = ", ..." if len(self.legal_counts) > 3 else ""
        return f"micro-batches may be {', '.join(first)}{more}"

    def _head(self) -> list[str]:
        lines = [self._title(), self._costs(), self._legal()]
        return [*lines, self._recorded_costs()] if self._boxes else lines

    def _stage_lines(self) -> list[str]:
        rows = [("stage", "IPU", "keeps the activations of" if self.training else "")]
        for stage in range(self.stages):
            name = shortened(self.names[stage]).removeprefix("stage ")
            keeps = _count(self.fifo_depths[stage], "micro-batch")
            ipu = str(self.ipus[stage])
            rows.append((name, ipu, keeps if self.training else ""))
        return as_text(rows, left=3).split("\n")

    def _recorded_boxes(self) -> list[Box]:
        """Return what was recorded, from 0 nanoseconds on."""
        assert self.recorded is not None
        origin = min((row[4] for row in self.recorded), default=0)
        found = []
        for row in self.recorded:
            ipu, kind, stage, micro_batch, begin, end = row
            known = kind in ("F", "B", "I", "W") and 0 <= stage < self.stages
            if not known or self.ipus[stage] != ipu or end < begin:
                raise ValueError(
                    "recorded passes are (IPU of the stage, one of 'F', 'B', 'I', 'W', "
                    f"stage, micro-batch, start, end), but got {row!r}"
                )
            times = (begin - origin, end - origin)
            found.append(Box(ipu, kind, stage, micro_batch, *times))
        return found


def _count(number: int, what: str) -> str:
    ending = "" if number == 1 else "es" if what.endswith("h") else "s"
    return f"{number} {what}{ending}"


def _mapping(
    stages: int | Sequence[Any] | None,
    device_mapping: Sequence[int | Sequence[int]] | None,
) -> tuple[list[int], list[int], list[str] | None]:
    """Return IPU, position and name of each stage, concurrent ones written out."""
    if device_mapping is not None and not isinstance(device_mapping, (list, tuple)):
        raise TypeError(
            "device_mapping argument needs to be a list or a tuple, but got "
            f"{device_mapping!r}"
        )
    named = None if stages is None or isinstance(stages, int) else list(stages)
    if stages is None:
        count = 2 if device_mapping is None else len(device_mapping)
    else:
        count = stages if isinstance(stages, int) else len(stages)
    if device_mapping is None:
        device_mapping = range(count) if named is None else _own_ipus(named)
    if len(device_mapping) != count:
        raise ValueError(
            "Each stage must be mapped to an IPU: "
            f"{len(device_mapping)} mappings != {count} stages"
        )
    ipus: list[int] = []
    positions: list[int] = []
    names: list[str] = []
    for position, at in enumerate(device_mapping):
        members = list(at) if isinstance(at, (list, tuple)) else [at]
        ipus += members
        positions += [position] * len(members)
        if named is not None:
            own = named[position]
            titles = list(own) if isinstance(own, (list, tuple)) else [own]
            if len(titles) != len(members):
                raise ValueError(
                    f"the stages {own!r} are mapped to {at!r}: concurrent stages need "
                    "a list of as many IPUs"
                )
            names += [str(title) for title in titles]
    return ipus, positions, names if named is not None else None


def _own_ipus(named: list[Any]) -> list[int | list[int]]:
    """Return the next free IPU for each stage."""
    found: list[int | list[int]] = []
    used = 0
    for own in named:
        if isinstance(own, (list, tuple)):
            found.append(list(range(used, used + len(own))))
            used += len(own)
        else:
            found.append(used)
            used += 1
    return found
