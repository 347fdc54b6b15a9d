# SPDX-License-Identifier: MIT
"""How long `ipu` compiles large programs: `python -m benchmarks.compile`.

Five programs, each at its full size and at a tenth of it, on one core, in CPU time,
which a busy machine disturbs least. The time of a row is that of differentiating the
program's result by its inputs (variables alone are not differentiated), and of
compiling what was traced; tracing, Python's part, has a column of its own. The growth
says how many times longer the full size takes than the tenth: 10 is time in proportion
to the nodes, 100 that to their square.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.tables import Output, Table, add_options

TENTH = 10
LIMIT_S = 1.0
# 10 is proportional, and up to three times that where the full size no longer fits into
# the caches and the memory at hand, as the tenth does
GROWTH_LIMIT = 30.0

Builder = Callable[[int], Callable[..., Any]]  # of a size: the function to trace
WEIGHTS = 16


def chain(nodes: int) -> Callable[..., Any]:
    """Running totals and element-wise ops in turn, so that little is fused."""
    from ipu import tf

    def function(x: Any, *_: Any) -> Any:
        for k in range(nodes // 2):
            x = tf.tanh(tf.cumsum(x, axis=k % 2))
        return x

    return function


def chain_in_a_loop(nodes: int) -> Callable[..., Any]:
    """The same chain as the body of a loop."""
    from ipu import tf

    inner = chain(nodes)

    def function(x: Any, *_: Any) -> Any:
        start = [tf.constant(0), x]
        return tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, inner(x)), start)[
            1
        ]

    return function


def variables(count: int) -> Callable[..., Any]:
    """Each variable is read, and written with what was read."""
    from ipu import tf

    owned = [tf.Variable(tf.ones((4, 4))) for _ in range(count)]

    def function(x: Any, *_: Any) -> Any:
        for variable in owned:
            x = x + variable
            variable.assign_add(x)
        return x

    return function


def loops(count: int) -> Callable[..., Any]:
    """Loops of two turns, one after the other."""
    from ipu import tf

    def body(i: Any, x: Any) -> tuple[Any, Any]:
        return i + 1, tf.tanh(x * x) + tf.sin(x)

    def function(x: Any, *_: Any) -> Any:
        for _ in range(count):
            x = tf.while_loop(lambda i, _: i < 2, body, [tf.constant(0), x])[1]
        return x

    return function


def mixed(nodes: int) -> Callable[..., Any]:
    """Products, reductions, movement and element-wise ops; a scalar comes out."""
    from ipu import _core, tf

    def function(x: Any, *weights: Any) -> Any:
        trace = _core.open_trace()
        assert trace is not None
        k = 0
        while trace.node_count < nodes:
            w = weights[k % WEIGHTS]
            y = tf.tanh(tf.matmul(x, w) + w[0])
            y = tf.concat([y[:, 2:], x[:, :2]], axis=1)
            y = y * tf.nn.softmax(x) - tf.reduce_mean(y, axis=0, keepdims=True)
            y = tf.transpose(tf.reshape(y, (2, 8)))
            x = tf.reshape(tf.maximum(y, -1.0), (4, 4)) + x
            k += 1
        return tf.reduce_sum(x * x)

    return function


@dataclasses.dataclass(frozen=True)
class Row:
    """A program, and what it is to reach; no limits where nothing was promised."""

    name: str
    build: Builder
    size: int
    unit: str
    gradient: bool
    limit_s: float | None = None


ROWS = (
    Row("chain", chain, 20_000, "nodes", True),
    Row("chain in a loop", chain_in_a_loop, 20_000, "nodes", True),
    Row("variables", variables, 4_000, "variables", False),
    Row("loops", loops, 2_000, "loops", True),
    Row("mixed", mixed, 50_000, "nodes", True, LIMIT_S),
)


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of the parts of one compilation, and the nodes that were compiled."""

    trace: float
    gradient: float
    compile: float
    nodes: int

    @property
    def total(self) -> float:
        return self.gradient + self.compile


def measure(row: Row, size: int) -> Times:
    """Trace, differentiate and compile once."""
    from ipu import tf
    from ipu._device import devices
    from ipu.tf._functions import tracing

    device = devices.get_device()
    function = row.build(size)
    times: list[float] = []

    def traced(*tensors: Any) -> Any:
        times.append(time.process_time())
        y = function(*tensors)
        times.append(time.process_time())
        gradients = tf.gradients(y, list(tensors)) if row.gradient else []
        times.append(time.process_time())
        return y, gradients

    specs = (tf.TensorSpec((4, 4), tf.float32),) * (1 + WEIGHTS)
    build = tracing.Build(row.name, runs=False, device=device)
    trace = tracing._trace(traced, specs, False, build)[0]
    gc.collect()
    ready = time.process_time()
    trace.compile(device=device.core)
    compiled = time.process_time() - ready
    start, built, differentiated = times
    gradient = differentiated - built
    return Times(built - start, gradient, compiled, trace.node_count)


def median(row: Row, size: int, rounds: int) -> Times:
    """The round with the median total."""
    found = sorted((measure(row, size) for _ in range(rounds)), key=lambda t: t.total)
    middle = statistics.median_low([t.total for t in found])
    return next(t for t in found if t.total == middle)


def growth(small: Times, full: Times) -> float:
    """How many times longer the full size takes."""
    return full.total / small.total


def missed_limits(row: Row, small: Times, full: Times) -> list[str]:
    """What a row with a limit does not reach."""
    if row.limit_s is None:
        return []
    missed = []
    if full.total > row.limit_s:
        missed.append(f"{row.name}: {full.total:.2f} s, to reach: {row.limit_s} s")
    if growth(small, full) > GROWTH_LIMIT:
        missed.append(
            f"{row.name}: {growth(small, full):.1f} times as long for {TENTH} times "
            f"the nodes, to reach: {GROWTH_LIMIT}"
        )
    return missed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [row.name for row in ROWS]
    parser.add_argument("--rows", default=",".join(names), help="some of: %(default)s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of all sizes")
    add_options(parser)
    options = parser.parse_args(arguments)
    chosen = [name.strip() for name in options.rows.split(",")]
    if unknown := [name for name in chosen if name not in names]:
        parser.error(f"--rows: {unknown[0]!r} is none of {', '.join(names)}")
    if options.rounds < 1 or options.scale <= 0:
        parser.error("--rounds and --scale must be positive")
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    output = Output(options, "benchmarks.compile")
    missed: list[str] = []
    cells: list[list[str]] = []
    for row in (row for row in ROWS if row.name in chosen):
        size = max(TENTH, int(row.size * options.scale))
        small = median(row, size // TENTH, options.rounds)
        full = median(row, size, options.rounds)
        missed += missed_limits(row, small, full)
        times = (full.trace, full.gradient, full.compile, full.total, small.total)
        cells.append(
            [
                f"{size:,} {row.unit}: {row.name}",
                f"{full.nodes:,}",
                *(f"{seconds:.3f}" for seconds in times),
                f"{growth(small, full):.1f}",
            ]
        )
    title = "Large programs, CPU seconds"
    columns = ["program", "nodes", "trace", "gradient", "compile", "last two"]
    columns += ["of a tenth", f"growth for {TENTH} times the size"]
    output.table(Table(title, columns, cells))
    for text in missed:
        print(f"missed: {text}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
