# SPDX-License-Identifier: MIT
"""What a product costs that a loop adds up: `python -m benchmarks.accumulate`.

A loop adds [512, k] by [k, 512] products, as gradient accumulation does with a
weight's gradient of k samples: as one kernel, which adds in its write-back, and as two
kernels, a product and a sum. The product alone, stored and not added, is the least it
can cost. The three run in turn; the figure is the best of the rounds, in microseconds a
turn, which a busy machine disturbs least.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from benchmarks.tables import Output, Table, add_options

SIDE = 512
GRAPH = """
block b0(%0: float32[{k},{side}], %1: float32[{k},{side}], %2: int32[],
         %3: float32[{side},{side}]) {{
  block b1(%4: float32[{side},{side}]) {{
    %5 = matmul(%0, %1) {{transpose_a=true}} : float32[{side},{side}]
    {add}
  }} -> (%{result})
  %7 = repeat(%2, %3) {{body=b1}} : float32[{side},{side}]
}} -> (%7)
"""
ADD = f"%6 = add(%4, %5) : float32[{SIDE},{SIDE}]"


def programs(core: Any, k: int) -> dict[str, Any]:
    """The three loops, compiled."""

    def compiled(add: str, fuse: bool) -> Any:
        result = 6 if add else 5
        text = GRAPH.format(k=k, side=SIDE, add=add, result=result)
        return core.graph_compile(text, fuse=fuse)

    return {
        "product alone": compiled("", False),
        "product and sum": compiled(ADD, False),
        "as one kernel": compiled(ADD, True),
    }


def measure(core: Any, k: int, turns: int, rounds: int) -> dict[str, float]:
    """Microseconds a turn of each loop; fails where the two sums differ in a bit."""
    random = np.random.default_rng(1)
    a, b = (random.random((k, SIDE), dtype=np.float32) for _ in range(2))
    inputs = [a, b, np.int32(turns), np.zeros((SIDE, SIDE), np.float32)]
    sides = programs(core, k)
    times: dict[str, list[float]] = {name: [] for name in sides}
    results = {}
    for _ in range(rounds):
        for name, program in sides.items():
            results[name] = np.asarray(program.run(inputs)[0].numpy())
            times[name].append(float(program.stats["run_ns"]) * 1e-3 / turns)
    if results["product and sum"].tobytes() != results["as one kernel"].tobytes():
        raise RuntimeError(f"the sums of products of {k} rows differ")
    return {name: min(found) for name, found in times.items()}


def main(arguments: list[str] | None = None) -> None:
    from ipu import _core as core

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="8,32,128,512", help="of k (%(default)s)")
    parser.add_argument(
        "--threads", default="1,2", help="numbers of them (%(default)s)"
    )
    parser.add_argument("--turns", type=int, default=200, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="(%(default)s)")
    add_options(parser)
    options = parser.parse_args(arguments)
    output = Output(options, "benchmarks.accumulate")
    rows = []
    for k in map(int, options.rows.split(",")):
        for threads in map(int, options.threads.split(",")):
            core.set_num_threads(threads)
            found = measure(core, k, options.turns, options.rounds)
            rows.append([f"{k}", f"{threads}", *(f"{us:.0f}" for us in found.values())])
    columns = ["k", "threads", "product alone", "product and sum", "as one kernel"]
    title = "Products that are added up, microseconds a turn"
    output.table(Table(title, columns, rows))


if __name__ == "__main__":
    main()
