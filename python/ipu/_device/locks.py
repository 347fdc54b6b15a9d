# SPDX-License-Identifier: MIT
"""The locks of the package, and what happens to them at ``os.fork``.

A forked child has one thread. Locks that another thread held would stay locked
in the child for ever, so each lock is made anew there unless the child's thread has it.
All locks of the package are made here for that.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
import weakref
from _thread import RLock
from collections.abc import Callable
from typing import Any

_all: weakref.WeakSet[Lock] = weakref.WeakSet()


class Lock(RLock):  # type: ignore[misc]
    """A lock, which its owner may take again.

    ``with`` takes it and gives it back in C: a method of Python's could be left by
    Ctrl-C between the lock and the block that it is for, and nobody would give it back.

    Args:
        after_fork: A method, called in a forked child when all locks are there: for
            what other threads have left.

    Example:
        >>> lock = Lock()
        >>> with lock, lock:
        ...     print("taken")
        taken
    """

    _at_fork_reinit: Callable[[], None]
    _release_save: Callable[[], Any]
    _acquire_restore: Callable[[Any], None]

    def __init__(self, after_fork: Callable[[], None] | None = None) -> None:
        self._after_fork = after_fork and weakref.WeakMethod(after_fork)
        _all.add(self)

    def _renew(self) -> None:
        """Be free in a forked child, where another thread held it."""
        if self.acquire(blocking=False):
            self.release()
        else:
            self._at_fork_reinit()


class Condition(Lock):  # type: ignore[misc]
    """A lock with which threads wait for others; see ``threading.Condition``.

    There Ctrl-C can come when a waiting thread has just given the lock back.
    """

    def __init__(self, after_fork: Callable[[], None] | None = None) -> None:
        super().__init__(after_fork)
        self._waiters: list[Any] = []

    def wait(self, timeout: float | None = None) -> bool:
        waiter, state = threading.Lock(), list[Any]()
        waiter.acquire()
        try:
            self._waiters.append(waiter)
            # in one call: the lock is held, or its state is known
            state.extend(itertools.starmap(self._release_save, [()]))
            return waiter.acquire(timeout=-1 if timeout is None else max(timeout, 0))
        finally:
            if state:
                self._acquire_restore(*state)  # no call between the two
            with contextlib.suppress(ValueError):
                self._waiters.remove(waiter)

    def wait_for(
        self, predicate: Callable[[], Any], timeout: float | None = None
    ) -> Any:
        end = None if timeout is None else time.monotonic() + timeout
        while not (result := predicate()):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return result

    def notify_all(self) -> None:
        while self._waiters:
            waiter = self._waiters[-1]
            with contextlib.suppress(RuntimeError):  # it knows already
                waiter.release()
            with contextlib.suppress(ValueError):
                self._waiters.remove(waiter)

    def _renew(self) -> None:
        super()._renew()
        self._waiters.clear()


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
