# SPDX-License-Identifier: MIT
"""How far the machine model is from IPUs that were measured: nothing is timed here.

`python -m benchmarks.machine` prints it, and ends with 1 where a limit is missed.
`machine_measurements.csv` holds published measurements: forward convolutions in half
precision with sums in float on a GC2 (Jia and others, arXiv:1912.03413, appendix), sums
of floats on a tile of it, and one vertex of the matrix unit on each tile of a Bow, in
half precision (a notebook of Graphcore Research's `notebooks`). `machine_exchanges.csv`
holds exchanges on that GC2, and between several. Those of 160 bytes, and sums, were
measured in a loop, whose cycles are a constant of this file. An error is that of
predicted over measured time.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ipu import _core, tf
from ipu._text.tables import as_text
from ipu.machine import Machine, estimate

ROWS = Path(__file__).with_name("machine_measurements.csv")
# (median, 90th percentile) of what the model is meant to keep
LIMITS = {
    "amp": (0.02, 0.06),
    "convolution 1x1": (0.06, 0.15),
    "convolution 3x3": (0.09, 0.20),
    "exchange": (0.04, 0.10),
    "sum": (0.04, 0.10),
}
EXCHANGES = Path(__file__).with_name("machine_exchanges.csv")
LOOP_CYCLES = 537  # 655 of such a gather, of which 118 are the exchange's


class Ratio(NamedTuple):
    group: str
    row: str
    ratio: float


def ratios() -> Iterator[Ratio]:
    """Predicted over measured time of each row."""
    machines = {name: Machine(name) for name in _core.machine_chips()}
    for row in csv.DictReader(ROWS.open()):
        machine = machines[row["chip"]]
        batch, size, kernel, channels, filters = (
            int(row[k]) for k in ("batch", "size", "kernel", "in", "out")
        )
        if row["kind"] == "amp":  # a tile's vertex alone
            plan = Machine(row["chip"], tiles=1).plan_matmul(
                size, channels, filters, dtype="float16", partials="float16"
            )
            seconds = plan.cycles_by["arithmetic"] / machine.clock
            group = "amp"
        elif row["kind"] == "sum":
            tile = Machine(row["chip"], tiles=1)
            cycles = estimate(tf.reduce_sum, tf.TensorSpec([size]), machine=tile).cycles
            seconds = (cycles + LOOP_CYCLES) / machine.clock
            group = "sum"
        else:
            seconds = machine.plan_convolution(
                [batch, size, size, channels],
                [kernel, kernel, channels, filters],
                dtype="float16",
            ).seconds
            group = f"convolution {kernel}x{kernel}"
        name = f"{batch}x{size}x{size}x{channels} to {filters}"
        yield Ratio(group, name, seconds / (float(row["microseconds"]) * 1e-6))


def exchange_ratios() -> Iterator[Ratio]:
    """The same of exchanges."""
    gc2 = Machine("gc2")
    for row in csv.DictReader(EXCHANGES.open()):
        tiles, size = int(row["tiles"]), int(row["bytes"])
        ipus = int(row["ipus"])
        cycles = gc2.exchange(row["pattern"], tiles, size, ipus=ipus)
        cycles += LOOP_CYCLES * int(row["in_loop"])
        measured = float(row["microseconds"]) * 1e-6 * gc2.clock
        name = f"{row['pattern']} {ipus}x{tiles}x{size}"
        yield Ratio("exchange", name, cycles / measured)


def errors() -> dict[str, np.ndarray]:
    """The relative errors of each group of rows."""
    found: dict[str, list[float]] = {}
    for one in itertools.chain(ratios(), exchange_ratios()):
        found.setdefault(one.group, []).append(one.ratio - 1)
    return {group: np.abs(values) for group, values in found.items()}


def main() -> int:
    table = [["rows", "count", "median", "90 %", "worst", "asked"]]
    is_kept = True
    for group, error in errors().items():
        median, high = np.median(error), np.quantile(error, 0.9)
        limit = LIMITS.get(group)
        is_kept &= limit is None or (median <= limit[0] and high <= limit[1])
        asked = "" if limit is None else f"{limit[0]:.0%}, {limit[1]:.0%}"
        shown = (f"{x:.1%}" for x in (median, high, error.max()))
        table.append([group, str(len(error)), *shown, asked])
    print(as_text(table, left=1))
    return not is_kept


if __name__ == "__main__":
    raise SystemExit(main())
