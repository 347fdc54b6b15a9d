# SPDX-License-Identifier: MIT
"""``ipu.horovod``: several processes under the names of the first release.

Programs for it start with ``horovod.init()`` and ask for ``size()`` and ``rank()``.
Newer ones use ``ipu.distributed``, which does the work here, too.

Example:
    >>> init()
    >>> rank(), size()
    (0, 1)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import distributed, tf
from ipu._core import Tensor
from ipu._device import processes as _processes
from ipu._text.exports import export

__all__ = [
    "Average",
    "Sum",
    "allgather",
    "allreduce",
    "broadcast",
    "init",
    "ipu_horovod_strategy",
    "ipu_multi_replica_strategy",
    "is_initialized",
    "local_rank",
    "local_size",
    "popdist_strategy",
    "rank",
    "shutdown",
    "size",
]

Average = "Average"
Sum = "Sum"


def init() -> None:
    """Join the processes that the launcher has started.

    Raises:
        FailedPreconditionError: A launcher of MPI has started the process, and
            ``mpi4py`` is not installed.

    Example:
        >>> init()
    """
    _processes.join()


def is_initialized() -> bool:
    """Return whether :func:`init`, or something else, has joined the processes.

    Example:
        >>> init()
        >>> is_initialized()
        True
    """
    return _processes.joined() is not None


def shutdown() -> None:
    """Do nothing: a process leaves the others when its program ends.

    Example:
        >>> shutdown()
    """


def size() -> int:
    """Return how many processes there are.

    Example:
        >>> size()
        1
    """
    return _processes.join().count


def rank() -> int:
    """Return the number of this process, from 0 on.

    Example:
        >>> rank()
        0
    """
    return _processes.join().index


def local_size() -> int:
    """Return how many of the processes run on this machine.

    Example:
        >>> local_size()
        1
    """
    return _processes.join().on_this_machine


def local_rank() -> int:
    """Return the number of this process among those on this machine.

    Example:
        >>> local_rank()
        0
    """
    return _processes.join().number_on_this_machine


def allreduce(tensor: Any, op: str | None = None, name: str | None = None) -> Any:
    """Reduce a value over the processes; outside of programs.

    Args:
        tensor: As ``value`` of ``ipu.distributed.allreduce``.
        op: ``Sum`` or ``Average``; None is ``Average``.
        name: Accepted and not used.

    Returns:
        Tensors like ``tensor``.

    Raises:
        ValueError: ``op`` is something else.

    Source: ``ipu.horovod.allreduce``.

    Example:
        >>> float(allreduce(3.0, op=Sum))
        3.0
    """
    kinds = {None: "MEAN", Average: "MEAN", Sum: "SUM"}
    if op not in kinds:
        raise ValueError(
            f"op must be horovod.Sum or horovod.Average. Received: {op!r}."
        )
    return distributed.allreduce(tensor, kinds[op])


def allgather(tensor: Any, name: str | None = None) -> Tensor:
    """Join the tensors of all processes along their first axis, whose size may vary.

    Args:
        tensor: A tensor of rank 1 or more.
        name: Accepted and not used.

    Returns:
        The rows of process 0, then those of process 1, and so on.

    Raises:
        ValueError: ``tensor`` is a scalar.

    Source: ``ipu.horovod.allgather``.

    Example:
        >>> allgather([1.0, 2.0]).numpy().tolist()
        [1.0, 2.0]
    """
    own = tf.convert_to_tensor(tensor).numpy()
    if own.ndim == 0:
        raise ValueError("allgather needs a tensor with a first axis, not a scalar.")
    joined = _processes.join()
    rows_of = f"{own.dtype.name} [..., {', '.join(map(str, own.shape[1:]))}]"
    joined.meet(f"allgather of {rows_of}")
    parts = joined.allgather_bytes(own.tobytes())
    rows = [np.frombuffer(p, own.dtype).reshape(-1, *own.shape[1:]) for p in parts]
    return tf.convert_to_tensor(np.concatenate(rows))


def broadcast(tensor: Any, root_rank: int, name: str | None = None) -> Any:
    """Give all processes the value of one, as ``ipu.distributed.broadcast``.

    Example:
        >>> float(broadcast(3.0, 0))
        3.0
    """
    return distributed.broadcast(tensor, root_rank)


export(__name__)
