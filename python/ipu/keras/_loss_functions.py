# SPDX-License-Identifier: MIT
"""Cross-entropies and their like: ``ipu.keras.losses``, one number for each sample."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._text.user_warnings import warn_user
from ipu.keras._backend_state import state
from ipu.keras._shape_fitting import same_dtype
from ipu.keras._tensor_notes import Kind, logits_of
from ipu.keras._types import Tensor


def sparse_categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1
) -> Tensor:
    """Give the cross-entropy of each sample; targets are class numbers.

    Args:
        y_true: Class numbers of any dtype, ``(batch, ...)`` or ``(batch, ..., 1)``.
        y_pred: Probabilities, or logits, ``(batch, ..., classes)``.
        from_logits: Which of them. Where ``y_pred`` is the result of a softmax, its
            logits are used in any case.
        axis: The axis of the classes.

    Returns:
        A tensor without the class axis.

    Raises:
        ValueError: The shapes do not go together.

    Example:
        >>> round(float(sparse_categorical_crossentropy([1], [[0.5, 0.5]])[0]), 4)
        0.6931
    """
    y_pred = tf.convert_to_tensor(y_pred)
    logits = _as_logits(
        "sparse_categorical_crossentropy", y_pred, from_logits, axis, normalise=False
    )
    labels = tf.convert_to_tensor(y_true)
    shape = tuple(logits.shape)
    if len(labels.shape) == len(shape) and labels.shape[-1] == 1:
        labels = tf.reshape(labels, tuple(labels.shape)[:-1])
    if tuple(labels.shape) != shape[:-1]:
        raise ValueError(
            "sparse_categorical_crossentropy needs one class number for each row of "
            f"predictions. Received: targets of shape {tuple(labels.shape)} and "
            f"predictions of shape {tuple(y_pred.shape)}. Targets of one probability "
            "for each class belong to categorical_crossentropy."
        )
    if tf.as_dtype(labels.dtype).name != "int32":
        labels = tf.cast(labels, "int32")
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def categorical_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Give the cross-entropy of each sample; targets are probabilities.

    Args:
        y_true: One probability for each class, the shape of ``y_pred``.
        y_pred: Probabilities, or logits, ``(batch, ..., classes)``.
        from_logits: Which of them. Where ``y_pred`` is the result of a softmax, its
            logits are used in any case.
        label_smoothing: ``y_true * (1 - s) + s / classes``.
        axis: The axis of the classes.

    Returns:
        A tensor without the class axis.

    Raises:
        ValueError: The shapes differ.

    Example:
        >>> round(float(categorical_crossentropy([[0.0, 1.0]], [[0.5, 0.5]])[0]), 4)
        0.6931
    """
    y_true, y_pred = same_dtype(y_true, y_pred, keep_prediction=True)
    if tuple(y_true.shape) != tuple(y_pred.shape):
        raise ValueError(
            f"Shapes {tuple(y_true.shape)} and {tuple(y_pred.shape)} are incompatible: "
            "categorical_crossentropy needs one probability for each class. Targets "
            "that are class numbers belong to sparse_categorical_crossentropy."
        )
    logits = _as_logits(
        "categorical_crossentropy", y_pred, from_logits, axis, normalise=True
    )
    y_true = _classes_last(y_true, axis)
    if label_smoothing:
        classes = float(y_true.shape[-1])
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / classes
    if from_logits or logits_of(y_pred, "softmax") is not None:
        return tf.nn.softmax_cross_entropy_with_logits(labels=y_true, logits=logits)
    return -tf.reduce_sum(y_true * logits, axis=-1)


