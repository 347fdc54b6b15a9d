# SPDX-License-Identifier: MIT
"""A plugin of pytest that collects all tests once, and forks to try a mutant.

It notes which mutants each test reaches. A mutant is tried with the tests that reach
it: those first that found its neighbours, then the quick C programs, then those that
differ most. The first test that fails, crashes or hangs kills it, if the same tests
pass without a mutant.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import select
import signal
import struct
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.runner import runtestprotocol
from _pytest.warnings import catch_warnings_for_item

from .build import FOLDER
from .client import results

_PATIENCE = 5.0  # seconds that a test may take more than 15 times as long as alone
_MEMORY = 16 << 30
_TOLD = struct.Struct("<id")  # which test begins; or how long it took, then its bits
_REACH = FOLDER / "reach.npz"


class Switch:
    """What processes with the core share: which mutant is on, which were reached."""

    def __init__(self, count: int) -> None:
        self.page = np.memmap(FOLDER / "switch", np.uint8, "r+")
        self.on = self.page[:4].view(np.int32)
        self.reached = self.page[4 : 4 + count]


class Reach:
    """Which mutants each test reaches, and how long it takes."""

    def __init__(self, names: list[str], items: Sequence[pytest.Item]) -> None:
        self.names = names
        self.spans: dict[str, tuple[int, int]] = {}
        for number, name in enumerate(names):
            function = _scopes(name)[0]
            self.spans[function] = self.spans.get(function, (number, 0))[0], number
        self.keys = [_key(item) for item in items]
        self.saved = time.monotonic()
        self.seconds = np.full(len(items), np.nan)
        self.bits = np.zeros((len(items), (len(names) + 7) // 8), np.uint8)
        if _REACH.exists():
            self._load()

    def _load(self) -> None:
        """Take what is known of tests that are as they were, by the mutants' names."""
        with np.load(_REACH) as stored:
            known = dict(stored)  # each access to the file reads it
        places = {key: place for place, key in enumerate(known["keys"].tolist())}
        before = {name: n for n, name in enumerate(known["names"].tolist())}
        # a new mutant: as the last known one of its function
        columns: list[int] = []
        last: dict[str, int] = {}
        for name in self.names:
            function = name.split(":")[0]
            column = before.get(name, last.get(function, 0))
            last[function] = column
            columns.append(column)
        for place, key in enumerate(self.keys):
            if (row := places.get(key)) is not None:
                self.seconds[place] = known["seconds"][row]
                bits = np.unpackbits(known["bits"][row])
                self.bits[place] = np.packbits(bits[columns])

    def save(self, now_and_then: bool = False) -> None:
        """Write the file as a whole; now and then is after two minutes."""
        if now_and_then and time.monotonic() < self.saved + 120:
            return
        fresh = _REACH.with_suffix(".new.npz")
        np.savez(
            fresh,
            keys=self.keys,
            names=self.names,
            seconds=self.seconds,
            bits=self.bits,
        )
        fresh.replace(_REACH)
        self.saved = time.monotonic()

    def tests(self, mutant: int) -> list[int]:
        """Return the tests that reach a mutant, those first that are most different.

        First C programs, of which each is many tests; then the quickest one of those
        that reach the same of its function, the rarest first; then each file has its
        turn.
        """
        on = self.bits[:, mutant >> 3] & (0x80 >> (mutant & 7)) != 0
        found = np.flatnonzero(on & (self.seconds < 20))
        found = found[np.argsort(self.seconds[found])]
        first, last = self.spans[_scopes(self.names[mutant])[0]]
        ways = self.bits[found, first >> 3 : (last >> 3) + 1]
        _, quickest, counts = np.unique(
            ways, axis=0, return_index=True, return_counts=True
        )
        different = found[quickest[np.argsort(counts)]]
        programs = [
            t for t in found if self.seconds[t] < 1 and _is_program(self.keys[t])
        ]
        spent: dict[str, float] = defaultdict(float)
        turns = []
        for place in found:
            file = self.keys[place].split("::")[0]
            spent[file] += self.seconds[place]
            turns.append((spent[file], int(place)))
        others = [place for _, place in sorted(turns)]
        return list(dict.fromkeys([*programs, *different.tolist(), *others]))


def _is_program(key: str) -> bool:
    return "c_programs.py::" in key


def _key(item: pytest.Item, known: dict[Path, str] = {}) -> str:  # noqa: B006
    """Return the name of a test, and a digest of the file that it is in."""
    if item.path not in known:
        known[item.path] = hashlib.sha256(item.path.read_bytes()).hexdigest()[:12]
    return f"{item.nodeid}@{known[item.path]}"


def _scopes(name: str) -> tuple[str, str, str]:
    """Return the function, the file and the room that a mutant is in."""
    return name.split(":")[0], name.split(" ")[0], name.split("/")[0]


def _tells(pipe: int, seconds: float) -> bool:
    """Wait for data; time in which both processes were stopped hardly counts."""
    slices = range(int(seconds / 0.25) + 1)
    return any(select.select([pipe], [], [], 0.25)[0] for _ in slices)


def _read(pipe: int, size: int) -> bytes | None:
    """Read so many bytes; None at the end."""
    data = b""
    while len(data) < size:
        more = os.read(pipe, size - len(data))
        if not more:
            return None
        data += more
    return data


