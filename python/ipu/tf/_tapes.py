# SPDX-License-Identifier: MIT
"""The tapes of each thread that are recording, for all below ``gradient_tape``."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipu.tf.gradient_tape import GradientTape

__all__ = ["active", "variable_was_read"]


class _Active(threading.local):
    def __init__(self) -> None:
        self.tapes: list[GradientTape] = []


_active = _Active()


def active() -> list[GradientTape]:
    """The recording tapes of this thread, the innermost last."""
    return _active.tapes


def variable_was_read(variable: Any, tensor: Any) -> None:
    """Tell the tapes that an op is about to use this value of a variable."""
    for tape in _active.tapes:
        tape._take_read(variable, tensor)
