# SPDX-License-Identifier: MIT
"""Gradients of loops and branches, against differences."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from control_flow_programs import V, X, check_gradient, rng, run, trace

import ipu
from ipu import _core, loops, tf

W = rng.standard_normal((3, 3)) * 0.5


def test_gradient_of_a_counted_while() -> None:
    def loop(x: Any) -> Any:
        return tf.while_loop(
            lambda i, y: i < 4, lambda i, y: (i + 1, tf.tanh(y * x) + y), (0, x)
        )[1]

    check_gradient(loop, V)


@pytest.mark.parametrize("n", [0, 3, 6, 20])
def test_gradient_where_the_number_of_turns_is_known_on_entry_alone(n: int) -> None:
    def loop(n: Any, x: Any) -> Any:
        return tf.while_loop(
            lambda i, y: i < n,
            lambda i, y: (i + 1, tf.tanh(y * x) + x),
            (0, x),
            maximum_iterations=6,
        )[1]

    check_gradient(loop, np.int32(n), V * 0.5)


def _within(n: Any, low: int, high: int) -> Any:
    return tf.minimum(tf.maximum(n, low), high)


@pytest.mark.parametrize("n", [-3, 1, 2, 4, 99])
@pytest.mark.parametrize(
    "turns",
    [
        lambda n: _within(n, 0, 3) * 2,
        lambda n: _within(n, 1, 2) * _within(n, 0, 3),
        lambda n: _within(n, 0, 7) // 2,
        lambda n: 6 // _within(n, 1, 3),
        lambda n: n % 5,
        lambda n: 2 - _within(n, -3, 2),
        lambda n: -_within(n, -4, 0),
        lambda n: tf.where(n > 2, _within(n, 0, 3), 5),
    ],
)
def test_gradient_where_the_most_turns_follow_from_arithmetic(
    turns: Any, n: int
) -> None:
    check_gradient(
        lambda n, x: loops.repeat(turns(n), lambda y: tf.tanh(y * x) + x, [x]),
        np.int32(n),
        V[:1],
    )


@pytest.mark.parametrize(
    "turns",
    [
        lambda n: tf.minimum(n, 3) * tf.minimum(n, 3),
        lambda n: tf.minimum(n, 3) * -2,
        lambda n: -2 * tf.minimum(n, 3),
        lambda n: 7 // tf.minimum(n, 2),
        lambda n: tf.minimum(n, 7) // -2,
        lambda n: _within(n, 0, 3) - n,
        lambda n: tf.maximum(n, 3),
    ],
)
def test_arithmetic_that_bounds_no_turns_says_so(turns: Any) -> None:
    def loop(n: Any, x: Any) -> Any:
        return tf.gradients(loops.repeat(turns(n), lambda y: y * x, [x]), [x])

    with pytest.raises(tf.errors.InvalidArgumentError, match="maximum_iterations"):
        trace(loop, (np.int32(2), np.float32(3)))


def test_gradient_of_a_loop_that_stops_by_its_values() -> None:
    def loop(x: Any) -> Any:
        return tf.while_loop(
            lambda y: tf.reduce_sum(y) < 50.0,
            lambda y: [y * y + 1.5],
            [x],
            maximum_iterations=30,
        )[0]

    check_gradient(loop, np.abs(V))


@pytest.mark.parametrize("start", [(7, -2), (1, 1), (0, 3)])
def test_a_loop_that_counts_bounds_itself(start: tuple[int, int]) -> None:
    first, step = start

    def loop(x: Any) -> Any:
        def more(i: Any, y: Any) -> Any:
            return i > 0 if step < 0 else i <= 9

        return tf.while_loop(
            more, lambda i, y: (i + step, tf.tanh(y * x) + x), (first, x)
        )[1]

    check_gradient(loop, np.array([0.9, 1.01, -0.7]))


@pytest.mark.parametrize(
    ("start", "step", "kept"),
    [(0, 1, 2), (1, 1, 2), (3, 1, 2), (0, 2, 2), (6, -2, 2), ([0, 1], 1, 3)],
)
def test_gradient_that_asks_where_a_count_was(start: Any, step: int, kept: int) -> None:
    """A single number that counts is made anew, and not kept for each turn."""

    def loop(x: Any) -> Any:
        def body(turn: Any, i: Any, y: Any) -> Any:
            return turn + 1, i + step, y * tf.reduce_sum(tf.gather(x, i))

        start_at = (0, tf.constant(start), x)
        return tf.while_loop(lambda turn, i, y: turn < 3, body, start_at)[2]

    x = rng.standard_normal(7)
    check_gradient(loop, x)
    opened, _ = trace(lambda x: tf.gradients(loop(x), x), (x,), host=True)
    assert opened.compile().text.count("dynamic_update_slice") == kept


def _chain(length: int) -> Any:
    def scale(i: Any, c: Any) -> Any:
        value = tf.cast(i, c.dtype)
        for _ in range(length - 1):
            value = value + c
        return value

    return scale


@pytest.mark.parametrize(
    ("dtype", "scale", "kept"),
    [
        ("float32", lambda i, c: tf.cast(i, c.dtype), 0),
        ("float32", lambda i, c: tf.reshape(tf.cast(i, c.dtype), (1,)), 0),
        ("float32", lambda i, c: tf.constant([1.0, 2.0, 3.0]), 0),
        ("float32", lambda i, c: tf.cast(i, c.dtype) * tf.constant([1.0, 2.0, 3.0]), 1),
        ("float32", lambda i, c: tf.stop_gradient(c * c), 0),
        ("float32", _chain(8), 0),
        ("float32", _chain(9), 1),
        ("float16", lambda i, c: tf.cast(i, c.dtype), 1),  # to other bits, perhaps
        ("float16", lambda i, c: tf.where(i > 1, c, -c), 0),
    ],
)
def test_what_is_made_anew_and_what_is_kept(dtype: str, scale: Any, kept: int) -> None:
    def loop(x: Any, c: Any) -> Any:
        return tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y * scale(i, c)), (1, x)
        )[1]

    def both(x: Any, c: Any) -> Any:
        y = loop(x, c)
        return y, tf.gradients(y, x)

    args = np.array([1, 2, 3], dtype), np.array(0.5, dtype)
    y, gradient = run(both, *args)
    np.testing.assert_allclose(gradient * args[0], y, rtol=1e-3)
    opened, _ = trace(lambda x, c: tf.gradients(loop(x, c), x), args)
    assert opened.compile().text.count("dynamic_update_slice") == kept


def _times_its_squares(y: Any) -> Any:
    return y * tf.reduce_sum(tf.square(tf.reshape(y, (3, 1))))


def _times_its_sum_twice(y: Any) -> Any:
    total = tf.reduce_sum(y)
    return y * tf.broadcast_to(total, (3,)) * total


@pytest.mark.parametrize(
    ("turn", "kept"), [(_times_its_squares, 2), (_times_its_sum_twice, 3)]
)
def test_what_is_a_view_is_kept_once(turn: Any, kept: int) -> None:
    def loop(y: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, turn(y)), (0, y))[
            1
        ]

    check_gradient(loop, V)
    opened, _ = trace(lambda y: tf.gradients(loop(y), y), (V,), host=True)
    assert opened.compile().text.count("dynamic_update_slice") == kept


def test_a_loop_without_a_bound_needs_one_for_its_gradient() -> None:
    def loop(n: Any, x: Any) -> Any:
        y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * y), (0, x))[1]
        return tf.gradients(y, [x])

    with pytest.raises(tf.errors.InvalidArgumentError) as info:
        trace(loop, (np.int32(2), np.float32(3)))
    assert "maximum_iterations" in str(info.value)
    assert os.path.basename(__file__) in str(info.value)


def test_a_loop_whose_gradient_keeps_nothing_needs_no_bound() -> None:
    def loop(n: Any, x: Any, w: Any) -> Any:
        return tf.while_loop(
            lambda i, y: i < n, lambda i, y: (i + 1, y * 2.0 + w), (0, x)
        )[1]

    found = check_gradient(loop, np.int32(3), V, V)
    np.testing.assert_array_equal(found[0], np.full(3, 8.0))
    np.testing.assert_array_equal(found[1], np.full(3, 7.0))


def test_gradient_of_a_branch_is_that_of_the_one_that_was_taken() -> None:
    def choose(x: Any, w: Any) -> Any:
        return tf.cond(
            x[0] > 0.0, lambda: tf.exp(x) * w, lambda: tf.tanh(x) + tf.square(w) * x
        )

    check_gradient(choose, np.array([0.5, 1.0, -2.0]), V)
    check_gradient(choose, np.array([-0.5, 1.0, -2.0]), V)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_gradient_where_a_branch_does_not_use_a_value(index: int) -> None:
    def choose(i: Any, x: Any, w: Any) -> Any:
        return tf.switch_case(i, [lambda: x * x, lambda: x * w, lambda: w * w * w])

    check_gradient(choose, np.int32(index), V, V + 1.0)


def test_gradient_of_a_branch_in_a_loop_in_a_loop() -> None:
    def network(x: Any, w: Any, h: Any) -> Any:
        def body(i: Any, h: Any) -> Any:
            h = tf.tanh(tf.matmul(h, w) + x[i])

            def inner() -> Any:
                return tf.while_loop(
                    lambda j, a: j < 3,
                    lambda j, a: (j + 1, a * tf.sigmoid(a + w[1])),
                    (0, h),
                )[1]

            return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: h * h + w[0, 0], inner)

        return tf.while_loop(lambda i, h: i < 4, body, (0, h))[1]

    check_gradient(network, X, W, rng.standard_normal((2, 3)))


def test_second_gradient_of_a_loop() -> None:
    def slope(x: Any) -> Any:
        y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y) * x), (0, x)
        )[1]
        return tf.gradients(y, [x])[0]

    check_gradient(slope, V)


def test_two_gradients_of_one_loop() -> None:
    def both(x: Any, w: Any) -> Any:
        y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y * w)), (0, x)
        )[1]
        return tf.gradients(y, [x])[0] * 2.0, tf.gradients(y, [w])[0] + y

    def once(x: Any, w: Any) -> Any:
        y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y * w)), (0, x)
        )[1]
        gx, gw = tf.gradients(y, [x, w])
        return gx * 2.0, gw + y

    for a, b in zip(
        run(both, V, V, host=True), run(once, V, V, host=True), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_what_a_loop_does_not_depend_on_has_no_gradient() -> None:
    def loop(x: Any, other: Any) -> Any:
        y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * y), (0, x))[1]
        gx, none = tf.gradients(y, [x, other])
        assert none is None
        return gx

    assert run(loop, np.float32(1.5), np.float32(2))[0] == pytest.approx(8 * 1.5**7)


@pytest.mark.parametrize("written", ["", "beside the read", "inside"])
@pytest.mark.parametrize("read_inside", [False, True])
def test_gradient_of_a_variable_that_a_loop_reads(
    written: str, read_inside: bool
) -> None:
    """Each turn's read counts, whether or not a turn writes the variable."""
    device = _core.Device()
    kind = ("float32", ())
    number = device.variable_add(*kind)
    device.variable_write(number, kind, np.float32(0.5))
    resource = (("variable", number, [kind], "w"),)
    opened = _core.Trace()
    with opened:
        x = opened.parameter(kind)

        def scale(y: Any) -> Any:
            return y * opened.node("variable_read", (), None, resource)

        def add(number: float) -> None:
            opened.node("variable_add", [tf.constant(number)], None, resource)

        def body(i: Any, y: Any) -> Any:
            y = loops.repeat(1, scale, y) if read_inside else scale(y)
            if written == "inside":
                loops.repeat(2, lambda: add(0.5))
            elif written:
                add(1.0)
            return i + 1, y

        y = tf.while_loop(lambda i, y: i < 3, body, (0, x))[1]
        for gradient in opened.gradients([y], [], [number, x]):
            opened.result(gradient)
    program = opened.compile(device=device, verify=True)
    dw, dx = (float(np.asarray(t)) for t in program.run([np.float32(2)]))
    values = [0.5, 1.5, 2.5] if written else [0.5] * 3
    product = np.prod(values)
    assert dx == pytest.approx(product)
    assert dw == pytest.approx(sum(2 * product / v for v in values))
    if not written:  # the weight is not kept for each turn
        assert "variable[0]" in program.text
        assert program.text.count("dynamic_update_slice") == 1 + read_inside


