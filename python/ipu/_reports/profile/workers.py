# SPDX-License-Identifier: MIT
"""A step's pieces on workers that are not there, by list scheduling (Graham, 1966).

A piece is an instruction of a stream: a part that one worker does alone, then jobs,
whose tasks go one after another to the worker that is free first. A stream's pieces
follow each other, and some wait for pieces of other streams; the worker of a stream
that waits turns to another stream, or to tasks. A job takes no less than the time in
which its bytes pass the memory, where they are more than caches hold, and to begin one,
or to wake a stream, takes :data:`JOB_NS` and :data:`DOUBLING_NS` for each doubling of
the workers.
"""

from __future__ import annotations

import collections
import heapq
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

JOB_NS = 1000.0
DOUBLING_NS = 200.0
CACHE_BYTES = 32 * 2**20
MEMORY_GB = 200.0  # a second: of eight channels of DDR5, about two thirds


class Job(NamedTuple):
    """Tasks for all workers."""

    name: str
    bytes: float
    tasks: list[float]  # ns


class Piece(NamedTuple):
    """An instruction of a stream.

    Attributes:
        lane: The replica and the stream.
        name: Of its op.
        serial: The ns that one worker takes.
        jobs: What follows.
        after: Numbers of the pieces of other lanes that are over before.
    """

    lane: tuple[int, int]
    name: str
    serial: float
    jobs: list[Job]
    after: list[int]


class Outcome(NamedTuple):
    """When all is done, and the ns of the longest path there by (op, reason)."""

    ns: float
    path: dict[tuple[str, str], float]


def work_on(pieces: Sequence[Piece], workers: int) -> Outcome:
    """Let so many workers do the pieces.

    Args:
        pieces: In an order that is possible: none comes before those it waits for.
        workers: How many; one begins jobs and wakes streams in no time.

    Returns:
        How long they take, and what for.
    """
    return _Crew(pieces, workers).work()


class _Offer:
    """A job that is under way."""

    def __init__(self, piece: int, number: int, job: Job) -> None:
        self.piece = piece
        self.number = number
        self.job = job
        self.begin = 0.0
        self.taken = 0
        self.running = 0

    @property
    def is_taken(self) -> bool:
        return self.taken == len(self.job.tasks)


class _Crew:
    def __init__(self, pieces: Sequence[Piece], workers: int) -> None:
        self.pieces = pieces
        self.workers = workers
        self.start_ns = 0.0
        if workers > 1:
            self.start_ns = JOB_NS + DOUBLING_NS * math.log2(workers)
        self.previous: list[int | None] = []  # of the same lane
        self.following: dict[int, int] = {}
        last: dict[tuple[int, int], int] = {}
        self.users = collections.defaultdict[int, list[int]](list)
        for number, piece in enumerate(pieces):
            self.previous.append(last.get(piece.lane))
            if piece.lane in last:
                self.following[last[piece.lane]] = number
            last[piece.lane] = number
            for other in piece.after:
                self.users[other].append(number)
        self.waits_for = [len(piece.after) for piece in pieces]
        self.marks: list[list[tuple[float, str]]] = [[] for _ in pieces]
        self.ends: dict[int, float] = {}
        self.ready: collections.deque[int] = collections.deque()
        self.offers: collections.deque[_Offer] = collections.deque()
        self.idle = workers
        self.ticks = itertools.count()
        self.events: list[tuple[float, int, Callable[[float], None]]] = []

    def work(self) -> Outcome:
        self.ready.extend(
            number
            for number, before in enumerate(self.previous)
            if before is None and not self.waits_for[number]
        )
        self._hire(0.0)
        while self.events:
            at, _, go_on = heapq.heappop(self.events)
            go_on(at)
        return Outcome(max(self.ends.values(), default=0.0), self._path())

    def _at(self, when: float, go_on: Callable[[float], None]) -> None:
        heapq.heappush(self.events, (when, next(self.ticks), go_on))

    def _hire(self, now: float) -> None:
        while self.idle and (self.ready or self.offers):
            self.idle -= 1
            self._look(now)

    def _look(self, now: float) -> None:
        """Let a worker that has nothing to do find something."""
        if self.ready:
            number = self.ready.popleft()
            self._begin(number, now + self.start_ns * bool(self.pieces[number].after))
        elif self.offers:
            self._take(self.offers[0], now, False)
        else:
            self.idle += 1

    def _begin(self, number: int, now: float) -> None:
        self.marks[number].append((now, "few workers"))
        serial = self.pieces[number].serial
        self._at(now + serial, lambda at: self._go_on(number, 0, "serial", at))

    def _go_on(self, number: int, done: int, reason: str, now: float) -> None:
        """Begin the next job of a piece, or end it."""
        self.marks[number].append((now, reason))
        jobs = self.pieces[number].jobs
        if done == len(jobs):
            self._end(number, now)
            return
        offer = _Offer(number, done, jobs[done])
        self._at(now + self.start_ns, lambda at: self._offer(offer, at))

    def _offer(self, offer: _Offer, now: float) -> None:
        offer.begin = now
        self.offers.append(offer)
        self._take(offer, now, True)
        self._hire(now)

    def _take(self, offer: _Offer, now: float, is_own: bool) -> None:
        task = offer.job.tasks[offer.taken]
        offer.taken += 1
        offer.running += 1
        if offer.is_taken:
            self.offers.remove(offer)
        self._at(now + task, lambda at: self._give_back(offer, at, is_own))

    def _give_back(self, offer: _Offer, now: float, is_own: bool) -> None:
        offer.running -= 1
        if is_own and not offer.is_taken:
            self._take(offer, now, True)
            return
        if offer.is_taken and not offer.running:
            end, reason = self._end_of(offer, now)
            done = offer.number + 1
            self._at(end, lambda at: self._go_on(offer.piece, done, reason, at))
        if not is_own:
            self._look(now)

    def _end_of(self, offer: _Offer, now: float) -> tuple[float, str]:
        """Return when a job whose last task has ended is over, and what bounds it."""
        job = offer.job
        has_room = self.workers == 1 or job.bytes <= CACHE_BYTES
        passed = offer.begin + (0.0 if has_room else job.bytes / MEMORY_GB)
        if passed > now:
            return passed, "memory"
        if self.start_ns > now - offer.begin:
            return now, "small jobs"
        few = 1 < self.workers > len(job.tasks)
        return now, f"{len(job.tasks)} tasks" if few else "arithmetic"

    def _end(self, number: int, now: float) -> None:
        self.ends[number] = now
        for user in self.users[number]:
            self.waits_for[user] -= 1
            before = self.previous[user]
            if not self.waits_for[user] and (before is None or before in self.ends):
                self.ready.append(user)
        following = self.following.get(number)
        if following is not None and not self.waits_for[following]:
            self._begin(following, now)
        else:
            self._look(now)
        self._hire(now)

    def _path(self) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = collections.defaultdict(float)
        number = max(self.ends, key=lambda one: self.ends[one], default=None)
        while number is not None:
            piece = self.pieces[number]
            before = self.previous[number]
            others = [*piece.after, *([] if before is None else [before])]
            last = max(others, key=lambda one: self.ends[one], default=None)
            begin = 0.0 if last is None else self.ends[last]
            names = [piece.name, piece.name, *(job.name for job in piece.jobs)]
            for name, (end, reason) in zip(names, self.marks[number], strict=True):
                found[name, reason] += end - begin
                begin = end
            number = last
        return found
