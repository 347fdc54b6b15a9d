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

# Modules may be loaded when they are first used: the second number is with what a Keras
# model needs.
IMPORT = """
import time, numpy
start = time.perf_counter()
import ipu
print(time.perf_counter() - start)
ipu.keras.Sequential, ipu.tf.data.Dataset, ipu.ipu_strategy.IPUStrategy
print(time.perf_counter() - start)
"""
IMPORTED = ("import ipu, over NumPy", "the same, and its Keras, data sets and strategy")
IMPORT_LIMIT = "60 ms"
COMPILE_LIMIT = "50 ms"


def import_figures(rounds: int) -> list[tuple[str, float | str, str]]:
    """Importing ipu in a fresh process that has imported NumPy; the medians."""
    times: list[list[float]] = []
    for _ in range(rounds + 1):
        process = subprocess.run(
            [sys.executable, "-c", IMPORT], capture_output=True, text=True, cwd=ROOT
        )
        if process.returncode != 0:
            why = f"not measured ({process.stderr.strip().splitlines()[-1]})"
            return [(what, why, IMPORT_LIMIT) for what in IMPORTED]
        times.append([float(line) for line in process.stdout.split()])
    medians = map(statistics.median, zip(*times[1:], strict=True))  # 1st: cold files
    return [(w, m, IMPORT_LIMIT) for w, m in zip(IMPORTED, medians, strict=True)]


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
