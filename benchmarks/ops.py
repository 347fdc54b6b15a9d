# SPDX-License-Identifier: MIT
"""Ops one by one beside NumPy and PyTorch: `python -m benchmarks.ops`.

A row is an op of the core's table in one dtype, at 4 KiB, 256 KiB, 64 MiB and three
awkward shapes (or the row's own), on one thread and on two. `ipu` runs it in
a loop on the device, so that what a call from Python costs is not in its figure; NumPy
and PyTorch are called from Python, into arrays that are there where they take `out=`.
Rounds alternate between the sides, a round is the fastest of three repetitions, the
figure the median of the rounds. The ratio is the time of the faster peer over ipu's:
above 1 `ipu` is faster, and 0.9 is wanted. float16 has ipu's own float32 as its peer,
and 0.5 is wanted. NumPy has threads for products and linear algebra alone.

A row below that is measured again, for three times the rounds. If it then is 0.05
below, it counts as missed, unless `benchmarks/op_exceptions.py` says why, and the
command ends with 1: figures of this kind vary by a twentieth from run to run.

`--csv FILE` keeps the figures, `--show FILE` makes the tables of what was kept.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import gc
import importlib
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.op_exceptions import reason_of
from benchmarks.op_peers import NUMPY, TORCH, Peer, torch_module
from benchmarks.op_table import (
    AWKWARD,
    GROUPS,
    INTEGERS,
    OWN_GROUPS,
    OWN_SHAPE,
    SIZES,
    Row,
    kind_of,
    rows_of,
    shape_of,
)
from benchmarks.tables import Output, Table, add_options

ALL_SIZES = (*SIZES, *AWKWARD)
SIDES = ("ipu", "numpy", "torch", "float32")
VERDICTS = ("missed", "near", "known")
WANTED, OF_FLOAT32 = 0.9, 0.5
MARGIN = 0.05
REPETITIONS = 3
REPETITION_S = 1e-3  # at least one call
SLOW_CALL_S = 0.1  # of these a round is one call
SETTLE_S = 0.012  # more than three ticks of a kernel with 250 a second
Timer = Callable[[int], float]  # seconds of so many calls


@dataclasses.dataclass
class Figure:
    """What a row gave in one dtype, at one size and number of threads.

    Attributes:
        seconds: Of a call, a list of rounds for each side that has the op; `float32` is
            ipu's own.
    """

    name: str
    dtype: str
    size: str
    threads: int
    seconds: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def median(self, side: str) -> float:
        return statistics.median(self.seconds[side])

    @property
    def ratio(self) -> float:
        """The faster peer's time over ipu's; infinite where there is no peer."""
        peers = [self.median(side) for side in self.seconds if side != "ipu"]
        return min(peers, default=math.inf) / self.median("ipu")

    @property
    def verdict(self) -> str:
        wanted = OF_FLOAT32 if self.dtype == "float16" else WANTED
        if self.ratio >= wanted:
            return ""
        if self.ratio >= wanted - MARGIN:
            return "near"
        return "known" if reason_of(self.name, self.dtype, self.size) else "missed"


# --- sides ----------------------------------------------------------------------------


def ipu_timer(row: Row, dtype: str) -> Timer:
    """A program of the host, which has the wider dtypes; kernels are the same there.

    A run begins with copies of what the loop carries, as large as the results. They are
    no part of a call; a run without a turn has them alone.
    """
    from ipu import _core, tf

    program = _core.graph_compile(row.graph(dtype))
    inputs = [tf.constant(x) for x in row.arrays(dtype)]
    starts = [
        tf.constant(np.zeros(shape, kind_of(kind, dtype)))
        for shape, kind in row.outputs
    ]

    def seconds(calls: int) -> float:
        program.run([*inputs, *starts, np.int32(calls)])
        return float(program.stats["run_ns"]) * 1e-9

    copies = math.inf  # the first ones meet memory that nobody has touched yet

    def seconds_of_calls(calls: int) -> float:
        nonlocal copies
        copies = min(copies, seconds(0))
        return seconds(calls) - copies

    return seconds_of_calls


def peer_timer(
    peers: dict[str, Peer], row: Row, dtype: str, convert: Callable[[Any], Any]
) -> Timer | None:
    """None where there is no such function, or none of this dtype."""
    if row.op not in peers:
        return None
    attrs = row.attributes(dtype)
    attrs.setdefault("dtype", dtype)
    attrs.setdefault("shape", list(row.outputs[0][0]))
    try:
        call = peers[row.op](attrs, *map(convert, row.arrays(dtype)))
        call()
    except (RuntimeError, TypeError, NotImplementedError, IndexError):
        return None

    def seconds(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        return time.perf_counter() - begin

    return seconds


def set_threads(threads: int) -> None:
    """Give every side as many."""
    importlib.import_module("ipu").set_num_threads(threads)
    importlib.import_module("threadpoolctl").threadpool_limits(threads)
    torch = torch_module()
    if torch is not None:
        torch.set_num_threads(threads)


def settle(threads: int) -> None:
    """Wait until no thread computes: those of OpenBLAS wait busily for 0.1 s."""
    spent = SETTLE_S
    while threads > 1 and spent > SETTLE_S / 4:
        begin = time.process_time()  # of other threads it is as old as a tick
        time.sleep(SETTLE_S)
        spent = time.process_time() - begin


# --- measuring ------------------------------------------------------------------------


def timers_of(row: Row, dtype: str) -> dict[str, Timer]:
    found: dict[str, Timer | None] = {"ipu": ipu_timer(row, dtype)}
    if dtype == "float16":
        found["float32"] = ipu_timer(row, "float32")
    else:
        torch = torch_module()
        found["numpy"] = peer_timer(NUMPY, row, dtype, lambda x: x)
        found["torch"] = torch and peer_timer(TORCH, row, dtype, torch.from_numpy)
    return {side: timer for side, timer in found.items() if timer is not None}


def calls_of(timer: Timer) -> int:
    """How many calls make a repetition."""
    calls = 1
    while (took := timer(calls)) < REPETITION_S and calls < 1 << 20:
        calls *= 2 if took <= 0 else max(2, min(64, int(REPETITION_S / took)))
    return calls


def measure(row: Row, dtype: str, size: str, threads: int, rounds: int) -> Figure:
    figure = Figure(row.name, dtype, size, threads)
    with np.errstate(all="ignore"):
        timers = timers_of(row, dtype)
        calls = {side: calls_of(timer) for side, timer in timers.items()}
        figure.seconds = {side: [] for side in timers}
        add_rounds(figure, timers, calls, rounds)
        if figure.verdict:
            add_rounds(figure, timers, calls, 2 * rounds)
    return figure


def add_rounds(
    figure: Figure, timers: dict[str, Timer], calls: dict[str, int], rounds: int
) -> None:
    order = list(timers)
    for turn in range(rounds):
        for index in range(len(order)):
            side = order[(index + turn) % len(order)]
            settle(figure.threads)
            count = calls[side]
            best = timers[side](count) / count
            for _ in range(REPETITIONS - 1 if best < SLOW_CALL_S else 0):
                best = min(best, timers[side](count) / count)
            figure.seconds[side].append(best)


# --- the table ------------------------------------------------------------------------


def text_of(seconds: float) -> str:
    """Three digits, in a unit that suits."""
    for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
        if seconds * scale < 999.5:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def cells(figure: Figure) -> list[str]:
    times = [
        text_of(figure.median(side)) if side in figure.seconds else "-"
        for side in SIDES
    ]
    ratio = "-" if math.isinf(figure.ratio) else f"{figure.ratio:.2f}"
    verdict = f"{ratio} {figure.verdict}".strip()
    about = [figure.name, figure.dtype, figure.size, str(figure.threads)]
    return [*about, *times, verdict]


def tables_of(figures: list[Figure]) -> list[Table]:
    """How many rows there are of each dtype, and those below what is wanted."""
    keys = dict.fromkeys((figure.dtype, figure.threads) for figure in figures)
    rows = []
    for key in keys:
        own = [f for f in figures if (f.dtype, f.threads) == key]
        ratios = sorted(f.ratio for f in own if not math.isinf(f.ratio))
        found = [
            f"{ratios[len(ratios) * tenth // 10]:.2f}" if ratios else "-"
            for tenth in (0, 1, 5)
        ]
        verdicts = [str(sum(f.verdict == v for f in own)) for v in VERDICTS]
        rows.append([key[0], str(key[1]), str(len(own)), *found, *verdicts])
    columns = ["dtype", "threads", "figures", "lowest", "lowest tenth below", "median"]
    all_of = Table("Ops beside the faster peer, ratios", [*columns, *VERDICTS], rows)
    columns = ["op", "dtype", "size", "threads", *SIDES, "ratio to the faster"]
    below = [cells(figure) for figure in figures if figure.verdict]
    return [all_of, Table("Ops below what is wanted", columns, below)]


HEAD = ["name", "dtype", "size", "threads", *SIDES]


def keep(figures: list[Figure], path: Path) -> None:
    """The medians, in seconds; nothing where a side has no such op."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEAD)
        for figure in figures:
            about = [figure.name, figure.dtype, figure.size, figure.threads]
            medians = [
                f"{figure.median(side):.3g}" if side in figure.seconds else ""
                for side in SIDES
            ]
            writer.writerow([*about, *medians])


