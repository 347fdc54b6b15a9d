# SPDX-License-Identifier: MIT
"""Programs that are replicated to fill their device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import (
    cross_replica_ops,
    keras,
    loops,
    optimizers,
    replication_ops,
    tf,
)
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.ops.pipelining_ops import OptimizerFunctionOutput, PipelineSchedule, pipeline
from ipu.optimizers import map_gradient_optimizer
from ipu.tf import errors

THREADS = (1, 2, 3, 8)


@pytest.fixture(autouse=True)
def _one_ipu_again() -> Iterator[None]:
    threads = ipu.num_threads()
    yield
    ipu.set_num_threads(threads)
    attach(1)


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, jit_compile=True)


def numbers(count: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.arange(count, dtype=np.float32))


def fed(dataset: Any) -> IPUInfeedQueue:
    queue = IPUInfeedQueue(dataset)
    _ = queue.initializer
    return queue


# --- queues ---------------------------------------------------------------------------


def test_elements_go_round_the_replicas() -> None:
    attach(2)
    queue, out = fed(numbers(40)), IPUOutfeedQueue()

    @compiled
    def run() -> Any:
        return loops.repeat(3, lambda x: out.enqueue({"x": x}), [], queue)

    run()
    np.testing.assert_array_equal(out.dequeue()["x"], [[0, 1], [2, 3], [4, 5]])
    assert out.dequeue()["x"].shape == (0, 2)
    run()
    np.testing.assert_array_equal([e["x"] for e in out], [[6, 7], [8, 9], [10, 11]])


def test_the_last_value_of_each_replica() -> None:
    attach(4)
    queue, out = fed(numbers(40)), IPUOutfeedQueue(IPUOutfeedMode.LAST)
    run = compiled(lambda: loops.repeat(2, lambda x: out.enqueue(x), [], queue))
    run()
    np.testing.assert_array_equal(out.dequeue(), [4, 5, 6, 7])
    with pytest.raises(errors.FailedPreconditionError):
        out.dequeue()


def test_one_replica_has_no_axis() -> None:
    attach(1)
    queue, out = fed(numbers(4)), IPUOutfeedQueue()
    compiled(lambda: loops.repeat(2, lambda x: out.enqueue(x), [], queue))()
    np.testing.assert_array_equal(out.dequeue(), [0, 1])


def _broken(count: int) -> Any:
    """``count`` elements, then one that cannot be made."""

    def check(x: Any) -> Any:
        return tf.debugging.check_numerics(tf.where(x < count, x, np.nan), "broken")

    return numbers(count + 4).map(check)


# elements, their data set, and what the run that misses some fails with
ENDS: dict[str, tuple[Callable[[int], Any], type[Exception]]] = {
    "end": (numbers, errors.OutOfRangeError),
    "error": (_broken, errors.InvalidArgumentError),
    "errors ignored": (
        lambda count: _broken(count).ignore_errors(),
        errors.OutOfRangeError,
    ),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("replicas", [2, 4])
def test_a_turn_that_the_data_do_not_fill_is_begun_by_no_replica(
    replicas: int, depth: int, end: str
) -> None:
    attach(replicas)
    make, error = ENDS[end]
    queue = IPUInfeedQueue(make(2 * replicas + 1), prefetch_depth=depth)
    out, total = IPUOutfeedQueue(), tf.Variable(0.0)

    def body(x: Any) -> None:
        total.assign_add(1.0)
        out.enqueue(total + 100.0 * x)

    run = compiled(lambda n: loops.repeat(n, body, [], queue))
    rows = np.arange(2 * replicas, dtype=np.float32).reshape(2, replicas)
    for first in (0, 2):  # the second pass finds replicas alike
        _ = queue.initializer
        run(1)
        with pytest.raises(error):
            run(2)
        assert float(total) == first + 2.0
        expected = 100.0 * rows + first + [[1.0], [2.0]]
        np.testing.assert_array_equal(out.dequeue(), expected)
        with pytest.raises(Exception, match=r"NaN|out of range"):
            run(1)
        assert float(total) == first + 2.0
        _ = queue.deleter


def test_a_pipeline_that_the_data_do_not_fill_updates_nothing() -> None:
    attach(4)
    queue, out = IPUInfeedQueue(numbers(13)), IPUOutfeedQueue()
    with IPUStrategy().scope():
        w = tf.Variable(1.0)

    def optimize(loss: Any) -> OptimizerFunctionOutput:
        return OptimizerFunctionOutput(keras.optimizers.SGD(0.125), loss, variables=[w])

    @compiled
    def run() -> Any:
        return pipeline(
            [lambda x: x * w, lambda y: y + 0.0],
            gradient_accumulation_count=4,
            infeed_queue=queue,
            outfeed_queue=out,
            optimizer_function=optimize,
        )

    for start in (1.0, -2.5):  # 0 + ... + 7 = 28
        _ = queue.initializer
        run()
        assert float(w) == start - 0.125 * 28.0
        with pytest.raises(errors.OutOfRangeError):
            run()
        assert float(w) == start - 0.125 * 28.0
        _ = queue.deleter
        [rows] = out.dequeue()
        np.testing.assert_array_equal(
            rows.numpy()[:4], start * np.arange(8.0).reshape(4, 2)
        )


def test_replicas_are_alike_after_a_step_that_failed() -> None:
    attach(2)
    total, out = tf.Variable(0.0), IPUOutfeedQueue()

    def body(divisor: Any) -> None:
        total.assign_add(1.0)
        # replica 1 fails, while replica 0 ends its step
        one = 1 // tf.where(replication_ops.replication_index() == 1, divisor, 1)
        total.assign_add(tf.cast(one, "float32"))
        out.enqueue(total)

    run = compiled(lambda d: loops.repeat(1, lambda: body(d)))
    with pytest.raises(errors.InvalidArgumentError):
        run(tf.constant(0))
    before = float(total)
    run(tf.constant(1))
    np.testing.assert_array_equal(out.dequeue()[-1], [before + 2.0, before + 2.0])


def test_an_infeed_has_one_replication_factor() -> None:
    attach(2)
    queue, out = fed(numbers(100)), IPUOutfeedQueue()
    compiled(lambda: loops.repeat(2, lambda x: out.enqueue(x), [], queue))()
    other = IPUOutfeedQueue()

    @compiled
    def pipelined() -> Any:
        return pipeline(
            [lambda x: x + 1.0, lambda x: x * 2.0],
            gradient_accumulation_count=2,
            infeed_queue=queue,
            outfeed_queue=other,
        )

    with pytest.raises(errors.FailedPreconditionError, match="can not be shared"):
        pipelined()


# --- what replicas have of their own --------------------------------------------------


def test_replicas_have_numbers_and_results_are_of_number_0() -> None:
    attach(4)
    out = IPUOutfeedQueue()
    mine = tf.Variable(10)

    @compiled
    def run() -> Any:
        index = replication_ops.replication_index()
        out.enqueue(index)
        mine.assign_add(index + 1)
        return index, mine.value()

    for turn in (1, 2):
        assert [int(t) for t in run()] == [0, 10 + turn]
        np.testing.assert_array_equal(out.dequeue(), [[0, 1, 2, 3]])
    assert int(mine) == 12
    both = compiled(lambda: cross_replica_ops.cross_replica_sum(mine))
    assert int(both()) == 4 * 12  # another program finds the values of replica 0


def test_random_numbers_differ_between_replicas_alone() -> None:
    def draws(ipus: int, threads: int) -> Any:
        attach(ipus)
        ipu.set_num_threads(threads)
        tf.random.set_seed(3)
        out = IPUOutfeedQueue()

        def body() -> None:
            out.enqueue(tf.random.uniform([5]))

        compiled(lambda: loops.repeat(4, body, []))()
        return np.asarray(out.dequeue())

    many = draws(4, 1)
    assert many.shape == (4, 4, 5)
    assert len({row.tobytes() for row in many.reshape(16, 5)}) == 16
    np.testing.assert_array_equal(many[:, 0], draws(1, 1))
    for threads in THREADS:
        np.testing.assert_array_equal(many, draws(4, threads))


# --- where they meet ------------------------------------------------------------------


def over_replicas(ipus: int, function: Callable[[Any], Any]) -> Any:
    """What the replicas get for their elements 1, 2, 3, ..."""
    attach(ipus)
    queue, out = fed(numbers(20).skip(1)), IPUOutfeedQueue()
    compiled(lambda: loops.repeat(1, lambda x: out.enqueue(function(x)), [], queue))()
    return np.asarray(out.dequeue())[0].tolist()


def test_sums_and_means() -> None:
    total, mean = (
        cross_replica_ops.cross_replica_sum,
        cross_replica_ops.cross_replica_mean,
    )
    assert over_replicas(4, total) == [10, 10, 10, 10]
    assert over_replicas(4, mean) == [2.5, 2.5, 2.5, 2.5]
    assert over_replicas(4, lambda x: total(x, 2)) == [3, 3, 7, 7]
    assert over_replicas(4, lambda x: mean(x, replica_group_size=1)) == [1, 2, 3, 4]
    assert over_replicas(4, lambda x: total(tf.cast(x, "int32"))) == [10] * 4
    assert over_replicas(2, lambda x: total(tf.constant(2.0))) == [4, 4]
    with pytest.raises(errors.InvalidArgumentError, match="does not divide the 4"):
        over_replicas(4, lambda x: total(x, 3))
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="replica_group_size"):
            total(1.0, bad)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="floating-point"):
        mean(tf.constant(1))
    assert cross_replica_ops.assume_equal_across_replicas({"a": 1}) == {"a": 1}


def test_the_gradient_of_a_sum_is_the_sum_of_the_gradients() -> None:
    def gradient(x: Any) -> Any:
        y = x * cross_replica_ops.cross_replica_sum(x * x)
        return tf.gradients(y, [x])[0]

    # y_r = x_r S with S = 14 in all: d(sum of all y) / dx_r = S + 2 x_r (x_1 + ...)
    assert over_replicas(2, gradient) == [5 + 2 * 1 * 3, 5 + 2 * 2 * 3]


@pytest.mark.parametrize("wraps_around", [False, True])
def test_no_bit_depends_on_how_sums_are_posted(wraps_around: bool) -> None:
    def run(*values: Any) -> list[Any]:
        sums, total = [], tf.constant(0.0)
        for value in values:
            own = value * tf.cast(replication_ops.replication_index() + 1, tf.float32)
            sums.append(cross_replica_ops.cross_replica_sum(own))
            total += tf.reduce_sum(tf.matmul(own, own)) + tf.reduce_sum(own)
        if wraps_around:
            sums = [cross_replica_ops.cross_replica_mean(one) for one in sums]
            for _ in tf.range(2):
                sums = [cross_replica_ops.cross_replica_sum(one * 0.3) for one in sums]
        return [*sums, cross_replica_ops.cross_replica_sum(total)]

    rng = np.random.default_rng(0)
    values = [tf.constant(rng.normal(size=(n, n)).astype("f4")) for n in (3, 40, 8, 5)]
    found = {}
    for size in (1, 300, 0):  # bytes; 0 is 4 MiB
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 2
        config.optimizations.maximum_cross_replica_sum_buffer_size = size
        config.configure_ipu_system()
        function = compiled(run)
        with IPUStrategy().scope():
            found[size] = [one.numpy().tobytes() for one in function(*values)]
            posts = function.traced(*values).program.text.count("  post ")
        assert posts == {1: 5, 300: 4, 0: 1}[size] or wraps_around
    assert found[0] == found[300] == found[1]


def test_an_update_waits_for_its_own_sums() -> None:
    """Updates of several buckets are several nodes, and have the bits of one."""
    x = np.random.default_rng(0).normal(size=(12, 7)).astype("f4")
    found = {}
    for size in (1, 300, 0):  # bytes; 0 is 4 MiB
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = 2
        config.optimizations.maximum_cross_replica_sum_buffer_size = size
        config.configure_ipu_system()
        keras.utils.set_random_seed(0)
        with IPUStrategy().scope():
            dense = keras.layers.Dense
            model = keras.Sequential([dense(9, "tanh"), dense(5, "relu"), dense(3)])
            optimizer = keras.optimizers.Adam(0.1, clipvalue=0.1)
            model.build((None, 7))

            @tf.function(jit_compile=True)
            def train(x: Any, model: Any = model, optimizer: Any = optimizer) -> None:
                for _ in tf.range(3):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean((model(x) - x[:, :3]) ** 2)
                    variables = model.trainable_variables
                    gradients = tape.gradient(loss, variables)
                    optimizer.apply_gradients(zip(gradients, variables, strict=True))

            train(x)
            found[size] = [one.numpy().tobytes() for one in optimizer.variables]
            found[size] += [one.tobytes() for one in model.get_weights()]
            text = train.traced(x).program.text
        assert text.count("  wait ") == text.count("fused_update")
        assert text.count("fused_update") == {1: 6, 300: 2, 0: 1}[size]
    assert found[0] == found[300] == found[1]


def test_the_strategy_reduces_in_device_code() -> None:
    strategy = IPUStrategy()
    assert over_replicas(2, lambda x: strategy.reduce("SUM", x)) == [3, 3]
    assert over_replicas(2, lambda x: strategy.reduce("mean", x)) == [1.5, 1.5]
    assert strategy.reduce("sum", 5.0) == 5.0
    with pytest.raises(ValueError):
        over_replicas(2, lambda x: strategy.reduce("max", x))


# --- training -------------------------------------------------------------------------


def _sgd() -> Any:
    return keras.optimizers.SGD(1.0)


def _same(gradient: Any, variable: Any) -> Any:
    return gradient


def _mean(opt: Any) -> Any:
    return optimizers.CrossReplicaOptimizer(opt)


# In both turns replica 0 has a gradient of 12, and replica 1 one of 4. What reduces
# nothing by itself takes the sum, as the wrapped optimizer does; CrossReplicaOptimizer
# takes the mean.
CHANGES: dict[str, tuple[Callable[[], Any], float]] = {
    "plain": (_sgd, 32),
    "of version 1": (lambda: tf.compat.v1.train.GradientDescentOptimizer(1.0), 32),
    "wrapped": (lambda: optimizers.IpuOptimizer(_sgd()), 32),
    "mapped": (lambda: optimizers.MapGradientOptimizer(_sgd(), _same), 32),
    "mapped last": (
        lambda: map_gradient_optimizer._MapGradientOptimizerInvertedChaining(
            _sgd(), _same
        ),
        32,
    ),
    "sharded": (lambda: optimizers.ShardedOptimizer(_sgd()), 32),
    "first form": (lambda: optimizers.GradientAccumulationOptimizer(_sgd(), 2), 32),
    "accumulated": (lambda: optimizers.GradientAccumulationOptimizerV2(_sgd(), 2), 32),
    "accumulated, mapped": (
        lambda: optimizers.GradientAccumulationOptimizerV2(
            optimizers.MapGradientOptimizer(_sgd(), _same), 2
        ),
        32,
    ),
    "scaled": (lambda: keras.mixed_precision.LossScaleOptimizer(_sgd(), False, 1), 32),
    "mean": (lambda: _mean(_sgd()), 16),
    "mean of mapped": (
        lambda: _mean(optimizers.MapGradientOptimizer(_sgd(), _same)),
        16,
    ),
    "mapped mean": (lambda: optimizers.MapGradientOptimizer(_mean(_sgd()), _same), 16),
    "mean, then accumulated": (
        lambda: _mean(optimizers.GradientAccumulationOptimizerV2(_sgd(), 2)),
        16,
    ),
    "accumulated, then mean": (
        lambda: optimizers.CrossReplicaGradientAccumulationOptimizerV2(_sgd(), 2),
        16,
    ),
    "first form, then mean": (
        lambda: optimizers.CrossReplicaGradientAccumulationOptimizer(_sgd(), 2),
        16,
    ),
    "Keras, mapped": (
        lambda: keras.optimizers.MapGradientOptimizer(_sgd(), _same),
        32,
    ),
    "Keras, accumulated": (
        lambda: keras.optimizers.GradientAccumulationOptimizer(_sgd(), 2),
        32,
    ),
    "Keras, mean": (lambda: keras.optimizers.CrossReplicaOptimizer(_sgd()), 16),
    "Keras, accumulated mean": (
        lambda: keras.optimizers.GradientAccumulationOptimizer(
            keras.optimizers.CrossReplicaOptimizer(_sgd()), 2
        ),
        16,
    ),
}


@pytest.mark.parametrize("in_strategy", [False, True])
@pytest.mark.parametrize("case", CHANGES)
def test_what_optimizers_get_of_several_replicas(case: str, in_strategy: bool) -> None:
    make, change = CHANGES[case]
    attach(2)
    elements = np.array([12.0, 4.0] * 4, "f4")
    queue = fed(tf.data.Dataset.from_tensor_slices(elements))
    strategy, out = IPUStrategy(), IPUOutfeedQueue()
    with strategy.scope():
        v, opt = tf.Variable(0.0), make()

        def body(x: Any) -> None:
            out.enqueue(v)
            opt.apply_gradients([(x, v)])

        run = compiled(lambda: loops.repeat(2, body, [], queue))
    for _ in range(2):
        if in_strategy:
            strategy.run(run)
        else:
            run()
    assert float(v) == -2 * change
    # as the second run found the variable in each replica
    np.testing.assert_array_equal(out.dequeue()[2], [-change, -change])


BATCH = 4


def make_weights() -> list[Any]:
    rng = np.random.default_rng(3)
    shapes = [(6, 8), (8,), (8, 3)]
    return [tf.Variable(rng.normal(size=s, scale=0.4).astype("f4")) for s in shapes]


def first_layer(weights: Sequence[Any], x: Any) -> Any:
    return tf.tanh(x @ weights[0] + weights[1])


def centred_layer(weights: Sequence[Any], x: Any) -> Any:
    """The first layer without the mean over the replicas' batches."""
    hidden = first_layer(weights, x)
    mean = cross_replica_ops.cross_replica_mean(tf.reduce_mean(hidden, 0))
    return hidden - mean


