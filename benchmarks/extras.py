# SPDX-License-Identifier: MIT
"""Small measurements of ipu alone: its import, its compiler, its matrix products."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.jobs import Job, Order, thread_text
from benchmarks.runner import ROOT, Comparison

IMPORT = """
import time, numpy
start = time.perf_counter()
import ipu
print(time.perf_counter() - start)
"""
IMPORT_LIMIT = "60 ms"
COMPILE_LIMIT = "50 ms"


def import_seconds(rounds: int) -> float | str:
    """Importing ipu in a fresh process that has imported NumPy; the median."""
    times = []
    for _ in range(rounds + 1):
        process = subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, cwd=ROOT
        )
        if process.returncode != 0:
            return f"not measured ({process.stderr.strip().splitlines()[-1]})"
        times.append(float(process.stdout))
    return statistics.median(times[1:])  # the first one reads the files


def compile_figures(
    comparisons: list[Comparison],
) -> list[tuple[str, float | str, str]]:
    """What ipu's sides said about tracing and compiling, for each job."""
    figures: list[tuple[str, float | str, str]] = []
    for comparison in comparisons:
        for result in comparison.results:
            if "compile" in result.details:
                what, seconds = result.details["compile"]
                what = f"{result.side.title}: {what}, {comparison.job.name}"
                what += f", {thread_text(comparison.threads)}"
                figures.append((what, float(seconds), COMPILE_LIMIT))
    return figures


def gemms(
    job: Job, threads: int, cpus: list[int], folder: Path
) -> list[dict[str, Any]]:
    """The entries of `benchmarks.gemms`; none where ipu is missing."""
    order = folder / "gemms.json"
    order.write_text(Order(job, "", threads, cpus, str(folder)).dump())
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.gemms", str(order)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if process.returncode != 0:
        print(process.stderr, file=sys.stderr)
        return []
    entries: list[dict[str, Any]] = json.loads(process.stdout).get("gemms", [])
    return entries
