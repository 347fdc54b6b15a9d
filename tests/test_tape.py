"""GradientTape and its kin, eagerly and in functions: the same numbers and errors."""

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


def values(nest: Any) -> Any:
    return tf.nest.map_structure(
        lambda x: None if x is None else np.asarray(x).tolist(), nest
    )


def test_tensors_and_variables(wrap: Wrap) -> None:
    x, v = tf.constant(3.0), tf.Variable(2.0)

    @wrap
    def f():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x * v
        return tape.gradient(y, {"x": x, "v": [v]})

    assert values(f()) == {"x": 12.0, "v": [9.0]}


def test_only_what_is_watched_and_recorded(wrap: Wrap) -> None:
    x, y = tf.constant(3.0), tf.constant(4.0)

    @wrap
    def f():
        before = x * 2.0
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            z = before * x * y
            with tape.stop_recording():
                hidden = x * x
            w = z + hidden
        after = w * x
        return [tape.gradient(t, s) for t in (w, after) for s in (x, y, before)]

    assert values(f()) == [24.0, None, None, None, None, None]


def test_watch_accessed_variables(wrap: Wrap) -> None:
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    frozen = tf.Variable(5.0, trainable=False)

    @wrap
    def f():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(a)
            y = a * b * frozen
        assert tape.watched_variables() == (a,)
        with tf.GradientTape() as second:
            z = b * frozen * a
        assert second.watched_variables() == (b, a)
        return tape.gradient(y, [a, b, frozen]), second.gradient(z, [a, b, frozen])

    assert values(f()) == ([15.0, None, None], [15.0, 10.0, None])


def test_higher_derivatives(wrap: Wrap) -> None:
    x = tf.constant(2.0)

    @wrap
    def f():
        with tf.GradientTape() as third:
            third.watch(x)
            with tf.GradientTape() as second:
                second.watch(x)
                with tf.GradientTape() as first:
                    first.watch(x)
                    y = x * x * x * x
                one = first.gradient(y, x)
            two = second.gradient(one, x)
        return one, two, third.gradient(two, x)

    assert values(f()) == (32.0, 48.0, 48.0)


def test_a_variable_read_twice(wrap: Wrap) -> None:
    v = tf.Variable(3.0)

    @wrap
    def f():
        with tf.GradientTape() as tape:
            y = v * 2.0 + v * v
        return tape.gradient(y, v)

    assert values(f()) == 8.0


def test_output_gradients_and_lists_of_targets(wrap: Wrap) -> None:
    x = tf.constant([1.0, 2.0])

    @wrap
    def f():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            a, b = x * 2.0, x * x
        return (
            tape.gradient([a, b], x),
            tape.gradient(b, x, output_gradients=tf.constant([10.0, 100.0])),
            tape.gradient([a, b], x, output_gradients=[None, tf.zeros(2)]),
        )

    assert values(f()) == ([4.0, 6.0], [20.0, 400.0], [2.0, 2.0])


def test_unconnected(wrap: Wrap) -> None:
    x, v = tf.constant([1.0, 2.0]), tf.Variable([[1.0]])

    @wrap
    def f():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.constant(1.0) * 2.0
        zero = tf.UnconnectedGradients.ZERO
        return (
            tape.gradient(y, [x, v]),
            tape.gradient(y, [x, v], unconnected_gradients=zero),
            tape.gradient(y, x, unconnected_gradients="zero"),
        )

    assert values(f()) == ([None, None], [[0.0, 0.0], [[0.0]]], [0.0, 0.0])


