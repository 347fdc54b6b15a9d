# SPDX-License-Identifier: MIT
"""Where things run: ``tf.device`` scopes over the strategy's device."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, NamedTuple

from ipu import _devices, _strategy_state

__all__ = ["active_ipu", "current_device", "device", "on_host"]


class _Entry(NamedTuple):
    kind: str
    ordinal: int
    strategy: Any  # the one in force when the scope was entered


class _Scopes(threading.local):
    def __init__(self) -> None:
        self.entries: list[_Entry] = []


_scopes = _Scopes()


class device:
    """Run what is inside on a device: ``with tf.device("/device:IPU:0"):``.

    On ``"/CPU:0"`` functions run on the host, where float64 and int64 exist; variables
    stay on the simulated device, which is in the host's memory as well.

    Args:
        name: A device's name: ``"/device:IPU:1"``, ``"IPU:0"``, ``"/CPU:0"``; None or
            "" is what is in force without any scope.

    Raises:
        ValueError: The name is not one of a device.

    Example:
        >>> from ipu import tf
        >>> with tf.device("/device:IPU:0"):
        ...     float(tf.constant(1.0) + 1.0)
        2.0
    """

    def __init__(self, name: Any) -> None:
        if name is None or name == "":
            self._place = ("", 0)
        else:
            self._place = _devices.parse_device_name(str(name))

    def __enter__(self) -> None:
        strategy = _strategy_state.get_strategy()
        _scopes.entries.append(_Entry(*self._place, strategy))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _scopes.entries.pop()


def _innermost() -> _Entry | None:
    """The innermost scope, unless a strategy's was entered inside of it."""
    if not _scopes.entries:
        return None
    entry = _scopes.entries[-1]
    same = entry.strategy is _strategy_state.get_strategy()
    return entry if same and entry.kind else None


def on_host() -> bool:
    """Whether functions run on the host."""
    entry = _innermost()
    return entry is not None and entry.kind == "CPU"


def active_ipu() -> _devices.Device | None:
    """The device that a scope or a strategy names; None on the host or without any."""
    entry = _innermost()
    if entry is not None:
        return _devices.get_device(entry.ordinal) if entry.kind == "IPU" else None
    strategy = _strategy_state.get_strategy()
    return None if strategy is None else _devices.get_device(strategy.device_ordinal)


def current_device() -> _devices.Device:
    """The device of new variables and programs: the scope's, the strategy's, else
    number 0."""
    entry = _innermost()
    if entry is not None and entry.kind == "CPU":
        strategy = _strategy_state.get_strategy()
        return _devices.get_device(0 if strategy is None else strategy.device_ordinal)
    return active_ipu() or _devices.get_device(0)
