# SPDX-License-Identifier: MIT
"""Where ops run: the innermost device scope or strategy scope of each thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import NamedTuple

from ipu import _devices, _strategy_state

__all__ = ["active_ipu", "device"]


class _Scope(NamedTuple):
    """A device scope; `depth` is how many strategy scopes were open around it."""

    kind: str
    ordinal: int
    depth: int


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[_Scope] = []


_stack = _Stack()


@contextlib.contextmanager
def device(name: str) -> Iterator[None]:
    """Put ops and variables on a device.

    Args:
        name: Such as "/device:IPU:0" or "cpu".

    Raises:
        ValueError: It names neither an IPU nor a CPU.
        TypeError: It is no string.
    """
    kind, ordinal = _devices.parse_device_name(name)
    _stack.scopes.append(_Scope(kind, ordinal, _strategy_state.depth()))
    try:
        yield
    finally:
        _stack.scopes.pop()


def active_ipu() -> _devices.Device | None:
    """The IPU device that ops are placed on, or None where it is the host."""
    if _stack.scopes and _stack.scopes[-1].depth == _strategy_state.depth():
        scope = _stack.scopes[-1]
        return _devices.get_device(scope.ordinal) if scope.kind == "IPU" else None
    strategy = _strategy_state.get_strategy()
    return None if strategy is None else _devices.get_device(strategy.device_ordinal)
