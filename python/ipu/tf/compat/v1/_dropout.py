# SPDX-License-Identifier: MIT
"""Dropout whose share may be a tensor, as programs feed it."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.tf._graph.frame import is_symbol
from ipu.tf._tensor.dispatch import op


def drop(x: Any, rate: Any, noise_shape: Any, seed: int | None) -> Any:
    """Apply dropout of a share that is a number or a tensor."""
    if not tf.is_tensor(rate):
        return tf.nn.dropout(x, rate, noise_shape=noise_shape, seed=seed)
    dropped = _dropped(x, rate, noise_shape, seed)
    if is_symbol(dropped):  # the share, whatever its shape, is one number
        dropped.set_shape(x.shape)
    return dropped


@op
def _dropped(x: Any, rate: Any, noise_shape: Any, seed: int | None) -> Any:
    """Apply dropout with a share that a run decides."""
    value = tf.convert_to_tensor(x)
    shape = value.shape if noise_shape is None else noise_shape
    drawn = tf.random.uniform(shape, seed=seed)
    chosen = tf.cast(drawn >= tf.cast(rate, drawn.dtype), value.dtype)
    return value / (1.0 - tf.cast(rate, value.dtype)) * chosen
