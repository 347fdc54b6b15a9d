# SPDX-License-Identifier: MIT
"""Weights that a program keeps in panels: the bits are those of weights by rows, and
hosts and other programs see rows."""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import _core, keras, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.keras import optimizers
from ipu.ops.pipelining_ops import (
    OptimizerFunctionOutput,
    PipelineSchedule,
    pipeline,
)
from ipu.tf._functions.function import DeviceFunction

# Wide enough for the panels of every class.
WIDTHS = (5, 16, 17, 64, 96, 100, 128, 192)
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: optimizers.SGD(0.05),
    "momentum": lambda: optimizers.SGD(0.05, momentum=0.9),
    "Nesterov": lambda: optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "Adam": lambda: optimizers.Adam(0.01),
    "amsgrad": lambda: optimizers.Adam(0.01, amsgrad=True),
    "RMSprop": lambda: optimizers.RMSprop(0.01, momentum=0.5, centered=True),
    "Adagrad": lambda: optimizers.Adagrad(0.05),
    "clipped values": lambda: optimizers.Adam(0.01, clipvalue=0.01),
    "clipped norms": lambda: optimizers.SGD(0.05, clipnorm=0.1),
}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threads = _core.num_threads()
    yield
    _core.set_num_threads(threads)
    _core.set_panels("auto")
    _core.set_regions("auto")
    attach(1)


def draw(seed: int, *shape: int) -> Any:
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return (numbers / np.sqrt(shape[0])).astype(np.float32)


def in_panels(function: Any) -> list[str]:
    """The shapes of variables that the function's program keeps in panels."""
    found = re.findall(r" (\S+) in panels of \d+", function.traced().program.text)
    return sorted(found)


def same_bits(a: list[Any], b: list[Any]) -> bool:
    return all(
        x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(a, b, strict=True)
    )


class Network:
    """Layers, their training in a loop on the device, and what else may read them."""

    def __init__(self, widths: list[int], batch: int, optimizer: str) -> None:
        self.batch = batch
        self.samples = tf.Variable(draw(1, 50, widths[0]), trainable=False)
        numbers = np.random.default_rng(2).integers(0, widths[-1], 50, np.int32)
        self.labels = tf.Variable(numbers, trainable=False)
        self.weights: list[Any] = []
        for k, (n, m) in enumerate(itertools.pairwise(widths)):
            self.weights += [tf.Variable(draw(k, n, m)), tf.Variable(draw(k + 9, m))]
        self.optimizer = OPTIMIZERS[optimizer]()
        self.optimizer._create_all_weights(self.weights)
        self.steps = 5
        rows = np.random.default_rng(3).integers(0, 50, (5, batch), np.int32)
        self.rows = tf.Variable(rows, trainable=False)
        self.losses = IPUOutfeedQueue()
        self.train = DeviceFunction(self.training)
        self.evaluate = DeviceFunction(lambda: self.forward(self.samples.value()))
        self.turn = DeviceFunction(
            lambda: [tf.reduce_sum(tf.transpose(w), 0) for w in self.weights[::2]]
        )

    def forward(self, x: Any) -> Any:
        count = len(self.weights)
        for k in range(0, count, 2):
            x = tf.matmul(x, self.weights[k]) + self.weights[k + 1]
            x = tf.nn.relu(x) if k + 2 < count else x
        return x

    def step(self, i: Any) -> Any:
        rows = tf.gather(self.rows.value(), i)
        x, y = tf.gather(self.samples, rows), tf.gather(self.labels, rows)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(y, self.forward(x))
            )
        gradients = tape.gradient(loss, self.weights)
        self.optimizer.apply_gradients(zip(gradients, self.weights, strict=True))
        self.losses.enqueue(loss)
        return i + 1

    def training(self) -> Any:
        return loops.repeat(self.steps, self.step, [tf.constant(0)])

    def state(self) -> list[Any]:
        slots = self.optimizer.weights
        return [v.numpy() for v in [*self.weights, *slots]]


