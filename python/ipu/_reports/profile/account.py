# SPDX-License-Identifier: MIT
"""Sums over events: where the time of a program's steps goes, thread by thread.

A step's time on a thread is

    kernels    instructions and tasks of other threads' instructions, without
    waiting    the end of a job, until the other threads are done with their tasks;
               of a worker, all that lies between its tasks
    infeed     taking an element, and waiting for it
    outfeed    handing over results, and waiting for room
    dispatch   the rest: the engine between instructions, and cutting jobs into tasks
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ipu._reports.profile.events import (
    KINDS,
    Array,
    Instruction,
    Program,
    Recording,
    Track,
)
from ipu._reports.profile.predicted import IpuTimes

_QUEUES = {"dequeue": "infeed", "enqueue": "outfeed"}


class ThreadTimes(NamedTuple):
    """Where the time of a step goes on one thread, in ns."""

    name: str
    kernels: float
    waiting: float
    dispatch: float
    infeed: float
    outfeed: float

    @property
    def total(self) -> float:
        return sum(self[1:])


class Line(NamedTuple):
    """The share of a step that instructions of one name take."""

    name: str
    calls: float  # a step
    ns: float  # a step, of all threads together
    flops: float  # a step
    is_product: bool

    @property
    def gflops(self) -> float:
        """GFLOP/s of one core."""
        return self.flops / self.ns if self.ns > 0 else 0.0


class ProgramAccount(NamedTuple):
    """Where the time of one program goes.

    Attributes:
        name: Of what it was made of.
        runs: How often it ran.
        run_ns: The time of all runs.
        steps: How many steps the figures are of.
        steps_seen: How many were recorded; more where the oldest events are lost.
        step_ns: A step, in the mean.
        median_ns: A step, the median.
        threads: Where its time goes on each thread.
        ops: By op and kernel, the longest first.
        lines: By the user's source line, the longest first.
        flops: Of a step.
        product_flops: Of these in products.
        ready: Elements of infeeds that were ready, in the mean; None without infeed.
        recording_ns: About how much of a step recording itself takes.
        ipu: What a step would take on IPUs; None where the program was compiled before
            the profile began.
    """

    name: str
    runs: int
    run_ns: float
    steps: int
    steps_seen: int
    step_ns: float
    median_ns: float
    threads: list[ThreadTimes]
    ops: list[Line]
    lines: list[Line]
    flops: float
    product_flops: float
    ready: float | None
    recording_ns: float
    ipu: IpuTimes | None = None


def _inside(events: Array, begins: Array, ends: Array) -> Array:
    """Return which events lie in one of the windows, which are sorted and disjoint."""
    window = np.searchsorted(begins, events["begin"], side="right") - 1
    is_in = (window >= 0) & (events["end"] <= ends[np.maximum(window, 0)])
    return np.asarray(is_in)


def _covered(events: Array, begins: Array, ends: Array) -> float:
    """Return how much of the windows the events cover; both sorted and disjoint."""
    if not len(begins):
        return 0.0
    sums = np.concatenate([[0], np.cumsum(ends - begins)])

    def up_to(times: Array) -> Array:
        window = np.searchsorted(begins, times, side="right") - 1
        at = np.maximum(window, 0)
        part = np.minimum(times, ends[at]) - begins[at]
        return np.asarray(np.where(window >= 0, sums[at] + part, 0))

    return float((up_to(events["end"]) - up_to(events["begin"])).sum())


def _lengths(events: Array) -> Array:
    return np.asarray(events["end"] - events["begin"])


class _Sums:
    """Adds up one program's events in its steps."""

    def __init__(self, program: Program, recording: Recording) -> None:
        self.program = program
        self.recording = recording
        self.calls: dict[tuple[int, int], int] = {}
        self.ns: dict[tuple[int, int], float] = {}
        self.ready: list[Array] = []
        runs = self._all_of("run")
        steps = self._all_of("step")
        self.runs = len(runs)
        self.run_ns = float(_lengths(runs).sum())
        steps = np.sort(steps, order="begin")
        self.steps_seen = len(steps)
        # of a thread whose ring was full the last events are complete
        whole_from = max(
            (int(t.events["end"][0]) for t in recording.tracks if t.lost and len(t[4])),
            default=0,
        )
        self.steps = steps[steps["begin"] >= whole_from]
        self.begins: Array = self.steps["begin"]
        self.ends: Array = self.steps["end"]

    def _all_of(self, kind: str) -> Array:
        parts = [track.of(kind) for track in self.recording.tracks]
        if not parts:
            return np.empty(0, dtype=[("begin", "i8"), ("end", "i8")])
        events = np.concatenate(parts)
        found: Array = events[events["program"] == self.program.id]
        return found

    def _mine(self, track: Track, kind: str) -> Array:
        events = track.of(kind)
        events = events[events["program"] == self.program.id]
        found: Array = events[_inside(events, self.begins, self.ends)]
        return found

    def _kinds(self, events: Array) -> Array:
        """Return what the time of each event counts as."""
        places = zip(events["stream"].tolist(), events["at"].tolist(), strict=True)
        instructions = self.program.instructions
        names = [_QUEUES.get(instructions[at].kind, "kernels") for at in places]
        return np.array(names, dtype="U8")

    def _add(self, events: Array, ns: Array, counts: bool) -> None:
        keys = events["stream"].astype(np.int64) << 32 | events["at"]
        unique, inverse = np.unique(keys, return_inverse=True)
        total = np.bincount(inverse, weights=ns, minlength=len(unique))
        count = np.bincount(inverse, minlength=len(unique))
        for key, spent, calls in zip(unique, total, count, strict=True):
            place = (int(key) >> 32, int(key) & 0xFFFFFFFF)
            self.ns[place] = self.ns.get(place, 0.0) + float(spent)
            if counts:
                self.calls[place] = self.calls.get(place, 0) + int(calls)

    def _add_parts(self, parts: Array) -> None:
        """Count what a region's kernels took for them, not for its first one."""
        self._add(parts, _lengths(parts), counts=False)
        heads = parts.copy()
        heads["at"] = parts["b"]
        self._add(heads, -_lengths(parts), counts=False)
        for one in parts[parts["a"] == 1]:
            place = (int(one["stream"]), int(one["at"]))
            self.calls[place] = self.calls.get(place, 0) + 1

    def thread(self, track: Track) -> ThreadTimes | None:
        """Return the sums of one thread; None where it had no part in the program."""
        instructions = self._mine(track, "instruction")
        jobs = self._mine(track, "job")
        tasks = self._mine(track, "tasks")
        if not (len(instructions) or len(tasks)):
            return None
        forks = jobs["a"].astype(np.int64)
        joins = jobs["b"].astype(np.int64)
        self._add(instructions, _lengths(instructions), counts=True)
        self._add(jobs, -(forks + joins), counts=False)
        self._add(tasks, _lengths(tasks), counts=False)
        self._add_parts(self._mine(track, "part"))
        self.ready.append(instructions[self._kinds(instructions) == "infeed"]["a"])
        spent = {"kernels": 0.0, "infeed": 0.0, "outfeed": 0.0}
        for events, ns in (
            (instructions, _lengths(instructions)),
            (jobs, -(forks + joins)),
            (tasks, _lengths(tasks)),
        ):
            kinds = self._kinds(events)
            for kind in spent:
                spent[kind] += float(ns[kinds == kind].sum())
        kernels, infeed, outfeed = spent.values()
        waiting = float(joins.sum())
        has_streams = self.program.streams > 1
        if has_streams:
            waits = track.of("wait")
            waiting += _covered(waits, self.begins, self.ends)
        else:
            infeed += float(_lengths(self._mine(track, "infeed_wait")).sum())
            outfeed += float(_lengths(self._mine(track, "outfeed_wait")).sum())
        rest = float((self.ends - self.begins).sum())
        rest -= kernels + waiting + infeed + outfeed
        if track.role == "worker" and not has_streams:
            waiting, rest = waiting + rest, 0.0
        count = len(self.steps)
        return ThreadTimes(
            track.name,
            kernels / count,
            waiting / count,
            rest / count,
            infeed / count,
            outfeed / count,
        )

    def lines(self, name_of: Any) -> list[Line]:
        """Return the sums of instructions that have a name in common."""
        found: dict[str, list[Any]] = {}
        for place, ns in self.ns.items():
            one = self.program.instructions[place]
            if one.kind in _QUEUES:
                continue
            calls = self.calls.get(place, 0)
            line = found.setdefault(name_of(one), [0, 0.0, 0.0, False])
            line[0] += calls
            line[1] += ns
            line[2] += calls * one.flops
            line[3] |= is_product(one)
        steps = len(self.steps)
        made = [
            Line(name, calls / steps, ns / steps, flops / steps, product)
            for name, (calls, ns, flops, product) in found.items()
        ]
        return sorted(made, key=lambda line: -line.ns)


