# SPDX-License-Identifier: MIT
"""Pipelines give, to the bit, what a plain loop with accumulation gives."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import _core, keras, loops, tf
from ipu._config import flags
from ipu._loops.accumulation import accumulate
from ipu.ops.pipelining_ops import (
    OptimizerFunctionOutput,
    PipelineSchedule,
    RecomputationMode,
    pipeline,
    recomputation_checkpoint,
)
from ipu.scopes import stochastic_rounding

SCHEDULES = list(PipelineSchedule)
ONE_STAGE_EACH = [
    s for s in SCHEDULES if s is not PipelineSchedule.InterleavedOneForwardOneBackward
]


@pytest.fixture(autouse=True)
def _one_ipu_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs and programs are verified; afterwards there is one IPU again."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--enable_hlo_verifier")
    flags._forget()
    yield
    monkeypatch.undo()
    flags._forget()
    attach(1)


class Model(NamedTuple):
    """Stages, the variables that they train, and the others that they change."""

    stages: Sequence[Any]
    variables: list[Any]
    others: list[Any]


def dense(rng: np.random.Generator, rows: int, columns: int) -> Any:
    values = rng.normal(size=(rows, columns), scale=rows**-0.5)
    return tf.Variable(values.astype("float32"))


def chain(stages: int) -> Model:
    """Dense layers; the labels go through all stages."""
    rng = np.random.default_rng(3)
    weights = [dense(rng, 16, 16 if i < stages - 1 else 4) for i in range(stages)]
    biases = [tf.Variable(np.zeros(int(w.shape[1]), "float32")) for w in weights]

    def stage(i: int) -> Callable[..., Any]:
        def first_ones(x: Any, y: Any) -> Any:
            return tf.tanh(x @ weights[i] + biases[i]), y

        def last_one(x: Any, y: Any) -> Any:
            return tf.reduce_mean((x @ weights[i] + biases[i] - y) ** 2)

        return first_ones if i < stages - 1 else last_one

    return Model([stage(i) for i in range(stages)], weights + biases, [])


def skips_dropout_and_statistics() -> Model:
    """Four stages: a skip from the first to the last one, dropout in two, a moving mean
    that a stage keeps, a loop in another one."""
    rng = np.random.default_rng(4)
    a, b, c, d = (dense(rng, 16, 16) for _ in range(4))
    out = dense(rng, 32, 4)
    mean = tf.Variable(np.zeros(16, "float32"), trainable=False)

    def first(x: Any, y: Any) -> Any:
        return tf.nn.relu(x @ a), x, y

    def second(h: Any, x: Any, y: Any) -> Any:
        batch = tf.reduce_mean(h, 0)
        mean.assign(mean * 0.9 + batch * 0.1)
        h = tf.nn.dropout((h - batch) @ b, 0.25)
        return {"h": h, "x": x, "y": y}

    def third(h: Any, x: Any, y: Any) -> Any:
        for _ in tf.range(3):
            h = tf.tanh(h @ c) + h
        return h, x, y

    def last(h: Any, x: Any, y: Any) -> Any:
        h = tf.concat([tf.nn.dropout(tf.tanh(h @ d), 0.5), x], 1) @ out
        return tf.reduce_mean(tf.abs(h - y))

    return Model([first, second, third, last], [a, b, c, d, out], [mean])


MODELS: dict[str, Callable[[], Model]] = {
    "two": lambda: chain(2),
    "four": lambda: chain(4),
    "skips": skips_dropout_and_statistics,
}


def feed() -> Any:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(24, 16)).astype("float32")
    y = rng.normal(size=(24, 4)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(3, drop_remainder=True)
    return ipu.ipu_infeed_queue.IPUInfeedQueue(data.repeat())


def values(model: Model, losses: Any) -> list[np.ndarray]:
    return [v.numpy() for v in (*model.variables, *model.others)] + [losses.numpy()]


programs: list[Any] = []  # that `train` has run
texts: list[str] = []  # of their graphs


def train(
    make: Callable[[], Model],
    count: int,
    repeats: int,
    optimizer: Callable[[], Any],
    records: bool = False,
    **options: Any,
) -> list[np.ndarray]:
    """What a pipeline leaves."""
    tf.random.set_seed(11)
    model = make()
    infeed, outfeed = feed(), ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    opt = optimizer()

    def optimize(loss: Any) -> OptimizerFunctionOutput:
        return OptimizerFunctionOutput(opt, loss, variables=model.variables)

    @tf.function(jit_compile=True)
    def run() -> Any:
        operation = pipeline(
            model.stages,
            gradient_accumulation_count=count,
            repeat_count=repeats,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimize,
            **options,
        )
        trace = _core.open_trace()
        assert trace is not None
        texts.append(trace.text)
        return operation

    assert infeed.initializer is None
    run()
    programs.append(next(iter(run._cache.values())).traced.program)
    programs[-1].records = records
    run()
    return values(model, outfeed.dequeue()[0])


def plain(
    make: Callable[[], Model], count: int, repeats: int, optimizer: Callable[[], Any]
) -> list[np.ndarray]:
    """The same without a pipeline."""
    tf.random.set_seed(11)
    model = make()
    infeed, outfeed = feed(), ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    opt = optimizer()

    def micro_batch() -> Any:
        args, keywords = infeed._dequeue_arguments()
        for stage in model.stages:
            result = stage(*args, **keywords)
            args = tuple(tf.nest.flatten(result))
            keywords = {}
        outfeed.enqueue(list(args))
        gradients = tf.gradients(args[0], model.variables)
        return list(zip(gradients, model.variables, strict=True)), []

    def step() -> None:
        opt.apply_gradients(accumulate(count, micro_batch)[0])

    @tf.function(jit_compile=True)
    def run() -> None:
        loops.repeat(repeats, step)

    assert infeed.initializer is None
    run()
    run()
    return values(model, outfeed.dequeue()[0])


def same(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    assert len(a) == len(b)
    for left, right in zip(a, b, strict=True):
        np.testing.assert_array_equal(left, right)


def adam() -> Any:
    return keras.optimizers.Adam(0.01)


@pytest.mark.parametrize("schedule", ONE_STAGE_EACH, ids=lambda s: s.name)
@pytest.mark.parametrize("model", MODELS)
def test_bits_of_a_plain_loop(model: str, schedule: PipelineSchedule) -> None:
    attach(1)
    expected = plain(MODELS[model], 8, 3, adam)
    attach(2 if model == "two" else 4)
    same(train(MODELS[model], 8, 3, adam, pipeline_schedule=schedule), expected)


@pytest.mark.parametrize(
    ("schedule", "mapping"),
    [
        ("Grouped", [0, 1, 1, 0]),
        ("Grouped", [0, 0, 0, 0]),
        ("Sequential", [1, 1, 0, 0]),
        ("GPipe", [0, 1, 0, 1]),
        ("InterleavedOneForwardOneBackward", [0, 1, 0, 1]),
        ("OneForwardOneBackward", [0, 1, 2, 3]),
    ],
)
def test_bits_under_any_mapping(schedule: str, mapping: list[int]) -> None:
    attach(1)
    expected = plain(skips_dropout_and_statistics, 8, 2, adam)
    attach(1 + max(mapping))
    result = train(
        skips_dropout_and_statistics,
        8,
        2,
        adam,
        pipeline_schedule=PipelineSchedule[schedule],
        device_mapping=mapping,
    )
    same(result, expected)


def checkpointed(stages: int) -> Model:
    """Stages of eight layers with a checkpoint in their middle, and dropout."""
    rng = np.random.default_rng(6)
    weights = [dense(rng, 16, 16) for _ in range(8 * stages)]
    out = dense(rng, 16, 4)

    def stage(i: int) -> Callable[..., Any]:
        def run(x: Any, y: Any) -> Any:
            for k in range(8 * i, 8 * i + 8):
                x = tf.tanh(tf.nn.dropout(x, 0.1) @ weights[k])
                if k == 8 * i + 3:
                    x = recomputation_checkpoint(x)
            return (x, y) if i < stages - 1 else tf.reduce_mean((x @ out - y) ** 2)

        return run

    return Model([stage(i) for i in range(stages)], [*weights, out], [])


@pytest.mark.parametrize("mode", list(RecomputationMode), ids=lambda m: m.name)
@pytest.mark.parametrize(
    "make",
    [skips_dropout_and_statistics, lambda: checkpointed(4)],
    ids=["skips", "deep"],
)
def test_bits_under_recomputation(
    make: Callable[[], Model], mode: RecomputationMode
) -> None:
    attach(1)
    expected = plain(make, 8, 2, adam)
    attach(4, allow_recompute=True)
    same(train(make, 8, 2, adam, recomputation_mode=mode), expected)


def halves(make: Callable[[], Model]) -> Model:
    """The same with activations of float16, which are rounded stochastically."""
    model = make()

    def narrow(stage: Callable[..., Any]) -> Callable[..., Any]:
        def run(x: Any, y: Any) -> Any:
            with stochastic_rounding(True):
                x = tf.cast(tf.cast(x, tf.float16) / 3.0, tf.float32)
            return stage(x, y)

        return run

    return Model([narrow(s) for s in model.stages], model.variables, model.others)


@pytest.mark.parametrize("mode", list(RecomputationMode), ids=lambda m: m.name)
def test_bits_of_halves_under_recomputation(mode: RecomputationMode) -> None:
    def make() -> Model:
        return halves(lambda: checkpointed(4))

    attach(4)
    expected = train(make, 8, 2, adam)
    assert "rounding=" in texts[-1]
    attach(4, allow_recompute=True)
    same(train(make, 8, 2, adam, recomputation_mode=mode), expected)


def test_a_pipeline_is_printed_and_parsed() -> None:
    attach(4, allow_recompute=True)
    train(skips_dropout_and_statistics, 8, 2, adam, offload_weights=True)
    text = texts[-1]
    assert "pipeline(" in text and 'schedule="Grouped"' in text
    assert "devices=[0,1,2,3]" in text.replace(" ", "")
    assert "phase=1" in text and "stage=3" in text and " remote " in text
    assert _core.graph_round_trip(text) == re.sub("  # .*", "", text)


def test_what_ran_is_recorded() -> None:
    attach(2)
    train(MODELS["two"], 8, 2, adam)
    assert programs[-1].recorded == []
    train(MODELS["two"], 8, 2, adam, records=True)
    actions = programs[-1].recorded
    assert len(actions) == 2 * 2 * 8
    for ipu_number in range(2):
        own = [a for a in actions if a[0] == ipu_number]
        assert all(a[4] <= a[5] for a in own)
        assert all(a[5] <= b[4] for a, b in itertools.pairwise(own))
    ends = {a[1:4]: a[5] for a in actions}
    assert all(ends["F", 0, m] < ends["F", 1, m] for m in range(8))
    table = ipu.Timetable(
        PipelineSchedule.Grouped, 2, [0, 1], 8, training=True, recorded=actions
    )
    assert table.recorded_idle_share is not None
    assert 0 <= table.recorded_idle_share < 1


def test_recomputation_saves_memory() -> None:
    def most_bytes(mode: RecomputationMode | None) -> tuple[int, int]:
        attach(4, allow_recompute=mode is not None)
        train(lambda: checkpointed(4), 8, 1, adam, recomputation_mode=mode)
        first = programs[-1].streams[1]
        return first["ring_bytes"], first["slab_bytes"]

    kept = most_bytes(None)
    at_once = most_bytes(RecomputationMode.RecomputeThenBackpropagate)
    in_turn = most_bytes(RecomputationMode.RecomputeAndBackpropagateInterleaved)
    assert at_once[0] < in_turn[0] < kept[0] / 2
    assert at_once[1] < kept[1] and in_turn[1] < kept[1]


OFFLOADS = {
    "activations": {"offload_activations": True},
    "accumulators": {"offload_gradient_accumulation_buffers": True},
    "state": {"offload_weight_update_variables": True},
    "weights": {"offload_weights": True},
}


@pytest.mark.parametrize("what", [*OFFLOADS, "all"])
@pytest.mark.parametrize("model", ["four", "skips"])
def test_bits_under_offloading(model: str, what: str) -> None:
    attach(1)
    expected = plain(MODELS[model], 8, 2, adam)
    options: dict[str, Any] = {}
    for name, own in OFFLOADS.items():
        options.update(own if what in (name, "all") else {})
    attach(4)
    same(train(MODELS[model], 8, 2, adam, **options), expected)


def test_what_is_offloaded_leaves_the_slab() -> None:
    def first(**options: Any) -> tuple[dict[str, int], str]:
        attach(4)
        train(lambda: checkpointed(4), 8, 1, adam, **options)
        return programs[-1].streams[1], programs[-1].text

    kept, text = first()
    assert kept["remote_bytes"] == 0 and "remote" not in text
    less, _ = first(**OFFLOADS["activations"])
    assert less["ring_bytes"] == 0
    assert less["remote_bytes"] >= kept["ring_bytes"]
    assert less["slab_bytes"] < kept["slab_bytes"] - kept["ring_bytes"] / 2
    less, _ = first(**OFFLOADS["accumulators"])
    assert less["remote_bytes"] >= 8 * 16 * 16 * 4
    assert less["slab_bytes"] <= kept["slab_bytes"] - 7 * 16 * 16 * 4
    _, text = first(**OFFLOADS["state"])
    updates = [line for line in text.splitlines() if "fused_update.formulas" in line]
    assert updates and all("-> variable" in line for line in updates)
    assert all(line.split("->")[1].count("variable") == 1 for line in updates)
    _, text = first(**OFFLOADS["weights"])
    products = [line for line in text.splitlines() if "matmul" in line]
    assert products and not any("variable" in line for line in products)
