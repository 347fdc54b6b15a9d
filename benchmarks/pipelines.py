# SPDX-License-Identifier: MIT
"""What pipelines cost on this machine: `python -m benchmarks.pipelines`.

Sides that are compared run in turn, in one process, with the same number of threads;
the figure is the median of the rounds. PyTorch's pipelining runs as two processes of
one thread each (gloo, 1F1B), in rounds between those of ours, where a Python that has
torch is named: `--torch PYTHON`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import Output, Table, add_options

LAYERS, SIDE, COUNT = 8, 512, 16
TORCH_SIDE = Path(__file__).with_name("sides") / "torch_pipeline.py"


class Training:
    """A stack of dense layers, as a program that trains for some executions.

    Args:
        stages: In so many stages, on as many IPUs; 0: no pipeline, but accumulation.
        batch: Samples of a micro-batch.
        layers: How many layers.
        side: Rows and columns of each.
        count: Micro-batches of an execution.
        executions: Of a call.
        schedule: A name.
    """

    def __init__(
        self,
        stages: int,
        batch: int,
        layers: int = LAYERS,
        side: int = SIDE,
        count: int = COUNT,
        executions: int = 4,
        schedule: str = "Grouped",
    ) -> None:
        from ipu import keras, tf
        from ipu.ipu_infeed_queue import IPUInfeedQueue
        from ipu.ipu_outfeed_queue import IPUOutfeedQueue

        rng = np.random.default_rng(0)
        x = rng.normal(size=(batch, side)).astype(np.float32)
        data = tf.data.Dataset.from_tensors((x, x)).repeat()
        self.samples = batch * count * executions
        self.actions = 2 * max(stages, 1) * count * executions
        self.flops = 6.0 * batch * side * side * layers * count * executions
        self._infeed, self._outfeed = IPUInfeedQueue(data), IPUOutfeedQueue()
        scale = side**-0.5
        self._weights = [
            tf.Variable(rng.normal(size=(side, side), scale=scale).astype(np.float32))
            for _ in range(layers)
        ]
        self._biases = [tf.Variable(np.zeros(side, np.float32)) for _ in range(layers)]
        self._optimizer = keras.optimizers.SGD(0.01)
        self._stages, self._count = stages, count
        self._executions, self._schedule = executions, schedule
        self.run = tf.function(self._program, jit_compile=True)
        _ = self._infeed.initializer
        self.run()  # traces and compiles
        self.losses()

    def _stage(self, number: int, stages: int) -> Callable[[Any, Any], Any]:
        from ipu import tf

        each = len(self._weights) // stages

        def compute(h: Any, y: Any) -> Any:
            for k in range(number * each, (number + 1) * each):
                h = tf.nn.relu(h @ self._weights[k] + self._biases[k])
            if number == stages - 1:
                return tf.reduce_mean((h - y) ** 2)
            return h, y

        return compute

    def _program(self) -> None:
        from ipu import loops, tf
        from ipu._loops.accumulation import accumulate
        from ipu.ops.pipelining_ops import (
            OptimizerFunctionOutput,
            PipelineSchedule,
            pipeline,
        )

        variables = self._weights + self._biases

        def optimize(loss: Any) -> OptimizerFunctionOutput:
            return OptimizerFunctionOutput(self._optimizer, loss, variables=variables)

        def micro_batch() -> Any:
            (x, y), _ = self._infeed._dequeue_arguments()
            loss = self._stage(0, 1)(x, y)
            self._outfeed.enqueue([loss])
            gradients = tf.gradients(loss, variables)
            return list(zip(gradients, variables, strict=True)), []

        def step() -> None:
            self._optimizer.apply_gradients(accumulate(self._count, micro_batch)[0])

        if self._stages == 0:
            loops.repeat(self._executions, step)
            return
        pipeline(
            [self._stage(i, self._stages) for i in range(self._stages)],
            gradient_accumulation_count=self._count,
            repeat_count=self._executions,
            infeed_queue=self._infeed,
            outfeed_queue=self._outfeed,
            optimizer_function=optimize,
            pipeline_schedule=PipelineSchedule.parse(self._schedule),
        )

    def losses(self) -> Any:
        return self._outfeed.dequeue()[0].numpy()


def attach(*ipus: int) -> None:
    """Devices of so many IPUs each."""
    import ipu

    config = ipu.config.IPUConfig()
    config.auto_select_ipus = list(ipus)
    config.configure_ipu_system()


def made_on(ordinal: int, *args: Any, **options: Any) -> Training:
    """A training on that device."""
    from ipu import tf

    with tf.device(f"/device:IPU:{ordinal}"):
        made = Training(*args, **options)
    inner = made.run

    def run() -> Any:
        with tf.device(f"/device:IPU:{ordinal}"):
            return inner()

    made.run = run
    return made


def timed(side: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    side()
    return time.perf_counter() - begin


def alternate(sides: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The median seconds of each side, which take turns."""
    times: list[list[float]] = [[] for _ in sides]
    for side in sides:
        side()
    for _ in range(rounds):
        for found, side in zip(times, sides, strict=True):
            found.append(timed(side))
    return [statistics.median(found) for found in times]


def with_threads(threads: int, run: Callable[[], Any]) -> Callable[[], None]:
    from ipu._device import threads as _threads

    def side() -> None:
        _threads.set_num_threads(threads)
        run()

    return side


