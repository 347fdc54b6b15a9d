# SPDX-License-Identifier: MIT
"""The session that runs in this thread, and what is kept for it.

Variables have their values for one session at a time (``turns.py``). What else differs
from session to session lies in the session: where iterators are, and how often random
numbers were drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Thread(threading.local):
    def __init__(self) -> None:
        self.sessions: list[Any] = []


_thread = _Thread()


@contextmanager
def entered(session: Any) -> Iterator[None]:
    """A session runs in this thread."""
    _thread.sessions.append(session)
    try:
        yield
    finally:
        _thread.sessions.pop()


def session() -> Any:
    """The session that runs in this thread, or None."""
    return _thread.sessions[-1] if _thread.sessions else None


def state_of(owner: Any) -> dict[str, Any]:
    """What the running session keeps for an object, which is not asked outside of
    runs."""
    state: dict[str, Any] = session().state.setdefault(owner, {})
    return state
