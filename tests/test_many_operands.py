"""No number of operands is a limit: eager ops, their gradients, and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import tf

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@pytest.fixture(params=["eager", "function"])
def wrap(request: pytest.FixtureRequest) -> Wrap:
    return (lambda f: f) if request.param == "eager" else tf.function


def rows(count: int) -> list[Any]:
    values = np.random.default_rng(count).standard_normal((count, 2), np.float32)
    return [tf.constant(row) for row in values]


@pytest.mark.parametrize("count", [64, 65, 257, 5000])
def test_concat_and_stack(wrap: Wrap, count: int) -> None:
    parts = rows(count)
    both = wrap(lambda: (tf.concat(parts, 0), tf.stack(parts, 1)))()
    arrays = [part.numpy() for part in parts]
    np.testing.assert_array_equal(both[0].numpy(), np.concatenate(arrays))
    np.testing.assert_array_equal(both[1].numpy(), np.stack(arrays, 1))


@pytest.mark.parametrize("count", [65, 1100])
def test_gradients_of_many_parts(wrap: Wrap, count: int) -> None:
    parts = rows(count)
    weights = tf.constant(np.arange(2 * count, dtype=np.float32))

    @wrap
    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(parts)
            y = tf.reduce_sum(tf.concat(parts, 0) * weights)
        return tape.gradient(y, parts)

    found = np.stack([g.numpy() for g in gradients()])
    np.testing.assert_array_equal(found.ravel(), weights.numpy())


def test_gradients_of_many_variables_and_targets() -> None:
    variables = [tf.Variable(float(i)) for i in range(1100)]
    with tf.GradientTape() as tape:
        ys = [v * v for v in variables]
    found = [float(g) for g in tape.gradient(ys, variables)]
    assert found == [2.0 * i for i in range(1100)]


def test_a_tape_that_is_stopped_often() -> None:
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in range(600):
            y = y + x
            with tape.stop_recording():
                _ = y + x
    assert float(tape.gradient(y, x)) == 601.0


@pytest.mark.parametrize("count", [65, 300])
def test_a_function_of_many_arguments_under_a_tape(count: int) -> None:
    variables = [tf.Variable(float(i)) for i in range(count)]

    @tf.function
    def f(xs: Any) -> Any:
        return tf.add_n([x * v for x, v in zip(xs, variables, strict=True)])

    xs = [tf.constant(2.0)] * count
    with tf.GradientTape() as tape:
        y = f(xs)
    found = [float(g) for g in tape.gradient(y, variables)]
    assert found == [2.0] * count


def test_a_list_of_many_tensors() -> None:
    found = tf.constant([tf.constant(float(i)) for i in range(300)])
    np.testing.assert_array_equal(found.numpy(), np.arange(300, dtype=np.float32))
