# SPDX-License-Identifier: MIT
"""Runs all sides of a job side by side: processes, alternation, statistics.

Each side is a process that stays for the whole job. It is set up alone; then, round
after round, each side runs alone while the others are stopped, in an order that turns
with the round, so that whatever the machine does meets all of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from benchmarks import jobs, reference, reference_networks
from benchmarks.peak import Peak

ROOT = Path(__file__).resolve().parent.parent
T = TypeVar("T")
SETUP_TIMEOUT_S = 900.0
ROUND_TIMEOUT_S = 300.0


class SideError(Exception):
    """A side that gave no result, with what it wrote on its standard error."""


@dataclasses.dataclass
class Result:
    """What one side did on one job with one number of threads."""

    side: jobs.SideName
    job: jobs.Job
    threads: int
    not_measured: str = ""
    version: str = ""
    import_s: float = 0.0
    first_result_s: float = 0.0
    peak_above_data_bytes: int = 0
    samples_per_s: list[float] = dataclasses.field(default_factory=list)
    disagreement: float | None = None
    final_loss: float | None = None
    details: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def measured(self) -> bool:
        return not self.not_measured and bool(self.samples_per_s)

    @property
    def median(self) -> float:
        return statistics.median(self.samples_per_s)

    @property
    def gflops(self) -> float:
        return self.median * self.job.flops_per_sample * 1e-9

    @property
    def agrees(self) -> bool | None:
        """Whether the losses follow the reference; None where there are none."""
        if self.disagreement is None:
            return None
        return self.disagreement <= reference.TOLERANCE


@dataclasses.dataclass
class Comparison:
    """All sides of one job at one number of threads, and the peak measured between."""

    job: jobs.Job
    threads: int
    results: list[Result]
    peak_gflops: list[float]

    def fastest_peer(self) -> Result | None:
        """A peer whose losses are wrong has not done the job."""
        peers = [
            result
            for result in self.results
            if result.side.peer and result.measured and result.agrees is not False
        ]
        return max(peers, key=lambda result: result.median, default=None)


class SideProcess:
    """One side's process; `request` talks to it, `paused` stops it meanwhile."""

    def __init__(self, order: jobs.Order, folder: Path, mode: str) -> None:
        name = f"{order.module}-{order.variant}"
        self.name = name
        order_file = folder / f"{name}.json"
        order_file.write_text(order.dump())
        self.log = (folder / f"{name}.log").open("w+")
        module = f"benchmarks.sides.{order.module}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, str(order_file), mode],
            cwd=ROOT,
            env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": tempfile.mkdtemp(dir=folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
        )

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """The next JSON line."""
        assert self.process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            ready = selector.select(timeout_s)
        line = self.process.stdout.readline() if ready else b""
        if not line:
            why = "ended without a result" if ready else f"silent for {timeout_s} s"
            raise SideError(f"{why}: {self.last_words()}")
        message: dict[str, Any] = json.loads(line)
        if "failed" in message:
            raise SideError(str(message["failed"]))
        return message

    def request(self, command: str, timeout_s: float) -> dict[str, Any]:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(command.encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SideError(f"ended early: {self.last_words()}") from None
        return self.receive(timeout_s)

    def last_words(self) -> str:
        self.log.flush()
        lines = Path(self.log.name).read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "no message"

    def stop(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)

    def close(self) -> None:
        """Ends the process; it has nothing left to say."""
        self.resume()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        try:
            self.process.wait(10.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Runner:
    """Holds the folder of shared files for the length of a `with` block."""

    def __init__(
        self,
        rounds: int,
        seconds: float,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.rounds = rounds
        self.seconds = seconds
        self.say = say
        self.cpus = sorted(os.sched_getaffinity(0))
        self.references: dict[tuple[str, str], Any] = {}

    def __enter__(self) -> Runner:
        self.holder = tempfile.TemporaryDirectory(prefix="ipu-benchmarks-")
        self.folder = Path(self.holder.name)
        self.peak = Peak(self.folder)
        self.say("making the shared data")
        jobs.make_samples(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self.holder.cleanup()

    def compare(
        self, job: jobs.Job, threads: int, sides: list[jobs.SideName]
    ) -> Comparison:
        """Measures these sides of a job, alternating."""
        jobs.make_job(self.folder, job)
        cpus = self.cpus[-threads:]
        where = f"{job.name}, {jobs.thread_text(threads)}"
        results: list[Result] = []
        processes: list[tuple[SideProcess, Result]] = []
        peaks = [self.peak.measure(cpus)]
        try:
            for side in sides:
                self.say(f"{where}: setting up {side.title}")
                result = Result(side, job, threads)
                results.append(result)
                order = jobs.Order(
                    job, side.variant, threads, cpus, str(self.folder), side.module
                )
                with self.recorded(result):
                    self.time_first(order, result)
                if result.not_measured:
                    continue
                process = SideProcess(order, self.folder, "--serve")
                processes.append((process, result))
                with self.recorded(result):
                    self.set_up(process, result)
                process.stop()
            for round_ in range(self.rounds):
                self.say(f"{where}: round {round_ + 1}")
                for process, result in rotated(processes, round_):
                    if result.not_measured:
                        continue
                    with self.recorded(result):
                        self.measure(process, result)
                    process.stop()
                peaks.append(self.peak.measure(cpus))
            for process, result in processes:
                if not result.not_measured:
                    process.resume()
                    with self.recorded(result):
                        self.finish(process, result)
        finally:
            for process, _ in processes:
                process.close()
        return Comparison(job, threads, results, peaks)

    @contextlib.contextmanager
    def recorded(self, result: Result) -> Iterator[None]:
        """A side that fails becomes a row that says so."""
        try:
            yield
        except SideError as error:
            result.not_measured = f"failed: {error}"
            self.say(f"{result.side.title} {result.not_measured}")

    def time_first(self, order: jobs.Order, result: Result) -> None:
        """The time to a first result, by a process that does nothing else."""
        process = SideProcess(order, self.folder, "--first")
        try:
            message = process.receive(SETUP_TIMEOUT_S)
        finally:
            process.close()
        result.not_measured = message.get("not_measured", "")
        result.first_result_s = message.get("first_result_s", 0.0)

    def set_up(self, process: SideProcess, result: Result) -> None:
        message = process.receive(SETUP_TIMEOUT_S)
        result.version = message["version"]
        result.import_s = message["import_s"]
        if result.job.compared_steps:
            result.disagreement = reference.disagreement(
                message["losses"], None, self.reference(result.job)
            )

    def measure(self, process: SideProcess, result: Result) -> None:
        process.resume()
        message = process.request(f"round {self.seconds}", ROUND_TIMEOUT_S)
        result.samples_per_s.append(message["samples_per_s"])
        result.final_loss = message["loss"]
        if result.final_loss is not None and not np.isfinite(result.final_loss):
            raise SideError(f"the loss became {result.final_loss}")

    def finish(self, process: SideProcess, result: Result) -> None:
        message = process.request("quit", ROUND_TIMEOUT_S)
        result.peak_above_data_bytes = message["peak_above_data_bytes"]
        result.details = message["details"]
        if result.job.compared_steps and message["mean_of_first"] is not None:
            result.disagreement = reference.disagreement(
                [], message["mean_of_first"], self.reference(result.job)
            )

    def reference(self, job: jobs.Job) -> Any:
        key = (job.name, job.kind)
        if key not in self.references:
            data = jobs.load_data(jobs.Order(job, "", 1, [], str(self.folder)))
            if job.network:
                curve = reference_networks.loss_curve(job, data)
            else:
                curve = reference.loss_curve(data, job.compared_steps)
            self.references[key] = curve
        return self.references[key]


def rotated(items: list[T], by: int) -> list[T]:
    """The same list, begun at another place."""
    start = by % len(items) if items else 0
    return items[start:] + items[:start]
