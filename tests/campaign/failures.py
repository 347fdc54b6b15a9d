# SPDX-License-Identifier: MIT
"""The n-th allocation fails, of the core and of Python: in every way of running.

What was under way ends with an error that says so; variables are as before or as
after; the next run has the bits that it would have had.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ipu import _core, keras, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.tf._functions.function import DeviceFunction

X = np.random.default_rng(0).normal(size=(8, 6)).astype(np.float32)
Y = np.zeros(8, np.int32)
# CPython has no exception at hand where it cannot make one
NONE_MADE = ("error return without exception set", "returned NULL without setting")


class Scenario(NamedTuple):
    """Something that is under way when an allocation fails.

    Attributes:
        act: What fails.
        state: The variables, before and after.
    """

    act: Callable[[], Any]
    state: Callable[[], list[Any]]


def _function() -> Scenario:
    total = tf.Variable(np.zeros(6, np.float32))

    @tf.function
    def step(x: Any) -> Any:
        y = tf.tanh(x @ tf.ones((6, 6))) * 0.5
        total.assign_add(tf.reduce_sum(y, 0))
        return tf.reduce_sum(y)

    return Scenario(lambda: step(X), lambda: [total.numpy()])


def _second_run() -> Scenario:
    made = _function()
    made.act()
    return made


def _tape() -> Scenario:
    weights = tf.Variable(np.ones((6, 3), np.float32))

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.softmax(X @ weights)[:, 0])
        weights.assign_sub(0.1 * tape.gradient(loss, weights))

    return Scenario(step, lambda: [weights.numpy()])


def _model() -> Any:
    tf.random.set_seed(1)
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss)
    return model


def _fit() -> Scenario:
    model = _model()

    def act() -> None:
        model.fit(X, Y, batch_size=8, shuffle=False, verbose=0)

    return Scenario(act, lambda: model.get_weights())


def _fit_again() -> Scenario:
    made = _fit()
    made.act()
    return made


def _predict() -> Scenario:
    model = _model()
    return Scenario(lambda: model.predict(X, verbose=0), lambda: model.get_weights())


def _loop() -> Scenario:
    total = tf.Variable(0.0)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(X).repeat())
    outfeed = IPUOutfeedQueue()

    def body(x: Any) -> None:
        total.assign_add(tf.reduce_sum(x))
        outfeed.enqueue(x)

    run = DeviceFunction(lambda: loops.repeat(1, body, [], infeed))

    def act() -> None:
        infeed.initializer  # noqa: B018
        try:
            run()
            outfeed.dequeue()
        finally:
            infeed.deleter  # noqa: B018

    return Scenario(act, lambda: [total.numpy()])


def _data() -> Scenario:
    def act() -> None:
        rows = (
            tf.data.Dataset.from_tensor_slices((X, Y))
            .shuffle(4, seed=1)
            .map(lambda x, y: (x * 2.0, y))
        )
        assert len(list(rows.batch(3).prefetch(1))) == 3

    return Scenario(act, list)


def _files() -> Scenario:
    model = _model()
    folder = tempfile.TemporaryDirectory()
    path = os.path.join(folder.name, "model.weights.h5")
    model.save_weights(path)

    def act() -> None:
        model.save_weights(path)

    def state() -> list[Any]:
        model.load_weights(path)
        assert os.listdir(folder.name) == ["model.weights.h5"]
        return list(model.get_weights())

    return Scenario(act, state)


# of our code alone: in what others wrote, CPython and h5py do not survive all failures
PLAIN = (_function, _second_run, _tape, _loop, _data)
SCENARIOS = (*PLAIN, _fit, _fit_again, _predict, _files)


@cache
def _clean(make: Callable[[], Scenario], with_python: bool) -> tuple[list[Any], int]:
    """The states before and after acts, and the allocations of the first one."""
    made = make()
    states = [made.state()]
    _core.fail_allocation(1 << 60, with_python)
    made.act()
    count = _core.fail_allocation(0, False)
    states.append(made.state())
    made.act()
    return [*states, made.state()], count


def _same(a: list[Any], b: list[Any]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def check(seed: int) -> None:
    """One allocation of one scenario fails; odd seeds count Python's, too."""
    make = SCENARIOS[seed // 2 % len(SCENARIOS)]
    with_python = seed % 2 == 1 and make in PLAIN
    states, count = _clean(make, with_python)
    if count == 0:  # what runs again allocates nothing in the core
        return
    nth = random.Random(seed).randint(1, count)
    made = make()
    assert _same(made.state(), states[0])
    failed: BaseException | None = None
    _core.fail_allocation(nth, with_python)
    try:
        made.act()
    except (MemoryError, tf.errors.ResourceExhaustedError) as error:
        failed = error
    except SystemError as error:
        failed = error
        assert with_python and any(text in str(error) for text in NONE_MADE)
    finally:
        _core.fail_allocation(0, False)
    what = f"{make.__name__}, allocation {nth} of {count}, python: {with_python}"
    done = _same(made.state(), states[1])
    assert done or (failed is not None and _same(made.state(), states[0])), what
    made.act()
    assert _same(made.state(), states[2 if done else 1]), f"the next run of {what}"
