# SPDX-License-Identifier: MIT
"""The state of a layer's call, for layers inside it: training or not, its dtype.

A stack per thread. A layer that is called without ``training`` takes the value of the
call around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ipu import _core
from ipu._device.thread_state import entered, here
from ipu.tf._functions.blocks import part_of_step


def in_call() -> bool:
    """Return whether a layer is being called in this thread."""
    return bool(here.layer_calls)


def current_training() -> Any:
    """Return the ``training`` value of the innermost call, or None outside of calls."""
    return here.layer_calls[-1][0] if here.layer_calls else None


def current_dtype() -> Any:
    """Return the dtype that the innermost call computes in, or None."""
    return here.layer_calls[-1][1] if here.layer_calls else None


@contextmanager
def call_scope(
    training: Any, dtype: Any = None, name: str | None = None
) -> Iterator[None]:
    """Make ``training`` the value that inner calls take.

    Args:
        training: True, False or None (not said).
        dtype: The dtype to which weights that are cast are read; None for their own.
        name: The layer, for graphs that name what their nodes come from.
    """
    trace = _core.open_trace() if here.builds and here.builds[-1].is_account else None
    outer = None if trace is None else trace.scope
    try:
        if trace is not None and name is not None:
            trace.scope = name if outer is None else f"{outer}/{name}"
        with entered(here.layer_calls, (training, dtype)), part_of_step():
            yield
    finally:
        if trace is not None:
            trace.scope = outer