def loss_of(weights: Sequence[Any], hidden: Any, y: Any) -> Any:
    return tf.reduce_mean((hidden @ weights[2] - y) ** 2)


def batches() -> tf.data.Dataset:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(96, BATCH, 6)).astype("f4")
    y = rng.normal(size=(96, BATCH, 3)).astype("f4")
    return tf.data.Dataset.from_tensor_slices((x, y))


def tree_sum(terms: Sequence[Any]) -> Any:
    """The sum of replicas: the largest power of two of them, then the rest."""
    if len(terms) == 1:
        return terms[0]
    cut = 1 << ((len(terms) - 1).bit_length() - 1)
    return tree_sum(terms[:cut]) + tree_sum(terms[cut:])


def one_by_one(replicas: int, micro_batches: int, updates: int) -> list[Any]:
    """On one IPU, without any loop of the device: the replicas' batches one after the
    other, each replica's gradients summed up over its micro-batches, then averaged by
    the replicas' tree."""
    attach(1)
    weights = make_weights()

    @compiled
    def gradients(x: Any, y: Any) -> Any:
        return tf.gradients(loss_of(weights, first_layer(weights, x), y), weights)

    data = iter([(np.asarray(x), np.asarray(y)) for x, y in batches()])
    for _ in range(updates):
        sums = [[np.zeros(w.shape, "f4")] * replicas for w in weights]
        for _ in range(micro_batches):
            for r in range(replicas):
                for of_weight, gradient in zip(
                    sums, gradients(*next(data)), strict=True
                ):
                    of_weight[r] = of_weight[r] + np.asarray(gradient)
        for weight, of_weight in zip(weights, sums, strict=True):
            mean = tree_sum(of_weight) / np.float32(replicas)
            weight.assign(weight.numpy() - np.float32(0.1) * mean)
    return [w.numpy() for w in weights]


