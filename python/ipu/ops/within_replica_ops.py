# SPDX-License-Identifier: MIT
"""Exchanges between the shards of one replica: ``ipu.within_replica_ops``.

Each takes a list of tensors, one of each shard in their order, and gives a tensor to
each shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.ops._collectives import LOCAL, REDUCTIONS, kind_of, padded
from ipu.scopes import ipu_shard
from ipu.tf._tensor.dispatch import composite

__all__ = ["all_gather", "all_reduce", "reduce_scatter"]


@composite
def all_reduce(input_shards: Sequence[Any], op: str) -> list[Tensor]:
    """Reduce tensors over the shards; each shard gets the result.

    Args:
        input_shards: A scalar or a vector of each shard; shorter ones count as if zeros
            came after them.
        op: "COLLECTIVE_OP_ADD", or with another ending MUL, MIN, MAX, LOGICAL_AND,
            LOGICAL_OR, SQUARE_ADD, MEAN, or LOCAL, with which each shard keeps its own
            values.

    Returns:
        A list with a vector for each shard.

    Raises:
        ValueError: Tensors that are given twice, of several dtypes or numbers of axes,
            or with more than one axis; an unknown ``op``.

    Source: ``ipu.within_replica_ops.all_reduce`` of SDK 2.3 to 3.4.

    Example:
        >>> [x.numpy().tolist() for x in all_reduce([[1, 2], [3]], "COLLECTIVE_OP_ADD")]
        [[4, 2], [4, 2]]
    """
    return _on_their_shards(_reduced(_vectors(input_shards), kind_of(op)))


@composite
def reduce_scatter(input_shards: Sequence[Any], op: str) -> list[Tensor]:
    """Reduce tensors over the shards; each shard gets its part of the result.

    Args:
        input_shards: As for :func:`all_reduce`.
        op: As for :func:`all_reduce`.

    Returns:
        A list with a vector for each shard: of ``n`` elements and ``s`` shards
        ``ceil(n / s)``, the first ones for shard 0; what goes over the end is 0.

    Raises:
        ValueError: As for :func:`all_reduce`.

    Source: ``ipu.within_replica_ops.reduce_scatter`` of SDK 2.1 to 3.4.

    Example:
        >>> shards = [[1, 2, 3], [4, 5, 6]]
        >>> parts = reduce_scatter(shards, "COLLECTIVE_OP_MAX")
        >>> [x.numpy().tolist() for x in parts]
        [[4, 5], [6, 0]]
    """
    reduced = _reduced(_vectors(input_shards), kind_of(op))
    each = -(-reduced[0].shape[0] // len(reduced))
    return _on_their_shards(
        [
            padded(x, each * len(reduced))[i * each : (i + 1) * each]
            for i, x in enumerate(reduced)
        ]
    )


@composite
def all_gather(input_shards: Sequence[Any], axis: int = 0) -> list[Tensor]:
    """Join tensors of the shards; each shard gets all of them.

    Args:
        input_shards: A tensor of each shard; scalars count as vectors.
        axis: The axis along which they are joined.

    Returns:
        A list with a tensor for each shard.

    Raises:
        ValueError: Tensors that are given twice, of several dtypes or numbers of axes,
            or that differ along another axis.

    Source: ``ipu.within_replica_ops.all_gather`` of SDK 2.1 to 3.4.

    Example:
        >>> [x.numpy().tolist() for x in all_gather([[1, 2], [3]])]
        [[1, 2, 3], [1, 2, 3]]
    """
    shards = _checked(input_shards)
    shapes = [list(x.shape) for x in shards]
    if any(
        s[:axis] + s[axis + 1 :] != shapes[0][:axis] + shapes[0][axis + 1 :]
        for s in shapes
    ):
        raise ValueError(
            f"The tensors of input_shards must have the same sizes but for axis {axis}."
            f" Received shapes: {', '.join(map(str, shapes))}."
        )
    return _on_their_shards([tf.concat(shards, axis)] * len(shards))


def _checked(input_shards: Any) -> list[Tensor]:
    """Check tensors of shards; scalars become vectors."""
    if not isinstance(input_shards, (list, tuple)) or not input_shards:
        raise ValueError(
            "input_shards must be a list with a tensor of each shard. Received: "
            f"{input_shards!r}."
        )
    if len({id(x) for x in input_shards}) < len(input_shards):
        raise ValueError("input_shards must not have a tensor twice.")
    shards = [tf.convert_to_tensor(x) for x in input_shards]
    for word, found in (
        ("dtype", [x.dtype.name for x in shards]),
        ("number of axes", [len(x.shape) for x in shards]),
    ):
        if len(set(found)) > 1:
            raise ValueError(
                f"The tensors of input_shards must have the same {word}. Received: "
                f"{', '.join(map(str, found))}."
            )
    return [x if x.shape else tf.reshape(x, [1]) for x in shards]


def _vectors(input_shards: Any) -> list[Tensor]:
    """Check vectors of shards, and make them as long as the longest."""
    shards = _checked(input_shards)
    if len(shards[0].shape) > 1:
        raise ValueError(
            "The tensors of input_shards must be scalars or vectors. Received shapes: "
            f"{', '.join(str(tuple(x.shape)) for x in shards)}."
        )
    rows = max(x.shape[0] for x in shards)
    return [padded(x, rows) for x in shards]


def _reduced(shards: list[Tensor], kind: str) -> list[Tensor]:
    if kind == LOCAL:
        return shards
    return [REDUCTIONS[kind](tf.stack(shards))] * len(shards)


def _on_their_shards(values: list[Tensor]) -> list[Tensor]:
    placed = []
    for i, value in enumerate(values):
        with ipu_shard(i):
            placed.append(tf.identity(value))
    return placed


export(__name__)
