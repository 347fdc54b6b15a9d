# SPDX-License-Identifier: MIT
"""What more cores would gain: `python -m benchmarks.workers`.

The loop of each job that trains is rehearsed on one thread and replayed on workers that
are not there, as `python -m ipu profile --scale` does with any program: a bound. The
table says for each number of workers how many times as fast a step would be, and what
takes most of it on the most of them. `--picture FILE` draws that, with matplotlib.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ipu
from benchmarks import jobs
from benchmarks.sides.ipu_side import IpuSide
from benchmarks.tables import Output, Table, add_options
from ipu._reports.profile.scaling import Scaling

WORKERS = (2, 4, 8, 16, 32, 64)
MOST_STEPS = 64


def rehearsed(job: jobs.Job, folder: Path) -> Scaling:
    """A job's step on each number of workers."""
    job = dataclasses.replace(job, steps=min(job.steps, MOST_STEPS))
    jobs.make_job(folder, job)
    variant = "loop" if job.kind == "train" else "fit"
    order = jobs.Order(job, variant, threads=1, cpus=[], folder=str(folder))
    side = IpuSide()
    side.load(order)
    side.build(order, jobs.load_data(order))
    side.run(1 if job.network else job.executions)  # all samples have been read once
    found = [step_on(count, side) for count in WORKERS]
    return found[-1]._replace(scales=[one.scales[0] for one in found])


def step_on(count: int, side: IpuSide) -> Scaling:
    """A step whose work is cut for so many workers."""
    with ipu.profiler.Profile(scale=(count,)) as profile:
        side.run(1)
    return max(profile.scaling, key=lambda one: one.steps * one.step_ns)


def all_rehearsed(names: list[str]) -> Iterator[tuple[str, Scaling]]:
    with tempfile.TemporaryDirectory() as folder:
        jobs.make_samples(Path(folder))
        for job in jobs.JOBS:
            if job.kind in ("train", "fit") and job.name in names:
                yield job.name, rehearsed(job, Path(folder))


def table_of(found: dict[str, Scaling]) -> Table:
    rows = []
    for name, of in found.items():
        last = of.scales[-1]
        bound = f"{last.bound}, {last.bound_share:.0%}: {last.reason}"
        ups = [f"{row.speed_up:.1f}" for row in of.scales]
        rows.append(
            [name, f"{of.step_ns / 1e6:.2f}", f"{of.serial_share:.2%}", *ups, bound]
        )
    columns = [
        "job",
        "step, ms",
        "serial",
        *map(str, WORKERS),
        f"bound of {WORKERS[-1]}",
    ]
    return Table("Speed of a step on workers that are not there", columns, rows)


def draw(found: dict[str, Scaling], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "ipu"  # the same file for the same figures
    figure, axes = pyplot.subplots(figsize=(9, 5))
    axes.plot((1, WORKERS[-1]), (1, WORKERS[-1]), ":", color="grey", lw=1)
    order = sorted(found, key=lambda name: -found[name].scales[-1].speed_up)
    for name in order:
        of = found[name]
        last = of.scales[-1]
        label = f"{name}: {last.bound}, {last.reason}"
        ups = [1.0, *(row.speed_up for row in of.scales)]
        axes.plot((1, *WORKERS), ups, marker=".", label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks((1, *WORKERS), map(str, (1, *WORKERS)))
    axes.set_yticks((1, *WORKERS), map(str, (1, *WORKERS)))
    axes.set_xlabel("workers")
    axes.set_ylabel("times as fast as one")
    axes.legend(fontsize="small", frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.workers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [job.name for job in jobs.JOBS]
    parser.add_argument("--jobs", default=",".join(names), help="some of: %(default)s")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="an SVG file")
    add_options(parser)
    options = parser.parse_args(arguments)
    output = Output(options, "benchmarks.workers")
    found = dict(all_rehearsed(options.jobs.split(",")))
    output.table(table_of(found))
    if options.picture:
        draw(found, options.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