def replicated_training(
    replicas: int,
    micro_batches: int,
    updates: int,
    threads: int,
    layer: Callable[..., Any] = first_layer,
) -> tuple[list[Any], Any]:
    attach(replicas)
    ipu.set_num_threads(threads)
    weights = make_weights()
    queue, out = fed(batches()), IPUOutfeedQueue()
    sgd = keras.optimizers.SGD(0.1)
    opt = optimizers.CrossReplicaGradientAccumulationOptimizerV2(sgd, micro_batches)

    def body(x: Any, y: Any) -> None:
        loss = loss_of(weights, layer(weights, x), y)
        opt.minimize(loss, var_list=weights)
        out.enqueue(loss)

    compiled(lambda: loops.repeat(micro_batches * updates, body, [], queue))()
    return [w.numpy() for w in weights], np.asarray(out.dequeue())


@pytest.mark.parametrize("replicas", [1, 2, 4, 8])
def test_a_replicated_loop_has_the_bits_of_a_plain_one(replicas: int) -> None:
    wanted = one_by_one(replicas, 3, 2)
    for threads in THREADS:
        weights, losses = replicated_training(replicas, 3, 2, threads)
        assert losses.shape == ((6,) if replicas == 1 else (6, replicas))
        for got, want in zip(weights, wanted, strict=True):
            np.testing.assert_array_equal(got, want, strict=True)


