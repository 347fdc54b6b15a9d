# SPDX-License-Identifier: MIT
"""Regions: kernels without barriers between them give the bits that they give alone."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import _core, tf
from ipu.tf._functions.function import DeviceFunction

ROWS = (2, 3, 7, 16, 33, 70)
ACTIVATIONS = (tf.nn.relu, tf.tanh, tf.sigmoid)
STEPS = 3


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threads = _core.num_threads()
    yield
    _core.set_num_threads(threads)
    _core.set_regions("auto")


class Network:
    """A random network and its training, built from a seed."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.rows = dice.choice(ROWS)
        self.samples = self.draw(50, dice.choice([5, 12, 30]))
        self.labels = self.numbers.integers(0, 10, 50, np.int32)
        self.rate = dice.choice([0.01, 0.1])
        self.momentum = dice.choice([0.0, 0.9])
        self.variables: list[Any] = []
        widths = [self.samples.shape[1]]
        widths += [dice.choice([1, 4, 10, 16, 40]) for _ in range(dice.randrange(4))]
        for n, m in zip(widths, [*widths[1:], 10], strict=True):
            self.variables += [tf.Variable(self.draw(n, m)), tf.Variable(self.draw(m))]
        self.begin = [v.numpy() for v in self.variables]
        self.plan = [dice.randrange(7) for _ in widths]

    def draw(self, *shape: int) -> Any:
        return (self.numbers.standard_normal(shape) * 0.5).astype(np.float32)

    def forward(self, x: Any) -> Any:
        for k, kind in enumerate(self.plan):
            x = tf.matmul(x, self.variables[2 * k]) + self.variables[2 * k + 1]
            if k + 1 == len(self.plan):
                return x
            x = ACTIVATIONS[kind % 3](x)
            if kind == 3:  # all rows are needed
                x = x - tf.reduce_mean(x, axis=0)
            elif kind == 4:
                x = x * tf.nn.softmax(x)
            elif kind == 5:  # a part needs rows of the others
                scores = tf.nn.softmax(tf.matmul(x, x, transpose_b=True))
                x = tf.matmul(scores, x)
            elif kind == 6:  # so does a column of each row
                scores = tf.matmul(x, x, transpose_b=True)
                x = x + tf.reduce_sum(scores + tf.reduce_sum(x, axis=1)) * 0.01
        return x

    def step(self, optimizer: Any, rows: Any, found: list[Any]) -> None:
        x, y = tf.gather(self.samples, rows), tf.gather(self.labels, rows)
        with tf.GradientTape() as tape:
            logits = self.forward(x)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, self.variables)
        optimizer.apply_gradients(zip(gradients, self.variables, strict=True))
        hits = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), y)
        found += [losses, tf.reduce_sum(tf.cast(hits, tf.float32)), tf.sort(logits)]

    def train(self) -> list[Any]:
        """Losses, hits and variables after some steps, compiled anew."""
        for variable, value in zip(self.variables, self.begin, strict=True):
            variable.assign(value)
        rows = [
            np.random.default_rng(k).integers(0, 50, self.rows, np.int32)
            for k in range(STEPS)
        ]
        optimizer = ipu.keras.optimizers.SGD(self.rate, self.momentum)

        @DeviceFunction
        def run() -> Any:
            found: list[Any] = []
            for row in rows:
                self.step(optimizer, row, found)
            return found

        results = [np.asarray(t) for t in run()]
        return results + [v.numpy() for v in self.variables]


def same_bits(a: list[Any], b: list[Any]) -> bool:
    return all(
        x.shape == y.shape and x.tobytes() == y.tobytes()
        for x, y in zip(a, b, strict=True)
    )


def check(seed: int) -> None:
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        network = Network(seed)
        _core.set_num_threads(1)
        _core.set_regions("never")
        expected = network.train()
        _core.set_regions("always")
        for threads in (1, 2, 3, 5):
            _core.set_num_threads(threads)
            found = network.train()
            assert same_bits(expected, found), f"seed {seed}, {threads} threads"


@pytest.mark.parametrize("seed", range(40))
def test_random_networks_have_the_bits_of_kernels_that_run_alone(seed: int) -> None:
    check(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 3100, 100))
def test_many_random_networks(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)


# --- what a program has ---------------------------------------------------------------


def training_step(batch: int, failing: bool = False) -> Callable[[], Any]:
    """A step of the tutorial's model."""
    sizes = (784, 256, 128, 64, 32, 10)
    dice = np.random.default_rng(0)
    weights: list[Any] = []
    for n, m in itertools.pairwise(sizes):
        first = (dice.standard_normal((n, m)) * 0.05).astype(np.float32)
        weights += [tf.Variable(first), tf.Variable(np.zeros(m, np.float32))]
    samples = dice.random((100, 784), np.float32)
    labels = dice.integers(0, 10, 100, np.int32)
    labels[7] = 10 if failing else 9
    rows = np.arange(batch, dtype=np.int32) % 100
    optimizer = ipu.keras.optimizers.SGD(0.01, momentum=0.9)

    def step() -> Any:
        x, y = tf.gather(samples, rows), tf.gather(labels, rows)
        values = [w.value() for w in weights]
        for k in range(0, len(values), 2):
            x = tf.matmul(x, values[k]) + values[k + 1]
            x = tf.nn.relu(x) if k + 2 < len(values) else x
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
        loss = tf.reduce_mean(losses)
        gradients = tf.gradients(loss, values)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return loss

    step.weights = weights  # type: ignore[attr-defined]
    return step


def regions_of(text: str) -> list[tuple[str, int]]:
    """What each region is cut by, and how many kernels it has."""
    found = []
    lines = text.splitlines()
    for i, line in enumerate(lines):
        if match := re.match(r" +region of \d+ (rows|tasks), to (\d+):", line):
            first = int(lines[i + 1].split()[0])
            found.append((match[1], int(match[2]) - first + 1))
    return found


def test_a_training_step_has_two_regions() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        function = DeviceFunction(training_step(128))
        text = function.traced().program.text
    kinds = regions_of(text)
    assert [kind for kind, _ in kinds] == ["rows", "tasks"], text
    # forward, loss and backward by rows; all that sums over the batch behind it
    assert kinds[0][1] >= 14
    assert kinds[1][1] >= 10


def test_small_kernels_make_no_region() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        x = tf.constant(np.ones((4, 4), np.float32))
        function = DeviceFunction(lambda: tf.matmul(tf.exp(x), x) + 1.0)
        assert regions_of(function.traced().program.text) == []


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_failing_part_leaves_the_variables_alone(threads: int) -> None:
    """The error is that of the first kernel that fails, whoever is there first."""
    _core.set_num_threads(threads)
    with ipu.ipu_strategy.IPUStrategy().scope():
        step = training_step(128, failing=True)
        weights = step.weights  # type: ignore[attr-defined]
        before = [w.numpy() for w in weights]
        function = DeviceFunction(step)
        message = r"label 10 of row (7|107) is outside the 10 classes"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            function()
        assert same_bits(before, [w.numpy() for w in weights])
