# SPDX-License-Identifier: MIT
"""`python -m benchmarks`: see README.md beside this file."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys

from benchmarks import extras, jobs, report
from benchmarks.runner import Comparison, Runner
from benchmarks.tables import Output, add_options


def parse(arguments: list[str] | None) -> argparse.Namespace:
    job_names = list(dict.fromkeys(job.name for job in jobs.JOBS))
    peers = [side.key for side in jobs.SIDES if side.peer]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--jobs", default=",".join(job_names), help="some of: %(default)s")
    add("--threads", default="1,2", help="numbers of threads (%(default)s)")
    add("--peers", default=",".join(peers), help="some of: %(default)s; or none")
    add("--sides", default="", help="only these sides of ours: ipu, ipu-loop, ipu-data")
    add("--rounds", type=int, default=7, help="rounds of each side (%(default)s)")
    add("--seconds", type=float, default=2.0, help="length of a round (%(default)s)")
    add("--steps", type=int, default=0, help="steps of a call instead of the job's own")
    add("--quick", action="store_true", help="2 rounds of 0.3 s: a look, no result")
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.seconds = min(options.rounds, 2), 0.3
    options.jobs = chosen(parser, "--jobs", options.jobs, job_names)
    ours = [side.key for side in jobs.SIDES if not side.peer]
    options.sides = chosen(parser, "--sides", options.sides, ours) or ours
    if options.peers == "none":
        options.peers = ""
    options.peers = chosen(parser, "--peers", options.peers, peers)
    cores = len(os.sched_getaffinity(0))
    try:
        options.threads = [int(text) for text in options.threads.split(",")]
    except ValueError:
        parser.error("--threads takes numbers with commas between them")
    for threads in options.threads:
        if not 1 <= threads <= cores:
            parser.error(f"--threads {threads}: this machine has {cores} cores to use")
    if options.rounds < 1 or options.seconds <= 0 or options.steps < 0:
        parser.error("--rounds, --seconds and --steps must be positive")
    return options


def chosen(
    parser: argparse.ArgumentParser, flag: str, text: str, known: list[str]
) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            parser.error(f"{flag}: {name!r} is none of {', '.join(known)}")
    return names


def compare_all(
    options: argparse.Namespace, runner: Runner, output: Output
) -> list[Comparison]:
    found: list[Comparison] = []
    for job in jobs.JOBS:
        if job.name not in options.jobs:
            continue
        if options.steps:
            job = dataclasses.replace(job, steps=options.steps)
        keys = options.sides + options.peers
        sides = [s for s in jobs.SIDES if s.key in keys and job.kind in s.kinds]
        for threads in options.threads:
            comparison = runner.compare(job, threads, sides)
            found.append(comparison)
            output.record.setdefault("jobs", []).append(report.as_json(comparison))
            output.table(report.comparison_table(comparison))
            if job.kind == "train" and not job.network:
                show_gemms(runner, output, comparison)
    return found


def show_gemms(runner: Runner, output: Output, comparison: Comparison) -> None:
    job, threads = comparison.job, comparison.threads
    cpus = runner.cpus[-threads:]
    entries = extras.gemms(job, threads, cpus, runner.folder)
    if not entries:
        output.text(f"{job.name}: matrix products not measured")
        return
    peak = report.peak_of(comparison)
    output.table(report.gemm_table(job, threads, entries, peak))


def wrong(comparisons: list[Comparison]) -> list[str]:
    """Sides of ours that failed or computed something else; peers may be missing."""
    found = []
    for comparison in comparisons:
        for result in comparison.results:
            where = f"{result.side.title}, {comparison.job.name}"
            if not result.side.peer and not result.measured:
                found.append(f"{where}: {result.not_measured}")
            if result.measured and result.agrees is False:
                found.append(f"{where}: losses differ by {result.disagreement:.1e}")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    # a source tree is imported from its bytecode, as an installed package is
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    output = Output(options, "benchmarks")
    about = output.record["machine"].items()
    output.text("; ".join(f"{key}: {value}" for key, value in about))
    with Runner(options.rounds, options.seconds, progress) as runner:
        comparisons = compare_all(options, runner, output)
        progress("importing ipu")
        figures = extras.import_figures(options.rounds)
    figures += extras.compile_figures(comparisons)
    versions = "; ".join(report.versions(comparisons))
    output.table(report.small_table(figures, [versions]))
    problems = wrong(comparisons)
    for problem in problems:
        print(f"benchmarks: {problem}", file=sys.stderr)
    return 1 if problems else 0


def progress(text: str) -> None:
    print(f"benchmarks: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
