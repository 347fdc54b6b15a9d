# SPDX-License-Identifier: MIT
"""What all that differentiates shares: checks of targets and sources."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ipu._core import Tensor
from ipu._text.log import logger
from ipu.tf.variable import Variable


class UnconnectedGradients(Enum):
    """Gradients of targets that do not depend on the source.

    Example:
        >>> x, y = tf.Variable(1.0), tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     loss = 3.0 * x
        ...
        >>> zero = UnconnectedGradients.ZERO
        >>> float(tape.gradient(loss, y, unconnected_gradients=zero))
        0.0
    """

    NONE = "none"
    ZERO = "zero"


def is_float(value: Any) -> bool:
    """Return whether a tensor or variable carries a gradient."""
    return bool(value.dtype.is_floating)


def sum_of(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Return the sum of what there is."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def unconnected_of(value: Any) -> UnconnectedGradients:
    """Return the enum's member that an argument says."""
    try:
        return UnconnectedGradients(getattr(value, "value", value))
    except ValueError:
        raise ValueError(
            f"Unknown value for unconnected_gradients: {value!r}. Use "
            "tf.UnconnectedGradients.NONE or ZERO."
        ) from None


def as_target(value: Any) -> Tensor:
    """Return what is differentiated, as a tensor."""
    if value is None:
        raise TypeError("A target of a gradient is None.")
    tensor = Tensor(value)
    if not tensor.dtype.is_floating:
        logger.warning(
            "The dtype of the target tensor must be floating (e.g. tf.float32) when "
            "calling GradientTape.gradient, got %r",
            tensor.dtype,
        )
    return tensor


def check_source(value: Any) -> None:
    """Refuse a source that is not a tensor and no variable."""
    if not isinstance(value, (Tensor, Variable)):
        raise TypeError(
            f"Sources of a gradient must be tensors or variables. Received: {value!r}."
        )
    if not is_float(value):
        logger.warning(
            "The dtype of the source tensor must be floating (e.g. tf.float32) when "
            "calling GradientTape.gradient, got %r",
            value.dtype,
        )
