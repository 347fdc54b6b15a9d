# SPDX-License-Identifier: MIT
"""``tf.distribute``: the strategy in whose scope the program is."""

from __future__ import annotations

from typing import Any

from ipu import _strategy_state
from ipu._strategy_state import ReduceOp, has_strategy
from ipu.ipu_strategy import InputContext
from ipu.ipu_strategy import IPUStrategyV1 as Strategy

__all__ = [
    "DefaultStrategy",
    "InputContext",
    "ReduceOp",
    "ReplicaContext",
    "Strategy",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
]


class DefaultStrategy:
    """What is current outside of every scope: one replica, on the host's own terms."""

    num_replicas_in_sync = 1

    def scope(self) -> Any:
        """A context without effect."""
        import contextlib

        return contextlib.nullcontext(self)

    def run(
        self, fn: Any, args: Any = (), kwargs: Any = None, options: Any = None
    ) -> Any:
        """Call the function."""
        del options
        return fn(*args, **(kwargs or {}))

    experimental_run_v2 = run

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None) -> Any:
        """The value of the one replica, as ``IPUStrategy.reduce``."""
        return Strategy().reduce(reduce_op, value, axis)

    def experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        """The data set as it is."""
        del options
        return dataset


class ReplicaContext:
    """The one replica."""

    num_replicas_in_sync = 1
    replica_id_in_sync_group = 0

    @property
    def strategy(self) -> Any:
        """The current strategy."""
        return get_strategy()

    def all_reduce(self, reduce_op: Any, value: Any) -> Any:
        """The sum or the mean over the replicas: the value itself, with one replica.

        Raises:
            ValueError: ``reduce_op`` is something else.
        """
        return Strategy().reduce(reduce_op, value)

    def merge_call(self, merge_fn: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function with the strategy and the values of all replicas."""
        return merge_fn(get_strategy(), *args, **(kwargs or {}))


_default = DefaultStrategy()


def get_strategy() -> Any:
    """The strategy of the scope that this thread is in, or the default one."""
    return _strategy_state.get_strategy() or _default


def get_replica_context() -> ReplicaContext | None:
    """The context of the replica whose code runs; None in a strategy's scope outside
    of functions."""
    from ipu import _core

    if has_strategy() and _core.open_trace() is None:
        return None
    return ReplicaContext()


def in_cross_replica_context() -> bool:
    """Whether code runs for all replicas together."""
    return get_replica_context() is None
