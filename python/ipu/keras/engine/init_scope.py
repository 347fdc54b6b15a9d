# SPDX-License-Identifier: MIT
"""Leaves open traces for a while, to create variables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ipu import _core

__all__ = ["init_scope"]


@contextmanager
def init_scope() -> Iterator[None]:
    """Do what is inside at once, also while a function is being traced.

    A layer that is built by its first call creates its variables in the middle of the
    trace of that call; their first values must not become part of the traced program.
    """
    suspended = []
    while (trace := _core.open_trace()) is not None:
        trace.__exit__(None, None, None)
        suspended.append(trace)
    try:
        yield
    finally:
        for trace in reversed(suspended):
            trace.__enter__()
