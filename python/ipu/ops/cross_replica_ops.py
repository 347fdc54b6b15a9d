# SPDX-License-Identifier: MIT
"""Sums and means over the replicas of a program: ``ipu.cross_replica_ops``.

A program that uses fewer IPUs than its device has is replicated: the replicas have the
same code and weights, and different elements of the infeeds. Here they meet.
"""

from __future__ import annotations

from typing import Any, TypeVar

from ipu import _core
from ipu._core import Tensor
from ipu._device.placement import current_device, on_host
from ipu._text.arguments import as_int
from ipu._text.exports import export
from ipu.tf._graph import mode
from ipu.tf._tensor.convert import apply
from ipu.tf._tensor.dispatch import graph_op

__all__ = ["assume_equal_across_replicas", "cross_replica_mean", "cross_replica_sum"]

T = TypeVar("T")

_SUM, _MEAN = 0, 1


@graph_op
def cross_replica_sum(
    x: Any, replica_group_size: int | None = None, name: Any = None
) -> Tensor:
    """Return the sum of ``x`` over the replicas, the same in all of them.

    It is added up by a tree over the replicas' numbers: of n the largest power of two
    below n is one branch, the rest the other; float16 in float32. So its bits do not
    depend on how replicas are spread over processes. Its gradient is the cross-replica
    sum of the gradient that comes back.

    Args:
        x: A tensor of numbers.
        replica_group_size: Sums over groups of so many replicas that follow each other;
            it must divide their number. None is all.

    Returns:
        A tensor like ``x``; where nothing is replicated it is ``x``.

    Raises:
        ValueError: ``replica_group_size`` is not a positive number.
        InvalidArgumentError: It does not divide the number of replicas; when the
            program runs.

    Example:
        >>> cross_replica_sum([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    return _all_reduce(x, _SUM, replica_group_size)


@graph_op
def cross_replica_mean(
    x: Any, replica_group_size: int | None = None, name: Any = None
) -> Tensor:
    """Return the mean of ``x`` over the replicas: their sum, divided by their number.

    Args:
        x: A tensor of floating-point numbers.
        replica_group_size: As for :func:`cross_replica_sum`.

    Returns:
        A tensor like ``x``; where nothing is replicated it is ``x``.

    Raises:
        TypeError: ``x`` has another dtype.
        ValueError: ``replica_group_size`` is not a positive number.
        InvalidArgumentError: It does not divide the number of replicas; when the
            program runs.

    Example:
        >>> float(cross_replica_mean(3.0))
        3.0
    """
    return _all_reduce(x, _MEAN, replica_group_size)


def _all_reduce(x: Any, reduction: int, group_size: int | None) -> Tensor:
    group_size = as_int(group_size)
    if group_size is not None and (
        isinstance(group_size, bool)
        or not isinstance(group_size, int)
        or group_size < 1
    ):
        raise ValueError(
            f"replica_group_size must be a positive number. Received: {group_size!r}."
        )
    _note_collective()
    tensor = Tensor(x)
    serves = tensor.dtype.is_floating or (reduction == _SUM and tensor.dtype.is_integer)
    if serves and group_size in (None, 1) and _is_alone():
        return tensor  # what uses a gradient can be joined with what makes it
    attrs = {"reduction": reduction, "group_size": group_size or 0}
    return apply("all_reduce", (tensor,), attrs)


@graph_op
def _exchange_parts(op: str, x: Any, factor: int, reduction: int = _SUM) -> Tensor:
    """Deal out parts to ``factor`` replicas: one of the ops that do (ops.def)."""
    _note_collective()
    attrs = {"group_size": factor}
    if op == "reduce_scatter":
        attrs["reduction"] = reduction
    return apply(op, (Tensor(x),), attrs)


def _note_collective() -> None:
    graph = mode.current()
    if graph is not None:
        graph.has_collectives = True


def _is_alone() -> bool:
    """Return whether what is being traced can have one replica only."""
    if _core.open_trace() is None:
        return False
    device = current_device()
    return on_host() or device.num_ipus * device.process_count == 1


def assume_equal_across_replicas(tensors: T, inplace: bool = False) -> T:
    """Say that tensors are the same in all replicas, which nothing here depends on.

    Args:
        tensors: A structure of tensors.
        inplace: Accepted and not used.

    Returns:
        ``tensors``.

    Example:
        >>> assume_equal_across_replicas([1, 2])
        [1, 2]
    """
    return tensors


export(__name__)
