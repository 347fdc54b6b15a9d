# SPDX-License-Identifier: MIT
"""What more threads would gain: recorded tasks on workers that are not there.

A rehearsal runs programs on one thread, with their work cut as for the most workers,
and each task is timed. A step on P workers then takes

- what is not in tasks, as it was, and
- each job's tasks by list scheduling: in their order, each to the worker that is free
  first (Graham, 1966); no less than the time in which the job's bytes pass the memory,
  where they are more than caches hold;
- for each job :data:`JOB_NS`, and :data:`DOUBLING_NS` for each doubling of the workers:
  to wake them and to wait for the last.

It is a bound: no worker has another clock, or disturbs the others' caches.
"""

from __future__ import annotations

import collections
import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu._reports.profile.events import KINDS, Array, Program, Recording

JOB_NS = 1000.0
DOUBLING_NS = 200.0
CACHE_BYTES = 32 * 2**20
MEMORY_GB = 200.0  # a second: of eight channels of DDR5, about two thirds
_STEPS = 32  # the last ones
_BETWEEN = "between instructions"


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


class _Job(NamedTuple):
    name: str
    bytes: float
    tasks: list[float]


def list_schedule(tasks: Sequence[float], workers: int) -> float:
    """Return when the last task ends: each goes to the worker that is free first."""
    if len(tasks) <= workers:
        return max(tasks, default=0.0)
    ends = [0.0] * workers
    for task in tasks:
        heapq.heapreplace(ends, ends[0] + task)
    return max(ends)


def _job_ns(job: _Job, workers: int) -> tuple[float, str]:
    """Return the time of a job, and what bounds it."""
    if workers == 1:
        return sum(job.tasks), "arithmetic"
    work = list_schedule(job.tasks, workers)
    pass_ns = job.bytes / MEMORY_GB if job.bytes > CACHE_BYTES else 0.0
    start = JOB_NS + DOUBLING_NS * math.log2(workers)
    if pass_ns > work:
        return pass_ns + start, "memory"
    if start > work:
        return work + start, "small jobs"
    few = len(job.tasks) < workers
    return work + start, f"{len(job.tasks)} tasks" if few else "arithmetic"


def _jobs(program: Program, tasks: Array) -> Iterator[_Job]:
    """Yield the jobs, one after another, with their instructions' names and bytes."""
    starts = np.flatnonzero(tasks["a"] == 0)
    for of in np.split(tasks, starts[1:]) if len(starts) else ():
        instruction = program.instructions[int(of["stream"][0]), int(of["at"][0])]
        yield _Job(
            instruction.name, instruction.bytes, (of["end"] - of["begin"]).tolist()
        )


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
    clock = 2.0 * recording.clock_ns
    each = [
        _step(
            program, events[(events["begin"] >= one["begin"]) & (events["end"] <= end)]
        )
        for one in steps
        for end in [one["end"]]
    ]
    # a step takes the ways that most of them take, and each task its median
    ways = collections.Counter(one.way for one in each)
    usual = [one for one in each if one.way == ways.most_common(1)[0][0]]
    lengths = np.median(
        [[ns for job in one.jobs for ns in job.tasks] for one in usual], 0
    )
    lengths = np.maximum(lengths - clock, 0.0)
    jobs, first = [], 0
    for job in usual[0].jobs:
        last = first + len(job.tasks)
        jobs.append(job._replace(tasks=lengths[first:last].tolist()))
        first = last
    serial = {
        name: max(0.0, float(np.median([one.serial[name] for one in usual])) - clock)
        for name in usual[0].serial
    }
    rows = [_scale(jobs, serial, count) for count in (1, *workers)]
    alone = rows[0].step_ns
    return Scaling(
        program.name,
        len(usual),
        alone,
        sum(serial.values()) / alone if alone else 0.0,
        len(jobs),
        [row._replace(speed_up=alone / row.step_ns) for row in rows[1:]],
    )


class _Step(NamedTuple):
    """A step that was recorded: its jobs, and what is in none, by the op."""

    jobs: list[_Job]
    serial: dict[str, float]

    @property
    def way(self) -> tuple[Any, ...]:
        jobs = tuple((job.name, len(job.tasks)) for job in self.jobs)
        return jobs, tuple(self.serial)


def _step(program: Program, events: Array) -> _Step:
    jobs = list(_jobs(program, events[events["kind"] == KINDS["task"]]))
    serial: dict[str, float] = {}
    for one in events[events["kind"] == KINDS["instruction"]]:
        name = program.instructions[int(one["stream"]), int(one["at"])].name
        serial[name] = serial.get(name, 0.0) + float(one["end"] - one["begin"])
    for job in jobs:
        serial[job.name] = serial.get(job.name, 0.0) - sum(job.tasks)
    step = events[events["kind"] == KINDS["step"]]
    whole = float((step["end"] - step["begin"]).sum())
    spent = sum(serial.values()) + sum(sum(job.tasks) for job in jobs)
    return _Step(jobs, {**serial, _BETWEEN: whole - spent})


def _scale(jobs: Sequence[_Job], serial: dict[str, float], workers: int) -> Scale:
    found = {(name, "serial"): ns for name, ns in serial.items()}
    for job in jobs:
        ns, reason = _job_ns(job, workers)
        key = (job.name, reason)
        found[key] = found.get(key, 0.0) + ns
    whole = sum(found.values())
    (bound, reason), most = max(found.items(), key=lambda item: item[1])
    return Scale(workers, whole, 1.0, bound, most / whole if whole else 0.0, reason)
