# SPDX-License-Identifier: MIT
"""Random pipelines against the same stages in a plain loop: equal to the bit.

A case is a seed. It says how many stages there are, what each computes of the values
that the one before hands on, which of its variables it shares with another stage of the
same IPU, and the schedule, mapping, count, reduction, recomputation, offloading and
threads. In
``tests``, ``python -m test_random_pipelines SEED`` prints a case.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import ipu
from ipu import keras, loops, tf
from ipu._config import flags
from ipu._device import threads as _threads
from ipu._loops.accumulation import accumulate
from ipu.ops.pipelining_ops import (
    OptimizerFunctionOutput,
    PipelineSchedule,
    RecomputationMode,
    pipeline,
    recomputation_checkpoint,
)

ROWS = 3
Op = tuple[str, int, int]


class Case(NamedTuple):
    """What a seed stands for."""

    seed: int
    stages: list[list[Op]]  # each: kind of op, which values and variables it takes
    positions: list[int]
    mapping: list[int]
    schedule: PipelineSchedule
    count: int
    repeats: int
    method: str
    recompute: RecomputationMode | None
    training: bool
    threads: int
    offload: tuple[bool, bool, bool, bool]


KINDS = (
    "dense",
    "dense",
    "dense",
    "shared",
    "dropout",
    "add",
    "concat",
    "norm",
    "loop",
    "branch",
    "statistics",
    "checkpoint",
    "drop",
)


def case_of(seed: int) -> Case:
    rng = random.Random(seed)
    count = rng.randint(2, 6)
    schedule = rng.choice(list(PipelineSchedule))
    training = rng.random() < 0.8
    ipus = rng.randint(1, count)
    if schedule is PipelineSchedule.InterleavedOneForwardOneBackward:
        ipus = rng.choice([k for k in range(1, count + 1) if count % k == 0])
        mapping = [i % ipus for i in range(count)]
    elif schedule in (PipelineSchedule.Interleaved, PipelineSchedule.ZeroBubble):
        mapping = rng.sample(range(count), count)
    elif rng.random() < 0.5:
        mapping = list(range(count))
    else:
        mapping = [rng.randrange(ipus) for _ in range(count)]
    stages = [
        [
            (rng.choice(KINDS), rng.randrange(100), rng.randrange(100))
            for _ in range(rng.randint(0, 5))
        ]
        for _ in range(count)
    ]
    stages[0].insert(0, ("dense", 0, 0))
    return Case(
        seed,
        stages,
        list(range(count)),
        mapping,
        schedule,
        2 * count * rng.randint(1, 2),
        rng.randint(1, 2),
        rng.choice(["sum", "mean", "running_mean"]),
        _allowed(schedule, rng.choice([None, None, *RecomputationMode])),
        training,
        rng.randint(1, 4),
        tuple(rng.random() < 0.25 for _ in range(4)),  # type: ignore[arg-type]
    )


def _allowed(schedule: Any, mode: RecomputationMode | None) -> Any:
    """The mode, or Auto where the schedule does not have it."""
    refused = {
        "Sequential": RecomputationMode.RecomputeThenBackpropagate,
        "Interleaved": RecomputationMode.RecomputeAndBackpropagateInterleaved,
    }
    is_refused = mode is not None and refused.get(schedule.name) is mode
    return RecomputationMode.Auto if is_refused else mode


class Model:
    """The stages of a case as functions, with their variables."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rng = np.random.default_rng(case.seed)
        self.variables: list[Any] = []
        self.others: list[Any] = []
        self.weights: dict[tuple[int, int, int], Any] = {}

    def _weight(self, stage: int, slot: int, rows: int, columns: int) -> Any:
        key = (stage, slot, rows * 1000 + columns)
        if key not in self.weights:
            with tf.init_scope():
                value = self.rng.normal(size=(rows, columns), scale=rows**-0.5)
                self.weights[key] = tf.Variable(value.astype("float32"))
            self.variables.append(self.weights[key])
        return self.weights[key]

    def _statistic(self, stage: int, slot: int, columns: int) -> Any:
        key = (-1 - stage, slot, columns)
        if key not in self.weights:
            with tf.init_scope():
                zeros = np.zeros(columns, "float32")
                self.weights[key] = tf.Variable(zeros, trainable=False)
            self.others.append(self.weights[key])
        return self.weights[key]

    def _apply(self, stage: int, slot: int, op: Op, values: list[Any]) -> None:
        kind, first, second = op
        a = first % len(values)
        b = second % len(values)
        x, y = values[a], values[b]
        columns = int(x.shape[1])
        if kind == "dense":
            values[a] = tf.tanh(x @ self._weight(stage, slot, columns, 4 + second % 3))
        elif kind == "shared":  # with all stages of this IPU
            home = self.case.mapping.index(self.case.mapping[stage])
            values[a] = tf.nn.relu(x @ self._weight(home, 99, columns, columns)) + x
        elif kind == "dropout":
            values[a] = tf.nn.dropout(x, 0.25)
        elif kind == "add" and x.shape == y.shape:
            values[a] = x + y * 0.5
        elif kind == "concat" and columns + int(y.shape[1]) < 16:
            values[a] = tf.concat([x, y], 1)
        elif kind == "norm":
            mean = tf.reduce_mean(x, 1, keepdims=True)
            values[a] = (x - mean) * tf.math.rsqrt(
                tf.reduce_mean((x - mean) ** 2) + 0.1
            )
        elif kind == "loop":
            w = self._weight(stage, slot, columns, columns)
            values[a] = loops.repeat(2 + first % 2, lambda h: tf.sin(h @ w) + h, [x])
        elif kind == "branch":
            values[a] = tf.cond(
                tf.reduce_sum(x) > 0.0, lambda: tf.sin(x), lambda: x * 0.5
            )
        elif kind == "statistics":
            mean = self._statistic(stage, slot, columns)
            mean.assign(mean * 0.9 + tf.reduce_mean(x, 0) * 0.1)
            values[a] = x - mean
        elif kind == "checkpoint":
            values[a] = recomputation_checkpoint(x)
        elif kind == "drop" and len(values) > 1:
            del values[a]

    def stage(self, number: int) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            values = list(args)
            if number == 0:
                values = [values[0], values[0] * 0.5, values[0] + 1.0]
            for slot, op in enumerate(self.case.stages[number]):
                self._apply(number, slot, op, values)
            if number == len(self.case.stages) - 1:
                return tf.add_n([tf.reduce_mean(v * v) for v in values])
            return tuple(values)

        return run

    def stages(self) -> list[Callable[..., Any]]:
        return [self.stage(i) for i in range(len(self.case.stages))]


