# SPDX-License-Identifier: MIT
"""Gradient accumulation without a pipeline: to the bit what a plain loop gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import loops, tf
from ipu._loops.accumulation import accumulate
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method


@pytest.mark.parametrize(
    ("method", "expected"), [("sum", 12.0), ("mean", 3.0), ("RUNNING_MEAN", 3.0)]
)
def test_worked_numbers(method: str, expected: float) -> None:
    """Gradients 1, 2, 3, 6 of four micro-batches."""
    v = tf.Variable(2.0)

    @tf.function(jit_compile=True)
    def step() -> Any:
        def body(x: Any) -> Any:
            return [(x, v), (None, v)], [tf.where(x < 3.0, x + 1.0, x * 2.0)]

        [(gradient, variable)], [x] = accumulate(4, body, [1.0], method)
        assert variable is v
        return gradient, x

    assert [float(t) for t in step()] == [expected, 12.0]


def test_a_running_mean_of_float16_does_not_overflow() -> None:
    v = tf.Variable(np.float16(1.0))

    def run(method: str, dtype: Any) -> Any:
        @tf.function(jit_compile=True)
        def step() -> Any:
            gradient = tf.constant(40000.0, "float16")
            pairs, _ = accumulate(4, lambda: ([(gradient, v)], []), (), method, dtype)
            return pairs[0][0]

        return step()

    assert np.isinf(run("sum", None).numpy())
    assert run("running_mean", None).numpy() == 40000.0
    assert run("sum", "float32").numpy() == np.float32(4 * 40000.0)
    assert run("sum", lambda variable: tf.float32).dtype == tf.float32


@pytest.mark.parametrize("count", [1, 3])
def test_bits_of_a_plain_loop_with_dropout(count: int) -> None:
    """Random numbers are those of the turns of a loop of steps."""
    weights = np.random.default_rng(1).normal(size=(8, 4)).astype("float32")
    data = np.random.default_rng(2).normal(size=(6, 8)).astype("float32")

    def gradient_of(w: Any) -> Any:
        x = tf.nn.dropout(tf.constant(data), 0.4)
        loss = tf.reduce_sum(tf.tanh(x @ w.value()) ** 2)
        return tf.gradients(loss, [w])[0]

    def train(step: Callable[[Any], Any], turns: int, w: Any) -> np.ndarray:
        tf.random.set_seed(5)

        @tf.function(jit_compile=True)
        def run() -> None:
            loops.repeat(turns, lambda: step(w))

        run()
        run()
        return w.numpy()  # type: ignore[no-any-return]

    def accumulated(w: Any) -> None:
        pairs, _ = accumulate(count, lambda: ([(gradient_of(w), w)], []))
        w.assign_sub(0.125 * pairs[0][0])

    sums = tf.Variable(np.zeros_like(weights))
    turn = tf.Variable(0)

    def plain(w: Any) -> None:
        begins = turn % count == 0
        sums.assign(tf.where(begins, tf.zeros_like(sums), sums.value()))
        sums.assign_add(gradient_of(w))
        turn.assign_add(1)
        w.assign_sub(tf.where(turn % count == 0, 0.125 * sums.value(), 0.0))

    np.testing.assert_array_equal(
        train(accumulated, 4, tf.Variable(weights)),
        train(plain, 4 * count, tf.Variable(weights)),
    )


def test_methods_that_are_none() -> None:
    with pytest.raises(ValueError, match="Cannot parse 'product' as one of"):
        Method.parse("product")
    with pytest.raises(ValueError, match="Cannot parse None"):
        Method.parse(None)
