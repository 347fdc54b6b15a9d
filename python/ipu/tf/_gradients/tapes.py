# SPDX-License-Identifier: MIT
"""The tapes of each thread that are recording, for all below ``gradient_tape``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import _core

if TYPE_CHECKING:
    from ipu.tf.gradient_tape import GradientTape


def active() -> list[GradientTape]:
    """Return the recording tapes of this thread, the innermost last."""
    return _core.tapes()


def is_recording() -> bool:
    """Return whether an eager tape of this thread is recording."""
    return any(tape._is_eager for tape in active())


def is_nested() -> bool:
    """Return whether several eager tapes of this thread are recording."""
    return sum(tape._is_eager for tape in active()) > 1


def recorder() -> Any:
    """Return what the eager tapes of this thread share, or None."""
    for tape in reversed(active()):
        if tape._is_eager:
            return tape._record
    return None


class Reads:
    """A tape that only tells which variables are read.

    Attributes:
        variables: They, by their ids.
    """

    _is_eager = False

    def __init__(self) -> None:
        self.variables: dict[int, Any] = {}

    def _take_lookup(self, read: Any, ids: Any) -> None:
        """Do nothing: the variable has told that it was read."""

    def _take_read(self, variable: Any, tensor: Any) -> None:
        self.variables[id(variable)] = variable


def watches(variable: Any) -> bool:
    """Tell the tapes that a program has read a variable; whether one watches it."""
    found = []
    tapes: list[Any] = active()
    for tape in tapes:
        if isinstance(tape, Reads):
            tape._take_read(variable, None)
        elif tape._is_eager:
            found.append(tape._takes(variable))
    return any(found)


def variable_was_read(variable: Any, tensor: Any) -> None:
    """Tell the tapes that an op is about to use this value of a variable."""
    for tape in active():
        tape._take_read(variable, tensor)
