# SPDX-License-Identifier: MIT
"""Distances and margins: ``ipu.keras.losses``, one number for each sample."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._backend_state import state
from ipu.keras._shape_fitting import same_dtype
from ipu.keras._types import Tensor


def mean_squared_error(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean over the last axis of ``(y_true - y_pred) ** 2``.

    Args:
        y_true: The targets; cast to the dtype of ``y_pred``.
        y_pred: The predictions.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(mean_squared_error([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        2.5
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.square(y_pred - y_true), axis=-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean over the last axis of ``abs(y_true - y_pred)``.

    Args:
        y_true: The targets; cast to the dtype of ``y_pred``.
        y_pred: The predictions.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(mean_absolute_error([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        1.5
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.abs(y_pred - y_true), axis=-1)


def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Tensor:
    """Give 100 times the mean of ``abs((y_true - y_pred) / y_true)``.

    Args:
        y_true: The targets; magnitudes below 1e-7 count as 1e-7.
        y_pred: The predictions.

    Returns:
        A tensor without the last axis.

    Example:
        >>> mean_absolute_percentage_error([[1.0, 2.0]], [[2.0, 4.0]]).numpy().tolist()
        [100.0]
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    least = tf.constant(state.epsilon, dtype=y_pred.dtype)
    parts = tf.abs((y_true - y_pred) / tf.maximum(tf.abs(y_true), least))
    return 100.0 * tf.reduce_mean(parts, axis=-1)


def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean of ``(log(y_true + 1) - log(y_pred + 1)) ** 2``.

    Args:
        y_true: The targets; less than 1e-7 counts as 1e-7.
        y_pred: The predictions; the same.

    Returns:
        A tensor without the last axis.

    Example:
        >>> mean_squared_logarithmic_error([[1.0, 2.0]], [[1.0, 2.0]]).numpy().tolist()
        [0.0]
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    least = tf.constant(state.epsilon, dtype=y_pred.dtype)
    one, other = (tf.math.log(tf.maximum(y, least) + 1.0) for y in (y_pred, y_true))
    return tf.reduce_mean(tf.square(one - other), axis=-1)


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Tensor:
    """Give half the squared error near the target, and a line far from it.

    Args:
        y_true: The targets.
        y_pred: The predictions.
        delta: The error at which the line begins.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(huber([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    error = tf.abs(y_pred - y_true)
    limit = tf.constant(float(delta), dtype=y_pred.dtype)
    near = 0.5 * tf.square(error)
    far = limit * error - 0.5 * tf.square(limit)
    return tf.reduce_mean(tf.where(tf.less_equal(error, limit), near, far), axis=-1)


def log_cosh(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean of ``log(cosh(y_pred - y_true))``.

    Args:
        y_true: The targets.
        y_pred: The predictions.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(log_cosh([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        0.8794
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    x = y_pred - y_true
    half = tf.math.log(tf.constant(2.0, dtype=x.dtype))
    return tf.reduce_mean(x + tf.math.softplus(-2.0 * x) - half, axis=-1)


def poisson(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean of ``y_pred - y_true * log(y_pred)``.

    Args:
        y_true: The targets.
        y_pred: The predictions, not negative.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(poisson([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        1.2671
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(
        y_pred - y_true * tf.math.log(y_pred + state.epsilon), axis=-1
    )


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Give the negated cosine of the angle between targets and predictions.

    Args:
        y_true: The targets.
        y_pred: The predictions.
        axis: The axis along which they are vectors.

    Returns:
        A tensor without ``axis``: -1 where they point the same way.

    Example:
        >>> round(float(cosine_similarity([[1.0, 2.0]], [[2.0, 4.0]])[0]), 4)
        -1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    one, other = (tf.math.l2_normalize(y, axis=axis) for y in (y_true, y_pred))
    return -tf.reduce_sum(one * other, axis=axis)


def _as_signs(y_true: Tensor) -> Tensor:
    """Targets of 0 and 1 as -1 and 1; others as they are."""
    is_zero, is_one = tf.equal(y_true, 0.0), tf.equal(y_true, 1.0)
    is_binary = tf.reduce_all(tf.logical_or(is_zero, is_one))
    return tf.where(is_binary, 2.0 * y_true - 1.0, y_true)


def hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean of ``max(1 - y_true * y_pred, 0)``.

    Args:
        y_true: Targets of -1 and 1; where all are 0 or 1, 0 counts as -1.
        y_pred: The predictions.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(hinge([[1.0, -1.0]], [[0.5, 0.5]])[0]), 4)
        1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    return tf.reduce_mean(tf.nn.relu(1.0 - _as_signs(y_true) * y_pred), axis=-1)


def squared_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Give the mean of ``max(1 - y_true * y_pred, 0) ** 2``.

    Args:
        y_true: Targets of -1 and 1; where all are 0 or 1, 0 counts as -1.
        y_pred: The predictions.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(squared_hinge([[1.0, -1.0]], [[0.5, 0.5]])[0]), 4)
        1.25
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    margins = tf.nn.relu(1.0 - _as_signs(y_true) * y_pred)
    return tf.reduce_mean(tf.square(margins), axis=-1)


def categorical_hinge(y_true: Any, y_pred: Any) -> Tensor:
    """Give ``max(best wrong class - right class + 1, 0)``.

    Args:
        y_true: One 1 for each sample, and 0 elsewhere.
        y_pred: The predictions.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(categorical_hinge([[0.0, 1.0]], [[0.5, 0.5]])[0]), 4)
        1.0
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    right = tf.reduce_sum(y_true * y_pred, axis=-1)
    wrong = tf.reduce_max((1.0 - y_true) * y_pred, axis=-1)
    return tf.nn.relu(wrong - right + 1.0)
