# SPDX-License-Identifier: MIT
"""Gradients during the backward pass: ``ipu.ops.grad_util_ops``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.eager import backprop
from ipu.tf import nest

__all__ = ["capture_upstream_gradients"]


def capture_upstream_gradients(args: Any, tag: str = "") -> Any:
    """Hand values on, and capture the gradients that come back to them.

    Args:
        args: A tensor or a nest of them.
        tag: The gradients' name in the ``captured_gradients`` of the innermost
            ``GradientCaptureContext``.

    Returns:
        The same values.

    Raises:
        RuntimeError: There is no such context.

    Example:
        >>> with backprop.GradientCaptureContext() as context:
        ...     y = capture_upstream_gradients(tf.constant(2.0), tag="y")
        >>> float(y)
        2.0
    """
    context = backprop.active_context()
    if context is None:
        raise RuntimeError(
            "capture_upstream_gradients needs a place for what it captures: call it "
            "inside `with ipu.eager.backprop.GradientCaptureContext() as context:`."
        )

    @tf.custom_gradient
    def captured(value: Tensor) -> Any:
        def gradient(upstream: Tensor) -> Tensor:
            context.add(tag, upstream)
            return upstream

        return tf.identity(value), gradient

    return nest.map_structure(captured, args)


export(__name__)
