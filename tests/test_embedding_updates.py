# SPDX-License-Identifier: MIT
"""Training of an embedding: its gradient is rows, and nothing is made of the others."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from ipu import keras, loops, optimizers, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.optimizers import SGD, Adam
from ipu.tf._functions.tracing import trace_program

WORDS, WIDTH = 50, 8


def program_of(opt: Any) -> str:
    """The text of a program that trains a table on rows of it."""
    table = tf.Variable(np.random.default_rng(1).normal(size=(WORDS, WIDTH)), "float32")

    def body(rows: Any) -> Any:
        loss = tf.reduce_sum(tf.gather(table, rows) ** 2)
        opt.minimize(loss, var_list=[table])
        return rows

    spec = tf.TensorSpec((4, 6), "int32")
    traced = trace_program(lambda x: loops.repeat(3, body, [x]), [spec])
    return str(traced.program.text)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_takes_rows(momentum: float) -> None:
    text = program_of(SGD(0.1, momentum=momentum))
    assert "gather_sgd_update." in text
    assert "gather_grad." not in text


def test_accumulated_gradients_stay_dense() -> None:
    accumulating = optimizers.GradientAccumulationOptimizerV2(SGD(0.1), 3)
    for opt in (accumulating, Adam(0.1)):
        assert "gather_sgd_update." not in program_of(opt)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_model_with_an_embedding_learns_as_numpy_does(momentum: float) -> None:
    """In the scope of a strategy velocities of all rows decay."""
    rng = np.random.default_rng(4)
    words = rng.integers(0, WORDS, (12, 5)).astype("i4")
    start = rng.normal(size=(WORDS, WIDTH)).astype("f4")
    wanted = rng.normal(size=(12, 5 * WIDTH)).astype("f4")
    with IPUStrategy().scope():
        embedding = keras.layers.Embedding(WORDS, WIDTH)
        model = keras.Sequential([embedding, keras.layers.Flatten()])
        model.compile(SGD(0.5, momentum=momentum), "mse", steps_per_execution=3)
        model.build((4, 5))
        model.set_weights([start])
        model.fit(words, wanted, batch_size=4, epochs=2, shuffle=False, verbose=0)
    table, velocity = start.astype("f8"), np.zeros((WORDS, WIDTH))
    for _ in range(2):
        for k in range(0, 12, 4):
            rows = words[k : k + 4]
            error = table[rows] - wanted[k : k + 4].reshape(4, 5, WIDTH)
            gradient = np.zeros_like(table)
            np.add.at(gradient, rows, 2 * error / error.size)
            velocity = momentum * velocity - 0.5 * gradient
            table = table + velocity
    np.testing.assert_allclose(model.get_weights()[0], table, rtol=1e-5, atol=1e-6)


def test_an_index_outside_leaves_the_table_as_it_was() -> None:
    table = tf.Variable(np.ones((5, 2), "f4"))
    opt = SGD(0.1)

    @tf.function
    def step(rows: Any, gradient: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.gather(table, rows) * gradient)
        opt.apply_gradients([(tape.gradient(loss, table), table)])

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 5"):
        step(tf.constant([1, 5]), tf.ones((2, 2)))
    np.testing.assert_array_equal(table.numpy(), np.ones((5, 2), "f4"))


def test_rows_are_those_of_each_table_however_many_there_are() -> None:
    tables = [tf.Variable(np.ones((3, 1), "f")) for _ in range(20)]
    sgd = SGD(1.0, momentum=0.5)
    for ids in ([0], [1]):
        with tf.GradientTape() as tape:
            total = tf.add_n(
                [tf.reduce_sum(tf.nn.embedding_lookup(t, ids)) for t in tables]
            )
        gradients = tape.gradient(total, tables)
        sgd.apply_gradients(zip(gradients, tables, strict=True))
    for table in tables:  # the velocity of a row that is not looked up does not move it
        np.testing.assert_array_equal(table.numpy(), [[0.0], [0.0], [1.0]])


# --- clipping, which looks at each row that was taken ---------------------------------

IDS = np.array([[1, 1, 1, 2], [0, 2, 2, 1]], np.int32)
SCALE = np.linspace(-2.0, 3.0, 8, dtype=np.float32).reshape(2, 4, 1)
CLIPS: list[dict[str, float]] = [
    {"clipvalue": 0.5},
    {"clipnorm": 0.5},
    {"global_clipnorm": 0.5},
    {"clipvalue": 0.5, "clipnorm": 0.7},
]


def clipped_by_numpy(clips: dict[str, float]) -> list[Any]:
    """The rows and a bias after two steps of 0.5; the bias is added to each row."""
    rows, bias = np.arange(8.0).reshape(4, 2), np.zeros(2)
    for _ in range(2):
        each = np.broadcast_to(SCALE, (2, 4, 2)).astype("f8")
        found = [each, each.sum((0, 1))]
        if "clipvalue" in clips:
            found = [np.clip(g, -0.5, 0.5) for g in found]
        norms = [np.sqrt((g**2).sum()) for g in found]
        if "clipnorm" in clips:
            limit = clips["clipnorm"]
            found = [g * min(1, limit / n) for g, n in zip(found, norms, strict=True)]
        if "global_clipnorm" in clips:
            total = np.sqrt(sum(n**2 for n in norms))
            found = [g * min(1, clips["global_clipnorm"] / total) for g in found]
        np.add.at(rows, IDS, -0.5 * found[0])
        bias = bias - 0.5 * found[1]
    return [rows, bias]


def clipped(clips: dict[str, float], way: str) -> list[Any]:
    opt: Any = SGD(0.5, **clips)
    if "scaled" in way:
        opt = keras.optimizers.LossScaleOptimizer(opt, initial_scale=8.0)
    table = keras.layers.Embedding(4, 2)
    bias = tf.Variable([0.0, 0.0])
    table.build(None)
    table.set_weights([np.arange(8, dtype=np.float32).reshape(4, 2)])
    variables = [table.embeddings, bias]

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((table(tf.constant(IDS)) + bias) * SCALE)
            if "scaled" in way:
                loss = opt.get_scaled_loss(loss)
        gradients = tape.gradient(loss, variables)
        if "scaled" in way:
            gradients = opt.get_unscaled_gradients(gradients)
        opt.apply_gradients(zip(gradients, variables, strict=True))

    run = tf.function(step) if "traced" in way else step
    for _ in range(2):
        run()
    return [variable.numpy() for variable in variables]


@pytest.mark.parametrize("clips", CLIPS, ids=lambda clips: "+".join(clips))
@pytest.mark.parametrize(
    "way", ["at once", "traced", "scaled", "scaled, traced", "strategy"]
)
def test_rows_are_clipped_before_they_are_added_up(
    clips: dict[str, float], way: str
) -> None:
    with IPUStrategy().scope() if way == "strategy" else nullcontext():
        found = clipped(clips, "traced" if way == "strategy" else way)
    for one, other in zip(found, clipped_by_numpy(clips), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_two_lookups_of_a_table_are_clipped_as_one() -> None:
    table = tf.Variable([[1.0], [1.0], [3.0]])
    with tf.GradientTape() as tape:
        taken = [tf.gather(table, ids) for ids in ([1, 1], [2, 1])]
        loss = tf.reduce_sum(taken[0]) + 2.0 * tf.reduce_sum(taken[1])
    (gradient,) = tape.gradient(loss, [table])
    SGD(1.0, clipvalue=1.5).apply_gradients([(gradient, table)])
    np.testing.assert_allclose(table.numpy().ravel(), [1.0, -2.5, 1.5])