def is_product(instruction: Instruction) -> bool:
    """Return whether it is a product of matrices, or has one in it."""
    return "matmul" in instruction.op or "conv" in instruction.op


def account(program: Program, recording: Recording) -> ProgramAccount | None:
    """Add up what was recorded of a program.

    Returns:
        The sums over its steps; None where it had none that was recorded.
    """
    sums = _Sums(program, recording)
    count = len(sums.steps)
    if count == 0:
        return None
    threads = [sums.thread(track) for track in recording.tracks]
    ops = sums.lines(lambda one: one.name)
    ready = np.concatenate([*sums.ready, np.empty(0, "u4")])
    clock_reads = 0
    for track in recording.tracks[:1]:
        events = track.events[track.events["program"] == program.id]
        events = events[_inside(events, sums.begins, sums.ends)]
        clock_reads = 2 * int((events["kind"] == KINDS["instruction"]).sum())
        clock_reads += 4 * int((events["kind"] == KINDS["job"]).sum())
        clock_reads += 2 * int((events["kind"] == KINDS["part"]).sum())
    lengths = _lengths(sums.steps)
    return ProgramAccount(
        name=program.name,
        runs=sums.runs,
        run_ns=sums.run_ns,
        steps=count,
        steps_seen=sums.steps_seen,
        step_ns=float(lengths.mean()),
        median_ns=float(np.median(lengths)),
        threads=[times for times in threads if times is not None],
        ops=ops,
        lines=sums.lines(lambda one: one.place),
        flops=sum(line.flops for line in ops),
        product_flops=sum(line.flops for line in ops if line.is_product),
        ready=float(ready.mean()) if len(ready) else None,
        recording_ns=clock_reads * recording.clock_ns / count,
    )
