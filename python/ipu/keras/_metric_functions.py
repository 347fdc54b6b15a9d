# SPDX-License-Identifier: MIT
"""The functions behind ``ipu.keras.metrics``, one number for each sample."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._text.arguments import as_int
from ipu.keras._types import Tensor


def accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Give 1.0 where targets and predictions are equal, else 0.0."""
    y_pred = tf.convert_to_tensor(y_pred)
    y_true = tf.cast(tf.convert_to_tensor(y_true), y_pred.dtype)
    return tf.cast(tf.equal(y_true, y_pred), "float32")


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Tensor:
    """Give the part of the last axis where ``y_pred > threshold`` is the target.

    Example:
        >>> round(float(binary_accuracy([[0.0, 1.0]], [[0.2, 0.3]])[0]), 4)
        0.5
    """
    y_pred = tf.convert_to_tensor(y_pred)
    limit = tf.constant(threshold, dtype=y_pred.dtype)
    decided = tf.cast(tf.greater(y_pred, limit), y_pred.dtype)
    y_true = tf.cast(tf.convert_to_tensor(y_true), y_pred.dtype)
    return tf.reduce_mean(tf.cast(tf.equal(y_true, decided), "float32"), axis=-1)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Give 1.0 where target and prediction are largest at the same class.

    Example:
        >>> round(float(categorical_accuracy([[0.0, 1.0]], [[0.2, 0.3]])[0]), 4)
        1.0
    """
    target = tf.argmax(tf.convert_to_tensor(y_true), axis=-1, output_type="int32")
    found = tf.argmax(tf.convert_to_tensor(y_pred), axis=-1, output_type="int32")
    return tf.cast(tf.equal(target, found), "float32")


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Tensor:
    """Give 1.0 where the prediction is largest at the target's class.

    Example:
        >>> round(float(sparse_categorical_accuracy([1], [[0.2, 0.3]])[0]), 4)
        1.0
    """
    y_pred = tf.convert_to_tensor(y_pred)
    y_true = tf.convert_to_tensor(y_true)
    if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] == 1:
        y_true = tf.reshape(y_true, tuple(y_true.shape)[:-1])
    if tf.as_dtype(y_true.dtype).name != "int32":
        y_true = tf.cast(y_true, "int32")
    found = tf.argmax(y_pred, axis=-1, output_type="int32")
    return tf.cast(tf.equal(y_true, found), "float32")


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Give 1.0 where the target's class is among the ``k`` most probable ones.

    Example:
        >>> scores = [[0.3, 0.2, 0.5]]
        >>> top_k_categorical_accuracy([[0.0, 1.0, 0.0]], scores, k=2).numpy().tolist()
        [0.0]
    """
    target = tf.argmax(tf.convert_to_tensor(y_true), axis=-1, output_type="int32")
    return sparse_top_k_categorical_accuracy(target, y_pred, k)


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Tensor:
    """Give 1.0 where the target is among the ``k`` most probable classes.

    Example:
        >>> scores = [[0.3, 0.2, 0.5]]
        >>> round(float(sparse_top_k_categorical_accuracy([1], scores, k=2)[0]), 4)
        0.0
    """
    k = as_int(k)
    y_pred = tf.convert_to_tensor(y_pred)
    classes = y_pred.shape[-1]
    target = tf.reshape(tf.cast(tf.convert_to_tensor(y_true), "int32"), (-1,))
    rows = tf.reshape(y_pred, (-1, classes))
    found = tf.cast(tf.nn.in_top_k(target, rows, min(k, classes)), "float32")
    return tf.reshape(found, tuple(y_pred.shape)[:-1])


def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Tensor:
    """Give the cosine of the angle between targets and predictions."""
    y_pred = tf.convert_to_tensor(y_pred)
    y_true = tf.cast(tf.convert_to_tensor(y_true), y_pred.dtype)
    one, other = (tf.math.l2_normalize(y, axis=axis) for y in (y_true, y_pred))
    return tf.reduce_sum(one * other, axis=axis)