class Server:
    """Tries mutants that it is asked for."""

    def __init__(self, items: list[pytest.Item], names: list[str]) -> None:
        self.items = items
        self.names = names
        self.switch = Switch(len(names))
        self.reach = Reach(names, items)
        self.steady: set[int] = set()
        self.unsteady: set[int] = set()
        self.killers: dict[str, list[int]] = defaultdict(list)
        places = {item.nodeid: place for place, item in enumerate(items)}
        for name, one in results().items():
            if (killer := places.get(one.get("killer", ""))) is not None:
                self.note_killer(name, killer)

    def note_killer(self, name: str, killer: int) -> None:
        """Keep the last one of each scope at the end of its list."""
        for scope in _scopes(name):
            if killer in self.killers[scope]:
                self.killers[scope].remove(killer)
            self.killers[scope].append(killer)

    def run(
        self, tests: Iterable[int], mutant: int, note: bool = False
    ) -> tuple[int, str] | None:
        """Run tests in a child up to the first that fails; return it, and how."""
        tests = list(tests)
        hear, tell = os.pipe()
        self.switch.on[0] = mutant
        child = os.fork()
        if child == 0:
            os.close(hear)
            _Child(self, tests, tell, note).go()
        os.close(tell)
        now, how = -1, ""
        try:
            while True:
                seconds = self.reach.seconds[tests[now]] if now >= 0 else 0.0
                known = np.isfinite(seconds)
                limit = _PATIENCE + 15 * seconds if known else 120.0
                if not _tells(hear, limit):
                    how = "hang"
                    break
                told = _read(hear, _TOLD.size)
                if told is None:
                    break
                now, taken = _TOLD.unpack(told)
                if taken > 0.0:
                    bits = _read(hear, self.reach.bits.shape[1])
                    assert bits is not None
                    self.reach.seconds[tests[now]] = taken
                    self.reach.bits[tests[now]] = np.frombuffer(bits, np.uint8)
                    self.reach.save(now_and_then=True)
        finally:
            os.close(hear)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            self.switch.on[0] = 0
        if not how and status == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        return now, how or ("failed" if code == 1 else f"ended with {code}")

    def record(self) -> None:
        """Run what is not known, each test once, and note what it reaches."""
        left: list[int] = [int(t) for t in np.flatnonzero(np.isnan(self.reach.seconds))]
        while left:
            ended = self.run(left, 0, note=True)
            if ended is None:
                break
            # what fails alone is of no use
            self.reach.seconds[left[ended[0]]] = np.inf
            left = left[ended[0] + 1 :]
        self.reach.save()

    def order(self, mutant: int, seconds: float) -> tuple[list[int], int]:
        """Return the tests to run within so many seconds, and how many reach it."""
        found = [t for t in self.reach.tests(mutant) if t not in self.unsteady]
        known = set(found)
        scopes = _scopes(self.names[mutant])
        first = [t for scope in scopes for t in self.killers[scope][:-9:-1]]
        order = list(dict.fromkeys([t for t in first if t in known] + found))
        ends = np.cumsum(self.reach.seconds[order])
        return order[: int(np.searchsorted(ends, seconds)) + 1], len(found)

    def try_mutant(self, mutant: int, seconds: float) -> dict[str, Any]:
        """Try one; say which test kills it, or how many do not."""
        begin = time.monotonic()
        while True:
            tests, count = self.order(mutant, seconds)
            ended = self.run(tests, mutant) if tests else None
            told = {"reached": count, "ran": len(tests)}
            if ended is None:
                return self.told(mutant, begin, told)
            place = max(ended[0], 0)
            killer = tests[place]
            alone = None if killer in self.steady else self.run(tests[: place + 1], 0)
            if alone is not None:
                self.unsteady.add(tests[max(alone[0], 0)])
                continue
            self.steady.add(killer)
            self.note_killer(self.names[mutant], killer)
            told["ran"] = place + 1
            words = {"killer": self.items[killer].nodeid, "how": ended[1]}
            return self.told(mutant, begin, {**told, **words})

    def told(self, mutant: int, begin: float, what: dict[str, Any]) -> dict[str, Any]:
        seconds = round(time.monotonic() - begin, 2)
        return {"name": self.names[mutant], **what, "seconds": seconds}


class _Child:
    """Runs tests and tells which one begins."""

    def __init__(self, server: Server, tests: list[int], tell: int, note: bool) -> None:
        self.server = server
        self.items = [server.items[test] for test in tests]
        self.tell = tell
        self.note = note

    def go(self) -> None:
        """Never return."""
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nothing, stream)
        try:
            os._exit(int(not all(map(self.passes, range(len(self.items))))))
        except BaseException:
            os._exit(1)

    def passes(self, place: int) -> bool:
        item = self.items[place]
        following = self.items[place + 1] if place + 1 < len(self.items) else None
        os.write(self.tell, _TOLD.pack(place, 0.0))
        reached = self.server.switch.reached
        reached[:] = 0
        begin = time.perf_counter()
        about = {"config": item.config, "ihook": item.ihook, "when": "runtest"}
        with catch_warnings_for_item(**about, item=item):  # its marks hold here, too
            reports = runtestprotocol(item, log=False, nextitem=following)
        if any(report.failed for report in reports):
            return False
        if self.note:
            skipped = any(report.skipped for report in reports)
            taken = np.inf if skipped else time.perf_counter() - begin
            os.write(self.tell, _TOLD.pack(place, taken))
            os.write(self.tell, np.packbits(reached).tobytes())
        return True


def pytest_runtestloop(session: pytest.Session) -> bool:
    """Answer instead of running the tests."""
    names = json.loads((FOLDER / "names.json").read_text())
    server = Server(session.items, names)
    hear, tell = (int(fd) for fd in os.environ["IPU_MUTATION_PIPES"].split(","))
    server.record()
    with os.fdopen(hear) as asked, os.fdopen(tell, "w", buffering=1) as answers:
        answers.write("ready\n")
        for line in asked:
            answers.write(json.dumps(server.try_mutant(**json.loads(line))) + "\n")
    return True
