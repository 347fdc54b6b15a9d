# SPDX-License-Identifier: MIT
"""Exchanges between replicas: ``ipu.all_to_all_op``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.ops._collectives import checked_factor
from ipu.ops.cross_replica_ops import _exchange_parts
from ipu.tf._tensor.dispatch import composite

__all__ = ["all_gather", "all_to_all"]


@composite
def all_gather(x: Any, replication_factor: int, name: Any = None) -> Tensor:
    """Give all replicas the values of each.

    Its gradient sums, for each replica, what comes back of its value.

    Args:
        x: A tensor.
        replication_factor: How many replicas there are. Of fewer than there are, so
            many that follow each other meet.

    Returns:
        A tensor ``[replication_factor, ...]``: at ``r`` the value of replica ``r``.

    Raises:
        ValueError: ``replication_factor`` is not a positive number.
        InvalidArgumentError: It does not divide the number of replicas; when the
            program runs.

    Source: ``ipu.all_to_all_op.all_gather``.

    Example:
        >>> all_gather([1.0, 2.0], 1).numpy().tolist()
        [[1.0, 2.0]]
    """
    return _exchange_parts("all_gather", x, checked_factor(replication_factor))


@composite
def all_to_all(
    x: Any,
    split_dimension: int,
    concat_dimension: int,
    replication_factor: int,
    name: Any = None,
) -> Tensor:
    """Cut a tensor into a part for each replica, and join the parts that arrive.

    Replica ``r`` gets part ``r`` of each replica, in the order of their numbers.

    Args:
        x: A tensor.
        split_dimension: The axis that is cut, into ``replication_factor`` parts.
        concat_dimension: The axis along which what arrives is joined.
        replication_factor: As for :func:`all_gather`.

    Returns:
        A tensor with as many elements.

    Raises:
        ValueError: There is no such axis, or its size is not a multiple of
            ``replication_factor``, or that is not a positive number.
        InvalidArgumentError: It does not divide the number of replicas; when the
            program runs.

    Source: ``ipu.all_to_all_op.all_to_all``.

    Example:
        >>> all_to_all([[1.0, 2.0]], 1, 0, 1).numpy().tolist()
        [[1.0, 2.0]]
    """
    factor = checked_factor(replication_factor)
    tensor = tf.convert_to_tensor(x)
    rank = len(tensor.shape)
    axes = {"split_dimension": split_dimension, "concat_dimension": concat_dimension}
    for word, axis in axes.items():
        if not 0 <= axis < rank:
            raise ValueError(
                f"{word} must be an axis of `x`, which has {rank}. Received: {axis}."
            )
    if tensor.shape[split_dimension] % factor:
        raise ValueError(
            f"Axis {split_dimension} of `x` cannot be cut into {factor} equal parts. "
            f"Received shape: {tuple(tensor.shape)}."
        )
    parts = tf.stack(tf.split(tensor, factor, split_dimension))
    arrived = _exchange_parts("all_to_all", parts, factor)
    return tf.concat(tf.unstack(arrived), concat_dimension)


export(__name__)
