# SPDX-License-Identifier: MIT
"""Targets, predictions and weights made to go together, for losses and metrics."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._types import Tensor


def fit_weights(sample_weight: Any, values: Tensor) -> Tensor:
    """Give weights the dtype and the rank of the values that they weigh."""
    weights = tf.cast(tf.convert_to_tensor(sample_weight), values.dtype)
    shape = tuple(weights.shape)
    rank = len(values.shape)
    while len(shape) > rank and shape[-1] == 1:
        shape = shape[:-1]
    shape = shape + (1,) * (rank - len(shape)) if shape else shape
    if shape != tuple(weights.shape):
        weights = tf.reshape(weights, shape)
    return weights


def squeeze_pair(y_true: Tensor, y_pred: Tensor) -> tuple[Tensor, Tensor]:
    """Take a last axis of size 1 away where only one of the two has it."""
    difference = len(y_pred.shape) - len(y_true.shape)
    if difference == 1 and y_pred.shape[-1] == 1:
        y_pred = tf.reshape(y_pred, tuple(y_pred.shape)[:-1])
    elif difference == -1 and y_true.shape[-1] == 1:
        y_true = tf.reshape(y_true, tuple(y_true.shape)[:-1])
    return y_true, y_pred


def same_dtype(
    y_true: Any, y_pred: Any, keep_prediction: bool = False
) -> tuple[Tensor, Tensor]:
    """Give targets the dtype of the predictions."""
    y_pred = tf.convert_to_tensor(y_pred)
    if not tf.as_dtype(y_pred.dtype).is_floating and not keep_prediction:
        y_pred = tf.cast(y_pred, "float32")
    y_true = tf.convert_to_tensor(y_true)
    if tf.as_dtype(y_true.dtype) != tf.as_dtype(y_pred.dtype):
        y_true = tf.cast(y_true, y_pred.dtype)
    return y_true, y_pred
