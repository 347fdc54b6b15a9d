# SPDX-License-Identifier: MIT
"""Restores that wait for variables: those of layers and optimizers come late."""

from __future__ import annotations

from typing import Protocol


class Waiting(Protocol):
    """A restore whose file has values that no variable took yet."""

    def go_on(self) -> bool:
        """Restore what is there by now; whether values are left."""


_WAITING: list[Waiting] = []


def wait(restore: Waiting) -> None:
    """Let a restore go on whenever variables are made.

    Args:
        restore: It is kept until its file has no values left.
    """
    _WAITING.append(restore)


def forget(restore: Waiting) -> None:
    """Let a restore go on no more.

    Args:
        restore: One that may wait.
    """
    if restore in _WAITING:
        _WAITING.remove(restore)


def go_on() -> None:
    """Let the restores that wait take up variables that were just made."""
    if _WAITING:
        _WAITING[:] = [one for one in list(_WAITING) if one.go_on()]
