# SPDX-License-Identifier: MIT
"""The locks of the package, and what happens to them at ``os.fork``.

A forked child has one thread. Locks that another thread held would stay locked
in the child for ever, so each lock is made anew there unless the child's thread has it.
All locks of the package are made here for that.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

_all: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock:
    """A lock, which its owner may take again.

    Args:
        after_fork: A method, called in a forked child when all locks are there: for
            what other threads have left.

    Example:
        >>> lock = Lock()
        >>> with lock, lock:
        ...     print("taken")
        taken
    """

    def __init__(self, after_fork: Callable[[], None] | None = None) -> None:
        self._lock = threading.RLock()
        self._after_fork = after_fork and weakref.WeakMethod(after_fork)
        _all.add(self)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def _renew(self) -> None:
        """Make a new lock in a forked child, where another thread held it."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


class Condition(Lock):
    """A lock with which threads wait for others; see ``threading.Condition``."""

    def __init__(self, after_fork: Callable[[], None] | None = None) -> None:
        super().__init__(after_fork)
        self._condition = threading.Condition(self._lock)

    def wait(self, timeout: float | None = None) -> bool:
        return self._condition.wait(timeout)

    def wait_for(
        self, predicate: Callable[[], Any], timeout: float | None = None
    ) -> Any:
        return self._condition.wait_for(predicate, timeout)

    def notify_all(self) -> None:
        self._condition.notify_all()

    def _renew(self) -> None:
        super()._renew()
        self._condition = threading.Condition(self._lock)  # nobody waits


class Event:
    """A flag that threads wait for; see ``threading.Event``."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        with self._changed:
            self._is_set = True
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:
            self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        with self._changed:
            return bool(self._changed.wait_for(self.is_set, timeout))


def _after_fork() -> None:
    locks = list(_all)
    for lock in locks:
        lock._renew()
    for lock in locks:
        forget = None if lock._after_fork is None else lock._after_fork()
        if forget is not None:
            forget()


os.register_at_fork(after_in_child=_after_fork)