def test_jacobians(wrap: Wrap) -> None:
    rng = np.random.default_rng(0)
    m = rng.normal(size=(3, 2)).astype(np.float32)
    x = tf.constant(rng.normal(size=(2,)).astype(np.float32))
    rows = tf.constant(rng.normal(size=(4, 2)).astype(np.float32))

    @wrap
    def f():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, rows])
            y = (
                tf.linalg.matvec(m, x)
                if hasattr(tf, "linalg")
                else tf.squeeze(tf.matmul(m, tf.expand_dims(x, 1)), 1)
            )
            z = rows * rows
        return tape.jacobian(y, x), tape.batch_jacobian(z, rows), tape.jacobian(z, x)

    jacobian, batch, none = f()
    np.testing.assert_allclose(jacobian, m, rtol=1e-6)
    want = np.zeros((4, 2, 2), np.float32)
    for i in range(2):
        want[:, i, i] = 2 * rows.numpy()[:, i]
    np.testing.assert_allclose(batch, want, rtol=1e-6)
    assert none is None


def test_stop_gradient_and_gradients_through_ops(wrap: Wrap) -> None:
    x = tf.constant([[1.0, -2.0], [3.0, 4.0]])

    @wrap
    def f():
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.nn.relu(x) * tf.stop_gradient(x)) + tf.reduce_max(x)
        return tape.gradient(y, x)

    assert values(f()) == [[1.0, 0.0], [3.0, 5.0]]


def test_custom_gradients(wrap: Wrap) -> None:
    x, v = tf.constant(2.0), tf.Variable(3.0)

    @tf.custom_gradient
    def scaled(a, b):
        return a * b, lambda dy: (dy * 100.0, dy * 1000.0)

    @tf.custom_gradient
    def with_variable(a):
        def gradient(dy, variables=None):
            assert variables == [v]
            return dy * 7.0, [dy * 9.0]

        return a * v, gradient

    @wrap
    def f():
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = scaled(scaled(x, x) * 2.0, x) * 3.0
            z = with_variable(x * 5.0) * 2.0
        return y, tape.gradient(y, x), tape.gradient(z, [x, v])

    inner = 100.0 + 1000.0
    assert values(f()) == (48.0, 3 * (100 * 2 * inner + 1000), [70.0, 18.0])


def test_custom_gradients_have_derivatives(wrap: Wrap) -> None:
    x = tf.constant(2.0)

    @tf.custom_gradient
    def cube(a):
        return a * a * a, lambda dy: dy * 3.0 * a * a

    @wrap
    def f():
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                y = cube(x)
            one = first.gradient(y, x)
        return one, second.gradient(one, x)

    assert values(f()) == (12.0, 12.0)


def test_errors_of_custom_gradients(wrap: Wrap) -> None:
    x, v = tf.constant(2.0), tf.Variable(3.0)

    @tf.custom_gradient
    def uses(a):
        return a * v, lambda dy: dy

    @tf.custom_gradient
    def wrong(a):
        return a * 2.0, lambda dy: (dy, dy)

    @wrap
    def f(g):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = g(x)
        return tape.gradient(y, x)

    with pytest.raises(TypeError, match="must accept a 'variables' keyword"):
        f(uses)
    with pytest.raises(ValueError, match="expected to return 1 gradients"):
        f(wrong)


def test_recompute_grad(wrap: Wrap) -> None:
    x, v = tf.constant(0.5), tf.Variable(0.25)
    block = tf.recompute_grad(lambda a: tf.tanh(a * v))

    @wrap
    def f(function):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x) * 2.0
        return tape.gradient(y, [x, v])

    np.testing.assert_allclose(
        values(f(block)), values(f(lambda a: tf.tanh(a * v))), rtol=1e-6
    )


def test_used_twice(wrap: Wrap) -> None:
    @wrap
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
        with pytest.raises(RuntimeError, match="A non-persistent GradientTape can onl"):
            tape.gradient(y, x)
        with pytest.raises(RuntimeError, match="A non-persistent GradientTape can onl"):
            tape.jacobian(y, x)
        return x

    f(tf.constant(1.0))