def train(widths: list[int], batch: int, optimizer: str, threads: int) -> list[Any]:
    """Losses, weights and slots after two runs."""
    _core.set_num_threads(threads)
    network = Network(widths, batch, optimizer)
    network.train()
    between = network.state()
    network.train()
    losses = np.asarray(network.losses.dequeue())
    return [losses, *between, *network.state()]


def check_training(widths: list[int], batch: int, optimizer: str) -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        _core.set_panels("never")
        expected = train(widths, batch, optimizer, 1)
        assert np.isfinite(expected[0]).all()
        _core.set_panels("auto")
        for threads in (1, 2, 3):
            found = train(widths, batch, optimizer, threads)
            assert same_bits(expected, found), (widths, batch, optimizer, threads)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_has_the_bits_of_weights_by_rows(optimizer: str) -> None:
    for batch in (1, 7, 32, 40):
        check_training([20, 128, 64, 192, 10], batch, optimizer)


@pytest.mark.parametrize("seed", range(12))
def test_random_networks(seed: int) -> None:
    dice = random.Random(seed)
    widths = [dice.choice(WIDTHS) for _ in range(dice.randrange(2, 6))]
    check_training(
        widths,
        dice.choice([1, 3, 12, 31, 33, 80]),
        dice.choice(sorted(OPTIMIZERS)),
    )


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 400, 20))
def test_many_random_networks(first: int) -> None:
    for seed in range(first, first + 20):
        test_random_networks(seed)


def test_a_sum_over_a_large_batch() -> None:
    """The gradient is stored before the update."""
    check_training([12, 64, 10], 1100, "momentum")
    check_training([12, 64, 10], 1100, "Adam")


# --- which variables ------------------------------------------------------------------


def panels_of(body: Callable[[], Any], turns: int = 100) -> list[str]:
    function = DeviceFunction(lambda: loops.repeat(turns, body))
    return in_panels(function)


def test_weights_and_their_slots_lie_in_panels() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        sgd = Network([20, 128, 64, 10], 8, "SGD").train
        adam = Network([20, 128, 64, 10], 8, "Adam").train
        norms = Network([20, 128, 64, 10], 8, "clipped norms").train
        assert in_panels(sgd) == ["float32[128,64]", "float32[20,128]"]
        assert in_panels(adam) == ["float32[128,64]"] * 3 + ["float32[20,128]"] * 3
        assert in_panels(norms) == []  # a norm adds up in the order of rows
        assert "in panels" in sgd.explain()
        assert "in panels" not in norms.explain()


def test_what_keeps_a_variable_by_rows() -> None:
    x = tf.Variable(draw(0, 8, 64))
    w = tf.Variable(draw(1, 64, 128))
    out = IPUOutfeedQueue()

    def total(v: Any) -> Any:
        v = v if len(v.shape) == 2 else tf.reshape(v, [64, 1])
        return tf.reduce_sum(tf.matmul(x, v))

    def product() -> Any:
        return total(w)

    def beside(other: Any) -> Callable[[], None]:
        return lambda: out.enqueue(product() + tf.reduce_sum(other()))

    with ipu.ipu_strategy.IPUStrategy().scope():
        assert panels_of(lambda: out.enqueue(product())) == ["float32[64,128]"]
        assert panels_of(lambda: out.enqueue(product()), 2) == []
        assert in_panels(DeviceFunction(product)) == []
        users: list[Callable[[], Any]] = [
            lambda: tf.reduce_sum(w, 0),
            lambda: tf.gather(w, [3, 1]),
            lambda: tf.reshape(w, [128, 64]) * 2.0,
            lambda: tf.transpose(w),
            lambda: tf.matmul(w, w, transpose_b=True),
            lambda: w[:, :16],
            lambda: w * tf.constant(draw(3, 128)),
            lambda: tf.nn.softmax(w),
        ]
        for user in users:
            assert panels_of(beside(user)) == []
        # of columns that fill no panels, of one panel at most, of one axis
        for shape in ((64, 129), (64, 8), (64,)):
            v = tf.Variable(draw(1, *shape))
            assert panels_of(lambda v=v: out.enqueue(total(v))) == []


