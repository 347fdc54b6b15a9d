# SPDX-License-Identifier: MIT
"""Several processes that train one model: ``ipu.distributed``.

An MPI launcher starts them (``python -m ipu run -n 4 train.py``). Each drives IPUs of
its own, and a model has as many replicas as there are IPUs for in all of them. A
program that asks for none of this runs alone, whoever started it.

The functions here are called outside of programs, by all processes, as often and in the
same order. Exchanges of replicas inside a program are in ``ipu.cross_replica_ops``.

Example:
    >>> process_index(), process_count()
    (0, 1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu import tf
from ipu._core import Tensor
from ipu._device import processes as _processes
from ipu._device.strategy_state import ReduceOp
from ipu._text.exports import export

__all__ = [
    "allgather",
    "allreduce",
    "broadcast",
    "popdist_strategy",
    "process_count",
    "process_index",
]


def process_count() -> int:
    """Return how many processes there are: those that the launcher has started.

    Raises:
        FailedPreconditionError: A launcher of MPI has started the process, and
            ``mpi4py`` is not installed.

    Example:
        >>> process_count()
        1
    """
    return _processes.join().count


def process_index() -> int:
    """Return the number of this process, from 0 on.

    Raises:
        FailedPreconditionError: As for :func:`process_count`.

    Example:
        >>> process_index()
        0
    """
    return _processes.join().index


def allreduce(value: Any, reduce_op: Any) -> Any:
    """Reduce values over the processes, by a tree over their numbers.

    Args:
        value: A tensor, variable, array or number, or a nest of them, of the same
            shapes and dtypes in all processes.
        reduce_op: ``tf.distribute.ReduceOp.SUM`` or ``MEAN``, or its name.

    Returns:
        Tensors like ``value``, the same in all processes.

    Raises:
        ValueError: ``reduce_op`` is something else.
        AbortedError: Another process has failed, or has ended.
        FailedPreconditionError: Another process makes another call at this point, or
            its values have other shapes or dtypes.

    Source: ``ipu.distributed.allreduce``.

    Example:
        >>> float(allreduce(3.0, tf.distribute.ReduceOp.SUM))
        3.0
    """
    name = getattr(reduce_op, "name", reduce_op)
    if name not in ("SUM", "MEAN"):
        raise ValueError(
            f"reduce_op must be ReduceOp.SUM or ReduceOp.MEAN. Received: {reduce_op!r}."
        )
    is_mean = ReduceOp(name) is ReduceOp.MEAN

    def reduced(own: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        of_all = _met(f"allreduce by {name}", own).allgather(own)
        total = _tree_sum(of_all)
        return (total / total.dtype.type(len(of_all))) if is_mean else total

    return _over_arrays(reduced, value)


def allgather(value: Any) -> Any:
    """Give all processes the values of each.

    Args:
        value: As for :func:`allreduce`.

    Returns:
        Tensors ``[process_count, ...]``: at ``p`` the value of process ``p``.

    Raises:
        AbortedError: Another process has failed, or has ended.
        FailedPreconditionError: Another process makes another call at this point, or
            its values have other shapes or dtypes.

    Source: ``ipu.distributed.allgather``.

    Example:
        >>> allgather([1.0, 2.0]).numpy().tolist()
        [[1.0, 2.0]]
    """
    return _over_arrays(
        lambda own: np.stack(_met("allgather", own).allgather(own)), value
    )


def broadcast(value: Any, root_rank: int = 0) -> Any:
    """Give all processes the value of one.

    Args:
        value: As for :func:`allreduce`.
        root_rank: The number of the process whose value it is.

    Returns:
        Tensors like ``value``.

    Raises:
        ValueError: There is no such process.
        AbortedError: Another process has failed, or has ended.
        FailedPreconditionError: Another process makes another call at this point, or
            its values have other shapes or dtypes.

    Source: ``ipu.distributed.broadcast``.

    Example:
        >>> float(broadcast(3.0))
        3.0
    """
    count = _processes.join().count
    if not 0 <= root_rank < count:
        raise ValueError(
            f"root_rank must be the number of one of the {count} processes, from 0 on. "
            f"Received: {root_rank}."
        )
    call = f"broadcast from process {root_rank}"
    return _over_arrays(lambda own: _met(call, own).broadcast(own, root_rank), value)


def _met(call: str, own: np.ndarray[Any, Any]) -> _processes.Processes:
    """Return the processes, which all make this call with as much."""
    joined = _processes.join()
    joined.meet(f"{call} of {own.dtype.name} {list(own.shape)}")
    return joined


def _over_arrays(
    function: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]], value: Any
) -> Any:
    def over_one(leaf: Any) -> Tensor:
        return tf.convert_to_tensor(function(tf.convert_to_tensor(leaf).numpy()))

    if isinstance(value, (list, tuple)) and not any(map(tf.is_tensor, value)):
        return over_one(value)  # numbers, as an array has them
    return tf.nest.map_structure(over_one, value)


def _tree_sum(terms: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """Return the sum as replicas have it: float16 in float32, rounded once."""
    if terms[0].dtype == np.float16:
        wide = [term.astype(np.float32) for term in terms]
        return _tree_sum(wide).astype(np.float16)
    if len(terms) == 1:
        return terms[0]
    cut = 1 << ((len(terms) - 1).bit_length() - 1)
    total: np.ndarray[Any, Any] = _tree_sum(terms[:cut]) + _tree_sum(terms[cut:])
    return total


export(__name__)
