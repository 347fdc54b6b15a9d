# SPDX-License-Identifier: MIT
"""Who sums the gradients of the replicas of a program."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["aggregated", "is_aggregated"]


class _State(threading.local):
    def __init__(self) -> None:
        self.is_done = False


_state = _State()


@contextmanager
def aggregated() -> Iterator[None]:
    """Say that who applies gradients inside does with the replicas' what it wants."""
    before = _state.is_done
    _state.is_done = True
    try:
        yield
    finally:
        _state.is_done = before


def is_aggregated() -> bool:
    """Whether an optimizer has to take gradients as they are."""
    return _state.is_done