def replicated_pipeline(
    schedule: PipelineSchedule,
    accumulate_outfeed: bool,
    threads: int,
    layer: Callable[..., Any] = first_layer,
) -> tuple[list[Any], Any]:
    attach(4)
    ipu.set_num_threads(threads)
    weights = make_weights()
    queue, out = fed(batches()), IPUOutfeedQueue()

    def optimizer_function(loss: Any) -> Any:
        opt = optimizers.CrossReplicaOptimizer(keras.optimizers.SGD(0.1))
        more = {"var_list": weights}
        return OptimizerFunctionOutput(opt, loss, compute_gradients_kwargs=more)

    @compiled
    def run() -> Any:
        return pipeline(
            [
                lambda x, y: (layer(weights, x), y),
                lambda h, y: loss_of(weights, h, y),
            ],
            gradient_accumulation_count=8,
            repeat_count=3,
            infeed_queue=queue,
            outfeed_queue=out,
            optimizer_function=optimizer_function,
            pipeline_schedule=schedule,
            accumulate_outfeed=accumulate_outfeed,
        )

    run()
    return [w.numpy() for w in weights], np.asarray(out.dequeue()[0])


@pytest.mark.parametrize("accumulate_outfeed", [False, True])
@pytest.mark.parametrize("schedule", list(PipelineSchedule)[:3])
def test_a_replicated_pipeline_has_the_bits_of_a_plain_loop(
    schedule: PipelineSchedule, accumulate_outfeed: bool
) -> None:
    """Two replicas of two stages, 8 micro-batches, 3 updates: 48 elements."""
    wanted = one_by_one(2, 8, 3)
    shown = []
    for threads in (1, 3):
        weights, losses = replicated_pipeline(schedule, accumulate_outfeed, threads)
        assert losses.shape == ((3, 2) if accumulate_outfeed else (24, 2))
        shown.append(losses)
        for got, want in zip(weights, wanted, strict=True):
            np.testing.assert_array_equal(got, want, strict=True)
    np.testing.assert_array_equal(shown[0], shown[1])


