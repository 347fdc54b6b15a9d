# SPDX-License-Identifier: MIT
"""Ends the threads of data sets before the interpreter goes.

A thread that waits for Python's lock while the interpreter shuts down never gets it,
and then nobody could join it. So whatever has a thread that may call Python is known
here, weakly, and is ended at exit while Python still runs.
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
        feeder.stop()
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
