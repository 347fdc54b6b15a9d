# SPDX-License-Identifier: MIT
"""Eager ops, tracing and the turns of a loop: `python -m benchmarks.eager`.

`a + b` on float32 tensors of four elements, in `ipu` and in each peer that is
installed, each in a process of its own, pinned to one core. Rounds alternate between
the processes; a round is the fastest of five repetitions, the figure the median of the
rounds. Then `ipu` alone: a whole Python step with a tape, tracing of 1,000 mixed ops,
and one turn of a loop of 10,000 with one carried add and one enqueue.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.tables import Output, Table, add_options

ROOT = Path(__file__).resolve().parent.parent
OPS = 1000
TURNS = 10_000


def _add_numpy() -> Callable[[], Any]:
    import numpy as np

    a = np.arange(4, dtype=np.float32)
    b = np.ones(4, np.float32)
    return lambda: a + b


def _add_ipu() -> Callable[[], Any]:
    from ipu import tf

    a = tf.constant([0.0, 1.0, 2.0, 3.0])
    b = tf.ones(4)
    return lambda: a + b


def _add_torch() -> Callable[[], Any]:
    import torch

    torch.set_num_threads(1)
    a = torch.arange(4, dtype=torch.float32)
    b = torch.ones(4)
    return lambda: a + b


def _add_tensorflow() -> Callable[[], Any]:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf

    a = tf.constant([0.0, 1.0, 2.0, 3.0])
    b = tf.ones(4)
    return lambda: a + b


def _add_jax() -> Callable[[], Any]:
    import jax.numpy as jnp

    a = jnp.arange(4, dtype=jnp.float32)
    b = jnp.ones(4)
    return lambda: (a + b).block_until_ready()


SIDES: dict[str, Callable[[], Callable[[], Any]]] = {
    "ipu": _add_ipu,
    "numpy": _add_numpy,
    "torch": _add_torch,
    "tensorflow": _add_tensorflow,
    "jax": _add_jax,
}
# side, at most this share of its time
LIMITS = [("numpy", 1.5), ("torch", 0.5), ("tensorflow", 0.2)]


def fastest(call: Callable[[], Any], calls: int, repeats: int = 5) -> float:
    """Nanoseconds of a call, the best of `repeats` times `calls`."""
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        best = min(best, (time.perf_counter_ns() - begin) / calls)
    return best


def serve(side: str) -> None:
    """A side's process: answers each line of its input with one measurement."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    try:
        call = SIDES[side]()
    except ImportError:
        print(json.dumps(None), flush=True)
        return
    fastest(call, 2000)
    print(json.dumps(True), flush=True)
    for line in sys.stdin:
        print(json.dumps(fastest(call, int(line))), flush=True)


class Side:
    """The process of one side."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.eager", "--serve", name],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.is_there = bool(self._answer())
        self.times: list[float] = []

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        return json.loads(text) if text else None

    def round(self, calls: int) -> None:
        """Measure once."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{calls}\n")
        self.process.stdin.flush()
        self.times.append(float(self._answer()))

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(rounds: int, calls: int) -> dict[str, list[float]]:
    """Nanoseconds of `a + b` in each round, by side."""
    sides = [Side(name) for name in SIDES]
    try:
        for k in range(rounds):
            present = [side for side in sides if side.is_there]
            for i in range(len(present)):
                present[(i + k) % len(present)].round(calls)
    finally:
        for side in sides:
            side.close()
    return {side.name: side.times for side in sides}


# --- ipu alone -----------------------------------------------------------------------


