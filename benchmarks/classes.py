# SPDX-License-Identifier: MIT
"""Matrix products and `fit`, class by class of processor, in one process.

`python -m benchmarks.classes` compiles each product once for every class that this
processor has (`IPU_CPU_CLASS`), runs the programs in turn, and prints a row: the best
rate of each class, and the kernel that it chose. A row ends with `slower` where a class
is more than a tenth behind the one below it, and the command then ends with 1. With
`--fit` it trains instead, and compares the median of the samples a second.

With `--table` it makes the table of choices anew: each product by our own tiles and by
BLIS, of the processor's class and of those below it. A row names the fastest, and what
the choice that ships loses to it where that is more than 5 %; then the command ends
with 1.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import gemms
from benchmarks.jobs import (
    JOBS,
    Gemm,
    Job,
    Order,
    load_data,
    make_job,
    make_samples,
)
from benchmarks.sides.harness import Meter
from benchmarks.sides.ipu_side import IpuSide

FLOPS = 200_000_000  # of a run: short, so that some are not disturbed
ROUND_SECONDS = 0.7
MOST_LOST = 0.05
CLASSES = ("generic", "avx2", "avx512")
# beside those of the jobs: small, one column, tall, and large in every direction
EXTRA = (
    Gemm("dX", 0, 8, 8, 8, False, False),
    Gemm("dX", 0, 32, 32, 32, False, False),
    Gemm("dX", 0, 128, 128, 128, False, False),
    Gemm("dX", 0, 1024, 1, 128, False, False),
    Gemm("dX", 0, 128, 2, 256, False, False),
    Gemm("dX", 0, 4096, 64, 64, False, False),
    Gemm("dX", 0, 512, 512, 512, False, False),
    Gemm("dX", 0, 768, 768, 768, False, False),
    Gemm("dX", 0, 1024, 1024, 1024, False, False),
    Gemm("dX", 0, 1024, 1024, 1024, False, True),
)


def classes_here(core: Any) -> list[str]:
    """The classes up to the one that this processor has, the lowest first."""
    os.environ.pop("IPU_CPU_CLASS", None)
    return list(CLASSES[: CLASSES.index(core.cpu_class()) + 1])


def products(quick: bool) -> list[Gemm]:
    chosen = JOBS[:1] if quick else JOBS[:3]
    return [gemm for job in chosen for gemm in job.gemms()] + list(EXTRA)


def compare(core: Any, gemm: Gemm, names: list[str], rounds: int) -> bool:
    """Prints one row; whether no class is slower than the one below it."""
    programs, kernels = [], []
    for name in names:
        os.environ["IPU_CPU_CLASS"] = name
        program = core.graph_compile(gemms.graph_text(gemm, relu=True))
        programs.append(program)
        kernels.append(gemms.kernel_of(program))
    inputs, start = gemms.operands(gemm), np.zeros((gemm.m, gemm.n), np.float32)
    turns = max(1, FLOPS // gemm.flops)
    least = [math.inf] * len(names)
    for _ in range(rounds):
        for index, program in enumerate(programs):
            seconds = gemms.seconds_of(program, inputs, start, turns)
            least[index] = min(least[index], seconds)
    best = [turns * gemm.flops / seconds * 1e-9 for seconds in least]
    fine = all(best[i] >= 0.9 * best[i - 1] for i in range(1, len(best)))
    sides = "  ".join(
        f"{kernel} {value:.0f}" for kernel, value in zip(kernels, best, strict=True)
    )
    shape = f"{gemm.m}x{gemm.n}x{gemm.k}"
    flags = "T" * gemm.transpose_a + "t" * gemm.transpose_b
    print(f"{shape:>15}{flags:2} {sides}{'' if fine else '  slower'}", flush=True)
    return fine


def choices(core: Any, gemm: Gemm, names: list[str], rounds: int) -> bool:
    """Prints one row of the table; whether what ships is within 5 % of the fastest."""
    text = gemms.graph_text(gemm, relu=True)
    programs: dict[str, Any] = {}
    for name in names:
        os.environ["IPU_CPU_CLASS"] = name
        for by in ("tiles", "blis"):
            core.set_products(by)
            program = core.graph_compile(text)
            programs.setdefault(gemms.kernel_of(program), program)
        core.set_products("auto")
        shipped = gemms.kernel_of(core.graph_compile(text))
    inputs, start = gemms.operands(gemm), np.zeros((gemm.m, gemm.n), np.float32)
    turns = max(1, FLOPS // gemm.flops)
    least = dict.fromkeys(programs, math.inf)
    for _ in range(rounds):
        for kernel, program in programs.items():
            seconds = gemms.seconds_of(program, inputs, start, turns)
            least[kernel] = min(least[kernel], seconds)
    rates = {k: turns * gemm.flops / s * 1e-9 for k, s in least.items()}
    best = max(rates, key=lambda kernel: rates[kernel])
    loss = 1.0 - rates[shipped] / rates[best]
    shape = f"{gemm.m}x{gemm.n}x{gemm.k}"
    flags = "T" * gemm.transpose_a + "t" * gemm.transpose_b
    sides = "  ".join(f"{kernel} {rate:.0f}" for kernel, rate in rates.items())
    verdict = f"  {shipped} loses {loss:.0%} to {best}" if loss > MOST_LOST else ""
    print(f"{shape:>15}{flags:2} {sides}{verdict}", flush=True)
    return loss <= MOST_LOST


def compare_fit(
    job: Job, folder: Path, names: list[str], threads: int, rounds: int
) -> bool:
    """One row for a job: the median samples a second of each class."""
    make_job(folder, job)
    order = Order(job, "fit", threads, [], str(folder))
    data = load_data(order)
    meters = []
    for name in names:
        os.environ["IPU_CPU_CLASS"] = name
        side = IpuSide()
        side.load(order)
        side.build(order, data)
        meters.append(Meter(side, job.samples_per_execution))
        meters[-1].time(1)
    speeds: list[list[float]] = [[] for _ in names]
    for turn in range(rounds):
        for index in range(len(names)):
            at = (index + turn) % len(names)
            speeds[at].append(meters[at].round(ROUND_SECONDS)["samples_per_s"])
    medians = [statistics.median(each) for each in speeds]
    row = " | ".join(f"{value * 1e-3:.1f}k" for value in medians)
    print(f"| {job.name} | {threads} | {row} |", flush=True)
    return all(medians[i] >= 0.9 * medians[i - 1] for i in range(1, len(medians)))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classes")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=0, help="30, of fit 7")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (7 if options.fit else 30)
    core: Any = importlib.import_module("ipu._core")
    names = classes_here(core)
    core.set_num_threads(options.threads)
    if options.fit:
        print("| job | threads | " + " | ".join(names) + " |")
        print("|---|---:|" + "---:|" * len(names))
        with tempfile.TemporaryDirectory() as folder:
            make_samples(Path(folder))
            fine = [
                compare_fit(job, Path(folder), names, options.threads, options.rounds)
                for job in JOBS[: 1 if options.quick else 3]
            ]
    elif options.table:  # `generic` multiplies by hand: it is never the fastest
        fine = [
            choices(core, gemm, names[1:] or names, options.rounds)
            for gemm in products(options.quick)
        ]
    else:
        fine = [
            compare(core, gemm, names, options.rounds)
            for gemm in products(options.quick)
        ]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
