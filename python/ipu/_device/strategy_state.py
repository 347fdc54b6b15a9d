# SPDX-License-Identifier: MIT
"""Which strategy scope each thread is in, for everybody below ``ipu_strategy``."""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu.ipu_strategy import IPUStrategyV1


class ReduceOp(Enum):
    """How values of several replicas become one; ``tf.distribute.ReduceOp``.

    Example:
        >>> [reduction.name for reduction in ReduceOp]
        ['SUM', 'MEAN']
    """

    SUM = "SUM"
    MEAN = "MEAN"


class _Stack(threading.local):
    def __init__(self) -> None:
        self.entered: list[IPUStrategyV1] = []


_stack = _Stack()


def get_strategy() -> IPUStrategyV1 | None:
    """The strategy whose scope this thread is in, or None."""
    return _stack.entered[-1] if _stack.entered else None


def has_strategy() -> bool:
    """Whether this thread is inside the scope of a strategy.

    Example:
        >>> from ipu import tf
        >>> tf.distribute.has_strategy()
        False
    """
    return bool(_stack.entered)


def depth() -> int:
    """How many scopes this thread is in, one inside the other."""
    return len(_stack.entered)


def enter(strategy: IPUStrategyV1) -> None:
    """Put this thread into the scope of a strategy.

    Raises:
        RuntimeError: It is in the scope of another one.
    """
    current = get_strategy()
    if current is not None and current is not strategy:
        raise RuntimeError(
            "Trying to enter the scope of a strategy inside the scope of a different "
            f"one. Received: {strategy!r} inside {current!r}. Leave the outer scope "
            "first, or use one strategy for both."
        )
    _stack.entered.append(strategy)


def leave() -> None:
    """Undo the last :func:`enter` of this thread."""
    _stack.entered.pop()
