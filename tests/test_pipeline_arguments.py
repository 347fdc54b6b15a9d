# SPDX-License-Identifier: MIT
"""The arguments of ``pipelining_ops.pipeline``: what each does."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach
from small_pipelines import TWO, Stage, fails, numbers, run, trained

import ipu
from ipu import keras, loops, tf
from ipu.eager.backprop import GradientCaptureContext
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.ops.grad_util_ops import capture_upstream_gradients
from ipu.ops.pipelining_ops import (
    OptimizerFunctionOutput,
    PipelineSchedule,
    RecomputationMode,
    pipeline,
)
from ipu.tf import errors
from ipu.tf.compat.v1.train import GradientDescentOptimizer

pytestmark = pytest.mark.usefixtures("two_ipus")


# --- inference ------------------------------------------------------------------------


def test_inference_gives_what_the_last_stage_returns() -> None:
    assert run(TWO).numpy().tolist() == [11.0, 21.0, 31.0, 41.0]
    as_dict = run([TWO[0], lambda x: {"a": x, "b": (x + 1.0, x + 2.0)}], 2)
    assert as_dict["a"].numpy().tolist() == [10.0, 20.0]
    assert as_dict["b"][1].numpy().tolist() == [12.0, 22.0]
    as_list = run([TWO[0], lambda x: (x, x + 1.0)], 2)
    assert isinstance(as_list, list) and as_list[1].numpy().tolist() == [11.0, 21.0]


def test_inputs_come_before_the_infeed_and_stay_the_same() -> None:
    result = run([lambda a, b, x: (x * a, b), lambda x, b: x + b], inputs=[10.0, 1.0])
    assert result.numpy().tolist() == [11.0, 21.0, 31.0, 41.0]
    no_feed = run(
        [lambda a: a * 2.0, lambda a: a + 1.0], 2, inputs=3.0, infeed_queue=None
    )
    assert no_feed.numpy().tolist() == [7.0, 7.0]


def test_repeat_count_runs_whole_executions() -> None:
    result = run(TWO, 2, repeat_count=3)
    assert result.numpy().tolist() == [11.0, 21.0, 31.0, 41.0, 51.0, 61.0]


def test_elements_with_names_become_keyword_arguments() -> None:
    data = tf.data.Dataset.from_tensors({"a": 1.0, "b": 2.0}).repeat()
    queue = IPUInfeedQueue(data)
    assert queue.initializer is None
    result = run([lambda b, a: a - b, lambda x: x], 2, infeed_queue=queue)
    assert result.numpy().tolist() == [-1.0, -1.0]


def test_stages_that_return_nothing() -> None:
    seen = tf.Variable(0.0)

    def last(x: Any) -> None:
        seen.assign_add(x)

    assert run([lambda x: x, last], outfeed_queue=False) is None
    assert float(seen) == 10.0


def test_a_pipeline_inside_of_a_loop_and_a_function() -> None:
    outfeed, infeed = IPUOutfeedQueue(), numbers()

    def inner() -> Any:
        return pipeline(
            TWO,
            gradient_accumulation_count=2,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
        )

    @tf.function(jit_compile=True)
    def program(n: Any) -> Any:
        def body(total: Any) -> Any:
            inner()
            return total + 1.0

        return loops.repeat(n, body, [tf.constant(0.0)])

    assert float(program(tf.constant(3))) == 3.0
    assert outfeed.dequeue().numpy().tolist() == [11.0, 21.0, 31.0, 41.0, 51.0, 61.0]


def test_concurrent_stages() -> None:
    attach(4)
    result = run(
        [
            lambda x: x,
            [lambda x: x * 2.0, lambda x: (x * 3.0, x)],
            lambda a, b, x: a + b + x,
        ],
        3,
        device_mapping=[0, [1, 2], 3],
    )
    assert result.numpy().tolist() == [6.0, 12.0, 18.0]


def test_concurrent_stages_train() -> None:
    attach(4)
    u, v = tf.Variable(2.0), tf.Variable(3.0)
    opt = keras.optimizers.SGD(0.5)
    run(
        [lambda x: x, [lambda x: x * u, lambda x: x * v], lambda a, b: a + b],
        6,
        device_mapping=[0, [1, 2], 3],
        optimizer_function=lambda y: OptimizerFunctionOutput(opt, y, variables=[u, v]),
    )
    assert [float(u), float(v)] == [2.0 - 10.5, 3.0 - 10.5]


def test_concurrent_stages_train_what_both_of_them_use() -> None:
    attach(4)
    u, v, w = tf.Variable(2.0), tf.Variable(3.0), tf.Variable(1.0)
    opt = keras.optimizers.SGD(0.5)
    run(
        [
            lambda x: x * w,
            [lambda h: tf.sin(h) * u, lambda h: (h * v, h)],
            lambda a, b, h: a + b + h,
        ],
        6,
        device_mapping=[0, [1, 2], 3],
        optimizer_function=lambda y: OptimizerFunctionOutput(
            opt, y, variables=[u, v, w]
        ),
    )
    x = np.arange(1.0, 7.0)
    assert float(u) == pytest.approx(2.0 - 0.5 * np.sin(x).sum(), rel=1e-6)
    assert float(v) == 3.0 - 0.5 * x.sum()
    back = (x * (2.0 * np.cos(x) + 3.0 + 1.0)).sum()
    assert float(w) == pytest.approx(1.0 - 0.5 * back, rel=1e-6)


@pytest.mark.parametrize(
    "schedule",
    [s for s in PipelineSchedule if s.name != "InterleavedOneForwardOneBackward"],
    ids=lambda schedule: schedule.name,
)
def test_concurrent_stages_are_fed_by_the_infeed(schedule: PipelineSchedule) -> None:
    attach(4)
    u, v = tf.Variable(2.0), tf.Variable(3.0)
    opt = keras.optimizers.SGD(0.5)
    result = run(
        [
            [lambda x: x * u, lambda x: x * v, lambda x: x * x],
            lambda a, b, c: a + b + c,
        ],
        8,
        device_mapping=[[0, 1, 2], 3],
        pipeline_schedule=schedule,
        outfeed_loss=True,
        optimizer_function=lambda y: OptimizerFunctionOutput(opt, y, variables=[u, v]),
    )
    assert result.numpy().tolist() == [x * 5.0 + x * x for x in range(1, 9)]
    assert [float(u), float(v)] == [2.0 - 18.0, 3.0 - 18.0]


PLAIN = [s for s in PipelineSchedule if s.name != "InterleavedOneForwardOneBackward"]


@pytest.mark.parametrize("schedule", PLAIN, ids=lambda schedule: schedule.name)
def test_concurrent_stages_in_the_last_position(schedule: PipelineSchedule) -> None:
    attach(4)
    last = [lambda x: x * 2.0, lambda x: (x, x + 1.0), lambda x: {"a": -x}]
    first = [lambda x: x * 10.0]
    devices = {"device_mapping": [0, [1, 2, 3]], "pipeline_schedule": schedule}
    for repeat in (1, 3):
        got = run([*first, last], 2, repeat_count=repeat, **devices)
        x = 10.0 * np.arange(1.0, 2.0 * repeat + 1)
        want = [2.0 * x, x, x + 1.0, -x]
        np.testing.assert_array_equal([one.numpy() for one in got], want)
    sums = run([*first, last], 2, accumulate_outfeed=True, **devices)
    assert [one.numpy().tolist() for one in sums] == [[60.0], [30.0], [32.0], [-30.0]]


@pytest.mark.parametrize("schedule", PLAIN, ids=lambda schedule: schedule.name)
@pytest.mark.parametrize("kind", ["keras", "tf1", "recomputed"])
def test_concurrent_stages_in_the_last_position_train(
    schedule: PipelineSchedule, kind: str
) -> None:
    attach(4, allow_recompute=kind == "recomputed")
    u, v, w = tf.Variable(2.0), tf.Variable(3.0), tf.Variable(1.0)
    trained: dict[str, Any] = {"variables": [u, v, w]}
    opt: Any = keras.optimizers.SGD(0.01)
    if kind == "tf1":
        opt, trained = GradientDescentOptimizer(0.01), {}
    stages = [lambda x: x * w, [lambda h: h * u, lambda h: tf.sin(h) * v]]
    got = run(
        stages,
        8,
        repeat_count=2,
        device_mapping=[0, [1, 2]],
        pipeline_schedule=schedule,
        optimizer_function=lambda a, b: OptimizerFunctionOutput(opt, a * b, **trained),
    )
    a, b, c = 2.0, 3.0, 1.0
    firsts, seconds = [], []
    for begin in (1.0, 9.0):
        x = np.arange(begin, begin + 8.0)
        h = x * c
        firsts += list(h * a)
        seconds += list(np.sin(h) * b)
        back = a * b * (np.sin(h) + h * np.cos(h))
        steps = [(h * np.sin(h) * b).sum(), (h * a * np.sin(h)).sum(), (x * back).sum()]
        a, b, c = (old - 0.01 * s for old, s in zip((a, b, c), steps, strict=True))
    np.testing.assert_allclose(got[0].numpy(), firsts, rtol=1e-4)
    np.testing.assert_allclose(got[1].numpy(), seconds, rtol=1e-3)
    np.testing.assert_allclose([float(u), float(v), float(w)], [a, b, c], rtol=1e-4)


def test_concurrent_stages_alone() -> None:
    attach(4)
    got = run(
        [[lambda x: x, lambda x: -x], [lambda a, b: a - b, lambda a, b: a * b]],
        4,
        device_mapping=[[0, 1], [2, 3]],
    )
    assert got[0].numpy().tolist() == [2.0, 4.0, 6.0, 8.0]
    assert got[1].numpy().tolist() == [-1.0, -4.0, -9.0, -16.0]


def test_concurrent_stages_do_not_see_each_other() -> None:
    attach(4)
    seen: list[Any] = []

    def one(x: Any) -> Any:
        seen.append(x * 2.0)
        return x

    with pytest.raises(
        errors.InvalidArgumentError,
        match="stage 2 uses a tensor of stage 1, which does not run before it",
    ):
        run(
            [lambda x: x, [one, lambda x: x + seen[-1]], lambda a, b: a + b],
            3,
            device_mapping=[0, [1, 2], 3],
        )


# --- training -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "expected"), [("sum", 10.0), ("MEAN", 2.5), ("running_mean", 2.5)]
)
def test_reduction_methods(method: str, expected: float) -> None:
    v = tf.Variable(0.0)
    stages, optimize = trained(v)
    run(stages, optimizer_function=optimize, reduction_method=method)
    assert float(v) == -expected


def test_a_learning_rate_from_the_inputs() -> None:
    v, infeed, outfeed = tf.Variable(0.0), numbers(), IPUOutfeedQueue()

    def optimize(rate: Any, y: Any) -> OptimizerFunctionOutput:
        return OptimizerFunctionOutput(keras.optimizers.SGD(rate), y, variables=[v])

    def build(rate: Any) -> Any:
        return pipeline(
            [lambda r, x: (r, x * v), lambda r, y: (r, y)],
            4,
            inputs=[rate],
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimize,
        )

    program = tf.function(build, jit_compile=True)
    program(tf.constant(0.5))
    assert float(v) == -0.5 * (1 + 2 + 3 + 4)
    program(tf.constant(0.25))
    assert float(v) == -5.0 - 0.25 * (5 + 6 + 7 + 8)
    v.assign(0.0)
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        ipu.ipu_compiler.compile(build, inputs=[2.0])
    assert float(v) == -2.0 * (9 + 10 + 11 + 12)


def test_an_optimizer_of_tensorflow_1_trains_what_the_stages_use() -> None:
    u, v = tf.Variable(2.0), tf.Variable(3.0)
    stages: list[Stage] = [lambda x: x * u, lambda y: y * v]
    run(
        stages,
        optimizer_function=lambda y: OptimizerFunctionOutput(
            GradientDescentOptimizer(0.5), y
        ),
    )
    assert (float(u), float(v)) == (2.0 - 15.0, 3.0 - 10.0)
    fails(
        ValueError,
        "No variables to optimize",
        TWO,
        optimizer_function=lambda y: OptimizerFunctionOutput(
            GradientDescentOptimizer(0.5), y
        ),
    )


def test_outfed_values_of_training() -> None:
    v = tf.Variable(2.0)
    stages, optimize = trained(v)

    def outfed(**options: Any) -> Any:
        v.assign(2.0)
        return run(stages, optimizer_function=optimize, **options)

    x, y = outfed()
    assert x.numpy().tolist() == [1.0, 2.0, 3.0, 4.0]
    assert y.numpy().tolist() == [2.0, 4.0, 6.0, 8.0]
    assert outfed(outfeed_loss=True).numpy().tolist() == [2.0, 4.0, 6.0, 8.0]
    (only,) = outfed(outfeed_mask=[True, False])
    assert only.numpy().tolist() == [2.0, 4.0, 6.0, 8.0]
    assert outfed(outfeed_mask=[True, True], outfeed_queue=False) is None
    sums = outfed(accumulate_outfeed=True)
    assert [s.numpy().tolist() for s in sums] == [[10.0], [20.0]]
    assert outfed(accumulate_outfeed=True, outfeed_loss=True).numpy().tolist() == [20.0]
    (single,) = run(
        [lambda x: x * v, lambda y: y],
        optimizer_function=lambda y: OptimizerFunctionOutput(
            keras.optimizers.SGD(0.0), y, variables=[v]
        ),
    )
    assert single.shape == (4,)


def test_outfeed_sums_of_inference_and_their_dtype() -> None:
    result = run(
        [lambda x: tf.cast(x, "float16"), lambda x: x],
        accumulate_outfeed=True,
        accumulate_outfeed_dtype=lambda tensor: tf.float32,
    )
    assert [r.numpy().tolist() for r in result] == [[10.0]]
    assert result[0].dtype == tf.float32


def test_what_a_tape_has_watched_is_trained() -> None:
    v, w = tf.Variable(2.0), tf.Variable(5.0)
    tape = tf.GradientTape()
    opt = keras.optimizers.SGD(1.0)

    def second(x: Any) -> Any:
        with tape:
            return x * v

    run(
        [lambda x: x * w, second],
        optimizer_function=lambda y: OptimizerFunctionOutput(opt, y, tape=tape),
    )
    assert (float(v), float(w)) == (2.0 - 50.0, 5.0)


def test_accumulators_of_another_dtype() -> None:
    v = tf.Variable(np.float16(0.0))
    got: list[Any] = []

    class Own(keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars: Any, *args: Any, **kw: Any) -> Any:
            pairs = list(grads_and_vars)
            got.extend((g.dtype, args, kw) for g, _ in pairs)
            super().apply_gradients([(tf.cast(g, v.dtype), v) for g, v in pairs])

    run(
        [lambda x: tf.cast(x, "float16") * v, lambda y: y],
        gradient_accumulation_dtype=tf.float32,
        optimizer_function=lambda y: OptimizerFunctionOutput(
            Own(0.5),
            y,
            variables=[v],
            apply_gradients_args=("a name",),
            apply_gradients_kwargs={"experimental_aggregate_gradients": False},
        ),
    )
    assert float(v) == -5.0
    assert got == [
        (tf.float32, ("a name",), {"experimental_aggregate_gradients": False})
    ]


def test_batch_serialization() -> None:
    attach(1)
    v = tf.Variable(0.0)
    stages, optimize = trained(v)
    _, y = run(stages, 2, batch_serialization_iterations=3, optimizer_function=optimize)
    assert y.shape == (6,)
    assert float(v) == -21.0


def test_shared_variables_on_one_ipu() -> None:
    v = tf.Variable(3.0)
    opt = keras.optimizers.SGD(1.0)
    attach(2)
    run(
        [lambda x: x * v, lambda x: x + 1.0, lambda x: x * v],
        6,
        device_mapping=[0, 1, 0],
        optimizer_function=lambda y: OptimizerFunctionOutput(opt, y, variables=[v]),
    )
    # d/dv (x v + 1) v = 2 x v + 1
    assert float(v) == 3.0 - (6.0 * 21.0 + 6.0)


def test_clipping_by_the_norm_of_all_gradients() -> None:
    """The update needs gradients of several IPUs at once."""
    u, v = tf.Variable(1.0), tf.Variable(1.0)
    opt = keras.optimizers.SGD(1.0, global_clipnorm=5.0)
    run(
        [lambda x: 3.0 * u + 0.0 * x, lambda y: y + 4.0 * v],
        optimizer_function=lambda y: OptimizerFunctionOutput(opt, y, variables=[u, v]),
    )
    np.testing.assert_allclose([float(u), float(v)], [1 - 3.0, 1 - 4.0], rtol=1e-6)


# --- captured gradients ---------------------------------------------------------------


@pytest.mark.parametrize(("accumulates", "expected"), [(True, 30.0), (False, 12.0)])
def test_captured_gradients(accumulates: bool, expected: float) -> None:
    """d/dh of v h, for h = 3 x: v; d/dx: 3 v; what comes back to `h * x` is x v."""
    v = tf.Variable(1.0)
    context, queue = GradientCaptureContext(), IPUOutfeedQueue()
    got: list[Any] = []

    class Own(keras.optimizers.SGD):
        supports_captured_grads = True

        def apply_gradients(self, pairs: Any, captured_grads: Any = None) -> Any:
            got.append({tag: g.shape for tag, g in captured_grads.items()})
            return super().apply_gradients(pairs)

    def first(x: Any) -> Any:
        with context:
            return capture_upstream_gradients(v * x, tag="h"), x

    run(
        [first, lambda h, x: 3.0 * h * x],
        optimizer_function=lambda y: OptimizerFunctionOutput(
            Own(0.0),
            y,
            variables=[v],
            gradient_capture_context=context,
            captured_gradient_outfeed=queue,
        ),
        gradient_accumulation_for_captured_grads=accumulates,
    )
    assert queue.dequeue()["h"].numpy().tolist() == [expected]
    assert got == [{"h": ()}]


def test_capturing_needs_a_context() -> None:
    with pytest.raises(RuntimeError, match="needs a place for what it captures"):
        capture_upstream_gradients(tf.constant(1.0))


def test_several_gradients_of_a_tag() -> None:
    x = tf.constant(3.0)
    with GradientCaptureContext() as context, tf.GradientTape() as tape:
        tape.watch(x)
        a, b = capture_upstream_gradients((x * x, x + 1.0), tag="both")
        y = 5.0 * a + 7.0 * b
    tape.gradient(y, x)
    assert sorted(float(g) for g in context.captured_gradients["both"]) == [5.0, 7.0]


# --- counts ---------------------------------------------------------------------------


def test_a_count_that_is_a_tensor() -> None:
    assert run(TWO, tf.constant(4)).shape == (4,)
    queue = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def program(n: Any) -> Any:
        count = tf.constant(2) * 3
        pipeline(TWO, count, inputs=[1.0], outfeed_queue=queue)
        return n

    program(tf.constant(1))
    assert queue.dequeue().shape == (6,)

    @tf.function(jit_compile=True)
    def unknown(n: Any) -> Any:
        return pipeline(TWO, n, inputs=[1.0], outfeed_queue=queue)

    with pytest.raises(errors.InvalidArgumentError, match="known"):
        unknown(tf.constant(4))


def test_tiles_for_feeds_change_the_legal_counts() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.io_tiles.num_io_tiles = 32
    config.io_tiles.place_ops_on_io_tiles = True
    config.configure_ipu_system()
    assert run(TWO, 5).shape == (5,)
    fails(errors.FailedPreconditionError, "at least 4", TWO, 3)


@pytest.mark.parametrize(
    "name",
    ["cross_replica_ops", "grad_util_ops", "pipelining_ops", "replication_ops"],
)
def test_modules_of_ops_have_two_paths(name: str) -> None:
    short, long = f"ipu.{name}", f"ipu.ops.{name}"
    code = (
        f"import {short}, {long}; from {short} import __all__; import ipu; "
        f"assert {short} is {long} is ipu.ops.{name}"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("schedule", "mode", "instead"),
    [
        ("Sequential", "RecomputeThenBackpropagate", "AndBackpropagateInterleaved"),
        ("Interleaved", "RecomputeAndBackpropagateInterleaved", "ThenBackpropagate"),
    ],
)
def test_recomputation_that_a_schedule_does_not_have(
    schedule: str, mode: str, instead: str
) -> None:
    how = {
        "pipeline_schedule": PipelineSchedule[schedule],
        "recomputation_mode": RecomputationMode[mode],
    }
    words = f"{mode} is not supported with PipelineSchedule.{schedule}. .*{instead}"
    with pytest.raises(ValueError, match=words):
        run(TWO, 4, **how)
    assert (
        run(TWO, 4, **{**how, "recomputation_mode": RecomputationMode.Auto}) is not None
    )
    with IPUStrategy().scope():
        model = keras.Sequential([keras.layers.Dense(2) for _ in range(2)])
        model.build((2, 2))
        model.set_pipelining_options(4, **how)
        model.set_pipeline_stage_assignment([0, 1])
        model.compile("sgd", "mse", steps_per_execution=4)
        with pytest.raises(ValueError, match=words):
            model.fit(np.ones((8, 2)), np.ones((8, 2)), 2, verbose=0)
