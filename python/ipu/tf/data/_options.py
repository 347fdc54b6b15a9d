# SPDX-License-Identifier: MIT
"""``tf.data.Options``: what programs say about how a data set is to be run."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

_GROUPS = frozenset(
    (
        "autotune",
        "distribute",
        "experimental_distribute",
        "experimental_optimization",
        "experimental_threading",
        "optimization",
        "threading",
    )
)


class AutoShardPolicy(IntEnum):
    """Ways to cut a data set up for several processes.

    ``options.distribute.auto_shard_policy`` of a ``tf.data.Options`` names one, for
    ``fit``, ``evaluate``, ``predict`` and ``experimental_distribute_dataset``:

    - ``AUTO`` and ``DATA``: the replicas of all processes deal out the batches, in the
      order in which those of one process would;
    - ``FILE``: each process reads files of its own, from the first list of names on;
    - ``HINT``: the program says ``dataset.shard(SHARD_HINT, SHARD_HINT)`` where;
    - ``OFF``: each process takes its whole data set.

    Example:
        >>> options = tf.data.Options()
        >>> options.distribute.auto_shard_policy = AutoShardPolicy.FILE
        >>> [policy.name for policy in AutoShardPolicy]
        ['OFF', 'AUTO', 'FILE', 'DATA', 'HINT']
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


class _Group:
    """Options of one kind: what is assigned is kept, the rest is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        inside = ", ".join(f"{key}={value!r}" for key, value in self.__dict__.items())
        return f"{type(self).__name__.lstrip('_')}({inside})"


class Options(_Group):
    """Options for ``Dataset.with_options``: accepted and kept.

    ``distribute.auto_shard_policy`` says how several processes share a data set
    (:class:`~ipu.tf.data.experimental.AutoShardPolicy`). Element order is always
    deterministic and threads are the core's business, so that the others have no
    effect.

    Example:
        >>> options = Options()
        >>> options.deterministic = False
        >>> options.threading.private_threadpool_size = 2
        >>> options.threading
        Group(private_threadpool_size=2)
    """

    def __getattr__(self, name: str) -> Any:
        if name in _GROUPS:
            self.__dict__[name] = _Group()
            return self.__dict__[name]
        return super().__getattr__(name)

    def merge(self, options: Options) -> Options:
        """Return new options: these, with what ``options`` has assigned in their
        place."""
        merged = Options()
        merged.__dict__.update(self.__dict__)
        merged.__dict__.update(options.__dict__)
        return merged
