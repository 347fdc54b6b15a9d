# SPDX-License-Identifier: MIT
"""The session that runs in this thread, and what is kept for it.

Variables have their values for one session at a time (``graph.py``). What else
differs from session to session lies in the session: where iterators are, and how often
random numbers were drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipu._device.thread_state import entered as stacked, here


@contextmanager
def entered(session: Any) -> Iterator[None]:
    """Note that a session runs in this thread."""
    with stacked(here.running_sessions, session):
        yield


def session() -> Any:
    """Return the session that runs in this thread, or None."""
    return here.running_sessions[-1] if here.running_sessions else None


def state_of(owner: Any) -> dict[str, Any]:
    """Return what the running session keeps for an object, which is not asked outside
    of runs."""
    state: dict[str, Any] = session().state.setdefault(owner, {})
    return state