def test_a_number_stands_for_a_variable_among_sources_alone() -> None:
    opened = _core.Trace()
    with opened:
        x = opened.parameter(("float32", ()))
        for ys, grads in (([x * x], [5]), ([7], [None])):
            with pytest.raises(TypeError, match=r"expected a tensor, but got [57]"):
                opened.gradients(ys, grads, [x])
        assert opened.gradients([x * x], [], [5]) == [None]  # it is not read


def test_a_training_step_in_a_loop_keeps_nothing() -> None:
    """A tape inside a body differentiates that body alone."""
    device = _core.Device()
    kind = ("float32", (3,))
    number = device.variable_add(*kind)
    resource = (("variable", number, [kind], "w"),)
    opened = _core.Trace()
    with opened:
        x = opened.parameter(kind)

        def body() -> None:
            w = opened.node("variable_read", (), None, resource)
            loss = tf.reduce_sum(tf.square(w - x))
            (gradient,) = opened.gradients([loss], [], [number])
            opened.node(
                "sgd_update", [gradient, tf.constant(0.1)], {"momentum": 0.0}, resource
            )

        ipu.loops.repeat(5, body)
    shown = opened.compile(device=device, verify=True).text
    assert "dynamic" not in shown


def test_a_trace_goes_on_after_a_gradient_that_cannot_be() -> None:
    """What is kept of two loops, a row for each turn of both, has too many elements."""

    @tf.function
    def f(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(2**31 - 2):
                for _ in tf.range(2**31 - 2):
                    y = tf.tanh(y) * y
                    if y[0] < 1e9:
                        break
                if y[0] < 1e9:
                    break
        with pytest.raises(MemoryError, match=r"a tensor of shape \(2147483646, "):
            tape.gradient(y, x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            z = x * x * y
        return z, tape.gradient(z, x)

    x = np.ones(256, "f")
    z, gradient = f(tf.constant(x))
    np.testing.assert_array_equal(z, np.tanh(x))
    np.testing.assert_array_equal(gradient, 2 * np.tanh(x))
