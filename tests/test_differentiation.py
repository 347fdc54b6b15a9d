# SPDX-License-Identifier: MIT
"""Derivatives in functions where windows, calls, loops and recomputations meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu._device import devices
from ipu.tf._functions import tracing

Array = np.ndarray[Any, Any]


def gradients(loss: Callable[..., Any], *values: Any) -> list[Array]:
    @tf.function
    def of(*xs: Any) -> Any:
        return tf.gradients(loss(*xs), list(xs))

    return [np.asarray(g) for g in of(*[tf.constant(v) for v in values])]


def test_a_row_read_from_a_sum_adds_to_what_is_there() -> None:
    def loss(u: Any) -> Any:
        v = u + 1.0
        array = tf.TensorArray(tf.float32, 2, clear_after_read=False)
        row = array.unstack(v).read(0)
        return tf.reduce_sum(row**2) + tf.reduce_sum(v) + tf.reduce_sum(3.0 * u)

    (found,) = gradients(loss, np.zeros((2, 2), np.float32))
    np.testing.assert_array_equal(found, [[6, 6], [4, 4]])


def test_a_gradient_function_differentiates_through_an_earlier_loop() -> None:
    def loss(x: Any) -> Any:
        y = x
        for _ in tf.range(3):
            y = y * x

        @tf.custom_gradient
        def call(a: Any) -> Any:
            return a * 2.0, lambda dy: dy * tf.gradients(y, x)[0]

        return call(x) + y

    (found,) = gradients(loss, np.float32(2.0))
    assert found == 2 * 4 * 2.0**3


def test_a_gradient_function_in_a_loop_asks_a_tape_of_that_loop() -> None:
    def loss(x: Any) -> Any:
        y = x
        for _ in tf.range(2):

            @tf.custom_gradient
            def call(a: Any) -> Any:
                with tf.GradientTape(persistent=True) as tape:
                    tape.watch(a)
                    b = -1.5 * a
                return tf.identity(b), lambda dy: tape.gradient(b, a, dy)

            y = call(tf.identity(y))
        return y

    (found,) = gradients(loss, np.float32(3.0))
    assert found == 2.25


def test_one_tensor_may_be_two_arguments_of_a_custom_gradient() -> None:
    @tf.custom_gradient
    def product(a: Any, b: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([a, b])
            y = a * b
        return tf.identity(y), lambda dy: (
            tape.gradient(y, a, dy),
            tape.gradient(y, b, dy),
        )

    (found,) = gradients(lambda x: product(x, x), np.float32(3.0))
    assert found == 6.0


def test_a_variable_starts_with_what_a_differentiated_loop_gives() -> None:
    made: list[tf.Variable] = []

    @tf.function
    def function(x: Any) -> Any:
        y = tf.constant(1.0) * 2.0
        for _ in tf.range(7):
            y = y * 2.0
        (gradient,) = tf.gradients(y * x, [x])
        if not made:
            made.append(tf.Variable(y * 5.0))
        return gradient

    assert function(tf.constant(1.0)).numpy() == 256.0
    assert made[0].numpy() == 1280.0


@pytest.mark.parametrize("many", [False, True])
def test_a_loop_of_no_turns_is_the_identity(many: bool) -> None:
    def repeated(x: Any) -> Any:
        for _ in tf.range(0):
            x = tf.sin(x) * x
        return tf.reduce_sum(x)

    def never(x: Any) -> Any:
        return tf.reduce_sum(
            tf.while_loop(lambda i, _: i < 0, lambda i, y: (i + 1, y * x), (0, x))[1]
        )

    value = np.float32([1, 2, 3]) if many else np.float32(3.0)
    for loss in (repeated, never):
        (found,) = gradients(loss, value)
        np.testing.assert_array_equal(found, np.ones_like(value))


def test_a_scan_of_no_rows() -> None:
    def loss(x: Any, start: Any) -> Any:
        rows = tf.scan(lambda total, row: total * row, x, start)
        return tf.reduce_sum(rows) + tf.reduce_sum(x) + 2.0 * start

    of_rows, of_start = gradients(loss, np.zeros((0,), np.float32), np.float32(5.0))
    assert of_rows.shape == (0,)
    assert of_start == 2.0


@pytest.mark.parametrize("verify", [False, True])
def test_a_loop_and_a_branch_with_many_values(verify: bool) -> None:
    """300 weights are captured, and 300 values of each turn kept."""
    weights = [np.float32(k % 7 - 3) for k in range(300)]

    def loss(*xs: Any) -> Any:
        y = tf.constant(1.0)
        for _ in tf.range(2):
            for x in xs:
                y = y + tf.sin(x * y) * 1e-3
        chosen = tf.cond(
            xs[0] < 0.0,
            lambda: [tf.sin(x) for x in xs],
            lambda: [2.0 * x for x in xs],
        )
        for value in chosen:
            y = y + value
        return y

    specs = [tf.TensorSpec((), tf.float32)] * len(weights)
    trace = traced(lambda *xs: tf.gradients(loss(*xs), list(xs)), specs)
    program = trace.compile(device=devices.get_device().core, verify=verify)
    found = np.array([float(g) for g in program.run([np.asarray(w) for w in weights])])
    with tf.GradientTape() as tape:
        eager = [tf.constant(w) for w in weights]
        tape.watch(eager)
        y = loss(*eager)
    expected = np.array([float(g) for g in tape.gradient(y, eager)])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def traced(function: Callable[..., Any], specs: list[Any]) -> Any:
    build = tracing.Build("test", runs=False, device=devices.get_device())
    return tracing._trace(function, tuple(specs), False, build)[0]


def test_what_is_recomputed_is_not_kept() -> None:
    """The same numbers from less memory, those of dropout too."""
    weights = tf.Variable(np.eye(64, dtype=np.float32))

    def block(x: Any) -> Any:
        for _ in range(6):
            x = tf.tanh(tf.matmul(x, weights))
        return tf.nn.dropout(x, 0.5)

    def program(of: Callable[..., Any]) -> Any:
        def function(x: Any) -> Any:
            y = x
            for _ in range(4):
                y = of(y)
            return tf.gradients(tf.reduce_sum(y), [x, weights])

        trace = traced(function, [tf.TensorSpec((128, 64), tf.float32)])
        return trace.compile(device=devices.get_device().core, verify=True)

    x = np.random.default_rng(5).normal(size=(128, 64)).astype(np.float32)
    plain, again = program(block), program(tf.recompute_grad(block))
    tf.random.set_seed(7)
    expected = plain.run([x])
    tf.random.set_seed(7)
    found = again.run([x])
    np.testing.assert_array_equal(np.asarray(found[0]), np.asarray(expected[0]))
    # of the weights each call adds up its own share first
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-3, atol=1e-3)
    kept, less = (p.memory_report["slab_bytes"] for p in (plain, again))
    assert less < 0.6 * kept


def test_a_counter_that_may_wrap_bounds_nothing() -> None:
    def loss(x: Any) -> Any:
        return tf.while_loop(
            lambda i, _: i < 2**31 - 2, lambda i, y: (i + 2**30, y * x), (0, x)
        )[1]

    with pytest.raises(tf.errors.InvalidArgumentError, match="maximum_iterations"):
        gradients(loss, np.float32(1.0))


def test_views_of_views_in_a_differentiated_loop() -> None:
    def loss(x: Any) -> Any:
        for _ in tf.range(2):
            view = x * 2.0
            for k in range(2000):
                view = tf.reshape(view, (2, 1) if k % 2 == 0 else (1, 2))
            x = tf.sin(tf.reshape(view, (2,))) * view[0, 0]
        return tf.reduce_sum(x)

    (found,) = gradients(loss, np.float32([0.5, 0.25]))
    value = np.float64([0.5, 0.25])

    def plain(x: Array) -> float:
        for _ in range(2):
            x = np.sin(2 * x) * 2 * x[0]
        return float(x.sum())

    step = 1e-5 * np.eye(2)
    expected = [(plain(value + s) - plain(value - s)) / 2e-5 for s in step]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_products_with_a_zero() -> None:
    x = np.float32([2, 0, 3])
    (found,) = gradients(lambda x: tf.reduce_sum(tf.math.cumprod(x)), x)
    np.testing.assert_array_equal(found, [1, 8, 0])

    def second(of: Callable[[Any], Any]) -> Array:
        return gradients(lambda x: tf.reduce_sum(tf.gradients(of(x), x)[0]), x)[0]

    np.testing.assert_array_equal(second(tf.reduce_prod), [3, 5, 2])
    np.testing.assert_array_equal(second(lambda x: tf.reduce_sum(x**0.0)), 0)
    np.testing.assert_array_equal(second(lambda x: tf.reduce_sum(x**2.0)), 2)


def test_the_mixed_derivative_of_a_power() -> None:
    """d/db of b a^(b - 1) is 1 / a where b is 0."""

    def loss(a: Any, b: Any) -> Any:
        return tf.gradients(tf.pow(a, b), a)[0]

    _, found = gradients(loss, np.float32(4.0), np.float32(0.0))
    assert found == 0.25