def test_element_by_element_a_layout_does_not_matter() -> None:
    def run(where: str) -> tuple[list[Any], list[str]]:
        _core.set_panels(where)
        w, v = tf.Variable(draw(1, 64, 128)), tf.Variable(draw(2, 64, 128))
        mean = tf.Variable(np.zeros((64, 128), np.float32))
        out = IPUOutfeedQueue()

        def body() -> None:
            scaled = tf.where(w > 0.0, w * 0.5, v) + 0.25
            out.enqueue(tf.matmul(draw(3, 8, 64), scaled))
            mean.assign(mean * 0.9 + tf.tanh(scaled) * 0.1)
            w.assign_add(0.01 * v - tf.ones_like(v) * 0.001)

        function = DeviceFunction(lambda: loops.repeat(6, body))
        function()
        values = [t.numpy() for t in (w, v, mean)]
        return [*values, np.asarray(out.dequeue())], in_panels(function)

    with ipu.ipu_strategy.IPUStrategy().scope():
        expected, none = run("never")
        found, shapes = run("auto")
        assert none == []
        assert shapes == ["float32[64,128]"] * 3
        assert same_bits(expected, found)


# --- programs beside each other -------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_programs_that_share_variables(seed: int) -> None:
    """One keeps them in panels, one by rows; hosts read and write between."""

    def run(where: str) -> list[Any]:
        _core.set_panels(where)
        dice = random.Random(seed)
        one = Network([16, 64, 128, 10], 9, "momentum")
        found: list[Any] = []

        def keep() -> None:
            found.extend(one.state())

        def assign() -> None:
            index = dice.randrange(0, len(one.weights), 2)
            one.weights[index].assign(one.weights[index].numpy() * 0.5)

        for _ in range(12):
            action = dice.choice(
                [
                    one.train,
                    one.evaluate,
                    one.turn,
                    assign,
                    lambda: one.weights[0].assign_add(tf.ones([16, 64])),
                    lambda: one.weights[2][3:5],
                    keep,
                ]
            )
            result = action()
            if action in (one.evaluate, one.turn):
                found += [np.asarray(t) for t in tf.nest.flatten(result)]
        return [*found, *one.state()]

    with ipu.ipu_strategy.IPUStrategy().scope():
        expected = run("never")
        for where in ("auto", "always"):
            assert same_bits(expected, run(where))


def test_a_variable_that_goes_away() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        network = Network([16, 64, 128, 10], 9, "momentum")
        network.train()
        expected = network.state()
        other = Network([16, 64, 128, 10], 9, "momentum")
        other.train()
        del other
        again = Network([16, 64, 128, 10], 9, "momentum")
        again.train()
        assert same_bits(expected, again.state())
        assert same_bits(expected, network.state())


# --- at the boundaries of steps -------------------------------------------------------

ROWS, COLUMNS, BIG = 4, 128, 8


def counting(steps: int) -> tuple[Any, Any, Any]:
    """A weight that each step lowers by the same matrix of small integers."""
    x = np.tile(np.arange(1.0, ROWS + 1, dtype=np.float32), (2, 1))
    d = np.tile(np.arange(COLUMNS, dtype=np.float32) % BIG, (2, 1))
    change = x.T @ d
    x, d = tf.Variable(x), tf.Variable(d)
    last = tf.Variable(0.0)
    w = tf.Variable(np.zeros((ROWS, COLUMNS), np.float32))
    sgd = optimizers.SGD(1.0)
    sgd._create_all_weights([w])

    def body() -> None:
        value = w.value()
        loss = tf.reduce_sum(tf.matmul(x, value) * d)
        sgd.apply_gradients([(tf.gradients(loss, [value])[0], w)])
        last.assign(loss)

    function = DeviceFunction(lambda: loops.repeat(steps, body))
    return w, change, function


