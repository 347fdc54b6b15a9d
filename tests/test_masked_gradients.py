"""Gradients of what a mask leaves out: 0, not 0 times infinity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import tf

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
FUNCTIONS = {
    "sqrt": (tf.sqrt, lambda x: 0.5 * x**-0.5, lambda x: -0.25 * x**-1.5),
    "rsqrt": (tf.math.rsqrt, lambda x: -0.5 * x**-1.5, lambda x: 0.75 * x**-2.5),
    "reciprocal": (tf.math.reciprocal, lambda x: -(x**-2.0), lambda x: 2 * x**-3.0),
}


@pytest.fixture(params=["eager", "function"])
def wrap(request: pytest.FixtureRequest) -> Wrap:
    return (lambda f: f) if request.param == "eager" else tf.function


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_derivatives(wrap: Wrap, name: str, dtype: str) -> None:
    function, first, second = FUNCTIONS[name]
    if dtype == "float64":
        wrap = lambda f: f  # noqa: E731  (host alone)
    values = np.array([0.0, 0.25, 1.0, 4.0, 0.0], dtype)
    x = tf.constant(values)

    @wrap
    def derivatives() -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.where(x > 0, function(x), 0)
            once = inner.gradient(y, x)
        return once, outer.gradient(once, x)

    once, twice = (g.numpy() for g in derivatives())
    with np.errstate(divide="ignore"):
        there = values > 0
        wanted = [np.where(there, f(values), 0) for f in (first, second)]
    tolerance = 2e-3 if dtype == "float16" else 1e-6
    np.testing.assert_allclose(once, wanted[0], tolerance)
    np.testing.assert_allclose(twice, wanted[1], tolerance)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_masked_is_infinite(name: str) -> None:
    x = tf.constant(0.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = FUNCTIONS[name][0](x)
    assert not np.isfinite(float(tape.gradient(y, x)))


def test_what_is_made_of_them(wrap: Wrap) -> None:
    rows = tf.constant([[0.0, 0.0], [3.0, 4.0]])

    def masked(f: Callable[[Any], Any]) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(rows)
            y = tf.where([False, True], f(rows), 0.0)
        return tape.gradient(y, rows)

    def distances(x: Any) -> Any:
        apart = x[:, None, :] - tf.stop_gradient(x)[None, :, :]
        squared = tf.reduce_sum(apart**2, -1)
        return tf.reduce_sum(tf.where(squared > 0, tf.sqrt(squared), 0.0), 1)

    @wrap
    def gradients() -> Any:
        return [
            masked(lambda x: tf.norm(x, axis=1)),
            masked(lambda x: tf.math.reduce_euclidean_norm(x, axis=1)),
            masked(lambda x: tf.math.reduce_std(x, axis=1)),
            masked(distances),
        ]

    norm, euclidean, std, pairs = (g.numpy().tolist() for g in gradients())
    share = [np.float32(0.6), np.float32(0.8)]
    np.testing.assert_allclose(norm, [[0, 0], share])
    np.testing.assert_allclose(euclidean, [[0, 0], share])
    np.testing.assert_allclose(std, [[0, 0], [-0.5, 0.5]])
    np.testing.assert_allclose(pairs, [[0, 0], share], rtol=1e-6)
