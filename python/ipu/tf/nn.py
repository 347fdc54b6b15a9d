# SPDX-License-Identifier: MIT
"""``tf.nn``: activations, losses, dropout."""

from __future__ import annotations

from typing import Any

from ipu import _core
from ipu.tf import ops
from ipu.tf.ops import Tensor, apply, relu, sigmoid, tanh

__all__ = [
    "bias_add",
    "dropout",
    "log_softmax",
    "relu",
    "sigmoid",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits",
    "tanh",
]


def _last_axis(op: str, logits: Any, axis: int) -> Tensor:
    tensor = Tensor(logits)
    last = tensor.ndim - 1
    if axis in (-1, last):
        return apply(op, (tensor,))
    order = list(range(tensor.ndim))
    order[axis], order[last] = order[last], order[axis]
    return ops.transpose(apply(op, (ops.transpose(tensor, order),)), order)


def softmax(logits: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """``exp(logits)`` divided by its sum along ``axis``.

    Example:
        >>> from ipu import tf
        >>> tf.nn.softmax([0.0, 0.0]).numpy().tolist()
        [0.5, 0.5]
    """
    return _last_axis("softmax", logits, axis)


def log_softmax(logits: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """The logarithm of ``softmax``, computed without leaving the range of floats."""
    return _last_axis("log_softmax", logits, axis)


def bias_add(value: Any, bias: Any, name: str | None = None) -> Tensor:
    """``value + bias`` along the last axis."""
    return apply("add", (value, bias))


def sparse_softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, name: str | None = None
) -> Tensor:
    """Cross-entropy of class numbers.

    Args:
        labels: Integers [...], each in [0, classes).
        logits: Unscaled log-probabilities [..., classes].
        name: Accepted and not used.

    Returns:
        The loss of each row, of the shape of ``labels``.

    Raises:
        InvalidArgumentError: A label is none of the classes.
    """
    loss: Tensor = _core.apply(
        "sparse_cross_entropy", (Tensor(logits), Tensor(labels))
    )[0]
    return loss


def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: str | None = None
) -> Tensor:
    """Cross-entropy of probabilities.

    Args:
        labels: Probabilities [..., classes], of the dtype of ``logits``.
        logits: Unscaled log-probabilities [..., classes].
        axis: The last one only.
        name: Accepted and not used.

    Returns:
        The loss of each row [...].
    """
    tensor = Tensor(logits)
    if axis not in (-1, tensor.ndim - 1):
        raise ValueError(f"The classes must be on the last axis. Received axis={axis}.")
    loss: Tensor = _core.apply("cross_entropy", (tensor, labels))[0]
    return loss


def dropout(
    x: Any,
    rate: float,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str = "",
) -> Tensor:
    """Set a share ``rate`` of the elements to 0 and scale the others by 1 / (1 - rate).

    Args:
        x: A floating-point tensor.
        rate: In [0, 1).
        noise_shape: Not supported.
        seed: The op's own seed, or None.
        name: Accepted and not used.
    """
    if noise_shape is not None:
        raise NotImplementedError("dropout with noise_shape is not supported.")
    result: Tensor = _core.apply("dropout", (x,), {"rate": float(rate), "seed": seed})[
        0
    ]
    return result