@pytest.mark.parametrize("schedule", list(PipelineSchedule)[:3])
def test_replicas_meet_inside_stages(schedule: PipelineSchedule) -> None:
    """In the forward pass, and on the way back."""
    wanted, _ = replicated_training(2, 8, 3, 1, centred_layer)
    assert not np.array_equal(wanted[0], one_by_one(2, 8, 3)[0])
    for threads in (1, 3):
        weights, _ = replicated_pipeline(schedule, False, threads, centred_layer)
        for got, want in zip(weights, wanted, strict=True):
            np.testing.assert_array_equal(got, want, strict=True)


def test_the_factor_is_that_of_the_program() -> None:
    attach(4)
    queue, out = fed(numbers(100)), IPUOutfeedQueue()

    @compiled
    def pipelined(devices: Sequence[int]) -> Any:
        return pipeline(
            [lambda x: x + 1.0, lambda x: x * 2.0, lambda x: x - 1.0][: len(devices)],
            gradient_accumulation_count=6,
            infeed_queue=queue,
            outfeed_queue=out,
            device_mapping=list(devices),
        )

    pipelined((0, 1, 2))
    assert out.dequeue().shape == (6,)  # three IPUs count as four
    attach(6)
    queue, out = fed(numbers(100)), IPUOutfeedQueue()
    with pytest.raises(errors.InternalError, match="needs to divide the number of"):
        pipelined((0, 1, 2))
    attach(2)
    queue, out = fed(numbers(100)), IPUOutfeedQueue()
    with pytest.raises(errors.InternalError, match="auto_select_ipus = 4"):
        pipelined((0, 1, 2))
