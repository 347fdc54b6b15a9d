# SPDX-License-Identifier: MIT
"""Mixed precision beside float32: `python -m benchmarks.mixed`.

Each job that trains runs with the policy "float32" and with "mixed_float16" in one
process, alternating. The table says how long a step takes with each, and how many times
as fast the second is: the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import jobs
from benchmarks.sides.ipu_side import IpuSide
from benchmarks.tables import Output, Table, add_options
from ipu import keras

POLICIES = ("float32", "mixed_float16")
SECONDS = 1.0  # of a turn, at least


def trained_with(policy: str, order: jobs.Order) -> IpuSide:
    """The job with a policy; its program is there already."""
    side = IpuSide()
    side.load(order)
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    try:
        side.build(order, jobs.load_data(order))
        side.run(1)
    finally:
        keras.mixed_precision.set_global_policy(before)
    return side


def step_s(side: IpuSide, executions: int) -> float:
    start = time.perf_counter()
    side.run(executions)
    return (time.perf_counter() - start) / (executions * side.job.steps)


def row(job: jobs.Job, threads: int, rounds: int, folder: Path) -> list[str]:
    """What the table says of a job."""
    jobs.make_job(folder, job)
    order = jobs.Order(job, "fit", threads, [], str(folder))
    sides = [trained_with(policy, order) for policy in POLICIES]
    executions = [
        max(1, round(SECONDS / (step_s(side, 1) * job.steps))) for side in sides
    ]
    turns = [list(map(step_s, sides, executions)) for _ in range(rounds)]
    medians = map(statistics.median, zip(*turns, strict=True))
    ratio = statistics.median(single / mixed for single, mixed in turns)
    times = [f"{1e3 * median:.2f}" for median in medians]
    return [job.name, str(threads), *times, f"{ratio:.2f}"]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mixed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    training = {job.name: job for job in jobs.JOBS if job.kind == "train"}
    add = parser.add_argument
    add("--jobs", default=",".join(training), help="some of: %(default)s")
    add("--threads", default="1,2", help="numbers of threads (default %(default)s)")
    add("--rounds", type=int, default=7, help="(default %(default)s)")
    add("--steps", type=int, help="of an execution, in place of the job's own")
    add_options(parser)
    options = parser.parse_args(arguments)
    output = Output(options, "benchmarks.mixed")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        jobs.make_samples(Path(folder))
        for name in options.jobs.split(","):
            job = training[name]
            job = dataclasses.replace(job, steps=options.steps or job.steps)
            for threads in map(int, options.threads.split(",")):
                rows.append(row(job, threads, options.rounds, Path(folder)))
                output.text(" ".join(rows[-1]))
    columns = ["job", "threads", *(f"{policy}, ms a step" for policy in POLICIES)]
    columns += ["times as fast"]
    output.table(Table("Mixed precision beside float32", columns, rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
