# SPDX-License-Identifier: MIT
"""Ends the threads of data sets before the interpreter goes.

A thread must not call Python once that has ended. So whatever has a thread that may is
known here, weakly, and is ended at exit while Python still runs. One that is in a
generator for long is left there: it never gets Python's lock again.
"""

from __future__ import annotations

import atexit
import contextlib
import weakref
from typing import Any

from ipu import _core

__all__ = ["start_feeder", "start_iterator"]

_iterators: weakref.WeakSet[Any] = weakref.WeakSet()
_feeders: weakref.WeakSet[Any] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for feeder in list(_feeders):
        feeder.stop(wait=False)
    for iterator in list(_iterators):
        # One that is at work in another thread cannot be closed.
        with contextlib.suppress(RuntimeError):
            iterator.close()


def start_iterator(impl: Any) -> Any:
    """Make a ``_core.DatasetIterator`` of a ``_core.Dataset``."""
    iterator = _core.DatasetIterator(impl)
    _iterators.add(iterator)
    return iterator


def start_feeder(impl: Any, infeed: Any) -> Any:
    """Start a ``_core.Feeder`` from a ``_core.Dataset`` into a ``_core.Infeed``."""
    feeder = _core.Feeder(impl, infeed)
    _feeders.add(feeder)
    return feeder
