# SPDX-License-Identifier: MIT
"""Which strategy scope each thread is in, for everybody below ``ipu_strategy``."""

from __future__ import annotations

from contextlib import AbstractContextManager
from enum import Enum
from typing import TYPE_CHECKING, Any

from ipu._device.thread_state import entered, here

if TYPE_CHECKING:
    from ipu.ipu_strategy import IPUStrategyV1


class ReduceOp(Enum):
    """Ways to reduce the values of replicas; ``tf.distribute.ReduceOp``.

    Example:
        >>> [reduction.name for reduction in ReduceOp]
        ['SUM', 'MEAN']
    """

    SUM = "SUM"
    MEAN = "MEAN"


class VariableSynchronization(Enum):
    """When the copies of a variable come together; ``tf.VariableSynchronization``.

    ``ON_READ``: each replica has a value of its own, and who reads outside of programs
    gets one of all of them. The others: when it is written.

    Example:
        >>> VariableSynchronization["ON_READ"].name
        'ON_READ'
    """

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


class VariableAggregation(Enum):
    """What the values of replicas come to; ``tf.VariableAggregation``.

    Example:
        >>> VariableAggregation["ONLY_FIRST_REPLICA"].value
        3
    """

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3


def as_option(kind: Any, value: Any) -> Any:
    """Return a member of one of the two enumerations, by name or number or itself."""
    if value is None or isinstance(value, int):
        return kind(value or 0)
    name = str(getattr(value, "name", value)).upper()
    if name not in kind.__members__:
        raise ValueError(
            f"Expected one of tf.{kind.__name__}: {', '.join(kind.__members__)}. "
            f"Received: {value!r}."
        )
    return kind[name]


def get_strategy() -> IPUStrategyV1 | None:
    """Return the strategy whose scope this thread is in, or None."""
    return here.strategies[-1] if here.strategies else None


def has_strategy() -> bool:
    """Return whether this thread is inside the scope of a strategy.

    Example:
        >>> tf.distribute.has_strategy()
        False
    """
    return bool(here.strategies)


def depth() -> int:
    """Return how many scopes this thread is in, one inside the other."""
    return len(here.strategies)


def scope(strategy: IPUStrategyV1) -> AbstractContextManager[IPUStrategyV1]:
    """Return a context in which this thread is in the scope of a strategy."""
    current = get_strategy()
    if current is not None and current is not strategy:
        raise RuntimeError(
            "Trying to enter the scope of a strategy inside the scope of a different "
            f"one. Received: {strategy!r} inside {current!r}. Leave the outer scope "
            "first, or use one strategy for both."
        )
    return entered(here.strategies, strategy)
