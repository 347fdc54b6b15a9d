# SPDX-License-Identifier: MIT
"""How what layers capture of gradients comes to the optimizer of ``fit``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipu.eager.backprop import GradientCaptureContext, active_context


@contextmanager
def capturing() -> Iterator[GradientCaptureContext]:
    """Give the context that captures already, or a new one."""
    known = active_context()
    if known is not None:
        yield known
        return
    with GradientCaptureContext() as context:
        yield context


def wants_captured(optimizer: Any) -> bool:
    """Whether ``apply_gradients`` takes ``captured_grads``."""
    return bool(getattr(optimizer, "supports_captured_grads", False))
