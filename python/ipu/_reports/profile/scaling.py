# SPDX-License-Identifier: MIT
"""What more threads would gain: recorded tasks on workers that are not there.

A rehearsal runs programs on one thread, with their work cut as for the most workers,
and each task is timed. Then so many workers do a step as the pool would (workers.py):
streams, such as those of a pipeline's stages and of replicas, side by side, where none
waits for another's message, and the tasks of their jobs. It is a bound: no worker has
another clock, or disturbs the others' caches.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ipu._reports.profile.events import KINDS, Array, Instruction, Program, Recording
from ipu._reports.profile.workers import Job, Piece, work_on

_STEPS = 32  # the last ones
_BETWEEN = "between instructions"
_Lane = tuple[int, int]  # replica, stream


class Scale(NamedTuple):
    """A program's step on so many workers.

    Attributes:
        workers: How many.
        step_ns: The step.
        speed_up: Over one worker.
        bound: The op that takes the most of the step.
        bound_share: How much of it that is.
        reason: Why it takes so long.
    """

    workers: int
    step_ns: float
    speed_up: float
    bound: str
    bound_share: float
    reason: str


class Scaling(NamedTuple):
    """What more threads would do for a program.

    Attributes:
        name: Of what it was made of.
        steps: How many it is the median of.
        step_ns: A step on one worker.
        serial_share: How much of it is in no task.
        jobs: A step's pieces of work for all workers.
        scales: A row for each number of workers.
    """

    name: str
    steps: int
    step_ns: float
    serial_share: float
    jobs: int
    scales: list[Scale]


def replay(
    program: Program,
    recording: Recording,
    workers: Sequence[int],
) -> Scaling | None:
    """Replay the last steps of a program that was rehearsed.

    Args:
        program: The program.
        recording: Where its tasks are.
        workers: How many there would be, in the table's order.

    Returns:
        A row for each number; None where no step was recorded.
    """
    for track in recording.tracks:
        steps = track.of("step")
        steps = steps[steps["program"] == program.id][-_STEPS:]
        if len(steps):
            break
    else:
        return None
    events = track.events[track.events["program"] == program.id]
    each = [
        _Step(
            program, events[(events["begin"] >= one["begin"]) & (events["end"] <= end)]
        )
        for one in steps
        for end in [one["end"]]
    ]
    # a step takes the ways that most of them take, and each part its median
    ways = collections.Counter(one.way for one in each)
    usual = [one for one in each if one.way == ways.most_common(1)[0][0]]
    clock = 2.0 * recording.clock_ns
    serial, tasks = (
        np.maximum(np.median(rows, 0) - clock, 0.0)
        for rows in ([one.serial for one in usual], [one.tasks for one in usual])
    )
    pieces = usual[0].pieces(serial, tasks)
    between = float(np.median([one.between for one in usual]))
    rows = [_scale(pieces, max(0.0, between - clock), n) for n in (1, *workers)]
    alone = rows[0].step_ns
    return Scaling(
        program.name,
        len(usual),
        alone,
        1.0 - float(tasks.sum()) / alone if alone else 0.0,
        sum(len(piece.jobs) for piece in pieces),
        [row._replace(speed_up=alone / row.step_ns) for row in rows[1:]],
    )


class _Step:
    """A step that was recorded: instructions of all streams, each with its tasks.

    Attributes:
        serial: What each takes beside its tasks.
        tasks: What all tasks take, those of an instruction after each other.
        between: What is in no instruction.
    """

    def __init__(self, program: Program, events: Array) -> None:
        self._program = program
        found = events[events["kind"] == KINDS["instruction"]]
        tasks = events[events["kind"] == KINDS["task"]]
        # streams in turn, so that steps of which another one came first are alike
        self._rows = found[
            np.lexsort((found["begin"], found["stream"], found["replica"]))
        ]
        self._by_time = np.argsort(self._rows["begin"], kind="stable")
        begins = self._rows["begin"][self._by_time]
        place = np.searchsorted(begins, tasks["begin"], "right")
        owner = self._by_time[np.maximum(place - 1, 0)]
        order = np.lexsort((tasks["begin"], owner))
        self._tasks, self._owners = tasks[order], owner[order]
        self.tasks = (self._tasks["end"] - self._tasks["begin"]).astype(float)
        whole = (self._rows["end"] - self._rows["begin"]).astype(float)
        spent = np.bincount(self._owners, self.tasks, len(whole))
        # from a task to the next one of its job nothing is done but to record it
        noted = self._tasks["begin"][1:] - self._tasks["end"][:-1].astype(float)
        noted[self._tasks["a"][1:] == 0] = 0.0
        noted = np.maximum(noted, 0.0)
        spent += np.bincount(self._owners[1:], noted, len(whole))
        self.serial = whole - spent
        step = events[events["kind"] == KINDS["step"]]
        self.between = float((step["end"] - step["begin"]).sum() - whole.sum())

    @property
    def way(self) -> tuple[bytes, ...]:
        names = ["replica", "stream", "at"]
        return (
            *(self._rows[name].tobytes() for name in names),
            self._owners.tobytes(),
            self._tasks["b"].tobytes(),
        )

    def pieces(self, serial: Array, tasks: Array) -> list[Piece]:
        """Return the instructions as they were recorded, with other times."""
        ends = np.searchsorted(self._owners, np.arange(len(serial)), "right")
        begins = np.searchsorted(self._owners, np.arange(len(serial)), "left")
        places = [(int(row["stream"]), int(row["at"])) for row in self._rows]
        made = [self._program.instructions[place] for place in places]
        lanes = [(int(row["replica"]), int(row["stream"])) for row in self._rows]
        waits = _Waits()
        return [
            Piece(
                lanes[i],
                made[i].name,
                float(serial[i]),
                list(self._jobs(range(begins[i], ends[i]), tasks)),
                waits.of(number, lanes[i], made[i]),
            )
            for number, i in enumerate(self._by_time.tolist())
        ]

    def _jobs(self, which: range, tasks: Array) -> Iterator[Job]:
        of = self._tasks[which.start : which.stop]
        starts = [*np.flatnonzero(of["a"] == 0).tolist(), len(of)]
        for first, end in itertools.pairwise(starts):
            one = self._program.instructions[
                int(of["stream"][first]), int(of["at"][first])
            ]
            lengths = tasks[which.start + first : which.start + end]
            yield Job(one.name, one.bytes, lengths.tolist())


class _Waits:
    """What the instructions of a step wait for, as they come."""

    def __init__(self) -> None:
        self._lanes: list[_Lane] = []
        self._last: dict[_Lane, int] = {}
        self._forked: dict[int, set[_Lane]] = collections.defaultdict(set)
        self._sent: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
        self._received: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
        self._posted: dict[int, list[int]] = collections.defaultdict(list)

    def of(self, number: int, lane: _Lane, one: Instruction) -> list[int]:
        """Return the numbers of those in other lanes that are over before it begins."""
        replica, stream = lane
        found = []
        children = self._forked[replica]
        if stream == 0:  # a pipeline's streams have ended
            found += [self._last[child] for child in children]
            children.clear()
        elif lane not in children and (replica, 0) in self._last:
            found.append(self._last[replica, 0])
        if stream != 0:
            children.add(lane)
        channel = (replica, one.channel)
        sent, received = self._sent[channel], self._received[channel]
        if one.kind == "send":
            if len(sent) >= one.depth and len(received) > len(sent) - one.depth:
                found.append(received[len(sent) - one.depth])
            sent.append(number)
        elif one.kind == "receive":
            if len(received) < len(sent):
                found.append(sent[len(received)])
            received.append(number)
        elif one.kind == "post":
            self._posted[one.meeting].append(number)
        elif one.kind == "wait":
            found += self._posted[one.meeting]
        self._last[lane] = number
        self._lanes.append(lane)
        return [other for other in found if self._lanes[other] != lane]


def _scale(pieces: Sequence[Piece], between: float, workers: int) -> Scale:
    whole, found = work_on(pieces, workers)
    whole += between
    (bound, reason), most = max(
        {**found, (_BETWEEN, "serial"): between}.items(), key=lambda item: item[1]
    )
    return Scale(workers, whole, 1.0, bound, most / whole if whole else 0.0, reason)
