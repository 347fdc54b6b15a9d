# SPDX-License-Identifier: MIT
"""Sums of any length are as exact as NumPy's: products, convolutions, recurrence,
attention and reductions add up by a tree (ipu_core/kernels/core/sum_tree.h), where one chain
would lose digits from some ten thousand terms on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import _core, keras, tf

BLOCK = 1024  # terms of a chain
NODE = 32 * BLOCK
ENDS = (1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 1, 3001, 7919)
LONG = (NODE - 1, NODE, NODE + 1, 2 * NODE + BLOCK + 1, 104_729)


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    threads = _core.num_threads()
    yield
    _core.set_num_threads(threads)


def uniform(*shape: int) -> Any:
    return np.random.default_rng(shape).random(shape, dtype=np.float32)


def tenths(*shape: int) -> Any:
    """Equal terms, whose roundings all go in one direction."""
    return np.full(shape, 0.1, np.float32)


def error(got: Any, want: Any) -> float:
    """The largest one, relative to the largest element."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    return float(np.abs(got - want).max() / np.abs(want).max())


def wide(x: Any) -> Any:
    return np.asarray(x, np.float64)


# A chain of equal terms rounds in one direction: half of an ulp of what it has come to,
# a term at a time. What the tree adds to that is little.
BOUNDS = {uniform: 2e-6, tenths: 1.1 * BLOCK * 2.0**-25}


@pytest.mark.parametrize("numbers", [uniform, tenths])
@pytest.mark.parametrize("k", [*ENDS, *LONG])
def test_products(k: int, numbers: Any) -> None:
    for m, n in ((1, 1), (1, 5), (2, 40), (7, 3), (14, 35)):
        a, b = numbers(m, k), numbers(k, n)
        want = wide(a) @ wide(b)
        for left, right in ((False, False), (False, True), (True, False), (True, True)):
            got = tf.matmul(
                np.ascontiguousarray(a.T) if left else a,
                np.ascontiguousarray(b.T) if right else b,
                transpose_a=left,
                transpose_b=right,
            )
            assert error(got, want) < BOUNDS[numbers], (m, n, left, right)


def test_ones_are_counted() -> None:
    ones = np.ones((1, 2**24 + 2 * NODE + 5), np.float32)
    counted = tf.matmul(ones, ones, transpose_b=True)
    assert float(counted) == np.float32(ones.size)
    assert float(tf.reduce_sum(ones)) == np.float32(ones.size)


def test_products_of_halves() -> None:
    k = 40_000
    a, b = uniform(3, k).astype("f2"), (uniform(k, 4) / 1000).astype("f2")
    got = tf.matmul(a, b)
    want = wide(a) @ wide(b)
    np.testing.assert_array_equal(got, want.astype("f2"))


AXES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((1_000_003,), (0,)),
    ((3, 700_001), (1,)),
    ((300_007, 3), (0,)),
    ((40, 30_011), (1,)),
    ((70_001, 40), (0,)),
    ((100_003, 2, 2), (0, 2)),
    ((2, 50_021, 3, 2), (1, 3)),
    ((20, 5, 9001, 2), (0, 2)),
)


@pytest.mark.parametrize("numbers", [uniform, tenths])
@pytest.mark.parametrize(("shape", "axes"), AXES)
def test_reductions(
    shape: tuple[int, ...], axes: tuple[int, ...], numbers: Any
) -> None:
    x = numbers(*shape)
    results = []
    bound = BOUNDS[numbers]
    for threads in (1, 2):
        ipu.set_num_threads(threads)
        total, mean = tf.reduce_sum(x, axes), tf.reduce_mean(x, axes)
        norm = tf.norm(tf.reshape(x, [-1]))
        assert error(total, wide(x).sum(axes)) < bound
        assert error(mean, wide(x).mean(axes)) < bound
        assert error(norm, np.sqrt((wide(x) ** 2).sum())) < bound
        results.append([np.asarray(r).tobytes() for r in (total, mean, norm)])
    assert results[0] == results[1]


@pytest.mark.parametrize("decides", [0, 8191, 8192, 300_000, 299_999])
def test_any_and_all_of_many(decides: int) -> None:
    one = np.zeros(300_001, bool)
    one[decides] = True
    for x in (one, one.reshape(1, -1), np.repeat(one[:, None], 2, 1)):
        assert np.asarray(tf.reduce_any(x)).item()
        assert not np.asarray(tf.reduce_all(~x)).item()
        assert not np.asarray(tf.reduce_any(np.zeros_like(x))).item()
        assert np.asarray(tf.reduce_max(x.astype("f4"))).item() == 1.0


def test_softmax_over_many_classes() -> None:
    x = np.full((2, 2_000_003), 0.3, np.float32)
    got = np.asarray(tf.nn.softmax(x))
    assert error(got, np.full(x.shape, 1 / x.shape[1])) < BOUNDS[tenths]


