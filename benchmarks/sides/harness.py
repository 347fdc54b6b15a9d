# SPDX-License-Identifier: MIT
"""What all sides share: pinning, timing, memory, and the talk with the runner.

`python -m benchmarks.sides.X order.json` sets a side up, measures it once and prints
one JSON line. With `--serve` it prints the set-up's line, then measures one round for
each line `round SECONDS` on its standard input, and prints a last line on `quit`. With
`--first` it runs one call, made for FIRST_STEPS steps, and prints how long that took.

A framework is imported inside the side's `load`, after the process is pinned to its
cores and after NumPy, so that the time of the import is the framework's own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
import time
import traceback
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, TextIO

from benchmarks import jobs

# What each library calls its number of threads; the cores are what really binds.
THREAD_SETTINGS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "IPU_NUM_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_NUM_INTRAOP_THREADS",
)

# A call so short that only what precedes it counts; a loop of one step would be
# compiled as no loop at all.
FIRST_STEPS = 4


class Side(ABC):
    """One framework running one job."""

    @abstractmethod
    def load(self, order: jobs.Order) -> str:
        """Imports the framework; returns its name and version."""

    @abstractmethod
    def build(self, order: jobs.Order, data: jobs.Data) -> None:
        """Makes the model or the pipeline; what it postpones counts all the same."""

    @abstractmethod
    def run(self, executions: int) -> list[float]:
        """Runs executions to their end; returns the losses of the last one, of every
        step or their mean as the only element; nothing for `draw`."""

    def mean_of_first(self, steps: int) -> float | None:
        """For a side that does not tell the loss of every step: trains anew from the
        initial weights with the program that was measured; the mean of these losses."""
        return None

    def details(self) -> dict[str, Any]:
        """Whatever else the side has to say once it has been measured."""
        return {}


def peak_bytes() -> int:
    """The process's own peak of resident memory.

    `ru_maxrss` is the fallback only: on Linux a child inherits its parent's.
    """
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class Meter:
    """Times rounds of about equal length on one side."""

    def __init__(self, side: Side, samples_per_execution: int) -> None:
        self.side = side
        self.samples = samples_per_execution
        self.seconds_per_execution = 0.0

    def time(self, executions: int) -> tuple[float, list[float]]:
        start = time.perf_counter()
        losses = self.side.run(executions)
        seconds = time.perf_counter() - start
        self.seconds_per_execution = seconds / executions
        return seconds, losses

    def round(self, seconds: float) -> dict[str, Any]:
        """One unmeasured execution wakes threads and caches; then about `seconds`."""
        self.time(1)
        executions = max(1, round(seconds / self.seconds_per_execution))
        taken, losses = self.time(executions)
        return {
            "samples_per_s": executions * self.samples / taken,
            "seconds": taken,
            "executions": executions,
            "loss": sum(losses) / len(losses) if losses else None,
        }


def _measure(side: Side, arguments: list[str], out: TextIO) -> None:
    def say(message: dict[str, Any]) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    order = jobs.Order.load(Path(arguments[0]).read_text())
    first = "--first" in arguments
    if first:
        order.job = dataclasses.replace(order.job, steps=FIRST_STEPS)
    start = time.perf_counter()
    try:
        version = side.load(order)
    except ImportError as error:
        say({"not_measured": f"{error}"})
        return
    import_s = time.perf_counter() - start

    data = jobs.load_data(order)
    data.order = data.order[:1] if first else data.order
    start = time.perf_counter()
    side.build(order, data)
    meter = Meter(side, order.job.samples_per_execution)
    _, losses = meter.time(1)
    if first:
        say({"first_result_s": time.perf_counter() - start})
        return
    report: dict[str, Any] = {
        "version": version,
        "import_s": import_s,
        "losses": losses[: order.job.compared_steps],
    }
    if "--serve" in arguments:
        say(report)
        for line in sys.stdin:
            words = line.split()
            if words[:1] != ["round"]:
                break
            say(meter.round(float(words[1])))
        report = {}
    else:
        report["round"] = meter.round(1.0)
    report["peak_above_data_bytes"] = peak_bytes() - data.bytes
    report["mean_of_first"] = side.mean_of_first(order.job.compared_steps)
    report["details"] = side.details()
    say(report)


def main(side: Side) -> None:
    """Entry of every side; the one that may be followed by nothing."""
    arguments = sys.argv[1:]
    if not arguments or arguments[0].startswith("-"):
        raise SystemExit("usage: python -m benchmarks.sides.NAME order.json [--serve]")
    fields = json.loads(Path(arguments[0]).read_text())
    if fields["cpus"]:
        os.sched_setaffinity(0, fields["cpus"])
    for name in THREAD_SETTINGS:
        os.environ[name] = str(fields["threads"])
    # Libraries print what they like to file 1; ours is a copy that they do not know.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        _measure(side, arguments, out)
    except Exception as error:  # the runner makes a row of it
        traceback.print_exc()
        out.write(json.dumps({"failed": f"{type(error).__name__}: {error}"}) + "\n")
        out.flush()
        raise SystemExit(1) from error
