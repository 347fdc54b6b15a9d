# SPDX-License-Identifier: MIT
"""Turns measurements of jobs into tables and records."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks import reference
from benchmarks.jobs import Job, thread_text
from benchmarks.runner import Comparison, Result
from benchmarks.tables import Table

MIB = 1024.0 * 1024.0
NOISY = 0.1  # relative spread of the FMA peak above which a machine was not quiet


def thousands(samples_per_s: float) -> str:
    if samples_per_s < 10_000:
        return f"{samples_per_s:,.0f}"
    return f"{samples_per_s / 1000:.1f}k"


def spread(values: list[float]) -> str:
    return f"{thousands(min(values))} to {thousands(max(values))}"


def agreement(result: Result) -> str:
    """`yes` or `NO` with the largest difference; nothing is not a pass."""
    if result.agrees is None:
        return "-"
    return f"{'yes' if result.agrees else 'NO'} ({result.disagreement:.0e})"


def ratio_to(result: Result, fastest: Result | None) -> str:
    if fastest is None:
        return "not measured"
    return f"{result.median / fastest.median:.2f}"


def comparison_table(comparison: Comparison) -> Table:
    """One job at one number of threads, a row for each side."""
    job = comparison.job
    fastest = comparison.fastest_peer()
    columns = ["side", "samples/s", "spread"]
    trains = job.kind != "draw"
    if trains:
        columns += ["GFLOP/s", "share of peak"]
    columns += ["to fastest peer", "import", "first result", "memory above data"]
    if job.compared_steps:
        columns.append("losses agree")
    rows = []
    remarks = [peak_remark(comparison)]
    for result in comparison.results:
        name = result.side.title
        if not result.measured:
            why = result.not_measured or "no round was completed"
            word = "failed" if why.startswith("failed") else "not measured"
            rows.append([name, word] + ["-"] * (len(columns) - 2))
            remarks.append(f"{name}: {why}.")
            continue
        row = [name, thousands(result.median), spread(result.samples_per_s)]
        if trains:
            row += [f"{result.gflops:.1f}", share_of_peak(result, comparison)]
        row += [
            ratio_to(result, fastest),
            f"{result.import_s:.2f} s",
            f"{result.first_result_s:.2f} s",
            f"{result.peak_above_data_bytes / MIB:.0f} MiB",
        ]
        if job.compared_steps:
            row.append(agreement(result))
        rows.append(row)
    title = f"{job_title(job)}, {thread_text(comparison.threads)}"
    return Table(title, columns, rows, remarks)


def job_title(job: Job) -> str:
    if job.network:
        done = "trained" if job.kind == "train" else "forward alone"
        size = f"batch {job.batch}, {job.steps} steps a call"
        return f"{job.name}: {job.network.title}, {size}, {done}"
    shape = "-".join(str(size) for size in job.layers)
    what = {
        "train": f"{job.name}: {shape}, batch {job.batch}, {job.steps} steps a call",
        "fit": f"{job.name}: {shape} trained through shuffle, batch, map",
        "draw": f"{job.name}: shuffle, batch, map alone, drawn from Python",
    }
    return what[job.kind]


def peak_of(comparison: Comparison) -> float:
    """The best of all measurements: noise only ever makes it smaller."""
    return max(comparison.peak_gflops, default=0.0)


def share_of_peak(result: Result, comparison: Comparison) -> str:
    peak = peak_of(comparison)
    return f"{result.gflops / peak:.2f}" if peak > 0 else "not measured"


def peak_remark(comparison: Comparison) -> str:
    peaks = comparison.peak_gflops
    if peak_of(comparison) <= 0:
        return "FMA peak: not measured (no C compiler)."
    text = f"FMA peak of these cores {max(peaks):.0f} GFLOP/s"
    text += f" (median {statistics.median(peaks):.0f}, lowest {min(peaks):.0f})."
    if min(peaks) < (1.0 - NOISY) * max(peaks):
        text += " THE MACHINE WAS NOT QUIET: compare these figures with nothing."
    return text


def gemm_table(
    job: Job, threads: int, entries: list[dict[str, Any]], peak: float
) -> Table:
    """Each product of a step alone, and the kernel that ipu chose for it."""
    rows = []
    for entry in entries:
        share = f"{entry['gflops'] / peak:.2f}" if peak > 0 else "not measured"
        rows.append(
            [
                f"layer {entry['layer'] + 1} {entry['role']}",
                entry["shape"],
                entry["kernel"],
                f"{entry['gflops']:.1f}",
                share,
            ]
        )
    title = f"{job.name}: ipu's matrix products alone, {thread_text(threads)}"
    columns = ["product", "m x n x k", "kernel", "GFLOP/s", "share of peak"]
    return Table(title, columns, rows)


def small_table(
    figures: list[tuple[str, float | str, str]], remarks: list[str]
) -> Table:
    """Figures that stand alone: (what, seconds or why there is none, the limit)."""
    rows = []
    for what, value, limit in figures:
        text = f"{value * 1000:.1f} ms" if isinstance(value, float) else value
        rows.append([what, text, limit])
    return Table("ipu: start-up", ["what", "median", "to reach"], rows, remarks)


def versions(comparisons: Iterable[Comparison]) -> list[str]:
    found = {r.version for c in comparisons for r in c.results if r.version}
    return sorted(found)


def as_json(comparison: Comparison) -> dict[str, Any]:
    fastest = comparison.fastest_peer()
    results = []
    for result in comparison.results:
        fields = dataclasses.asdict(result)
        fields["side"] = result.side.key
        del fields["job"]
        if result.measured:
            fields["median"] = result.median
            fields["gflops"] = result.gflops
            fields["agrees"] = result.agrees
            if fastest is not None:
                fields["ratio_to_fastest_peer"] = result.median / fastest.median
        results.append(fields)
    return {
        "job": dataclasses.asdict(comparison.job),
        "threads": comparison.threads,
        "fastest_peer": None if fastest is None else fastest.side.key,
        "peak_gflops": comparison.peak_gflops,
        "tolerance": reference.TOLERANCE,
        "compared_steps": comparison.job.compared_steps,
        "results": results,
    }