@pytest.mark.parametrize("filters", [(3, 3, 3, 4), (1, 1, 3, 4)])
@pytest.mark.parametrize("numbers", [uniform, tenths])
def test_filters_gradients(numbers: Any, filters: tuple[int, ...]) -> None:
    x, w = numbers(2, 130, 129, 3), tf.Variable(uniform(*filters))
    with tf.GradientTape() as tape:
        y = tf.nn.conv2d(x, w, 1, "VALID")
    slope = numbers(*y.shape)
    got = tape.gradient(y, w, output_gradients=tf.constant(slope))
    rows, columns = y.shape[1:3]
    want = np.array(
        [
            [
                np.einsum(
                    "nhwc,nhwf->cf", wide(x)[:, i : i + rows, j : j + columns], slope
                )
                for j in range(filters[1])
            ]
            for i in range(filters[0])
        ]
    )
    assert error(got, want) < BOUNDS[numbers]


def test_depthwise_filters_gradients() -> None:
    x, w = tenths(2, 130, 129, 3), tf.Variable(uniform(2, 2, 3, 1))
    with tf.GradientTape() as tape:
        y = tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "VALID")
    got = tape.gradient(y, w)
    want = np.full(w.shape, wide(x)[0, 0, 0, 0] * 2 * 129 * 128)
    assert error(got, want) < BOUNDS[tenths]


def test_convolutions_over_many_channels() -> None:
    x, w = tenths(1, 3, 4, 12_000), tf.Variable(tenths(3, 3, 12_000, 2))
    y = tf.nn.conv2d(x, w, 1, "VALID")
    assert (
        error(y, np.full(y.shape, wide(x)[0, 0, 0, 0] ** 2 * 108_000)) < BOUNDS[tenths]
    )


def test_attention_over_many_keys() -> None:
    q, k, v = tenths(1, 1, 2, 4), tenths(1, 1, 40_000, 4), tenths(1, 1, 40_000, 3)
    y = tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v)
    assert error(y, np.full(y.shape, np.float32(0.1))) < BOUNDS[tenths]


def weights_after_a_step(units: int, inputs: int, rows: int) -> list[Any]:
    model = keras.Sequential([keras.layers.Dense(units, input_shape=(inputs,))])
    model.set_weights([uniform(inputs, units) / inputs, uniform(units)])
    model.compile(keras.optimizers.SGD(1.0), keras.losses.MeanSquaredError())
    model.fit(uniform(rows, inputs), uniform(rows, units), batch_size=rows, verbose=0)
    return [np.asarray(w) for w in model.get_weights()]


@pytest.mark.parametrize(("units", "inputs"), [(1, 3), (40, 7)])
def test_gradients_of_a_large_batch(units: int, inputs: int) -> None:
    """Weights and biases, by fused updates, against NumPy in float64."""
    rows = NODE + 77
    w, b = weights_after_a_step(units, inputs, rows)
    x, y = wide(uniform(rows, inputs)), wide(uniform(rows, units))
    start = wide(uniform(inputs, units) / inputs), wide(uniform(units))
    slope = 2 * (x @ start[0] + start[1] - y) / (rows * units)
    assert error(w, start[0] - x.T @ slope) < 1e-6
    assert error(b, start[1] - slope.sum(0)) < 1e-6


@pytest.mark.slow
def test_the_longest() -> None:
    ones = np.ones((1, 2**25), np.float32)
    assert float(tf.matmul(ones, ones, transpose_b=True)) == 2.0**25
    a, b = uniform(1, 1_000_000), uniform(1_000_000, 1)
    assert error(tf.matmul(a, b), wide(a) @ wide(b)) < 2e-6
    x = tenths(100_000_000)
    total = wide(x[0]) * x.size
    assert error(tf.reduce_sum(x), total) < BOUNDS[tenths]
    assert error(tf.reduce_mean(x), wide(x[0])) < BOUNDS[tenths]
    images, w = uniform(16, 224, 224, 3), tf.Variable(uniform(3, 3, 3, 8))
    with tf.GradientTape() as tape:
        y = tf.nn.conv2d(images, w, 1, "VALID")
    got = np.asarray(tape.gradient(y, w))
    want = [
        [wide(images)[:, i : i + 222, j : j + 222].sum((0, 1, 2)) for j in range(3)]
        for i in range(3)
    ]
    assert error(got, np.asarray(want)[..., None].repeat(8, -1)) < 2e-6


def test_the_block_is_what_the_core_says() -> None:
    path = os.path.join(
        os.path.dirname(__file__), "..", "ipu_core", "kernels", "core", "sum_tree.h"
    )
    with open(path) as file:
        text = file.read()
    assert f"IPU_SUM_BLOCK = {BLOCK}," in text
    assert f"IPU_SUM_FAN = {NODE // BLOCK}," in text
