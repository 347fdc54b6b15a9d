# SPDX-License-Identifier: MIT
"""Softmax and the losses of ``tf.nn``."""

from __future__ import annotations

import sys
from typing import Any

from ipu import _core
from ipu.tf._ops.elementwise import softplus
from ipu.tf._ops.reductions import reduce_sum
from ipu.tf._tensor.convert import Tensor, apply, axis_of, like, on_device, pair
from ipu.tf._tensor.dispatch import op
from ipu.tf._tensor.notes import note_logits


def _to_last(tensor: Tensor, axis: int) -> tuple[Tensor, list[int] | None]:
    """Return the axis brought to the end, and the permutation that brings it back."""
    index = axis_of(axis, tensor.ndim)
    last = tensor.ndim - 1
    if index == last:
        return tensor, None
    order = list(range(tensor.ndim))
    order[index], order[last] = order[last], order[index]
    return apply("transpose", (tensor,), {"perm": order}), order


def _along(row: str, logits: Any, axis: int | None) -> Tensor:
    tensor, order = _to_last(Tensor(logits), -1 if axis is None else axis)
    result = apply(row, (tensor,))
    return result if order is None else apply("transpose", (result,), {"perm": order})


@op
def softmax(logits: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Return ``exp(logits)`` divided by its sum along ``axis``.

    Args:
        logits: A floating-point tensor.
        axis: Which axis; the last one by default.

    Example:
        >>> tf.nn.softmax([0.0, 0.0]).numpy().tolist()
        [0.5, 0.5]
    """
    scores = Tensor(logits)
    result = _along("softmax", scores, axis)
    is_last = axis is None or axis_of(axis, scores.ndim) == scores.ndim - 1
    return note_logits(result, scores, "softmax") if is_last else result


@op
def log_softmax(
    logits: Any, axis: int | None = None, name: str | None = None
) -> Tensor:
    """Return the logarithm of ``softmax``, computed without leaving the range of
    floats.

    Example:
        >>> tf.nn.log_softmax([0.0, 0.0]).numpy().tolist()
        [-0.693, -0.693]
    """
    return _along("log_softmax", logits, axis)


@op
def sparse_softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, name: str | None = None
) -> Tensor:
    """Return the cross-entropy of class numbers.

    Args:
        labels: Integers [...], each in [0, classes).
        logits: Unscaled log-probabilities [..., classes].

    Returns:
        The loss of each row, of the shape of ``labels``.

    Raises:
        InvalidArgumentError: A label is not a class. In a program that was
            written for the hardware (``ipu.drop_in``) its loss on a device is NaN.

    Example:
        >>> loss = tf.nn.sparse_softmax_cross_entropy_with_logits([0], [[0.0, 0.0]])
        >>> loss.numpy().tolist()
        [0.693]
    """
    both = (Tensor(logits), Tensor(labels))
    hook = sys.modules.get("ipu.drop_in")
    is_old = hook is not None and hook.installed()
    attrs = {"outside_is_nan": True} if is_old and on_device() else None
    loss: Tensor = _core.apply("sparse_cross_entropy", both, attrs)[0]
    return loss


@op
def softmax_cross_entropy_with_logits(
    labels: Any, logits: Any, axis: int = -1, name: str | None = None
) -> Tensor:
    """Return the cross-entropy of probabilities.

    Args:
        labels: Probabilities [..., classes], of the dtype of ``logits``.
        logits: Unscaled log-probabilities [..., classes].
        axis: Where the classes are.

    Returns:
        The loss of each row [...].

    Example:
        >>> tf.nn.softmax_cross_entropy_with_logits(
        ...     labels=[[1.0, 0.0]], logits=[[0.0, 0.0]]).numpy().tolist()
        [0.693]
    """
    scores = Tensor(logits)
    shares = like(labels, scores)
    if shares.shape != scores.shape:
        lead = [max(a, b) for a, b in zip(shares.shape, scores.shape, strict=True)]
        shares = apply("broadcast", (shares,), {"shape": lead})
        scores = apply("broadcast", (scores,), {"shape": lead})
    scores, _ = _to_last(scores, axis)
    shares, _ = _to_last(shares, axis)
    loss: Tensor = _core.apply("cross_entropy", (scores, shares))[0]
    return loss


def _parts(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return max(x, 0) and -|x|, whose gradients at 0 add up to one half of each
    side."""
    zero = like(0, x)
    above = x >= zero
    return apply("select", (above, x, zero)), apply("select", (above, -x, x))


@op
def sigmoid_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, name: str | None = None
) -> Tensor:
    """Return the cross-entropy of independent yes-or-no answers, element by element.

    Args:
        labels: Probabilities, in the shape and dtype of ``logits``.
        logits: Unscaled log-odds.

    Example:
        >>> tf.nn.sigmoid_cross_entropy_with_logits(
        ...     labels=[1.0], logits=[0.0]).numpy().tolist()
        [0.693]
    """
    x, z = pair(logits, labels)
    if x.shape != z.shape:
        raise ValueError(
            "`logits` and `labels` must have the same shape, received "
            f"({x.shape} vs {z.shape})."
        )
    positive, down = _parts(x)
    return positive - x * z + apply("log1p", (apply("exp", (down,)),))


