# SPDX-License-Identifier: MIT
"""Which session's values the variables of a graph have.

Values lie on the devices, once for a graph. Runs of one session may go on side by side,
as when one thread runs a loop and another one dequeues; another session waits for their
end, and brings its own values then.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ipu._device.locks import Condition


class SessionLock:
    """The runs of the sessions of a graph."""

    def __init__(self) -> None:
        self._changed = Condition(self._forget_runs)
        self._resident: weakref.ref[Any] | None = None
        self._runners: list[int] = []  # threads, one entry for each run

    @contextmanager
    def of(self, session: Any, change: Callable[[Any], None]) -> Iterator[None]:
        """A run of a session.

        Args:
            change: Called with the session before, or None, where it was another one.

        Raises:
            RuntimeError: It begins inside of a run of another session.
        """
        thread = threading.get_ident()
        with self._changed:
            if not self._is_resident(session) and thread in self._runners:
                raise RuntimeError(
                    "A session cannot run inside of a run of another session of the "
                    "same graph. Make another tf.Graph for it, or use the same session."
                )
            self._changed.wait_for(
                lambda: self._is_resident(session) or not self._runners
            )
            if not self._is_resident(session):
                change(None if self._resident is None else self._resident())
                self._resident = weakref.ref(session)
            self._runners.append(thread)
        try:
            yield
        finally:
            with self._changed:
                self._runners.remove(thread)
                self._changed.notify_all()

    def _forget_runs(self) -> None:
        """In a forked child no other thread runs anything."""
        own = threading.get_ident()
        self._runners = [thread for thread in self._runners if thread == own]

    def _is_resident(self, session: Any) -> bool:
        return self._resident is not None and self._resident() is session
