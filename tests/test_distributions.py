# SPDX-License-Identifier: MIT
"""Random numbers of further distributions: moments, gradients, seeds, programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu.ipu_strategy import IPUStrategy

COUNT = 40_000
KEY = (5, 9)
R = tf.random


def moments(x: Any) -> tuple[float, float]:
    wide = np.asarray(x).astype(np.float64)
    return float(wide.mean()), float(wide.var())


# mean and variance of each, as the distribution has them
DRAWN: dict[str, tuple[Callable[[], Any], float, float]] = {
    "gamma 0.4": (lambda: R.stateless_gamma((COUNT,), KEY, 0.4), 0.4, 0.4),
    "gamma 3": (lambda: R.stateless_gamma((COUNT,), KEY, 3.0, 2.0), 1.5, 0.75),
    "gamma 80": (lambda: R.stateless_gamma((COUNT,), KEY, 80.0), 80.0, 80.0),
    "poisson 0.3": (lambda: R.stateless_poisson((COUNT,), KEY, 0.3), 0.3, 0.3),
    "poisson 9": (lambda: R.stateless_poisson((COUNT,), KEY, 9.0), 9.0, 9.0),
    "poisson 11": (lambda: R.stateless_poisson((COUNT,), KEY, 11.0), 11.0, 11.0),
    "poisson 1e4": (lambda: R.stateless_poisson((COUNT,), KEY, 1e4), 1e4, 1e4),
    "binomial 9": (lambda: R.stateless_binomial((COUNT,), KEY, 9, 0.3), 2.7, 1.89),
    "binomial 50": (lambda: R.stateless_binomial((COUNT,), KEY, 50, 0.8), 40.0, 8.0),
    "binomial 999": (
        lambda: R.stateless_binomial((COUNT,), KEY, 999, 0.4),
        399.6,
        239.76,
    ),
}


@pytest.mark.parametrize("name", DRAWN)
def test_mean_and_variance(name: str) -> None:
    draw, mean, variance = DRAWN[name]
    got = moments(draw())
    assert abs(got[0] - mean) < 5 * np.sqrt(variance / COUNT)
    assert got[1] == pytest.approx(variance, rel=0.06)


def test_shares_of_a_poisson_distribution() -> None:
    for rate in (4.0, 20.0):
        drawn = R.stateless_poisson((COUNT,), KEY, rate).numpy()
        k = np.arange(60)
        logs = k * np.log(rate) - rate - np.cumsum(np.log(np.maximum(k, 1)))
        found = np.bincount(drawn, minlength=60)[:60] / COUNT
        assert np.abs(found - np.exp(logs)).max() < 4 * np.sqrt(0.2 / COUNT)


@pytest.mark.parametrize(
    "bounds", [(-2.0, 2.0), (0.5, 0.7), (4.0, 9.0), (-8.0, -3.0), (-np.inf, 0.0)]
)
def test_normal_numbers_between_bounds(bounds: tuple[float, float]) -> None:
    low, high = bounds
    drawn = R.stateless_parameterized_truncated_normal(
        (COUNT,), KEY, 0.0, 1.0, low, high
    ).numpy()
    assert drawn.min() >= low and drawn.max() <= high
    grid = np.linspace(max(low, -9.0), min(high, 9.0), 20_001)
    density = np.exp(-(grid**2) / 2)
    mean = float((grid * density).sum() / density.sum())
    assert drawn.mean() == pytest.approx(mean, abs=5 * drawn.std() / np.sqrt(COUNT))


def test_gamma_numbers_move_with_alpha() -> None:
    """Each keeps its place in the distribution: igamma(alpha, x) stays what it was."""
    alpha = tf.Variable([0.3, 0.9, 2.5, 30.0] * 20)
    with tf.GradientTape() as tape:
        x = R.stateless_gamma((80,), KEY, alpha)
    slope = np.asarray(tape.gradient(x, alpha)).astype(np.float64)
    a = alpha.numpy().astype(np.float64)
    at = np.asarray(x).astype(np.float64)
    step = 1e-4 * a
    want = tf.math.igamma(a, at).numpy()
    moved = at.copy()
    for _ in range(30):  # Newton's steps back to the place, at a larger alpha
        density = (a + step - 1) * np.log(moved) - moved
        density = np.exp(density - tf.math.lgamma(a + step).numpy())
        miss = tf.math.igamma(a + step, moved).numpy() - want
        moved = np.maximum(moved - miss / density, moved / 2)
    np.testing.assert_allclose(slope, (moved - at) / step, rtol=2e-2, atol=1e-6)


def test_beta_divides() -> None:
    beta = tf.Variable(4.0)
    with tf.GradientTape() as tape:
        x = R.stateless_gamma((3,), KEY, 2.0, beta)
        total = tf.reduce_sum(x)
    one = R.stateless_gamma((3,), KEY, 2.0)
    np.testing.assert_allclose(x * 4.0, one, 1e-6)
    slope = float(tape.gradient(total, beta))
    assert slope == pytest.approx(-float(total) / 4.0, rel=1e-5)


def test_shapes_and_dtypes_are_tensorflows() -> None:
    assert R.gamma((5,), [1.0, 2.0], [[1.0], [2.0]]).shape == (5, 2, 2)
    assert R.gamma((2,), 1.0, dtype=tf.float64).dtype == tf.float64
    assert R.poisson((5,), [1.0, 2.0]).dtype == tf.float32
    assert R.poisson((5,), [1.0, 2.0], dtype=tf.int32).shape == (5, 2)
    assert R.stateless_poisson((5, 2), KEY, [1.0, 2.0]).dtype == tf.int32
    assert R.stateless_binomial((2,), KEY, [3.0, 4.0], [0.5, 0.1]).dtype == tf.int32
    with pytest.raises(ValueError, match="broadcast"):
        R.stateless_poisson((5, 3), KEY, [1.0, 2.0])


def test_parameters_that_are_none_give_no_number() -> None:
    assert np.isnan(R.stateless_gamma((1,), KEY, -1.0, dtype=tf.float64)).all()
    assert np.isnan(R.poisson((1,), [-1.0, np.nan])).all()
    assert R.poisson((3,), 0.0).numpy().tolist() == [0.0] * 3
    sure = R.stateless_binomial((2,), KEY, 7, [0.0, 1.0])
    assert sure.numpy().tolist() == [0, 7]


@pytest.mark.parametrize("name", ["gamma", "poisson", "binomial"])
def test_a_seed_gives_the_same_numbers_everywhere(name: str) -> None:
    def drawn(seed: Any) -> Any:
        if name == "gamma":
            return R.stateless_gamma((9,), seed, [0.5] * 9)
        if name == "poisson":
            return R.stateless_poisson((9,), seed, 20.0, tf.float32)
        return R.stateless_binomial((9,), seed, 100, 0.3, tf.float32)

    eager = drawn(tf.constant(KEY)).numpy()
    with IPUStrategy().scope():
        strategy = tf.distribute.get_strategy()
        got = strategy.run(tf.function(drawn), (np.array(KEY, np.int32),))
        again = strategy.run(tf.function(drawn), (np.array((1, 2), np.int32),))
    np.testing.assert_array_equal(got, eager)
    assert (np.asarray(again) != eager).any()


def test_seeds_out_of_seeds() -> None:
    seeds = R.split(KEY, 50).numpy()
    assert len({tuple(s) for s in seeds.tolist()}) == 50
    folded = [tuple(R.fold_in(KEY, k).numpy().tolist()) for k in range(9)]
    assert len(set(folded)) == 9 and folded[3][1] == 3
    x = np.arange(30)
    mixed = R.experimental.stateless_shuffle(x, KEY).numpy()
    assert sorted(mixed) == x.tolist() and (mixed != x).any()
    again = R.experimental.stateless_shuffle(x, KEY).numpy()
    np.testing.assert_array_equal(mixed, again)


def test_a_generator_draws_binomial_numbers() -> None:
    one, other = (R.Generator.from_seed(3) for _ in range(2))
    first = one.binomial((500,), 10, 0.5).numpy()
    np.testing.assert_array_equal(first, other.binomial((500,), 10, 0.5))
    assert (one.binomial((500,), 10, 0.5).numpy() != first).any()
    assert first.mean() == pytest.approx(5.0, abs=0.4)