@op
def weighted_cross_entropy_with_logits(
    labels: Any, logits: Any, pos_weight: Any, name: str | None = None
) -> Tensor:
    """Return the sigmoid cross-entropy, with the positive answers weighted.

    Args:
        labels: Probabilities, in the shape and dtype of ``logits``.
        logits: Unscaled log-odds.
        pos_weight: The weight of the positive answers.

    Example:
        >>> tf.nn.weighted_cross_entropy_with_logits(
        ...     labels=[1.0], logits=[0.0], pos_weight=2.0).numpy().tolist()
        [1.386]
    """
    x, z = pair(logits, labels)
    weight = 1.0 + (like(pos_weight, x) - 1.0) * z
    return (1.0 - z) * x + weight * softplus(-x)


@op
def log_poisson_loss(
    targets: Any,
    log_input: Any,
    compute_full_loss: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return ``exp(log_input) - log_input * targets``, element by element.

    Example:
        >>> tf.nn.log_poisson_loss([1.0], [0.0]).numpy().tolist()
        [1.0]
    """
    x, z = pair(log_input, targets)
    loss = apply("exp", (x,)) - x * z
    if not compute_full_loss:
        return loss
    some = (z >= 0.0) & (z <= 1.0)
    safe = apply("select", (some, like(1, z), z))
    stirling = (
        safe * apply("log", (safe,))
        - safe
        + 0.5 * apply("log", (safe * 6.283185307179586,))
    )
    return loss + apply("select", (some, like(0, z), stirling))


@op
def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Return half the sum of squares.

    Example:
        >>> float(tf.nn.l2_loss([3.0, 4.0]))
        12.5
    """
    return reduce_sum(apply("square", (Tensor(t),))) * 0.5


@op
def compute_average_loss(
    per_example_loss: Any, sample_weight: Any = None, global_batch_size: Any = None
) -> Tensor:
    """Return the sum of the examples' losses divided by the batch size.

    Example:
        >>> float(tf.nn.compute_average_loss([1.0, 3.0]))
        2.0
    """
    losses = Tensor(per_example_loss)
    if sample_weight is not None:
        losses = losses * like(sample_weight, losses)
    if global_batch_size is None:
        return reduce_sum(losses) * (
            1.0 / max(losses.shape[0] if losses.ndim else 1, 1)
        )
    return reduce_sum(losses) / like(global_batch_size, losses)


@op
def scale_regularization_loss(regularization_loss: Any) -> Tensor:
    """Return the loss as it is: there is one replica.

    Example:
        >>> float(tf.nn.scale_regularization_loss([1.0, 2.0]))
        3.0
    """
    return reduce_sum(regularization_loss)
