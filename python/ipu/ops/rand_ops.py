# SPDX-License-Identifier: MIT
"""Dropout: ``ipu.rand_ops``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.tf._tensor.dispatch import op

__all__ = ["dropout"]


@op
def dropout(
    x: Any,
    rate: float = 0.5,
    noise_shape: Any = None,
    seed: Any = None,
    name: str | None = None,
    *,
    ref: bool = True,
) -> Tensor:
    """Set a share ``rate`` of the elements to 0 and scale the others by 1 / (1 - rate).

    The gradient is masked alike.

    Args:
        x: A floating-point tensor.
        rate: In [0, 1).
        noise_shape: The shape in which decisions are drawn: 1 or the size of ``x`` in
            each axis. None is the shape of ``x``.
        seed: Two integers, which alone decide the mask; or None, which gives another
            mask each time.
        ref: Accepted and not used: it is about the hardware's generator.

    Returns:
        A tensor like ``x``.

    Raises:
        ValueError: The rate is not in [0, 1), the noise shape does not fit, or the seed
            is not two integers.

    Example:
        >>> dropout([1.0, 1.0], rate=0.0).numpy().tolist()
        [1.0, 1.0]
    """
    value = tf.convert_to_tensor(x)
    if not 0 <= rate < 1:
        raise ValueError(f"The rate of dropout must be in [0, 1). Received: {rate}.")
    if noise_shape is not None and len(noise_shape) != value.ndim:
        raise ValueError(
            "noise_shape must have a size for each axis of x. Received "
            f"{list(noise_shape)} for a shape of {tuple(value.shape)}."
        )
    if seed is None:
        return tf.nn.dropout(value, rate, noise_shape)
    key = tf.convert_to_tensor(seed)
    if tuple(key.shape) != (2,):
        raise ValueError(
            "The seed of dropout must be two integers. Received a shape of "
            f"{tuple(key.shape)}."
        )
    shape = value.shape if noise_shape is None else noise_shape
    drawn = tf.random.stateless_uniform(shape, key)
    kept = tf.cast(drawn >= rate, value.dtype) * tf.cast(1 / (1 - rate), value.dtype)
    return value * kept


export(__name__)