def test_hosts_read_and_write_rows_while_a_program_runs() -> None:
    w, change, run = counting(150_000)
    assert in_panels(run) == [f"float32[{ROWS},{COLUMNS}]"]
    worker = threading.Thread(target=run)
    worker.start()
    before = 0.0
    for k in range(60):
        seen = w.numpy()
        steps = -seen[0, 1] / change[0, 1]
        np.testing.assert_array_equal(seen, -steps * change)
        assert steps >= before or k == 0
        before = steps
        if k % 20 == 19 and worker.is_alive():
            w.assign(np.zeros((ROWS, COLUMNS), np.float32))
            before = 0.0
    worker.join()
    np.testing.assert_array_equal(w.numpy(), w.numpy()[0, 1] / change[0, 1] * change)


@pytest.mark.usefixtures("ctrl_c")
def test_a_stopped_program_leaves_whole_steps() -> None:
    w, change, run = counting(2_000_000_000)
    run.traced()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        run()
    seen = w.numpy()
    np.testing.assert_array_equal(seen, seen[0, 1] / change[0, 1] * change)
    assert seen[0, 1] < 0


def test_a_failing_step_leaves_what_it_would_by_rows() -> None:
    def run(where: str) -> list[Any]:
        _core.set_panels(where)
        network = Network([16, 64, 128, 10], 9, "momentum")
        rows = network.rows.numpy().copy()
        rows[3, 4] = 50
        network.rows.assign(rows)
        with pytest.raises(tf.errors.InvalidArgumentError, match="50"):
            network.train()
        return network.state()

    with ipu.ipu_strategy.IPUStrategy().scope():
        assert same_bits(run("never"), run("auto"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_sees_rows() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        network = Network([16, 64, 128, 10], 9, "momentum")
        network.train()
        expected = network.state()
        child = os.fork()
        if child == 0:
            good = same_bits(network.state(), expected)
            network.train()
            os._exit(0 if good and not same_bits(network.state(), expected) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert same_bits(network.state(), expected)


# --- loops in loops, accumulation, replicas, pipelines --------------------------------


def elements(batch: int) -> IPUInfeedQueue:
    rows = np.random.default_rng(5).standard_normal((24, batch, 16))
    data = tf.data.Dataset.from_tensor_slices(rows.astype(np.float32)).repeat()
    queue = IPUInfeedQueue(data)
    assert queue.initializer is None
    return queue


def layers() -> list[Any]:
    return [tf.Variable(draw(k, n, m)) for k, n, m in ((0, 16, 64), (1, 64, 128))]


def both_ways(run: Callable[[], list[Any]], wanted: int) -> None:
    """`wanted`: how many variables lie in panels."""
    expected: list[Any] = []
    for where in ("never", "auto"):
        _core.set_panels(where)
        for threads in (1, 2):
            _core.set_num_threads(threads)
            *found, shapes = run()
            assert len(shapes) == (wanted if where == "auto" else 0)
            expected = expected or found
            assert same_bits(expected, found)


def test_nested_loops() -> None:
    def run() -> list[Any]:
        weights = layers()
        sgd = optimizers.SGD(0.1, momentum=0.9)
        sgd._create_all_weights(weights)
        queue, out = elements(6), IPUOutfeedQueue()

        def body(x: Any) -> None:
            first, second = values = [w.value() for w in weights]

            def deeper(total: Any) -> Any:
                h = tf.matmul(tf.tanh(tf.matmul(x + total, first)), second)
                return total + tf.reduce_mean(h)

            loss = loops.repeat(3, deeper, [tf.constant(0.0)])
            gradients = tf.gradients(loss, values)
            sgd.apply_gradients(zip(gradients, weights, strict=True))
            out.enqueue(loss)

        function = DeviceFunction(lambda: loops.repeat(4, body, [], queue))
        function()
        return [
            np.asarray(out.dequeue()),
            *[w.numpy() for w in weights],
            in_panels(function),
        ]

    with ipu.ipu_strategy.IPUStrategy().scope():
        both_ways(run, 4)


def loss_of(h: Any) -> Any:
    return tf.reduce_mean(h * h)


@pytest.mark.parametrize("schedule", list(PipelineSchedule)[:3])
@pytest.mark.parametrize("optimizer", ["momentum", "Adam"])
def test_pipelines(schedule: PipelineSchedule, optimizer: str) -> None:
    def run() -> list[Any]:
        attach(2)
        weights = layers()
        queue, out = elements(6), IPUOutfeedQueue()
        kept = OPTIMIZERS[optimizer]()

        def optimizer_function(loss: Any) -> Any:
            return OptimizerFunctionOutput(kept, loss, variables=weights)

        def program() -> Any:
            return pipeline(
                [
                    lambda x: tf.tanh(tf.matmul(x, weights[0])),
                    lambda h: loss_of(tf.matmul(h, weights[1])),
                ],
                gradient_accumulation_count=8,
                repeat_count=3,
                infeed_queue=queue,
                outfeed_queue=out,
                optimizer_function=optimizer_function,
                pipeline_schedule=schedule,
            )

        function = DeviceFunction(program)
        function()
        shapes = in_panels(function)
        return [np.asarray(out.dequeue()[0]), *[w.numpy() for w in weights], shapes]

    both_ways(run, 4 if optimizer == "momentum" else 6)


@pytest.mark.parametrize("optimizer", ["momentum", "Adam"])
def test_accumulation(optimizer: str) -> None:
    def run() -> list[Any]:
        weights = layers()
        queue, out = elements(6), IPUOutfeedQueue()
        kept = OPTIMIZERS[optimizer]()
        opt = ipu.optimizers.GradientAccumulationOptimizerV2(kept, 4)

        def body(x: Any) -> None:
            loss = loss_of(tf.matmul(tf.tanh(tf.matmul(x, weights[0])), weights[1]))
            opt.minimize(loss, var_list=weights)
            out.enqueue(loss)

        function = DeviceFunction(lambda: loops.repeat(12, body, [], queue))
        function()
        shapes = in_panels(function)
        return [np.asarray(out.dequeue()), *[w.numpy() for w in weights], shapes]

    with ipu.ipu_strategy.IPUStrategy().scope():
        both_ways(run, 4 if optimizer == "momentum" else 6)


def test_replicas() -> None:
    def run() -> list[Any]:
        attach(2)
        weights = layers()
        queue, out = elements(6), IPUOutfeedQueue()
        sgd = ipu.optimizers.CrossReplicaOptimizer(optimizers.SGD(0.1, momentum=0.9))

        def body(x: Any) -> None:
            loss = loss_of(tf.matmul(tf.tanh(tf.matmul(x, weights[0])), weights[1]))
            sgd.minimize(loss, var_list=weights)
            out.enqueue(loss)

        function = DeviceFunction(lambda: loops.repeat(4, body, [], queue))
        function()
        between = [w.numpy() for w in weights]
        weights[0].assign(between[0] * 0.5)
        function()
        values = [*between, *[w.numpy() for w in weights]]
        return [np.asarray(out.dequeue()), *values, in_panels(function)]

    both_ways(run, 4)


def test_fit_evaluate_predict_and_weights() -> None:
    def run(where: str) -> list[Any]:
        _core.set_panels(where)
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.layers.Dense(128, activation="relu", input_shape=(16,)),
                keras.layers.Dense(64, activation="tanh"),
                keras.layers.Dense(10),
            ]
        )
        model.compile("adam", "mse", steps_per_execution=8)
        x, y = draw(0, 64, 16), draw(1, 64, 10)
        found: list[Any] = []
        for _ in range(2):
            model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False)
            found += [np.asarray(model.evaluate(x, y, batch_size=4, verbose=0))]
            found += [model.predict(x, batch_size=4), *model.get_weights()]
            model.set_weights([w * 0.9 for w in model.get_weights()])
        return found

    with ipu.ipu_strategy.IPUStrategy().scope():
        assert same_bits(run("never"), run("auto"))