def stages_and_threads(rounds: int) -> Table:
    """Two equal stages at 1 and 2 threads, and the same model without a pipeline."""
    rows = []
    attach(2, 1)
    for batch in (32, 512):
        executions = 4 if batch == 32 else 1
        piped = made_on(0, 2, batch, executions=executions)
        plain = made_on(1, 0, batch, executions=executions)
        if not np.array_equal(piped.losses()[:4], plain.losses()[:4]):
            raise RuntimeError("the pipeline and the plain loop give other losses")
        sides = [
            with_threads(threads, model.run)
            for threads in (1, 2)
            for model in (piped, plain)
        ]
        found = [piped.samples / seconds for seconds in alternate(sides, rounds)]
        for i, threads in ((0, 1), (2, 2)):
            piped_rate, rate = found[i : i + 2]
            rates = [f"{piped_rate:.0f}", f"{rate:.0f}", f"{piped_rate / rate:.2f}"]
            more = f"{piped_rate / found[0]:.2f}"
            rows.append([f"{batch}", f"{threads}", *rates, more])
    columns = ["micro-batch", "threads", "pipeline", "without", "ratio", "to 1 thread"]
    return Table("Two stages and none, samples/s", columns, rows)


def overhead(rounds: int) -> Table:
    """What an action costs beside the arithmetic: stages of a tiny layer each."""
    rows = []
    for ipus in (2, 16):
        attach(ipus, 1)
        options = {"layers": ipus, "side": 4, "count": 64, "executions": 20}
        piped = made_on(0, ipus, 4, **options)
        plain = made_on(1, 0, 4, **options)
        for threads in (1, 2):
            sides = [with_threads(threads, model.run) for model in (piped, plain)]
            own, base = (1e6 * s / piped.actions for s in alternate(sides, rounds))
            rows.append([f"{ipus}", f"{threads}", f"{own:.2f}", f"{base:.2f}"])
    columns = ["IPUs", "threads", "pipeline", "without"]
    return Table("Stages of a tiny layer, microseconds an action", columns, rows)


def many_ipus(rounds: int) -> Table:
    """Sixteen layers as sixteen IPUs and as two, on two threads."""
    attach(16, 2)
    rows = []
    for batch in (32, 256):
        options = {"layers": 16, "count": 32, "executions": 1}
        made = [made_on(i, n, batch, **options) for i, n in enumerate((16, 2))]
        sides = [with_threads(2, model.run) for model in made]
        many, few = alternate(sides, rounds)
        rates = [made[0].samples / seconds for seconds in (many, few)]
        figures = [f"{rate:.0f}" for rate in rates]
        rows.append([f"{batch}", *figures, f"{many / few:.2f}"])
    columns = ["micro-batch", "16 IPUs", "2 IPUs", "ratio of times"]
    return Table("Sixteen layers, two threads, samples/s", columns, rows)


def building(rounds: int) -> Table:
    """Eight stages with 256 micro-batches: schedule, check, cut, lower."""
    from ipu import _core

    attach(8)
    text = ""

    def keep() -> None:
        nonlocal text
        trace = _core.open_trace()
        assert trace is not None
        text = trace.text

    model = Training(8, 4, side=16, count=256, executions=1)
    program = model._program

    def traced() -> None:
        program()
        keep()

    from ipu import tf

    tf.function(traced, jit_compile=True)()
    seconds = [
        timed(lambda: _core.graph_compile(text, verify=False)) for _ in range(rounds)
    ]
    what = "8 stages, 256 micro-batches: passes, schedule with its check, lowering"
    took = f"{1e3 * statistics.median(seconds):.1f}"
    return Table(
        "Building a pipeline, milliseconds", ["what", "median"], [[what, took]]
    )


def peer(python: str, rounds: int) -> Table:
    """PyTorch's 1F1B over two processes, in rounds between ours."""
    rows = []
    attach(2)
    for batch in (32, 512):
        executions = 4 if batch == 32 else 1
        ours = Training(2, batch, executions=executions, schedule="1F1B")
        side = with_threads(2, ours.run)
        side()
        own: list[float] = []
        theirs: list[float] = []
        for _ in range(max(rounds // 2, 2)):
            own.extend(ours.samples / timed(side) for _ in range(3))
            numbers = (batch, LAYERS, SIDE, COUNT, 5)
            done = subprocess.run(
                [python, str(TORCH_SIDE), *(str(n) for n in numbers)],
                check=True,
                capture_output=True,
                text=True,
            )
            theirs.append(float(done.stdout.split()[-1]))
        a, b = statistics.median(own), statistics.median(theirs)
        rows.append([f"{batch}", f"{a:.0f}", f"{b:.0f}", f"{a / b:.2f}"])
    columns = ["micro-batch", "ipu, 2 threads", "PyTorch, 2 processes", "ratio"]
    return Table("1F1B beside PyTorch, samples/s", columns, rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="(%(default)s)")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python that has torch")
    parser.add_argument("--only", default="", help="threads, overhead, many, build")
    add_options(parser)
    options = parser.parse_args(arguments)
    output = Output(options, "benchmarks.pipelines")
    parts = {
        "threads": stages_and_threads,
        "overhead": overhead,
        "many": many_ipus,
        "build": building,
    }
    for name, part in parts.items():
        if not options.only or name in options.only.split(","):
            output.table(part(options.rounds))
    if options.torch:
        output.table(peer(options.torch, options.rounds))
    elif not options.only:
        output.text("torch: not measured (--torch names a Python that has it)")


if __name__ == "__main__":
    sys.exit(main())
