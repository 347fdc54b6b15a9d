# SPDX-License-Identifier: MIT
"""Histograms: ``ipu.statistics_ops``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.tf._tensor.dispatch import op


def _vector(value: Any, what: str) -> Tensor:
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype not in (tf.float16, tf.float32) or tensor.ndim != 1:
        raise ValueError(
            f"{what} must be a vector of float16 or float32. Received: dtype "
            f"{tensor.dtype.name}, shape {tuple(tensor.shape)}."
        )
    return tensor


@op
def fixed_width_bins(inputs: Any, n_bins: int) -> Tensor:
    """Return levels of equal distance from the least input to the largest.

    Args:
        inputs: A vector of float16 or float32.
        n_bins: How many levels, at least 2.

    Returns:
        A vector ``[n_bins]``.

    Raises:
        ValueError: Another dtype or rank, or fewer than two levels.

    Example:
        >>> fixed_width_bins([3.0, 1.0, 2.0], 3).numpy().tolist()
        [1.0, 2.0, 3.0]
    """
    values = _vector(inputs, "inputs")
    if n_bins < 2:
        raise ValueError(f"n_bins must be at least 2. Received: {n_bins}.")
    return tf.linspace(tf.reduce_min(values), tf.reduce_max(values), n_bins)


@op
def histogram(inputs: Any, levels: Any, absolute_of_input: bool = False) -> Tensor:
    """Return how many inputs lie between the levels.

    Args:
        inputs: A vector of float16 or float32.
        levels: A vector of its dtype, in rising order.
        absolute_of_input: Count the inputs' absolute values.

    Returns:
        A float32 vector with one element more than ``levels``. An input that is equal
        to a level counts above it.

    Raises:
        ValueError: Another dtype or rank.

    Example:
        >>> histogram([0.5, 1.0, 3.0], [1.0, 2.0]).numpy().tolist()
        [1.0, 1.0, 1.0]
    """
    values, borders = _vector(inputs, "inputs"), _vector(levels, "levels")
    if values.dtype != borders.dtype:
        raise ValueError(
            "inputs and levels must have one dtype. Received: "
            f"{values.dtype.name} and {borders.dtype.name}."
        )
    if absolute_of_input:
        values = tf.abs(values)
    below = tf.cast(values[:, None] >= borders[None, :], tf.int32)
    bins = tf.reduce_sum(below, axis=1)
    ones = tf.ones(values.shape, tf.float32)
    return tf.math.unsorted_segment_sum(ones, bins, borders.shape[0] + 1)


@op
def histogram_update(
    hist: Any, inputs: Any, levels: Any, absolute_of_input: bool = False
) -> Tensor:
    """Add the counts of more inputs to a histogram.

    Args:
        hist: A float32 vector with one element more than ``levels``.
        inputs: A vector of float16 or float32.
        levels: A vector of its dtype, in rising order.
        absolute_of_input: Count the inputs' absolute values.

    Returns:
        The new counts.

    Raises:
        ValueError: Another dtype or rank, or a histogram of another length.

    Example:
        >>> histogram_update([1.0, 0.0], [5.0], [2.0]).numpy().tolist()
        [1.0, 1.0]
    """
    counts = tf.convert_to_tensor(hist)
    added = histogram(inputs, levels, absolute_of_input)
    if counts.dtype != tf.float32 or counts.shape != added.shape:
        raise ValueError(
            "hist must be a float32 vector with one element more than levels: "
            f"{tuple(added.shape)}. Received: dtype {counts.dtype.name}, shape "
            f"{tuple(counts.shape)}."
        )
    return counts + added


@op
def histogram_normalize(hist: Any) -> Tensor:
    """Divide counts by their sum.

    Args:
        hist: A float32 vector.

    Returns:
        The share of each bin.

    Raises:
        ValueError: Another dtype or rank.

    Example:
        >>> histogram_normalize([1.0, 3.0]).numpy().tolist()
        [0.25, 0.75]
    """
    counts = tf.convert_to_tensor(hist)
    if counts.dtype != tf.float32 or counts.ndim != 1:
        raise ValueError(
            "hist must be a float32 vector. Received: dtype "
            f"{counts.dtype.name}, shape {tuple(counts.shape)}."
        )
    return counts / tf.reduce_sum(counts)


export(__name__)
