# SPDX-License-Identifier: MIT
"""The reductions of replicas and of shards, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.arguments import as_int
from ipu.ops.replication_ops import replication_index

PREFIX = "COLLECTIVE_OP_"
LOCAL = "LOCAL"

Reduce = Callable[[Tensor], Tensor]


def _of_bools(reduce: Callable[..., Tensor]) -> Reduce:
    return lambda x: tf.cast(reduce(tf.cast(x, tf.bool), 0), x.dtype)


# what is made of values that are stacked along the first axis
REDUCTIONS: dict[str, Reduce] = {
    "ADD": lambda x: tf.reduce_sum(x, 0),
    "MUL": lambda x: tf.reduce_prod(x, 0),
    "MIN": lambda x: tf.reduce_min(x, 0),
    "MAX": lambda x: tf.reduce_max(x, 0),
    "LOGICAL_AND": _of_bools(tf.reduce_all),
    "LOGICAL_OR": _of_bools(tf.reduce_any),
    "SQUARE_ADD": lambda x: tf.reduce_sum(x * x, 0),
    "MEAN": lambda x: tf.reduce_mean(x, 0),
}


def kind_of(op: Any) -> str:
    """Return the name of a reduction without its prefix.

    Raises:
        ValueError: There is nothing of this name.
    """
    kind = op.removeprefix(PREFIX) if isinstance(op, str) else None
    if kind != LOCAL and kind not in REDUCTIONS:
        known = ", ".join(PREFIX + name for name in [*REDUCTIONS, LOCAL])
        raise ValueError(f"`op` must be one of {known}. Received: op={op!r}.")
    return kind


def padded(x: Tensor, rows: int) -> Tensor:
    """Put zeros after a vector until it has so many elements."""
    missing = rows - x.shape[0]
    return tf.pad(x, [[0, missing]]) if missing else x


def checked_factor(value: Any) -> int:
    """Check how many replicas meet."""
    factor = as_int(value)
    if isinstance(factor, bool) or not isinstance(factor, int) or factor < 1:
        raise ValueError(
            "replication_factor must be a positive integer: how many replicas meet. "
            f"Received: {value!r}."
        )
    return factor


def own_number(factor: int) -> Tensor:
    """Return the number of a replica among those that it meets."""
    return replication_index() % factor