def _mixed_ops(tf: Any) -> Callable[..., Any]:
    def chain(x: Any, w: Any) -> Any:
        for _ in range(OPS // 10):
            y = tf.nn.relu(tf.matmul(x, w) + 1.0)
            y = y * x - tf.reduce_mean(y, axis=0, keepdims=True)
            x = tf.reshape(tf.transpose(tf.tanh(y)), (32, 32))
            x = tf.maximum(x, 0.5)
        return x

    return chain


def trace_ms(rounds: int) -> list[float]:
    """Milliseconds for tracing a function of 1,000 ops."""
    from ipu import tf
    from ipu.tf._functions import tracing

    spec = tf.TensorSpec((32, 32), tf.float32)
    function = _mixed_ops(tf)
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        tracing.scratch_trace(function, (spec, spec))
        times.append((time.perf_counter() - begin) * 1e3)
    return times


def tape_us(rounds: int) -> list[float]:
    """Microseconds of an eager step: matmul, bias, loss, gradients."""
    from ipu import tf

    x, w = tf.ones((4, 8)), tf.Variable(tf.ones((8, 2)))

    def step() -> None:
        with tf.GradientTape() as tape:
            y = tf.tanh(tf.matmul(x, w) + 1.0)
            loss = tf.reduce_mean(y * y)
        tape.gradient(loss, w)

    return [fastest(step, 200, 1) * 1e-3 for _ in range(rounds)]


def turn_us(rounds: int) -> list[float]:
    """Microseconds of one turn of a loop with a carried add and an enqueue."""
    from ipu import tf
    from ipu.ipu_outfeed_queue import IPUOutfeedQueue

    queue = IPUOutfeedQueue()

    @tf.function  # type: ignore[untyped-decorator]
    def loop(n: Any) -> Any:
        total = 0.0
        for _ in tf.range(n):
            total = total + 1.0
            queue.enqueue(total)
        return total

    count = tf.constant(TURNS)
    loop(count)
    times = []
    for _ in range(rounds):
        queue.dequeue()
        begin = time.perf_counter()
        loop(count)
        times.append((time.perf_counter() - begin) / TURNS * 1e6)
    queue.dequeue()
    return times


def compared(times: dict[str, list[float]]) -> tuple[Table, list[str]]:
    """The comparison; the limits that were missed."""
    medians = {name: statistics.median(t) for name, t in times.items() if t}
    rows = []
    for name in SIDES:
        if name not in medians:
            rows.append([name, "not measured", "-", "-", "-"])
            continue
        figures = (medians[name], min(times[name]), max(times[name]))
        share = medians["ipu"] / medians[name]
        rows.append([name, *(f"{ns:.0f}" for ns in figures), f"{share:.2f}"])
    missed = [
        f"a + b takes more than {limit} of {name}'s time"
        for name, limit in LIMITS
        if name in medians and medians["ipu"] > limit * medians[name]
    ]
    columns = ["side", "median", "lowest", "highest", "ipu's share of it"]
    return Table("a + b, float32[4], eager, nanoseconds", columns, rows), missed


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.eager",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20_000, help="in a repetition")
    parser.add_argument("--serve", choices=list(SIDES), help=argparse.SUPPRESS)
    add_options(parser)
    options = parser.parse_args(arguments)
    if options.serve:
        serve(options.serve)
        return 0
    output = Output(options, "benchmarks.eager")
    table, missed = compared(compare(options.rounds, options.calls))
    output.table(table)
    rows = []
    for what, times, unit, limit in (
        (f"tracing {OPS} mixed ops", trace_ms(options.rounds), "ms", 15.0),
        ("an eager step with a tape", tape_us(options.rounds), "us", None),
        ("a turn of a loop", turn_us(options.rounds), "us", 2.0),
    ):
        median = statistics.median(times)
        if limit is not None and median > limit:
            missed.append(f"{what} takes more than {limit} {unit}")
        figures = [f"{x:.2f} {unit}" for x in (median, min(times), max(times))]
        rows.append([what, *figures, "" if limit is None else f"{limit} {unit}"])
    columns = ["what", "median", "lowest", "highest", "to reach"]
    output.table(Table("Traces and loops", columns, rows))
    for text in missed:
        print(f"missed: {text}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
