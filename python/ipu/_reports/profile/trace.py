# SPDX-License-Identifier: MIT
"""A profile as a trace in Chrome's event format, which Perfetto opens.

Source: "Trace Event Format", the Chromium project. Times are in microseconds.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ipu._reports.profile import predicted
from ipu._reports.profile.events import KINDS, Program, Recording, Track

if TYPE_CHECKING:
    from ipu._reports.machine_account import Account

_Event = dict[str, Any]
_NAMES = {number: name for name, number in KINDS.items()}
_WORDS = {
    "wait": "waits for a stream",
    "infeed_wait": "waits for an element",
    "outfeed_wait": "waits for room",
    "fill": "makes an element",
    "room": "waits for room",
    "drain": "takes results",
}


def save(
    recording: Recording,
    path: str | os.PathLike[str],
    accounts: Mapping[int, Account],
) -> None:
    """Write the trace; compressed where the name ends in ``.gz``.

    Args:
        recording: The recorded events.
        path: The file.
        accounts: Of programs, by their numbers.
    """
    name = os.fspath(path)
    opened: Any = gzip.open if name.endswith(".gz") else open
    with opened(name, "wt", encoding="utf-8") as file:
        file.write('{"displayTimeUnit": "ns", "traceEvents": [\n')
        for number, event in enumerate(trace_events(recording, accounts)):
            file.write((",\n" if number else "") + json.dumps(event))
        file.write("\n]}\n")


def trace_events(
    recording: Recording, accounts: Mapping[int, Account]
) -> Iterator[_Event]:
    """Yield the events: threads are tracks of this process, IPUs of one for each
    program."""
    process = os.getpid()
    yield _named(process, "process_name", "ipu: threads")
    for order, track in enumerate(recording.tracks):
        yield _named(process, "thread_name", track.name, track.thread)
        yield {
            **_meta(process, "thread_sort_index", track.thread),
            "args": {"sort_index": order},
        }
        yield from _of_thread(recording, track, process)
    for number, program in recording.programs.items():
        yield from _of_ipus(recording, program, process + number)
        if number in accounts:
            yield from _predicted(recording, program, accounts[number], process)


def _predicted(
    recording: Recording, program: Program, account: Account, process: int
) -> Iterator[_Event]:
    """Yield the first run by the clock of IPUs, from where it began here."""
    begins = []
    for track in recording.tracks:
        runs = track.of("run")
        begins += runs["begin"][runs["program"] == program.id].tolist()
    own = process + max(recording.programs) + program.id
    title = f"{program.name} by the clock of {account.machine!r}"
    yield _named(own, "process_name", title)
    yield from predicted.trace_events(account, own, min(begins, default=0) / 1000)


def _meta(process: int, name: str, thread: int | None = None) -> _Event:
    event: _Event = {"ph": "M", "pid": process, "name": name}
    return event if thread is None else {**event, "tid": thread}


def _named(process: int, what: str, name: str, thread: int | None = None) -> _Event:
    return {**_meta(process, what, thread), "args": {"name": name}}


def _span(
    process: int, thread: int, name: str, kind: str, begin: int, end: int
) -> _Event:
    return {
        "ph": "X",
        "pid": process,
        "tid": thread,
        "name": name,
        "cat": kind,
        "ts": begin / 1000,
        "dur": (end - begin) / 1000,
    }


def _rows(track: Track) -> list[tuple[int, ...]]:
    rows: list[tuple[int, ...]] = track.events.tolist()
    return rows


def _of_thread(recording: Recording, track: Track, process: int) -> Iterator[_Event]:
    for begin, end, number, program, stream, at, a, b, _ in _rows(track):
        kind = _NAMES[number]
        made = recording.programs.get(program)
        if kind in ("step", "infeed_wait") and made and made.streams > 1:
            continue  # which thread ends it says nothing
        if kind in _WORDS:
            yield _span(process, track.thread, _WORDS[kind], kind, begin, end)
        elif made is None or kind == "action":
            continue
        elif kind == "run":
            yield _span(process, track.thread, made.name, kind, begin, end)
        elif kind == "step":
            yield _span(process, track.thread, f"step {a}", kind, begin, end)
        else:
            one = made.instructions[stream, at]
            if kind == "job":
                parts = ("fork", begin, begin + a), ("join", end - b, end)
                for name, first, last in parts:
                    yield _span(process, track.thread, name, kind, first, last)
                begin, end = begin + a, end - b
            event = _span(process, track.thread, one.name, kind, begin, end)
            if kind == "instruction":
                event["args"] = {"line": one.place, "flops": one.flops}
            elif kind == "tasks":
                event["args"] = {"tasks": a}
            yield event
            if one.kind == "dequeue":
                yield {
                    "ph": "C",
                    "pid": process,
                    "name": "infeed",
                    "ts": begin / 1000,
                    "args": {"elements ready": a},
                }


def _of_ipus(recording: Recording, program: Program, process: int) -> Iterator[_Event]:
    """Yield steps and instructions of a single IPU, or the actions of each."""
    has_actions = program.streams > 1
    kinds = ("step", "infeed_wait", "action" if has_actions else "instruction")
    seen: set[int] = set()
    yield _named(process, "process_name", f"IPUs of {program.name}")
    for track in recording.tracks:
        for begin, end, number, owner, stream, at, a, *_ in _rows(track):
            kind = _NAMES[number]
            if owner != program.id or kind not in kinds:
                continue
            one = program.instructions[stream, at]
            ipu = -1 if has_actions else 0
            if kind == "step":
                name = f"step {a}"
            elif kind == "action":
                name, ipu = f"{one.action}{one.micro_batch}", one.ipu
            else:
                name = _WORDS.get(kind, one.name)
            if ipu not in seen:
                seen.add(ipu)
                title = "steps" if ipu < 0 else f"IPU {ipu}"
                yield _named(process, "thread_name", title, ipu + 1)
            event = _span(process, ipu + 1, name, kind, begin, end)
            if kind == "action":
                event["args"] = {"stage": one.stage, "micro-batch": one.micro_batch}
            yield event
