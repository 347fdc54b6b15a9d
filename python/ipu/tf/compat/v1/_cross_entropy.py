# SPDX-License-Identifier: MIT
"""Cross-entropies, which TensorFlow 1 has by keyword alone."""

from __future__ import annotations

from typing import Any

from ipu import tf


def _check(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        raise ValueError(
            f"Only call `{function}` with named arguments (labels=..., logits=..., "
            "...): their order differed between versions."
        )
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: int | None = None,
) -> Any:
    """Cross-entropy of probabilities, which get no gradient.

    Args:
        _sentinel: Nothing: the others are given by name.
        labels: Probabilities [..., classes].
        logits: Unscaled log-probabilities [..., classes].
        dim: Where the classes are.
        axis: In place of ``dim``.

    Returns:
        The loss of each row.

    Raises:
        ValueError: An argument without its name; labels or logits are missing.

    Example:
        >>> rows = v1.nn.softmax_cross_entropy_with_logits(
        ...     labels=[[1.0, 0.0]], logits=[[0.0, 0.0]])
        >>> round(float(rows[0]), 3)
        0.693
    """
    _check("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return tf.nn.softmax_cross_entropy_with_logits(
        tf.stop_gradient(labels), logits, dim if axis is None else axis
    )


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
) -> Any:
    """Cross-entropy of class numbers.

    Args:
        _sentinel: Nothing: the others are given by name.
        labels: Integers [...], each in [0, classes).
        logits: Unscaled log-probabilities [..., classes].

    Returns:
        The loss of each row.

    Raises:
        ValueError: An argument without its name; labels or logits are missing.

    Example:
        >>> rows = v1.nn.sparse_softmax_cross_entropy_with_logits(
        ...     labels=[0], logits=[[0.0, 0.0]])
        >>> round(float(rows[0]), 3)
        0.693
    """
    _check("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
) -> Any:
    """Cross-entropy of independent yes-or-no answers, element by element.

    Args:
        _sentinel: Nothing: the others are given by name.
        labels: Probabilities, in the shape and dtype of ``logits``.
        logits: Unscaled log-odds.

    Raises:
        ValueError: An argument without its name; labels or logits are missing.

    Example:
        >>> found = v1.nn.sigmoid_cross_entropy_with_logits(labels=[1.0], logits=[0.0])
        >>> round(float(found[0]), 3)
        0.693
    """
    _check("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    return tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