def attach(case: Case | None) -> None:
    config = ipu.config.IPUConfig()
    used = 1 if case is None else 1 + max(case.mapping)
    config.auto_select_ipus = 1 << (used - 1).bit_length()
    config.allow_recompute = case is not None and case.recompute is not None
    config.configure_ipu_system()


def feed(case: Case) -> Any:
    x = np.random.default_rng(case.seed + 1).normal(size=(24, 4)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices(x).batch(ROWS, drop_remainder=True)
    queue = ipu.ipu_infeed_queue.IPUInfeedQueue(data.repeat())
    assert queue.initializer is None
    return queue


def results(case: Case, build: Callable[..., None]) -> list[np.ndarray]:
    """What a program leaves: build(model, infeed, outfeed, optimizer) traces it."""
    tf.random.set_seed(case.seed)
    model = Model(case)
    infeed, outfeed = feed(case), ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)

    @tf.function(jit_compile=True)
    def run() -> None:
        build(model, infeed, outfeed, optimizer)

    run()
    fed = outfeed.dequeue()
    fed = fed[0] if isinstance(fed, list) else fed
    return [v.numpy() for v in (*model.variables, *model.others)] + [fed.numpy()]


def in_a_pipeline(model: Model, infeed: Any, outfeed: Any, optimizer: Any) -> None:
    case = model.case

    def optimize(loss: Any) -> OptimizerFunctionOutput:
        return OptimizerFunctionOutput(optimizer, loss, variables=model.variables)

    pipeline(
        model.stages(),
        gradient_accumulation_count=case.count,
        repeat_count=case.repeats,
        infeed_queue=infeed,
        outfeed_queue=outfeed,
        optimizer_function=optimize if case.training else None,
        device_mapping=case.mapping,
        pipeline_schedule=case.schedule,
        recomputation_mode=case.recompute,
        reduction_method=case.method,
        offload_activations=case.offload[0],
        offload_gradient_accumulation_buffers=case.offload[1],
        offload_weight_update_variables=case.offload[2],
        offload_weights=case.offload[3],
    )


def in_a_loop(model: Model, infeed: Any, outfeed: Any, optimizer: Any) -> None:
    case = model.case

    def micro_batch() -> Any:
        args, _ = infeed._dequeue_arguments()
        for stage in model.stages():
            result = stage(*args)
            args = result if isinstance(result, tuple) else (result,)
        outfeed.enqueue(args[0])
        if not case.training:
            return [], []
        gradients = tf.gradients(args[0], model.variables)
        return list(zip(gradients, model.variables, strict=True)), []

    def step() -> None:
        pairs, _ = accumulate(case.count, micro_batch, (), case.method)
        if case.training:
            optimizer.apply_gradients(pairs)

    loops.repeat(case.repeats, step)


def check(seed: int) -> None:
    case = case_of(seed)
    attach(None)
    _threads.set_num_threads(1)
    try:
        expected = results(case, in_a_loop)
    except ValueError as error:  # the stages have dropped what depends on variables
        assert "No gradients provided" in str(error)
        return
    attach(case)
    _threads.set_num_threads(case.threads)
    found = results(case, in_a_pipeline)
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=f"value {i} of {case}")


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = _threads.num_threads()
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--enable_hlo_verifier")
    flags._forget()
    yield
    monkeypatch.undo()
    flags._forget()
    _threads.set_num_threads(threads)
    attach(None)


@pytest.mark.parametrize("block", range(5))
def test_random_pipelines(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(200))
def test_many_random_pipelines(block: int) -> None:
    for seed in range(1000 + 100 * block, 1000 + 100 * block + 100):
        check(seed)


if __name__ == "__main__":
    print(case_of(int(sys.argv[1])))
    check(int(sys.argv[1]))