def binary_crossentropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Tensor:
    """Give the cross-entropy of yes-or-no targets, the mean over an axis.

    Args:
        y_true: Targets in [0, 1].
        y_pred: Probabilities, or logits.
        from_logits: Which of them. Where ``y_pred`` is the result of a sigmoid, its
            logits are used in any case.
        label_smoothing: ``y_true * (1 - s) + s / 2``.
        axis: The axis of the mean.

    Returns:
        A tensor without ``axis``.

    Raises:
        ValueError: The shapes differ.

    Example:
        >>> loss = binary_crossentropy([[1.0, 0.0]], [[0.5, 0.5]])
        >>> f"{float(loss[0]):.4f}"
        '0.6931'
    """
    y_true, y_pred = same_dtype(y_true, y_pred, keep_prediction=True)
    if tuple(y_true.shape) != tuple(y_pred.shape):
        raise ValueError(
            "binary_crossentropy needs a target for each output. Received: targets of "
            f"shape {tuple(y_true.shape)} and predictions of shape "
            f"{tuple(y_pred.shape)}. Class numbers belong to "
            "sparse_categorical_crossentropy; a single yes or no needs one output."
        )
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    logits = _remembered("binary_crossentropy", y_pred, from_logits, "sigmoid")
    if logits is not None or from_logits:
        x = y_pred if logits is None else logits
        # max(x, 0) - x z + log(1 + exp(-|x|)): no exponent is ever positive
        spread = tf.math.log(1.0 + tf.exp(-tf.abs(x)))
        losses = tf.nn.relu(x) - x * y_true + spread
    else:
        p = _clip(y_pred)
        losses = -(
            y_true * tf.math.log(p + state.epsilon)
            + (1.0 - y_true) * tf.math.log(1.0 - p + state.epsilon)
        )
    return tf.reduce_mean(losses, axis=axis)


def kl_divergence(y_true: Any, y_pred: Any) -> Tensor:
    """Give the divergence ``sum(y_true * log(y_true / y_pred))`` of each sample.

    Args:
        y_true: Probabilities.
        y_pred: Probabilities. Both are cut at 1e-7 and 1.

    Returns:
        A tensor without the last axis.

    Example:
        >>> round(float(kl_divergence([[0.0, 1.0]], [[0.5, 0.5]])[0]), 4)
        0.6931
    """
    y_true, y_pred = same_dtype(y_true, y_pred)
    low = tf.constant(state.epsilon, dtype=y_pred.dtype)
    one = tf.constant(1.0, dtype=y_pred.dtype)
    y_true, y_pred = (tf.minimum(tf.maximum(y, low), one) for y in (y_true, y_pred))
    return tf.reduce_sum(y_true * tf.math.log(y_true / y_pred), axis=-1)


# --- helpers ------------------------------------------------------------------------


def _remembered(name: str, y_pred: Tensor, from_logits: bool, kind: Kind) -> Any:
    logits = logits_of(y_pred, kind)
    if logits is not None and from_logits:
        warn_user(
            f"`{name}` received `from_logits=True`, but the `output` argument was "
            "produced by a sigmoid or softmax activation and thus does not represent "
            "logits. The loss is computed from the logits behind it. Was this "
            "intended?"
        )
    return logits


def _as_logits(
    name: str, y_pred: Tensor, from_logits: bool, axis: int, normalise: bool
) -> Tensor:
    """Logits with the classes in the last axis: what the fused losses take."""
    logits = _remembered(name, y_pred, from_logits, "softmax")
    if logits is not None:
        return logits
    y_pred = _classes_last(y_pred, axis)
    if from_logits:
        return y_pred
    if normalise:
        y_pred = y_pred / tf.reduce_sum(y_pred, axis=-1, keepdims=True)
    return tf.math.log(_clip(y_pred))


def _clip(probabilities: Tensor) -> Tensor:
    dtype = probabilities.dtype
    low = tf.constant(state.epsilon, dtype=dtype)
    high = tf.constant(1.0 - state.epsilon, dtype=dtype)
    return tf.minimum(tf.maximum(probabilities, low), high)


def _classes_last(tensor: Tensor, axis: int) -> Tensor:
    rank = len(tensor.shape)
    if axis % rank == rank - 1:
        return tensor
    order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
    return tf.transpose(tensor, order)
