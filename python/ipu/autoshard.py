# SPDX-License-Identifier: MIT
"""``ipu.autoshard``: spread operations of a graph over the IPUs of a device.

For graphs of TensorFlow 1. The shards of a program compute one after the other: a
pipeline keeps its IPUs busy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ipu._text.exports import export
from ipu.tf._graph import mode
from ipu.tf._graph.differentiate import ancestors
from ipu.tf._graph.operation import GraphOperation

__all__ = ["automatic_sharding", "ipu_autoshard"]

# the operations that were added in `ipu_autoshard`, a list of the graph
_COLLECTED = "_ipu_autoshard"


@contextmanager
def ipu_autoshard() -> Iterator[None]:
    """Open a context whose operations :func:`automatic_sharding` may spread.

    Raises:
        RuntimeError: There is no graph.

    Source: ``ipu.autoshard.ipu_autoshard``.

    Example:
        >>> from ipu.tf.compat import v1 as tf
        >>> with tf.Graph().as_default(), ipu_autoshard():
        ...     x = tf.ones([2])
    """
    graph = mode.current()
    if graph is None:
        raise RuntimeError("ipu_autoshard is for graphs: with tf.Graph().as_default():")
    before = set(graph.get_operations())
    yield
    for op in graph.get_operations():
        if op not in before:
            graph.add_to_collection(_COLLECTED, op)


def automatic_sharding(
    num_shards: int,
    input_ts: Any,
    loss_ts: Any,
    edge_filter: Callable[[Any], bool] | None = None,
    frozen_inference: bool = False,
) -> None:
    """Spread what is between a tensor and a loss over IPUs, in the order of the graph.

    Each IPU gets operations whose results and variables take about as many bytes. Call
    it before gradients are asked for; they are computed where the forward part is.

    Args:
        num_shards: How many IPUs.
        input_ts: The tensor that the model takes.
        loss_ts: The tensor that it gives.
        edge_filter: Of a (tensor, operation) pair whether a cut there is refused.
        frozen_inference: Accepted and not used.

    Raises:
        ValueError: No operation between the two is on an IPU.
        RuntimeError: There are not enough operations, or places to cut.

    Source: ``ipu.autoshard.automatic_sharding``.

    Example:
        >>> from ipu.tf.compat import v1 as tf
        >>> with tf.Graph().as_default():
        ...     x = tf.placeholder(tf.float32, [4])
        ...     with ipu.scopes.ipu_scope("/device:IPU:0"):
        ...         hidden = tf.tanh(x)
        ...         loss = tf.exp(hidden)
        ...     automatic_sharding(2, x, loss)
        ...     ipu.sharding.get_sharding(hidden.op), ipu.sharding.get_sharding(loss.op)
        ([0], [1])
    """
    del frozen_inference
    between = _between(input_ts, loss_ts)
    ops = [op for op in between if op.place.kind == "IPU"]
    collected = set(loss_ts.graph.get_collection(_COLLECTED))
    if collected:
        ops = [op for op in ops if op in collected]
    if not ops:
        raise ValueError(
            "No ops are on an IPU between input_ts and loss_ts. Put the model in "
            "ipu.scopes.ipu_scope."
        )
    if len(ops) < num_shards:
        raise RuntimeError(
            f"The graph cannot be split in {num_shards} parts: there are {len(ops)} "
            "operations between input_ts and loss_ts."
        )
    shards = _spread(ops, num_shards, edge_filter)
    for op, shard in zip(ops, shards, strict=True):
        op.shard = shard


def _between(input_ts: Any, loss_ts: Any) -> list[GraphOperation]:
    """Return the operations that lead from one tensor to the other."""
    found: set[GraphOperation] = set()
    for op in ancestors([loss_ts.op]):
        if any(t is input_ts or t.op in found for t in op.inputs):
            found.add(op)
    return sorted(found, key=lambda op: op.index)


def _bytes(op: GraphOperation) -> int:
    """Return what results and variables of an operation take; an open size counts as
    one."""
    held = [*op.outputs, *op.variables.values()]
    return sum(
        math.prod(size or 1 for size in one.shape) * one.dtype.size for one in held
    )


def _spread(
    ops: list[GraphOperation], count: int, edge_filter: Callable[[Any], bool] | None
) -> list[int]:
    """Return the IPU of each operation: cuts are nearest to equal shares of the
    bytes."""
    total = sum(map(_bytes, ops)) or 1
    shards: list[int] = []
    used, shard = 0, 0
    for place, op in enumerate(ops):
        left = len(ops) - place
        is_due = used + _bytes(op) / 2 > total * (shard + 1) / count
        must = left <= count - 1 - shard
        edges = [(tensor, op) for tensor in op.inputs]
        refused = edge_filter is not None and any(map(edge_filter, edges))
        if place and shard < count - 1 and (is_due or must) and not refused:
            shard += 1
        shards.append(shard)
        used += _bytes(op)
    if shard < count - 1:
        raise RuntimeError(
            f"The graph cannot be split in {count} parts where edge_filter allows it."
        )
    return shards


export(__name__)
