# SPDX-License-Identifier: MIT
"""Runs workers and notes what becomes of each seed."""

from __future__ import annotations

import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from .kinds import KINDS, Kind

TESTS = Path(__file__).parents[1]
WORKER = [sys.executable, "-m", "campaign.worker"]
START_SECONDS = 120.0
KEPT = 4000  # characters of an error's end
NOTICE_SECONDS = 60.0


@dataclass
class Record:
    """How far a kind has come."""

    next: int = 0  # the first seed that was not tried
    tried: int = 0
    trials: int = 0  # of the seeds that held: kills, schedules, texts
    seconds: float = 0.0
    grown: float = 0.0  # MiB of the largest worker, after its first seeds
    found: list[dict[str, Any]] = field(default_factory=list)


class State:
    """The records of all kinds, in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        known = json.loads(path.read_text()) if path.exists() else {}
        self.records = {kind: Record(**known.get(kind, {})) for kind in KINDS}

    def save(self) -> None:
        """Write the file as a whole."""
        text = json.dumps({name: asdict(one) for name, one in self.records.items()})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fresh = self.path.with_suffix(".new")
        fresh.write_text(text)
        fresh.replace(self.path)


def _resident(pid: int) -> float:
    """Give the memory of a process in MiB; 0 where it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


class Worker:
    """A process that tries seeds of a kind."""

    def __init__(self, kind: Kind, record: Record) -> None:
        self.record = record
        self.words = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [*WORKER, kind.module, kind.function, str(record.next)],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            stderr=self.words,
            start_new_session=True,
        )
        self.began = 0  # MiB after the first seeds
        self.done = 0

    @property
    def pipe(self) -> IO[bytes]:
        """What it tells."""
        assert self.process.stdout is not None
        return self.process.stdout

    def hear(self, line: bytes) -> None:
        """Note one seed; or that it has started."""
        record = self.record
        if line == b"ready":
            return
        if line.startswith(b"{"):
            told = json.loads(line)
            record.found.append(
                {"how": "error", **told, "error": told["error"][-KEPT:]}
            )
            seed = told["seed"]
        else:
            seed, trials = map(int, line.split())
            record.trials += trials
        record.next = seed + 1
        record.tried += 1
        self.done += 1
        if self.done == 100:
            self.began = int(_resident(self.process.pid))
        elif self.done > 100 and self.done % 100 == 0:
            grown = _resident(self.process.pid) - self.began
            record.grown = max(record.grown, round(grown, 1))

    def lose(self, how: str) -> None:
        """Note that the seed it was at has ended it."""
        self.words.seek(0)
        text = self.words.read().decode(errors="replace")[-KEPT:]
        seed = self.record.next
        self.record.found.append({"how": how, "seed": seed, "error": text})
        self.record.next += 1
        self.record.tried += 1

    def end(self) -> None:
        """Kill it, with all that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.pipe.close()
        self.words.close()


def run(
    kind: Kind,
    record: Record,
    seconds: float,
    last: float = math.inf,
    notice: Callable[[], None] = lambda: None,
) -> None:
    """Try seeds of a kind for so long, up to `last`.

    Workers that end or hang are replaced. `notice` is called each minute.
    """
    begin = noted = time.monotonic()

    def note(now: float) -> None:
        nonlocal noted
        if now - noted > NOTICE_SECONDS:
            record.seconds += now - noted
            noted = now
            notice()

    while time.monotonic() < begin + seconds and record.next <= last:
        _run_worker(kind, record, begin + seconds, last, note)
    record.seconds += time.monotonic() - noted


def try_again(kind: Kind, record: Record) -> None:
    """Keep of what was found what is still wrong."""
    still = []
    for seed in (one["seed"] for one in record.found):
        alone = Record(next=seed)
        run(kind, alone, START_SECONDS + kind.seconds, last=seed)
        still += alone.found
    record.found = still


def _run_worker(
    kind: Kind, record: Record, end: float, last: float, note: Callable[[float], None]
) -> None:
    worker = Worker(kind, record)
    patience = START_SECONDS
    left = b""
    silent = 0.0  # seconds, without those in which all of this was stopped
    with selectors.DefaultSelector() as selector:
        selector.register(worker.pipe, selectors.EVENT_READ)
        try:
            while (now := time.monotonic()) < end and record.next <= last:
                note(now)
                if silent > patience:
                    worker.process.send_signal(signal.SIGUSR1)
                    time.sleep(1)
                    worker.lose("hang")
                    return
                if not selector.select(pause := min(end - now, 1.0)):
                    silent += pause
                    continue
                data = os.read(worker.pipe.fileno(), 1 << 16)
                if not data:
                    worker.lose(f"ended with {worker.process.wait()}")
                    return
                silent, patience = 0.0, kind.seconds
                *lines, left = (left + data).split(b"\n")
                for line in lines:
                    if record.next <= last:
                        worker.hear(line)
        finally:
            worker.end()