def read(path: Path) -> list[Figure]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            Figure(
                row["name"],
                row["dtype"],
                row["size"],
                int(row["threads"]),
                {side: [float(row[side])] for side in SIDES if row[side]},
            )
            for row in csv.DictReader(file)
        ]


def chosen(options: argparse.Namespace) -> Iterator[tuple[Row, str, str]]:
    """Rows, dtypes and sizes. A row's name contains one of `--rows`, its group begins
    with one of `--groups`; nothing means all of them. An op of bool alone comes
    once."""
    names, kinds = options.rows.split(","), options.groups.split(",")
    sizes, dtypes = options.sizes.split(","), options.dtypes.split(",")
    for group in (*GROUPS, *OWN_GROUPS):
        if not any(map(group.startswith, kinds)):
            continue
        for size in ALL_SIZES if group in GROUPS else (OWN_SHAPE,):
            if size not in sizes and group in GROUPS:
                continue
            for dtype in (*dtypes, "bool"):
                shape = shape_of(size, dtype) if group in GROUPS else ()
                for row in rows_of(group, shape):
                    if dtype in row.dtypes and any(name in row.name for name in names):
                        yield row, dtype, size


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", default="", help="parts of names, with commas")
    parser.add_argument("--groups", default="", help="element-wise, reduction, ...")
    parser.add_argument("--sizes", default=",".join(ALL_SIZES), help="with commas")
    parser.add_argument(
        "--dtypes", default=",".join(("float32", "float16", "float64", *INTEGERS))
    )
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--csv", type=Path, help="keep the figures in this file")
    parser.add_argument("--show", type=Path, help="measure nothing, show this file")
    add_options(parser)
    options = parser.parse_args(arguments)
    output = Output(options, "benchmarks.ops")
    figures = read(options.show) if options.show else []
    gc.disable()
    for threads in () if options.show else map(int, options.threads.split(",")):
        set_threads(threads)
        for row, dtype, size in chosen(options):
            figures.append(measure(row, dtype, size, threads, options.rounds))
            print("  ".join(cells(figures[-1])), file=sys.stderr, flush=True)
    if options.csv:
        keep(figures, options.csv)
    for table in tables_of(figures):
        output.table(table)
    return 1 if any(figure.verdict == "missed" for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
