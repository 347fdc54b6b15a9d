# SPDX-License-Identifier: MIT
"""Everything that a long session does, in any order; afterwards nothing is left of it.

The growth of the worker's memory, which `watch.py` notes, is the result. Descriptors
and threads are compared here, with what the first seeds have left.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
import threading
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from simulated_ipus import attach

import ipu
from ipu import keras, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.tf.compat import v1

FEW = 30  # seeds, after which nothing new is made once and for all
MORE = 6  # descriptors and threads that may come and go

X = np.ones((32, 12), np.float32)
Y = np.zeros(32, np.int32)


def _model(rng: random.Random) -> Any:
    units = rng.choice([3, 5, 8])
    stack = [
        keras.Input((12,)),
        keras.layers.Dense(units, "relu"),
        keras.layers.Dense(4),
    ]
    model = keras.Sequential(stack)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], steps_per_execution=2)
    return model


def trains(rng: random.Random) -> None:
    """Train, evaluate and predict, with and without a strategy."""
    if rng.random() < 0.5:
        _model(rng).fit(X, Y, batch_size=8, verbose=0, validation_data=(X, Y))
    else:
        with IPUStrategy().scope():
            model = _model(rng)
            model.fit(X, Y, batch_size=8, verbose=0)
            model.predict(X, batch_size=8)


def pipelines(rng: random.Random) -> None:
    """Train over two IPUs."""
    attach(2)
    with IPUStrategy().scope():
        model = _model(rng)
        model.set_pipelining_options(
            4, pipeline_schedule=rng.choice(["1F1B", "Grouped"])
        )
        model._assign_stages([0, 1])
        model.compile("sgd", model.loss, steps_per_execution=4)
        model.fit(X, Y, batch_size=8, verbose=0)
    attach(1)


def tapes(rng: random.Random) -> None:
    """Go step by step, with a compiled function under the tape."""
    variable = tf.Variable(np.ones((64, 64), np.float32))

    @tf.function
    def loss_of(x: Any) -> Any:
        return tf.reduce_sum(tf.tanh(x @ variable))

    for _ in range(rng.randint(1, 4)):
        with tf.GradientTape(persistent=rng.random() < 0.3) as tape:
            loss = loss_of(tf.ones((64, 64)))
            if rng.random() < 0.5:
                loss += tf.reduce_sum(tf.custom_gradient(_doubled)(variable * 1.0))
        variable.assign_sub(0.01 * tape.gradient(loss, variable))


def _doubled(x: Any) -> Any:
    return x * 2.0, lambda upstream: upstream * 2.0


def queues(rng: random.Random) -> None:
    """Feed a loop on the device, to its end or not."""
    data = tf.data.Dataset.from_tensor_slices(X).batch(4, drop_remainder=True).repeat()
    infeed, outfeed = IPUInfeedQueue(data), IPUOutfeedQueue()
    count = rng.randint(1, 9)

    _ = infeed.initializer

    @tf.function(jit_compile=True)
    def run() -> None:
        ipu.loops.repeat(count, lambda x: outfeed.enqueue(tf.reduce_sum(x)), [], infeed)

    with IPUStrategy().scope() as strategy:
        strategy.run(run)
        if rng.random() < 0.7:
            assert len(outfeed.dequeue()) == count


def sessions(rng: random.Random) -> None:
    """Run a graph of version 1."""
    with v1.Graph().as_default():
        x = v1.placeholder("float32", (None, 12))
        w = v1.get_variable("w", (12, 3), initializer=v1.zeros_initializer())
        loss = v1.reduce_sum(v1.square(v1.matmul(x, w) - 1.0))
        step = v1.train.GradientDescentOptimizer(0.01).minimize(loss)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for _ in range(rng.randint(1, 3)):
                session.run([loss, step], {x: X[: rng.randint(1, 9)]})


def datasets(rng: random.Random) -> None:
    """Read part of a data set whose elements Python makes."""
    data = tf.data.Dataset.range(rng.randint(1, 60)).map(lambda x: x * x)
    if rng.random() < 0.5:
        data = data.map(lambda x: tf.py_function(lambda y: y + 1, [x], tf.int64), 2)
    for number, _ in enumerate(data.shuffle(9).batch(4).prefetch(2)):
        if number == 3:
            break


def files(rng: random.Random) -> None:
    """Write a model and read it."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / f"m.{rng.choice(['keras', 'h5', 'safetensors'])}")
        model = _model(rng)
        model.save(path)
        keras.models.load_model(path)


def failures(rng: random.Random) -> None:
    """Raise in a trace, in a run, and in a data set."""

    def wrong(x: Any) -> Any:
        raise KeyError(str(x))

    for function in (
        lambda: tf.function(wrong)(1.0),
        lambda: list(
            tf.data.Dataset.range(4).map(lambda x: tf.py_function(wrong, [x], x))
        ),
        lambda: tf.function(lambda x: x @ x)(tf.ones((2, 3))),
        lambda: _model(rng).fit(X, Y[:3], verbose=0),
    ):
        try:
            function()
        except Exception:
            continue
        raise AssertionError("it should have failed")


def threads(rng: random.Random) -> None:
    """Compute in threads of one's own."""
    found: list[Any] = []

    def work() -> None:
        found.append(tf.function(lambda x: tf.reduce_sum(x * 2.0))(tf.ones(9)))

    workers = [threading.Thread(target=work) for _ in range(rng.randint(1, 3))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [float(one) for one in found] == [18.0] * len(workers)


def cells(rng: random.Random) -> None:
    """Define and run functions in files of their own, as cells of a notebook do."""
    import linecache

    most = rng.randint(3, 9)
    text = f"def own(x):\n    while x < {most}:\n        x += 1\n    return x\n"
    name = f"<cell {rng.random()}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    module = types.ModuleType("cell")
    exec(compile(text, name, "exec"), module.__dict__)
    assert int(tf.function(module.own)(tf.constant(0))) >= 3
    linecache.cache.pop(name)


def forks(rng: random.Random) -> None:
    """Compute in a child."""
    child = os.fork()
    if child == 0:
        os._exit(0 if float(tf.reduce_sum(tf.ones(4) * 2.0)) == 8.0 else 1)
    assert os.waitpid(child, 0)[1] == 0


def settings(rng: random.Random) -> None:
    """Configure devices and threads anew."""
    before = ipu.num_threads()
    attach(rng.choice([1, 2]))
    ipu.set_num_threads(rng.choice([1, 2, 3]))
    trains(rng)
    ipu.set_num_threads(before)
    attach(1)


ACTIONS: tuple[Callable[[random.Random], None], ...] = (
    *(trains, pipelines, tapes, queues, sessions, datasets),
    *(files, failures, threads, cells, forks, settings),
)
_after_few: dict[str, int] = {}


def _counts() -> dict[str, int]:
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


def check(seed: int) -> None:
    """Do one thing; the more seeds, the more of it in one process."""
    rng = random.Random(seed)
    rng.choice(ACTIONS)(rng)
    _after_few["seeds"] = _after_few.get("seeds", 0) + 1
    if _after_few["seeds"] % FEW:
        return
    gc.collect()
    now = _counts()
    for what, count in now.items():
        assert count <= _after_few.setdefault(what, count) + MORE, (
            what,
            _after_few,
            now,
        )
