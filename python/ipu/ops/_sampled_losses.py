# SPDX-License-Identifier: MIT
"""Losses over the true classes and a few that are drawn.

Source: "Candidate Sampling Algorithms Reference" of the TensorFlow documentation.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu import tf
from ipu._core import Tensor
from ipu.tf._functions.blocks import part_of_step


def _log_probability(classes: Tensor, count: int) -> Tensor:
    """Return log P(c) = log(log((c + 2) / (c + 1)) / log(count + 1))."""
    c = tf.cast(classes, tf.float32)
    return tf.math.log(tf.math.log1p(1 / (c + 1)) / math.log(count + 1))


@part_of_step()
def log_uniform_candidates(
    true_classes: Tensor, drawn: int, count: int, seed: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw classes without repetition, and say what to expect.

    Classes are drawn one by one; one that is there already is drawn anew. After n tries
    class c is expected 1 - (1 - P(c))^n times.

    Returns:
        The drawn classes ``[drawn]``; how often the true and the drawn ones were to be
        expected among them.
    """
    scale = np.float32(math.log(count + 1))

    def wanted(found: Tensor, tries: Tensor, classes: Tensor) -> Tensor:
        return found < drawn

    def draw(found: Tensor, tries: Tensor, classes: Tensor) -> tuple[Tensor, ...]:
        u = tf.random.uniform([], seed=seed)
        class_ = tf.minimum(tf.cast(tf.exp(u * scale), tf.int32) - 1, count - 1)
        is_new = tf.reduce_all(tf.not_equal(classes, class_))
        place = tf.logical_and(tf.equal(tf.range(drawn), found), is_new)
        classes = tf.where(place, class_, classes)
        return found + tf.cast(is_new, tf.int32), tries + 1, classes

    start = (tf.constant(0), tf.constant(0), tf.fill([drawn], -1))
    _, tries, classes = tf.while_loop(wanted, draw, start)
    n = tf.cast(tries, tf.float32)

    def expected(of: Tensor) -> Tensor:
        return -tf.math.expm1(n * tf.math.log1p(-tf.exp(_log_probability(of, count))))

    return classes, expected(true_classes), expected(classes)


def logits_and_targets(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    drawn: int,
    count: int,
    num_true: int,
    sampled_values: Any,
    seed: int | None,
) -> tuple[Tensor, Tensor]:
    """Return logits ``[batch, num_true + drawn]`` less the logarithms of what was
    expected, and their targets: 1 / num_true for the true classes."""
    x = tf.convert_to_tensor(inputs)
    true = tf.cast(tf.convert_to_tensor(labels), tf.int32)
    if true.ndim != 2 or tuple(true.shape) != (x.shape[0], num_true):
        raise ValueError(
            "labels must be [batch, num_true]: "
            f"[{x.shape[0]}, {num_true}]. Received a shape of {tuple(true.shape)}."
        )
    if not 0 < drawn <= count:
        raise ValueError(
            "num_sampled must be at least 1 and at most num_classes. Received: "
            f"{drawn} of {count}."
        )
    if sampled_values is None:
        sampled_values = log_uniform_candidates(true, drawn, count, seed)
    sampled, true_expected, sampled_expected = map(tf.stop_gradient, sampled_values)
    sampled = tf.cast(sampled, tf.int32)
    ids = tf.concat([tf.reshape(true, [-1]), sampled], 0)
    rows = tf.cast(tf.nn.embedding_lookup(weights, ids), x.dtype)
    shifts = tf.cast(tf.nn.embedding_lookup(biases, ids), x.dtype)
    trues = true.shape[0] * num_true
    true_rows = tf.reshape(rows[:trues], [x.shape[0], num_true, x.shape[1]])
    true_logits = tf.reduce_sum(x[:, None, :] * true_rows, axis=2)
    true_logits += tf.reshape(shifts[:trues], [x.shape[0], num_true])
    logits = tf.matmul(x, rows[trues:], transpose_b=True) + shifts[trues:]
    true_logits -= tf.cast(tf.math.log(true_expected), x.dtype)
    logits -= tf.cast(tf.math.log(sampled_expected), x.dtype)
    targets = [tf.ones_like(true_logits) / num_true, tf.zeros_like(logits)]
    return tf.concat([true_logits, logits], 1), tf.concat(targets, 1)
