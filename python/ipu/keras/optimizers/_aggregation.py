# SPDX-License-Identifier: MIT
"""Who sums the gradients of the replicas of a program."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _State(threading.local):
    def __init__(self) -> None:
        self.is_done = False


_state = _State()


@contextmanager
def aggregated(is_done: bool = True) -> Iterator[None]:
    """Say that gradients inside are reduced over the replicas already.

    Args:
        is_done: Whether they are.
    """
    before = _state.is_done
    _state.is_done = is_done
    try:
        yield
    finally:
        _state.is_done = before


def is_aggregated() -> bool:
    """Whether an optimizer has to take gradients as they are."""
    return _state.is_done