def test_misuse(wrap: Wrap) -> None:
    @wrap
    def f(x):
        tape = tf.GradientTape(persistent=True)
        with tape:
            with pytest.raises(ValueError, match="Tape is still recording"):
                tape.__enter__()
            tape.watch(x)
            y = x * 2.0
        with (
            pytest.raises(RuntimeError, match="which is not recording"),
            tape.stop_recording(),
        ):
            pass
        with pytest.raises(TypeError, match="received None"):
            tape.gradient(None, x)
        with pytest.raises(ValueError, match="unconnected_gradients"):
            tape.gradient(y, x, unconnected_gradients="nonsense")
        with pytest.raises(ValueError, match="Passed in object 3"):
            tape.watch(3)
        return tape.gradient(y, x)

    assert float(f(tf.constant(1.0))) == 2.0


def test_reset(wrap: Wrap) -> None:
    @wrap
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * 2.0
            tape.reset()
            tape.watch(x)
            z = x * 3.0
        return tape.gradient([y, z], x)

    assert float(f(tf.constant(1.0))) == 3.0


def test_integers_are_a_warning_and_have_no_gradient(
    wrap: Wrap, caplog: pytest.LogCaptureFixture
) -> None:
    @wrap
    def f(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * 2
        return x, tape.gradient(y, x)

    assert values(f(tf.constant(1))) == (1, None)
    assert "must be floating" in caplog.text


def test_a_tape_around_functions_and_loops() -> None:
    v = tf.Variable(2.0)

    @tf.function
    def f(x, n):
        for _ in tf.range(n):
            x = x * v
        if x > 10:
            return x * 2
        return x

    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, tf.constant(4))
    assert values(tape.gradient(y, [x, v])) == [32.0, 64.0]

    @tf.function
    def whole(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in tf.range(4):
                y = y * v
            y = y * 2 if y > 10 else y
        return tape.gradient(y, [x, v])

    assert values(whole(x)) == [32.0, 64.0]


def test_second_derivatives_through_loops_and_branches() -> None:
    @tf.function
    def f(x):
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                y = x
                for _ in tf.range(3):
                    y = y * x
                if y > 0:
                    y = y * 2
            one = first.gradient(y, x)
        return one, second.gradient(one, x)

    assert values(f(tf.constant(2.0))) == (64.0, 96.0)


def test_tf_gradients() -> None:
    x, v = tf.constant(3.0), tf.Variable(2.0)

    @tf.function
    def f():
        y = x * x * v
        z = tf.gradients(y, [x, v])
        w = tf.gradients([y], x, grad_ys=[tf.constant(10.0)])
        return z, w, tf.gradients(z[0], x), tf.gradients(tf.constant(1.0) * 1.0, v)

    assert values(f()) == ([12.0, 9.0], [120.0], [4.0], [None])
    with pytest.raises(RuntimeError, match=r"Use tf\.GradientTape instead"):
        tf.gradients(x, x)


def test_tapes_do_not_record_what_is_not_watched() -> None:
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        for _ in range(100):
            x = x + 1.0
        assert tape._record.node_count == 0
        tape.watch(x)
        x = x * 2.0
        assert tape._record.node_count == 1


def test_training_agrees_with_and_without_a_function() -> None:
    rng = np.random.default_rng(1)
    x = tf.constant(rng.normal(size=(16, 5)).astype(np.float32))
    t = tf.constant(rng.normal(size=(16, 3)).astype(np.float32))
    start = rng.normal(size=(5, 3)).astype(np.float32)
    results = []
    for compiled in (False, True):
        w, b = tf.Variable(start), tf.Variable(np.zeros(3, np.float32))

        def step(w=w, b=b):
            with tf.GradientTape() as tape:
                y = tf.tanh(tf.matmul(x, w) + b)
                loss = tf.reduce_mean((y - t) * (y - t))
            for v, g in zip((w, b), tape.gradient(loss, [w, b]), strict=True):
                v.assign_sub(0.5 * g)
            return loss

        run = tf.function(step) if compiled else step
        losses = [float(run()) for _ in range(5)]
        results.append((losses, w.numpy(), b.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert results[0][0][-1] < results[0][0][0]
