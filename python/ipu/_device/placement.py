# SPDX-License-Identifier: MIT
"""Where ops run: the innermost device scope or strategy scope of each thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from ipu._device import devices, strategy_state
from ipu._device.thread_state import entered, here


class Scope(NamedTuple):
    """A device scope; `depth` is how many strategy scopes were open around it."""

    kind: str
    ordinal: int
    depth: int


@contextlib.contextmanager
def device(name: Any) -> Iterator[None]:
    """Put what is inside on a device: ``with tf.device("/device:IPU:0"):``.

    On ``"/CPU:0"`` functions run on the host, where float64 and int64 exist; variables
    stay on the simulated device, which is in the host's memory as well.

    Args:
        name: Such as "/device:IPU:0", "IPU:1" or "cpu"; None or "" changes nothing.

    Raises:
        ValueError: It names neither an IPU nor a CPU.
        TypeError: It is not a string.

    Example:
        >>> with tf.device("/device:IPU:0"):
        ...     float(tf.constant(1.0) + 1.0)
        2.0
    """
    if name is None or name == "":
        yield
        return
    kind, ordinal = devices.parse_device_name(name)
    try:
        with entered(here.device_scopes, Scope(kind, ordinal, strategy_state.depth())):
            _place_tensors()
            yield
    finally:
        _place_tensors()


def _place_tensors() -> None:
    """Have new tensors say where the innermost scope puts them."""
    from ipu import _core

    scope = here.device_scopes[-1] if here.device_scopes else None
    on_ipu = scope is not None and scope.kind == "IPU"
    _core.set_eager_device(scope.ordinal if scope is not None and on_ipu else -1)


def _innermost() -> Scope | None:
    """Return the innermost device scope, unless a strategy's was entered inside of
    it."""
    if here.device_scopes and here.device_scopes[-1].depth == strategy_state.depth():
        return here.device_scopes[-1]
    return None


@contextlib.contextmanager
def ipu_scope(name: str) -> Iterator[None]:
    """Open a device scope in which variables of graphs are resources."""
    with device(name), here.setting(ipu_scopes=here.ipu_scopes + 1):
        yield


def is_inside_ipu_scope() -> bool:
    """Return whether there is an ``ipu_scope`` around."""
    return here.ipu_scopes > 0


def current_shard() -> int:
    """Return the IPU of operations that graphs keep; -1: not said."""
    return here.shard


def current_rounding() -> int:
    """Return how operations that graphs keep round, as ``Trace.rounding`` says it; 0:
    as the device does."""
    return here.rounding


def graph_ordinal() -> int | None:
    """Return the number of the IPU device of operations that graphs keep, None for the
    host; makes no device."""
    scope = _innermost()
    if scope is not None:
        return scope.ordinal if scope.kind == "IPU" else None
    strategy = strategy_state.get_strategy()
    return None if strategy is None else strategy.device_ordinal


@contextlib.contextmanager
def provisional() -> Iterator[None]:
    """Ask devices that are not configured yet without making them.

    Graphs are put together before devices are configured, or afterwards.
    """
    with entered(here.provisional, {}):
        yield


def active_ipu() -> devices.Device | None:
    """Return the IPU device that ops are placed on, or None where it is the host."""
    scope = _innermost()
    if scope is not None:
        return devices.get_device(scope.ordinal) if scope.kind == "IPU" else None
    strategy = strategy_state.get_strategy()
    return None if strategy is None else devices.get_device(strategy.device_ordinal)


def is_placed() -> bool:
    """Return whether a scope says where functions run."""
    return _innermost() is not None


def on_host() -> bool:
    """Return whether a scope puts functions on the host."""
    scope = _innermost()
    return scope is not None and scope.kind == "CPU"


def current_ordinal() -> int:
    """Return the number of :func:`current_device`; makes no device where there is
    none."""
    scope = _innermost()
    if scope is not None and scope.kind == "IPU":
        return scope.ordinal
    strategy = strategy_state.get_strategy()
    return 0 if strategy is None else strategy.device_ordinal


def current_device() -> devices.Device:
    """Return the device of new variables and programs: the scope's, the strategy's,
    else number 0."""
    ordinal = current_ordinal()
    if here.provisional and not devices.is_configured():
        known = here.provisional[-1]
        if ordinal not in known:
            known[ordinal] = devices.Device(ordinal, [0], devices.Layout())
            known[ordinal].is_retired = True
        return known[ordinal]
    return devices.get_device(ordinal)


@contextlib.contextmanager
def held_device() -> Iterator[None]:
    """Keep :func:`current_device` from being replaced between runs of programs."""
    while True:
        device = current_device()
        with device.held():
            if not device.is_retired:
                yield
                return
        devices.await_configuration()
