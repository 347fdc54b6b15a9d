# SPDX-License-Identifier: MIT
"""Sums of replicas of which each keeps a part: ``ipu.reduce_scatter_op``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.ops._collectives import (
    LOCAL,
    REDUCTIONS,
    checked_factor,
    kind_of,
    own_number,
    padded,
)
from ipu.ops.cross_replica_ops import _exchange_parts
from ipu.tf._tensor.dispatch import composite

__all__ = ["reduce_scatter"]


@composite
def reduce_scatter(
    x: Any, replication_factor: int, op: str = "COLLECTIVE_OP_ADD", name: Any = None
) -> Any:
    """Reduce vectors over the replicas; each replica keeps its part of the result.

    Args:
        x: A vector, or a list of them.
        replication_factor: How many replicas there are. Of fewer than there are, so
            many that follow each other meet.
        op: "COLLECTIVE_OP_ADD", or with another ending MUL, MIN, MAX, LOGICAL_AND,
            LOGICAL_OR, SQUARE_ADD (the sum of the squares), MEAN, or LOCAL, with which
            each replica keeps its own values.

    Returns:
        A vector for each of those given, a list for a list. Of ``n`` elements each
        replica gets ``ceil(n / replication_factor)``, replica 0 the first ones; what
        goes over the end is 0.

    Raises:
        ValueError: ``x`` is not a vector, there is no such ``op``, or
            ``replication_factor`` is not a positive number.
        InvalidArgumentError: It does not divide the number of replicas; when the
            program runs.

    Source: ``ipu.reduce_scatter_op.reduce_scatter``.

    Example:
        >>> reduce_scatter([1.0, 2.0, 3.0], 1).numpy().tolist()
        [1.0, 2.0, 3.0]
    """
    factor, kind = checked_factor(replication_factor), kind_of(op)
    if isinstance(x, (list, tuple)) and x and tf.convert_to_tensor(x[0]).shape:
        return [_scattered(one, factor, kind) for one in x]
    return _scattered(x, factor, kind)


def _scattered(x: Any, factor: int, kind: str) -> Tensor:
    tensor = tf.convert_to_tensor(x)
    if len(tensor.shape) != 1:
        raise ValueError(
            "reduce_scatter takes vectors, which have one axis. Received shape: "
            f"{tuple(tensor.shape)}. Use tf.reshape(x, [-1])."
        )
    each = -(-tensor.shape[0] // factor)
    parts = tf.reshape(padded(tensor, each * factor), [factor, each])
    if kind == LOCAL:
        return tf.gather(parts, own_number(factor))
    if kind in ("ADD", "SQUARE_ADD", "MEAN"):  # by the tree of all sums over replicas
        terms = parts * parts if kind == "SQUARE_ADD" else parts
        return _exchange_parts("reduce_scatter", terms, factor, int(kind == "MEAN"))
    return REDUCTIONS[kind](_exchange_parts("all_to_all", parts, factor))


export(__name__)
