# SPDX-License-Identifier: MIT
"""What an outer layer call tells the calls inside it: whether this is training.

A stack per thread. A layer that is called without ``training`` takes the value of the
call around it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["call_scope", "current_training", "in_call"]


class _Calls(threading.local):
    def __init__(self) -> None:
        self.training: list[Any] = []


_calls = _Calls()


def in_call() -> bool:
    """Tell whether a layer is being called in this thread."""
    return bool(_calls.training)


def current_training() -> Any:
    """Give the ``training`` value of the innermost call, or None outside of calls."""
    return _calls.training[-1] if _calls.training else None


@contextmanager
def call_scope(training: Any) -> Iterator[None]:
    """Make ``training`` the value that inner calls take.

    Args:
        training: True, False or None (not said).
    """
    _calls.training.append(training)
    try:
        yield
    finally:
        _calls.training.pop()
