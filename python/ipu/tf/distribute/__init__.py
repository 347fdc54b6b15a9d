# SPDX-License-Identifier: MIT
"""``tf.distribute``: which strategy is in force, and what a replica knows of itself.

The strategies are in ``ipu.ipu_strategy``. A program has one replica as TensorFlow
counts them, however many IPUs its device has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ipu import _core
from ipu._device import strategy_state
from ipu._device.placement import device as place
from ipu._device.strategy_state import (
    ReduceOp as ReduceOp,
    has_strategy as has_strategy,
)
from ipu._text.exports import defined, export
from ipu.ipu_strategy import InputContext as InputContext, Strategy as Strategy
from ipu.tf._graph import mode
from ipu.tf.distribute import cluster_resolver as cluster_resolver

_default = Strategy()


class OneDeviceStrategy(Strategy):
    """Everything on one device that is not an IPU: functions run as they are called.

    Programs choose between it and ``IPUStrategy`` to run with or without IPUs.

    Args:
        device: A device such as "/cpu:0", or "" for the default one.

    Example:
        >>> strategy = OneDeviceStrategy("/cpu:0")
        >>> with strategy.scope():
        ...     strategy.run(lambda x: x + 1, args=(2,))
        3
    """

    def __init__(self, device: str = "") -> None:
        self._device = device

    def scope(self) -> AbstractContextManager[Any]:
        """Return a context in which ops and variables are made on the device."""
        return place(self._device) if self._device else nullcontext(self)


def get_strategy() -> Any:
    """Return the strategy whose scope this is, or a default one that changes nothing.

    Example:
        >>> tf.distribute.get_strategy().num_replicas_in_sync
        1
    """
    return strategy_state.get_strategy() or _default


def in_cross_replica_context() -> bool:
    """Return whether this is the scope of a strategy, outside of what it runs.

    Example:
        >>> tf.distribute.in_cross_replica_context()
        False
    """
    return get_replica_context() is None


class ReplicaContext:
    """The view that code on a replica has of its strategy.

    Attributes:
        strategy: The strategy that runs it.
        replica_id_in_sync_group: Its number, 0.
        num_replicas_in_sync: How many there are, 1.

    Example:
        >>> context = tf.distribute.get_replica_context()
        >>> isinstance(context, ReplicaContext), context.num_replicas_in_sync
        (True, 1)
    """

    def __init__(self, strategy: Any) -> None:
        self.strategy = strategy
        self.replica_id_in_sync_group = 0
        self.num_replicas_in_sync = 1

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Return the value over all replicas: with one, the value.

        Raises:
            ValueError: ``reduce_op`` is neither SUM nor MEAN.
        """
        return self.strategy.reduce(reduce_op, value)

    def merge_call(
        self,
        merge_fn: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call ``merge_fn(strategy, *args, **kwargs)`` once for all replicas."""
        return merge_fn(self.strategy, *args, **(kwargs or {}))


def get_replica_context() -> ReplicaContext | None:
    """Return what this replica knows; None in a strategy's scope outside of what it
    runs.

    Example:
        >>> get_replica_context().num_replicas_in_sync
        1
    """
    is_outside = _core.open_trace() is None and mode.building() is None
    if has_strategy() and is_outside:
        return None
    return ReplicaContext(get_strategy())


_MORE = "cluster_resolver InputContext ReduceOp Strategy has_strategy".split()
export(__name__, defined(__name__, _MORE))
