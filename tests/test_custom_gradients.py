# SPDX-License-Identifier: MIT
"""Functions with a gradient of their own in loops and branches of a program.

A gradient that is not the function's derivative shows whose it is: each call of
``marked`` takes 3 in place of 2 times what it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import tf

Array = np.ndarray[Any, Any]


@tf.custom_gradient
def marked(x: Any) -> Any:
    return x * 2.0, lambda dy: dy * 3.0


@tf.custom_gradient
def product(a: Any, b: Any) -> Any:
    """Two results; the gradient uses what the call was given."""

    def gradient(dp: Any, ds: Any) -> Any:
        return dp * b + 10.0 * ds, dp * a

    return (a * b, a - b), gradient


def loop(turns: int, body: Callable[[Any], Any], x: Any) -> Any:
    return tf.while_loop(
        lambda i, _: i < turns, lambda i, c: (i + 1, body(c)), [tf.constant(0), x]
    )[1]


def slope(function: Callable[..., Any], *xs: Any) -> list[float]:
    """The derivatives of a function of scalars, in one program."""

    @tf.function
    def program(*given: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given)
            y = function(*given)
        return tape.gradient(y, list(given))

    return [float(g) for g in program(*(tf.constant(x) for x in xs))]


def test_in_a_loop_it_is_called_for_each_turn() -> None:
    assert slope(lambda x: loop(4, marked, x), 1.0) == [3.0**4]
    assert slope(lambda x: marked(loop(2, marked, marked(x))), 1.0) == [3.0**4]


def test_in_loops_of_loops_and_branches() -> None:
    def inner(x: Any) -> Any:
        return tf.cond(x > 4.0, lambda: marked(x), lambda: x * 5.0)

    # 1 -> 5 -> 10 -> 20
    assert slope(lambda x: loop(3, inner, x), 1.0) == [5.0 * 3.0 * 3.0]
    assert slope(lambda x: loop(2, lambda c: loop(2, inner, c), x), 1.0) == [5.0 * 27]


def test_it_uses_values_of_its_own_turn() -> None:
    def body(pair: Any) -> Any:
        a, b = pair
        p, s = product(a, b)
        return p, s

    def reference(a: float, b: float, da: float, db: float) -> list[float]:
        path = [(a, b)]
        for _ in range(3):
            a, b = a * b, a - b
            path.append((a, b))
        for a, b in reversed(path[:-1]):
            da, db = da * b + 10.0 * db, da * a
        return [da, db]

    @tf.function
    def program(a: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            p, s = loop(3, body, (a, b))
            y = p * 2.0 + s * 3.0
        return tape.gradient(y, [a, b])

    found = [float(g) for g in program(tf.constant(1.5), tf.constant(0.5))]
    assert found == reference(1.5, 0.5, 2.0, 3.0)


def test_what_it_closes_over_has_no_gradient_but_its_value_counts() -> None:
    def function(x: Any, weight: Any) -> Any:
        def body(c: Any) -> Any:
            local = c + 1.0

            @tf.custom_gradient
            def scaled(a: Any) -> Any:
                return a * weight, lambda dy: dy * weight * local

            return scaled(c)

        return loop(2, body, x)

    # 2 -> 6 -> 18: 3 * 3 in the first turn, 3 * 7 in the second
    found = slope(lambda x: function(x, tf.constant(3.0)), 2.0)
    assert found == [3.0 * 3.0 * 3.0 * 7.0]


def test_gradients_of_variables() -> None:
    v, w = tf.Variable(3.0), tf.Variable(0.5)

    @tf.custom_gradient
    def with_variables(a: Any) -> Any:
        def gradient(dy: Any, variables: Any = None) -> Any:
            return dy * 7.0, [dy * (9.0 if x is v else 11.0) for x in variables]

        return a * v + w, gradient

    @tf.function
    def program(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loop(2, with_variables, x) * 2.0
        return tape.gradient(y, [x, v, w])

    got = [float(g) for g in program(tf.constant(1.0))]
    assert got == [2 * 49.0, 2 * (9.0 + 7 * 9.0), 2 * (11.0 + 7 * 11.0)]


def test_recompute_grad_in_a_loop() -> None:
    v = tf.Variable(0.25)
    block = tf.recompute_grad(lambda a: tf.tanh(a * v))

    def both(function: Callable[[Any], Any]) -> list[float]:
        @tf.function
        def program(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = loop(3, function, x)
            return tape.gradient(y, [x, v])

        return [float(g) for g in program(tf.constant(0.5))]

    np.testing.assert_allclose(both(block), both(lambda a: tf.tanh(a * v)), rtol=1e-6)


@pytest.mark.parametrize("is_function", [False, True])
def test_what_is_random_is_recomputed_as_it_was_drawn_at_once(
    is_function: bool,
) -> None:
    rng = np.random.default_rng(0)
    w = tf.Variable(rng.normal(size=(16, 16)).astype(np.float32))
    x = tf.constant(rng.normal(size=(2, 16)).astype(np.float32))

    def block(h: Any) -> Any:
        return tf.nn.dropout(h @ w, 0.5)

    def both(of: Callable[[Any], Any]) -> list[Any]:
        tf.random.set_seed(4)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = of(x)
            loss = tf.reduce_sum(y * y)
        later = tf.random.normal([3])  # what comes after draws what it would
        return [one.numpy() for one in (y, *tape.gradient(loss, [x, w]), later)]

    block = tf.function(block) if is_function else block
    kept = both(block)
    for _ in range(2):  # the function is traced once
        for one, again in zip(kept, both(tf.recompute_grad(block)), strict=True):
            np.testing.assert_array_equal(again, one)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", ["for", "while", "repeat"])
def test_what_is_random_is_recomputed_as_it_was_drawn_in_a_loop(
    kind: str, inside: bool
) -> None:
    """The tape is around the loop, or in each of its turns."""
    rng = np.random.default_rng(0)
    w = tf.Variable(rng.normal(size=(4, 4)).astype(np.float32))
    x = tf.constant(rng.normal(size=(2, 4)).astype(np.float32))

    def block(h: Any) -> Any:
        return tf.nn.dropout(h @ w, 0.5) * 0.5 + 1.0

    def turns(step: Callable[..., Any]) -> Any:
        start = [x, tf.zeros((4, 4))]
        if kind == "repeat":
            return ipu.loops.repeat(3, step, start)
        if kind == "while":
            return tf.while_loop(
                lambda i, *_: i < 3,
                lambda i, *state: (i + 1, *step(*state)),
                [tf.constant(0), *start],
            )[1:]
        h, total = start
        for _ in tf.range(3):
            h, total = step(h, total)
        return h, total

    def both(of: Callable[[Any], Any]) -> Any:
        def step(h: Any, total: Any) -> Any:
            with tf.GradientTape() as tape:
                h = of(h)
                loss = tf.reduce_sum(h * h)
            return h, total + tape.gradient(loss, w) if inside else total

        @tf.function
        def program() -> Any:
            if inside:
                return turns(step)
            with tf.GradientTape() as tape:
                h, _ = turns(step)
                loss = tf.reduce_sum(h * h)
            return h, tape.gradient(loss, w)

        tf.random.set_seed(4)
        return [one.numpy() for one in program()]

    kept = both(block)
    for one, again in zip(kept, both(tf.recompute_grad(block)), strict=True):
        np.testing.assert_array_equal(again, one)
    assert np.abs(kept[1]).max() > 0.0


def test_gradient_functions_may_have_loops_and_calls_of_their_own() -> None:
    @tf.custom_gradient
    def outer(x: Any) -> Any:
        def gradient(dy: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = loop(2, marked, x)
            total = dy * tape.gradient(y, x)
            for _ in tf.range(2):  # AutoGraph converts it
                total = total * 10.0
            return total

        return x + 1.0, gradient

    assert slope(lambda x: loop(2, outer, x), 1.0) == [900.0**2]


def test_second_derivatives() -> None:
    @tf.custom_gradient
    def square(x: Any) -> Any:
        return x * x, lambda dy: dy * 2.0 * x

    @tf.function
    def program(x: Any) -> Any:
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                y = loop(2, square, x)
            one = first.gradient(y, x)
        return one, second.gradient(one, x)

    one, two = program(tf.constant(3.0))
    assert (float(one), float(two)) == (4 * 27.0, 12 * 9.0)


def test_its_errors_reach_the_caller() -> None:
    @tf.custom_gradient
    def raises(x: Any) -> Any:
        def gradient(dy: Any) -> Any:
            raise LookupError("mine")

        return x * 2.0, gradient

    @tf.custom_gradient
    def of_other_shape(x: Any) -> Any:
        return x * 2.0, lambda dy: tf.stack([dy, dy])

    with pytest.raises(LookupError, match="mine"):
        slope(lambda x: loop(2, raises, x), 1.0)
    wanted = r"must have its type, float32\[\].*gives float32\[2\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=wanted):
        slope(lambda x: loop(2, of_other_shape, x), 1.0)
    assert slope(lambda x: loop(2, marked, x), 1.0) == [9.0]  # the trace is whole


def test_outside_of_the_tape_it_is_a_constant() -> None:
    @tf.function
    def program(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            with tape.stop_recording():
                y = loop(2, marked, x)
            z = y + x
        return tape.gradient(z, x)

    assert float(program(tf.constant(1.0))) == 1.0
