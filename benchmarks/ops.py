# SPDX-License-Identifier: MIT
"""Ops one by one beside NumPy and PyTorch: `python -m benchmarks.ops`.

A row is an op, at 4 KiB, 256 KiB and 64 MiB, on one thread and on two. `ipu` runs it in
a loop on the device, so that what a call from Python costs is not in its figure; NumPy
and PyTorch are called from Python, into arrays that are there where they take `out=`.
Rounds alternate between the three, a round is the fastest of three repetitions, the
figure the median of the rounds. The ratio is the time of the faster peer over ipu's:
above 1 `ipu` is faster. NumPy has one thread only.

A row below 0.9 is measured again, for three times the rounds. If it then is below 0.85,
it counts as missed, and the command ends with 1: figures of this kind vary by a
twentieth from run to run.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import importlib
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.op_inputs import Array
from benchmarks.op_rows import ROWS, Row
from benchmarks.report import Table, machine

SIZES = {"4 KiB": 4 << 10, "256 KiB": 256 << 10, "64 MiB": 64 << 20}
SIDES = ("ipu", "numpy", "torch")
WANTED = 0.9
MARGIN = 0.05
REPETITION_S = 1e-3  # at least one call
SLOW_CALL_S = 0.1  # of these a round is one call
SETTLE_S = 0.002  # until the threads of the side before have gone to sleep
Timer = Callable[[int], float]  # seconds of so many calls


@dataclasses.dataclass
class Figure:
    """What a row gave at one size and number of threads.

    Attributes:
        seconds: Of a call, a list of rounds for each side that has the op.
    """

    row: Row
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
        if self.ratio >= WANTED:
            return ""
        return "near" if self.ratio >= WANTED - MARGIN else "missed"


# --- sides ----------------------------------------------------------------------------


def compile_loop(row: Row, inputs: list[Array]) -> Any:
    """A program that does the row's op as often as its first input says.

    It is one of the host, where the wider dtypes exist; kernels are the same there. Its
    result is one element of the op's: the op writes into memory of the program.
    """
    from ipu import _core, loops, tf
    from ipu.tf._functions import tracing

    specs = [tf.TensorSpec(x.shape, x.dtype.name) for x in inputs]
    result = tracing.scratch_trace(lambda *xs: row.ipu(tf, *xs), specs, host=True)

    def program(turns: Any, *xs: Any) -> Any:
        trace = _core.open_trace()
        assert trace is not None
        attrs = {"dtype": result.dtype.name, "shape": [int(n) for n in result.shape]}
        start = trace.node("empty", [], attrs, ())
        last = loops.repeat(turns, lambda _: row.ipu(tf, *xs), [start])
        return tf.reshape(last, [-1])[:1]

    turns = tf.TensorSpec((), tf.int32)
    return tracing.trace_program(program, [turns, *specs], host=True).program


def ipu_timer(row: Row, inputs: list[Array]) -> Timer:
    from ipu import tf

    program = compile_loop(row, inputs)
    tensors = [tf.constant(x) for x in inputs]

    def seconds(calls: int) -> float:
        program.run([np.int32(calls), *tensors])
        return float(program.stats["run_ns"]) * 1e-9

    return seconds


def peer_timer(function: Callable[..., Any], inputs: Iterable[Any]) -> Timer:
    """Calls `function(out, *inputs)`, with its own result as `out` from then on."""
    xs = tuple(inputs)
    out = function(None, *xs)

    def seconds(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            function(out, *xs)
        return time.perf_counter() - begin

    return seconds


def torch_timer(row: Row, inputs: list[Array]) -> Timer | None:
    torch = torch_module()
    if torch is None or row.torch is None:
        return None
    function = row.torch
    tensors = [torch.from_numpy(x) for x in inputs]
    return peer_timer(lambda out, *xs: function(torch, out, *xs), tensors)


def torch_module() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def set_threads(threads: int) -> None:
    core: Any = importlib.import_module("ipu._core")
    core.set_num_threads(threads)
    torch = torch_module()
    if torch is not None:
        torch.set_num_threads(threads)


# --- measuring ------------------------------------------------------------------------


def timers_of(row: Row, inputs: list[Array]) -> dict[str, Timer]:
    found: dict[str, Timer | None] = {"ipu": ipu_timer(row, inputs)}
    found["numpy"] = None if row.numpy is None else peer_timer(row.numpy, inputs)
    found["torch"] = torch_timer(row, inputs)
    return {side: timer for side, timer in found.items() if timer is not None}


def calls_of(timer: Timer) -> int:
    """How many calls make a repetition."""
    calls = 1
    while (took := timer(calls)) < REPETITION_S and calls < 1 << 20:
        calls *= 2 if took <= 0 else max(2, min(64, int(REPETITION_S / took)))
    return calls


def measure(row: Row, size: str, threads: int, rounds: int) -> Figure:
    figure = Figure(row, size, threads)
    timers = timers_of(row, row.make(SIZES[size]))
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
            time.sleep(SETTLE_S)
            count = calls[side]
            best = timers[side](count) / count
            for _ in range(2 if best < SLOW_CALL_S else 0):
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
        text_of(figure.median(side)) if side in figure.seconds else "not measured"
        for side in SIDES
    ]
    ratio = "-" if math.isinf(figure.ratio) else f"{figure.ratio:.2f}"
    return [
        figure.row.name,
        figure.size,
        str(figure.threads),
        *times,
        f"{ratio} {figure.verdict}".strip(),
    ]


def table_of(figures: list[Figure]) -> Table:
    columns = ["op", "size", "threads", *SIDES, "ratio to the faster"]
    missed = sum(figure.verdict == "missed" for figure in figures)
    near = sum(figure.verdict == "near" for figure in figures)
    remark = (
        f"{len(figures)} figures, {missed} below {WANTED}, {near} within the margin."
    )
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    title = "Ops beside NumPy and PyTorch"
    return Table(title, columns, [cells(f) for f in figures], [remark, about])


def chosen_rows(names: str, groups: str) -> list[Row]:
    """Rows whose name contains one of `names` and whose group begins with one of
    `groups`; commas between them, nothing for all."""
    wanted, kinds = names.split(","), groups.split(",")
    return [
        row
        for row in ROWS
        if any(name in row.name for name in wanted)
        and any(row.group.startswith(kind) for kind in kinds)
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.ops",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", default="", help="parts of names, with commas")
    parser.add_argument("--groups", default="", help="element-wise, reduction, ...")
    parser.add_argument("--sizes", default=",".join(SIZES), help="with commas")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--missed", action="store_true", help="show only these rows")
    options = parser.parse_args(arguments)
    sizes = [size for size in SIZES if size in options.sizes.split(",")]
    figures = []
    gc.disable()
    for threads in map(int, options.threads.split(",")):
        set_threads(threads)
        for row in chosen_rows(options.rows, options.groups):
            for size in sizes:
                figures.append(measure(row, size, threads, options.rounds))
                print("  ".join(cells(figures[-1])), file=sys.stderr, flush=True)
    shown = [f for f in figures if f.verdict or not options.missed]
    table = dataclasses.replace(table_of(figures), rows=[cells(f) for f in shown])
    print(table.markdown()) if options.markdown else table.show()
    return 1 if any(figure.verdict == "missed" for figure in figures) else 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count() or 1))
    sys.exit(main())
