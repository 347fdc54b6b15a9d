# SPDX-License-Identifier: MIT
"""Each matrix product of a job alone: its rate, and the kernel that served it.

`python -m benchmarks.gemms order.json` prints one JSON line, an entry for each product.
A product runs in a loop on the device, in a program of its own; two lengths of the loop
are compared, so that what a run costs besides drops out. The kernel is the one that the
product has in training, as it is chosen by shape and processor alone.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.jobs import Gemm, Order

SECONDS = 0.03
REPEATS = 5

# Values 0 to 2 are the operands, 3 the trip count, 4 what the loop starts from.
GRAPH = """
block b0({params}, %3: int32[], %4: float32[{m},{n}]) {{
  block b1(%5: float32[{m},{n}]) {{
    %6 = {node} : float32[{m},{n}]
  }} -> (%6)
  %7 = repeat(%3, %4) {{body=b1}} : float32[{m},{n}]
}} -> (%7)
"""
RELU = 1


def graph_text(gemm: Gemm, relu: bool) -> str:
    """The program's graph; a forward product has its bias and activation with it."""
    a = (gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k)
    b = (gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n)
    shapes = [f"{a[0]},{a[1]}", f"{b[0]},{b[1]}", f"{gemm.n}"]
    params = ", ".join(f"%{i}: float32[{shape}]" for i, shape in enumerate(shapes))
    attrs = (
        f"transpose_a={str(gemm.transpose_a).lower()}, "
        f"transpose_b={str(gemm.transpose_b).lower()}"
    )
    node = f"matmul(%0, %1) {{{attrs}}}"
    if gemm.role == "forward":
        node = f"fused_matmul(%0, %1, %2) {{{attrs}, activation={RELU if relu else 0}}}"
    return GRAPH.format(params=params, node=node, m=gemm.m, n=gemm.n)


def operands(gemm: Gemm) -> list[Any]:
    random = np.random.default_rng(1)
    a = (gemm.k, gemm.m) if gemm.transpose_a else (gemm.m, gemm.k)
    b = (gemm.n, gemm.k) if gemm.transpose_b else (gemm.k, gemm.n)
    shapes: list[tuple[int, ...]] = [a, b, (gemm.n,)]
    return [
        random.random(shape, dtype=np.float32) - np.float32(0.5) for shape in shapes
    ]


def seconds_of(program: Any, inputs: list[Any], start: Any, turns: int) -> float:
    program.run([*inputs, np.int32(turns), start])
    return float(program.stats["run_ns"]) * 1e-9


def kernel_of(program: Any) -> str:
    """The kernel that the product in the loop has."""
    found = re.search(
        r" loop .*?kernel +\w*matmul\.(\w+)\(.*? next ", program.text, re.S
    )
    if found is None:
        raise RuntimeError(f"the product has left its loop:\n{program.text}")
    return found.group(1)


def measure(core: Any, gemm: Gemm, relu: bool) -> dict[str, Any]:
    """The median rate of a product, and its kernel."""
    program = core.graph_compile(graph_text(gemm, relu))
    inputs, start = operands(gemm), np.zeros((gemm.m, gemm.n), np.float32)
    turns = 1
    while seconds_of(program, inputs, start, turns) < SECONDS:
        turns *= 2
    rates = []
    for _ in range(REPEATS):
        short = seconds_of(program, inputs, start, turns // 4)
        long = seconds_of(program, inputs, start, turns + turns // 4)
        rates.append(turns * gemm.flops / max(long - short, 1e-9) * 1e-9)
    return {
        "role": gemm.role,
        "layer": gemm.layer,
        "shape": f"{gemm.m}x{gemm.n}x{gemm.k}",
        "kernel": kernel_of(program),
        "gflops": statistics.median(rates),
    }


def main() -> None:
    order = Order.load(Path(sys.argv[1]).read_text())
    if order.cpus:
        os.sched_setaffinity(0, order.cpus)
    try:
        core: Any = importlib.import_module("ipu._core")
    except ImportError as error:
        print(json.dumps({"not_measured": f"{error}"}))
        return
    core.set_num_threads(order.threads)
    last = len(order.job.layers) - 2
    entries = [measure(core, g, relu=g.layer < last) for g in order.job.gemms()]
    print(json.dumps({"gemms": entries}))


if __name__ == "__main__":
    main()
