# SPDX-License-Identifier: MIT
"""``tf.raw_ops``: ops by keyword, under the names of TensorFlow's op registry."""

from __future__ import annotations

from typing import Any

from ipu.tf import ops

__all__ = ["ReluGrad", "SigmoidGrad", "TanhGrad"]


def ReluGrad(*, gradients: Any, features: Any, name: str | None = None) -> Any:
    """The gradient of relu: ``gradients`` where ``features`` > 0, else 0."""
    del name
    zeros = ops.zeros_like(gradients)
    return ops.where(ops.greater(features, 0.0), gradients, zeros)


def TanhGrad(*, y: Any, dy: Any, name: str | None = None) -> Any:
    """The gradient of tanh, where ``y`` is its result: ``dy * (1 - y * y)``."""
    del name
    return ops.multiply(dy, ops.subtract(1.0, ops.square(y)))


def SigmoidGrad(*, y: Any, dy: Any, name: str | None = None) -> Any:
    """The gradient of sigmoid, where ``y`` is its result: ``dy * y * (1 - y)``."""
    del name
    return ops.multiply(ops.multiply(dy, y), ops.subtract(1.0, y))
