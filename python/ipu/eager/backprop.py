# SPDX-License-Identifier: MIT
"""Gradients that are captured on their way back: ``ipu.eager.backprop``."""

from __future__ import annotations

from typing import Any

from ipu._device.thread_state import here
from ipu._text.exports import export
from ipu.tf.gradient_tape import GradientTape

__all__ = ["GradientCaptureContext", "GradientCaptureTape", "active_context"]


def active_context() -> GradientCaptureContext | None:
    """Return the innermost context of this thread, or None.

    Example:
        >>> with GradientCaptureContext() as context:
        ...     active_context() is context
        True
        >>> active_context() is None
        True
    """
    return here.captures[-1] if here.captures else None


class GradientCaptureContext:
    """Keeps what ``grad_util_ops.capture_upstream_gradients`` sees inside the ``with``.

    Attributes:
        captured_gradients: For each tag the gradient that came back, or a list of them
            where several values have the tag.

    Source: ``ipu.eager.backprop.GradientCaptureContext``.

    Example:
        >>> from ipu.ops.grad_util_ops import capture_upstream_gradients
        >>> x = tf.constant(3.0)
        >>> with GradientCaptureContext() as context, tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = capture_upstream_gradients(x * x, tag="square") * 5.0
        >>> float(tape.gradient(y, x)), float(context.captured_gradients["square"])
        (30.0, 5.0)
    """

    def __init__(self) -> None:
        self.captured_gradients: dict[str, Any] = {}

    def __enter__(self) -> GradientCaptureContext:
        here.captures.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        here.captures.remove(self)

    def add(self, tag: str, gradient: Any) -> None:
        """Keep a gradient."""
        known = self.captured_gradients.get(tag)
        if known is None:
            self.captured_gradients[tag] = gradient
        elif isinstance(known, list):
            known.append(gradient)
        else:
            self.captured_gradients[tag] = [known, gradient]


class GradientCaptureTape(GradientTape, GradientCaptureContext):
    """A tape that is also a :class:`GradientCaptureContext`.

    Args:
        *args, **kwargs: As for ``tf.GradientTape``.

    Source: ``ipu.eager.backprop.GradientCaptureTape``.

    Example:
        >>> from ipu.ops.grad_util_ops import capture_upstream_gradients
        >>> x = tf.constant(3.0)
        >>> with GradientCaptureTape() as tape:
        ...     tape.watch(x)
        ...     y = capture_upstream_gradients(x * x, tag="square") * 5.0
        >>> float(tape.gradient(y, x)), float(tape.captured_gradients["square"])
        (30.0, 5.0)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        GradientTape.__init__(self, *args, **kwargs)
        GradientCaptureContext.__init__(self)

    def __enter__(self) -> Any:
        GradientCaptureContext.__enter__(self)
        return GradientTape.__enter__(self)

    def __exit__(self, *error: object) -> None:
        GradientTape.__exit__(self, *error)
        GradientCaptureContext.__exit__(self, *error)


export(__name__)
