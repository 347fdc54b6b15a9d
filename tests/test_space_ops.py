# SPDX-License-Identifier: MIT
"""Blocks of pixels in channels and batches, and local response normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import tf

G = np.random.default_rng(4).normal(size=(2, 4, 6, 12)).astype(np.float32)


def test_blocks_to_channels_and_back_in_both_formats() -> None:
    last = tf.nn.space_to_depth(G, 2).numpy()
    for (n, h, w), pixel in zip(np.ndindex(2, 2, 3), last.reshape(-1, 48), strict=True):
        block = G[n, 2 * h : 2 * h + 2, 2 * w : 2 * w + 2]
        np.testing.assert_array_equal(pixel, block.reshape(-1))
    np.testing.assert_array_equal(tf.nn.depth_to_space(last, 2).numpy(), G)
    first = tf.nn.space_to_depth(G.transpose(0, 3, 1, 2), 2, "NCHW").numpy()
    np.testing.assert_array_equal(first.transpose(0, 2, 3, 1), last)
    back = tf.nn.depth_to_space(first, 2, data_format="NCHW").numpy()
    np.testing.assert_array_equal(back.transpose(0, 2, 3, 1), G)


def test_elements_to_batches_and_back() -> None:
    got = tf.space_to_batch(G, [3, 2], [[1, 1], [0, 2]]).numpy()
    wide = np.pad(G, ((0, 0), (1, 1), (0, 2), (0, 0)))
    assert got.shape == (12, 2, 4, 12)
    for k, (i, j) in enumerate(np.ndindex(3, 2)):
        np.testing.assert_array_equal(got[2 * k : 2 * k + 2], wide[:, i::3, j::2])
    back = tf.batch_to_space(got, [3, 2], [[1, 1], [0, 2]]).numpy()
    np.testing.assert_array_equal(back, G)
    one = tf.space_to_batch_nd(G, [2], [[0, 0]])
    np.testing.assert_array_equal(tf.batch_to_space_nd(one, [2], [[0, 0]]).numpy(), G)
    np.testing.assert_array_equal(tf.nn.space_to_batch(G, [1, 1], [[0, 0]] * 2), G)


def test_gradients_go_back_to_their_pixels() -> None:
    x = tf.constant(G)
    weights = np.random.default_rng(5).normal(size=(8, 3, 3, 12)).astype(np.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.space_to_batch(x, [2, 2], [[2, 0], [0, 0]]) * weights)
    expected = tf.batch_to_space(weights, [2, 2], [[2, 0], [0, 0]])
    np.testing.assert_array_equal(tape.gradient(loss, x).numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("radius", "bias", "alpha", "beta"),
    [(5, 1, 1, 0.5), (1, 2, 0.5, 0.75), (0, 1, 3, 1)],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_local_response_normalization(
    radius: int, bias: float, alpha: float, beta: float, dtype: str
) -> None:
    x = G.astype(dtype).astype(np.float64)
    squares = np.stack(
        [(x[..., max(c - radius, 0) : c + radius + 1] ** 2).sum(-1) for c in range(12)],
        -1,
    )
    expected = x / (bias + alpha * squares) ** beta
    got = tf.nn.local_response_normalization(G.astype(dtype), radius, bias, alpha, beta)
    tolerance = 1e-5 if dtype == "float32" else 4e-3
    np.testing.assert_allclose(got.numpy(), expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_array_equal(
        tf.nn.lrn(G, 2), tf.nn.local_response_normalization(G, 2)
    )


WRONG: list[tuple[str, Any]] = [
    ("is not a multiple of 4", lambda: tf.nn.space_to_depth(G, 4)),
    ("is not a multiple of 25", lambda: tf.nn.depth_to_space(G, 5)),
    ("`block_size` must be at least 2", lambda: tf.nn.space_to_depth(G, 1)),
    ("`data_format` must be", lambda: tf.nn.depth_to_space(G, 2, "NHCW")),
    ("must have rank 4", lambda: tf.nn.space_to_depth(G[0], 2)),
    ("must have rank 4", lambda: tf.nn.lrn(G[0])),
    ("`depth_radius`", lambda: tf.nn.lrn(G, -1)),
    ("with its padding of 4", lambda: tf.space_to_batch(G, [3], [[0, 0]])),
    ("`paddings` must be two numbers", lambda: tf.space_to_batch(G, [2, 2], [[0, 0]])),
    ("`paddings` must be two numbers", lambda: tf.space_to_batch(G, [2], [[-1, 1]])),
    ("`block_shape` must be positive", lambda: tf.space_to_batch(G, [0], [[0, 0]])),
    (
        "`block_shape` must be positive",
        lambda: tf.batch_to_space(G, [1] * 4, [[0, 0]] * 4),
    ),
    ("A batch of 2", lambda: tf.batch_to_space(G, [3], [[0, 0]])),
    ("leave nothing", lambda: tf.batch_to_space(G, [2], [[5, 4]])),
]


@pytest.mark.parametrize(("message", "call"), WRONG)
def test_what_does_not_fit(message: str, call: Any) -> None:
    with pytest.raises(ValueError, match=message):
        call()
