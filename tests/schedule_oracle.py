# SPDX-License-Identifier: MIT
"""Runs schedules as an engine does, in Python, and compares with a plain loop.

IPUs go on in random order, each along its own list, and talk through rings of exactly
as many slots as `Schedule.slots` says. A ring whose slot is taken makes its writer
wait; so a deadlock, a value that was overwritten, and a gradient that is added out of
order all show.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from ipu import _core

KINDS = "FBIW"
Routine = tuple[str, int]


class Ring:
    """Micro-batches on their way from one routine to another."""

    def __init__(self, slots: int) -> None:
        self.slots: list[tuple[int, Any] | None] = [None] * slots

    def has_room(self, m: int) -> bool:
        return self.slots[m % len(self.slots)] is None

    def holds(self, m: int) -> bool:
        held = self.slots[m % len(self.slots)]
        return held is not None and held[0] == m

    def write(self, m: int, value: Any) -> None:
        self.slots[m % len(self.slots)] = (m, value)

    def read(self, m: int) -> Any:
        held = self.slots[m % len(self.slots)]
        assert held is not None and held[0] == m
        return held[1]

    def empty(self, m: int) -> None:
        self.slots[m % len(self.slots)] = None


class Pipeline(NamedTuple):
    """Which routines read what others write."""

    members: list[list[int]]  # stages by position
    back: str  # the kind of action that gives a gradient to the position before
    last: str  # the kind that uses the stage's activations last


def describe(schedule: _core.Schedule) -> Pipeline:
    members: list[list[int]] = [[] for _ in range(max(schedule.positions) + 1)]
    for stage, position in enumerate(schedule.positions):
        members[position].append(stage)
    kinds = {
        KINDS[row[0]]
        for ipu in range(schedule.ipu_count)
        for row in rows(schedule, ipu)
    }
    return Pipeline(members, *("IW" if "W" in kinds else "BB"))


def rows(schedule: _core.Schedule, ipu: int) -> list[tuple[int, int, int, int]]:
    return [tuple(row) for row in schedule.actions(ipu).tolist()]


def edges(
    schedule: _core.Schedule, pipeline: Pipeline
) -> list[tuple[Routine, Routine]]:
    found: list[tuple[Routine, Routine]] = []
    for before, behind in zip(pipeline.members, pipeline.members[1:], strict=False):
        for a in before:
            for b in behind:
                found.append((("F", a), ("F", b)))
                if schedule.is_training:
                    found.append(((pipeline.back, b), (pipeline.back, a)))
    for stage in range(len(schedule.ipus)) if schedule.is_training else ():
        found.append((("F", stage), (pipeline.last, stage)))
        if pipeline.back != pipeline.last:
            found.append(((pipeline.back, stage), (pipeline.last, stage)))
    return found


def run(schedule: _core.Schedule, seed: int) -> dict[int, list[Any]]:
    """Per stage what it added up (in training) or gave out, in order.

    Raises:
        AssertionError: No IPU can go on.
    """
    chance = random.Random(seed)
    pipeline = describe(schedule)
    rings = {edge: Ring(schedule.slots(*edge)) for edge in edges(schedule, pipeline)}
    lists = [rows(schedule, ipu) for ipu in range(schedule.ipu_count)]
    next_of = [0] * len(lists)
    added: dict[int, list[Any]] = {stage: [] for stage in range(len(schedule.ipus))}

    def try_one(kind: str, stage: int, m: int) -> bool:
        me = (kind, stage)
        reads = [edge for edge in rings if edge[1] == me]
        writes = [edge for edge in rings if edge[0] == me]
        if not all(rings[edge].holds(m) for edge in reads):
            return False
        if not all(rings[edge].has_room(m) for edge in writes):
            return False
        # the input part looks at activations that the weight part takes away
        looks = [("F", stage), (pipeline.last, stage)]
        seen = [rings[tuple(looks)].read(m)] if kind == "I" else []
        value = (
            kind,
            stage,
            m,
            *sorted(map(repr, [*(rings[e].read(m) for e in reads), *seen])),
        )
        value = (kind, stage, m, hash(value))
        for edge in reads:
            rings[edge].empty(m)
        for edge in writes:
            rings[edge].write(m, value)
        if kind == (pipeline.last if schedule.is_training else "F"):
            added[stage].append(value)
        return True

    blocked: set[int] = set()
    left = {ipu for ipu, actions in enumerate(lists) if actions}
    while left:
        able = sorted(left - blocked)
        assert able, f"no IPU can go on: {next_of}\n{schedule}"
        ipu = chance.choice(able)
        kind, stage, m, _ = lists[ipu][next_of[ipu]]
        if try_one(KINDS[kind], stage, m):
            blocked.clear()
            next_of[ipu] += 1
            if next_of[ipu] == len(lists[ipu]):
                left.discard(ipu)
        else:
            blocked.add(ipu)
    return added


def plain_loop(schedule: _core.Schedule) -> dict[int, list[Any]]:
    """The same with one micro-batch after the other."""
    pipeline = describe(schedule)
    links = edges(schedule, pipeline)
    added: dict[int, list[Any]] = {stage: [] for stage in range(len(schedule.ipus))}
    order = [("F", s) for group in pipeline.members for s in group]
    if schedule.is_training:
        for group in reversed(pipeline.members):
            order += [(pipeline.back, s) for s in group]
            if pipeline.back != pipeline.last:
                order += [(pipeline.last, s) for s in group]
    for m in range(schedule.micro_batches):
        values: dict[Routine, Any] = {}
        for me in order:
            kind, stage = me
            seen = [values[edge[0]] for edge in links if edge[1] == me]
            seen += [values[("F", stage)]] if kind == "I" else []
            value = (kind, stage, m, hash((kind, stage, m, *sorted(map(repr, seen)))))
            values[me] = value
            if kind == (pipeline.last if schedule.is_training else "F"):
                added[stage].append(value)
    return added
