# SPDX-License-Identifier: MIT
"""Functions that are called while an eager tape records: one program, one gradient."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import ipu_outfeed_queue, tf
from ipu.ipu_strategy import IPUStrategy

x = tf.constant([0.5, -1.5, 2.0])


def both(function: Callable[..., Any], *sources: Any) -> Any:
    """Gradients of the sum of function(x), as programs and op by op: equal."""
    found = []
    for wrap in (tf.function, lambda f: f):
        made = wrap(function)
        for _ in range(2):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(made(x * 1.0) * 3.0)
            grads = tape.gradient(y, [x, *sources])
            found.append(
                [y.numpy(), *(None if g is None else g.numpy() for g in grads)]
            )
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-6)
    return found[0]


def test_the_numbers_are_those_of_the_ops() -> None:
    v, frozen = tf.Variable([1.0, 2.0, 3.0]), tf.Variable(2.0, trainable=False)
    unused = tf.Variable(1.0)

    def function(a: Any) -> Any:
        return tf.tanh(a * v) * frozen + tf.exp(a)

    found = both(function, v, frozen, unused)
    assert found[2] is not None
    assert found[3] is None and found[4] is None


def test_loops_and_branches() -> None:
    v = tf.Variable(0.7)

    @tf.function
    def function(a: Any, turns: Any) -> Any:
        total = a
        for i in tf.range(turns):
            total = tf.sin(total * v) if i % 2 == 0 else total * total
        return total

    def plain(a: Any, turns: int) -> Any:
        for i in range(turns):
            a = tf.sin(a * v) if i % 2 == 0 else a * a
        return a

    results = []
    for call in (lambda: function(x, 3), lambda: plain(x, 3)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call()
        results.append([g.numpy() for g in tape.gradient(y, [x, v])])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_effects_happen_once_and_queues_work() -> None:
    outfeed = ipu_outfeed_queue.IPUOutfeedQueue()
    v, calls = tf.Variable(3.0), tf.Variable(0)
    traces = []

    @tf.function
    def step(a: Any) -> Any:
        traces.append(1)
        calls.assign_add(1)
        loss = tf.reduce_sum(a * v)
        outfeed.enqueue(loss)
        v.assign_add(1.0)
        return loss

    strategy = IPUStrategy()
    with strategy.scope():
        v, calls = tf.Variable(3.0), tf.Variable(0)
        for turn in range(3):
            with tf.GradientTape() as tape:
                loss = step(x)
            (g,) = tape.gradient(loss, [v])
            assert float(g) == float(tf.reduce_sum(x))
            assert int(calls) == turn + 1
    assert outfeed.dequeue().numpy().tolist() == [3.0, 4.0, 5.0]
    assert len(traces) == 1


def test_the_gradient_uses_the_values_of_the_call() -> None:
    v = tf.Variable(2.0)
    drop = tf.function(lambda a: tf.nn.dropout(a * v, 0.5))
    ones = tf.ones([200])
    with tf.GradientTape() as tape:
        tape.watch(ones)
        y = drop(ones)
    v.assign(100.0)
    _ = drop(ones)  # other numbers
    np.testing.assert_array_equal(tape.gradient(y, ones), y)


def test_structures_integers_and_what_does_not_depend() -> None:
    @tf.function
    def function(a: Any, n: Any, scale: float) -> Any:
        return {"y": a * scale, "n": n + 1, "c": tf.ones([2]), "word": "text"}

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        out = function(x, tf.constant(3), 4.0)
        z = tf.reduce_sum(out["y"])
    assert out["word"] == "text" and int(out["n"]) == 4
    assert tape.gradient(z, x).numpy().tolist() == [4.0] * 3
    assert tape.gradient(z, x).numpy().tolist() == [4.0] * 3
    assert (
        tape.gradient(out["c"], x) is None
        or not tape.gradient(out["c"], x).numpy().any()
    )


def test_tensors_that_it_closes_over() -> None:
    captured = tf.constant([1.0, 2.0, 3.0])
    function = tf.function(lambda a: a * captured)
    with tf.GradientTape() as tape:  # here it is a constant
        tape.watch(x)
        y = function(x)
    assert tape.gradient(y, captured) is None
    for _ in range(2):
        with tf.GradientTape() as tape:
            tape.watch(captured)
            y = function(x)
        np.testing.assert_array_equal(tape.gradient(y, captured), x)


def test_calls_of_calls_and_custom_gradients() -> None:
    @tf.custom_gradient
    def marked(a: Any) -> Any:
        return a * 2.0, lambda dy: dy * 5.0

    inner = tf.function(lambda a: marked(a) + 1.0)
    outer = tf.function(lambda a: inner(inner(a)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = inner(outer(x))
    assert tape.gradient(y, x).numpy().tolist() == [125.0] * 3


def test_second_derivatives() -> None:
    cube = tf.function(lambda a: a * a * a)
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch(x)
            y = cube(x)
        one = first.gradient(y, x)
    np.testing.assert_allclose(second.gradient(one, x), 6.0 * x.numpy())
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = cube(x)
        one = tape.gradient(y, x)
    with pytest.raises(NotImplementedError, match="gradient of the gradient"):
        tape.gradient(one, x)


def test_loops_without_a_bound() -> None:
    """They run op by op; with a queue they run as a program, without a gradient."""
    outfeed = ipu_outfeed_queue.IPUOutfeedQueue()

    @tf.function
    def halve(a: Any, with_queue: bool) -> Any:
        while tf.reduce_max(a) > 1.0:
            a = a * a * 0.3
        if with_queue:
            outfeed.enqueue(a)
        return a

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = halve(x, False)
    np.testing.assert_allclose(tape.gradient(y, x), 4 * 0.027 * x.numpy() ** 3, 1e-5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = halve(x, True)
    np.testing.assert_array_equal(outfeed.dequeue()[0], y)
    with pytest.raises(tf.errors.InvalidArgumentError, match="maximum_iterations"):
        tape.gradient(y, x)


def test_jacobians_and_watched_variables() -> None:
    v = tf.Variable([1.0, 2.0])
    function = tf.function(lambda a: a * v)
    for _ in range(2):
        with tf.GradientTape(persistent=True) as tape:
            y = function(tf.constant([3.0, 4.0]))
        assert tape.watched_variables() == (v,)
        np.testing.assert_array_equal(tape.jacobian(y, v), [[3.0, 0.0], [0.0, 4.0]])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        y = function(tf.constant([3.0, 4.0]))
    assert tape.watched_variables() == ()
    assert tape.gradient(y, v) is None


@pytest.mark.parametrize("stops, slope", [((), 109.0), (("y",), 1.0), (("x",), 109.0)])
def test_stop_gradients_of_a_function(stops: tuple[str, ...], slope: float) -> None:
    @tf.function
    def derivative(x):
        y = x * x
        constants = [{"x": x, "y": y}[name] for name in stops]
        return tf.gradients(x + y * y, x, stop_gradients=constants)[0]

    assert float(derivative(tf.constant(3.0))) == slope


def test_a_tape_keeps_nothing_once_it_is_gone() -> None:
    """What functions gave a tape goes with it, at once and without a collection."""
    variable = tf.Variable(np.ones((4, 4), np.float32))

    @tf.function
    def compiled(x: Any) -> Any:
        return tf.reduce_sum(tf.tanh(x @ variable))

    @tf.custom_gradient
    def own(x: Any) -> Any:
        return x * 2.0, lambda upstream: upstream * 2.0

    x = tf.Variable(np.ones((4, 4), np.float32))
    kept = []
    gc.disable()
    try:
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = compiled(own(x * 1.0))
            kept.append(weakref.ref(tape._record))
            tape.gradient(loss, [x, variable])
            del tape, loss
        assert [one() for one in kept] == [None, None, None]
    finally:
        gc.enable()
