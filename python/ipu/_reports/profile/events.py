# SPDX-License-Identifier: MIT
"""The core's events as arrays: one for each thread, and the programs they are about."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ipu import _core

Array = np.ndarray[Any, Any]

KINDS = {name: number for number, name in enumerate(_core.profile_kinds())}
_WORDS = np.dtype(
    [("begin", "u8"), ("word", "u8"), ("subject", "u8"), ("a", "u4"), ("b", "u4")]
)
_EVENT = np.dtype(
    [
        ("begin", "i8"),  # ns from the beginning of the profile
        ("end", "i8"),
        ("kind", "i4"),  # of KINDS
        ("program", "i4"),
        ("stream", "i4"),
        ("at", "i4"),  # which instruction of the stream
        ("a", "u4"),
        ("b", "u4"),
        ("replica", "i4"),
    ]
)


class Instruction(NamedTuple):
    """The instruction of an event; see ``_core.Program.instructions``."""

    stream: int
    number: int
    kind: str
    op: str
    kernel: str | None
    file: str | None
    line: int
    flops: float
    bytes: float
    ipu: int
    action: str
    stage: int
    micro_batch: int
    channel: int  # of a message; -1: none
    depth: int  # messages that are on their way there at most
    meeting: int  # of replicas; -1: none

    @property
    def name(self) -> str:
        """The op, and the kernel that was chosen for it."""
        return f"{self.op}.{self.kernel}" if self.kernel else self.op

    @property
    def place(self) -> str:
        """The user's source line, or nothing."""
        return f"{self.file}:{self.line}" if self.file else ""


class Program:
    """A program that ran: its name, and its instructions by (stream, number)."""

    def __init__(self, core: _core.Program) -> None:
        self.id = core.id
        self.name = core.name or f"program {core.id}"
        self.instructions = {
            (one[0], one[1]): Instruction(*one) for one in core.instructions
        }
        self.streams = 1 + max((stream for stream, _ in self.instructions), default=0)


class Track(NamedTuple):
    """A thread: its role, its number among those, the system's id, and its events."""

    role: str
    number: int
    thread: int
    lost: int
    events: Array  # of _EVENT, in the order of their ends

    @property
    def name(self) -> str:
        """For people."""
        if self.role == "worker":
            return f"worker {self.number}"
        return "main thread" if self.thread == os.getpid() else self.role

    def of(self, kind: str) -> Array:
        """Return the events of a kind."""
        found: Array = self.events[self.events["kind"] == KINDS[kind]]
        return found


class Recording(NamedTuple):
    """All that was recorded."""

    tracks: list[Track]
    programs: dict[int, Program]
    clock_ns: int  # what reading the clock takes
    length_ns: int
    is_cut: bool  # events of the beginning were overwritten


def _decoded(data: bytes, start_ns: int, programs: dict[int, Program]) -> Array:
    words = np.frombuffer(data, _WORDS)
    events = np.empty(len(words), _EVENT)
    events["begin"] = words["begin"].astype(np.int64) - start_ns
    events["end"] = events["begin"] + (words["word"] >> 8).astype(np.int64)
    events["kind"] = words["word"] & 0xFF
    events["program"] = words["subject"] >> 40
    events["stream"] = words["subject"] >> 24 & 0xFFFF
    events["at"] = words["subject"] & 0xFFFFFF
    events["a"] = words["a"]
    events["b"] = words["b"]
    events["replica"] = 0
    for number, program in programs.items():
        of = events["program"] == number
        events["replica"][of], events["stream"][of] = np.divmod(
            events["stream"][of], program.streams
        )
    kept: Array = events[events["begin"] >= 0]
    return kept


def read(raw: Any, start_ns: int, end_ns: int) -> Recording:
    """Read what ``_core.profile_stop`` gave.

    Args:
        raw: That.
        start_ns: When the profile began, on the monotonic clock.
        end_ns: When it ended.

    Returns:
        The threads, those of programs first, with times from the beginning on.
    """
    tracks, programs, clock_ns = raw
    order = ["thread", "worker", "feeder", "reader", "drainer"]
    made = {number: Program(program) for number, program in programs.items()}
    found = [
        Track(role, number, thread, lost, _decoded(data, start_ns, made))
        for role, number, thread, lost, data in tracks
    ]
    found.sort(key=lambda track: (order.index(track.role), track.number, track.thread))
    return Recording(
        found,
        made,
        clock_ns,
        end_ns - start_ns,
        any(track.lost for track in found),
    )
