# SPDX-License-Identifier: MIT
"""``ipu.ipu_multi_worker_strategy``: the first generation's strategy for several
machines.

Example:
    >>> from ipu.ipu_multi_worker_strategy import IPUMultiWorkerStrategy
    >>> cluster = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    >>> IPUMultiWorkerStrategy(cluster).num_replicas_in_sync
    1
"""

from __future__ import annotations

from typing import Any

from ipu._device import processes
from ipu._text.errors import FailedPreconditionError
from ipu._text.exports import export
from ipu.distributed.popdist_strategy import PopDistStrategy
from ipu.tf.distribute.cluster_resolver import _worker_of

__all__ = ["IPUMultiWorkerStrategy", "IPUMultiWorkerStrategyV1"]


class IPUMultiWorkerStrategyV1(PopDistStrategy):
    """A strategy for workers, each a process with IPUs of its own.

    It is ``PopDistStrategy`` for programs that say who their workers are. Those are
    the processes that MPI's launcher has started, and the resolver has to say the same
    of them; one that names nobody leaves it to MPI. Variables get the values of the
    chief, which is process 0, when they are made. The workers' gradients are summed by
    Keras's optimizers and by those of TensorFlow 1, also in compiled programs.

    Args:
        cluster_resolver: The resolver that names the workers: a
            ``TFConfigClusterResolver``, ``SlurmClusterResolver``,
            ``MPIClusterResolver`` or ``SimpleClusterResolver`` of
            ``tf.distribute.cluster_resolver``.
        ipu_device: Name of the device, "/device:IPU:0" by default.
        variables_on_host: Accepted and not used: variables are in the host's memory as
            well.

    Raises:
        ValueError: The resolver names other processes than MPI has, gives this one
            another number, or has tasks that are neither a chief nor workers; or
            ``ipu_device`` does not name an IPU.
        FailedPreconditionError: The resolver names several workers, and no launcher of
            MPI has started this process; or ``mpi4py`` is not installed.

    Source: ``ipu.ipu_multi_worker_strategy.IPUMultiWorkerStrategyV1``.

    Example:
        >>> cluster = tf.distribute.cluster_resolver.MPIClusterResolver()
        >>> strategy = IPUMultiWorkerStrategyV1(cluster)
        >>> with strategy.scope():
        ...     weight = tf.Variable(1.0)
        >>> float(strategy.reduce("mean", weight))
        1.0
    """

    _begins_together = True

    def __init__(
        self,
        cluster_resolver: Any,
        ipu_device: str = "/device:IPU:0",
        variables_on_host: bool = False,
    ) -> None:
        del variables_on_host
        if not hasattr(cluster_resolver, "cluster_spec"):
            raise TypeError(
                "cluster_resolver must be one of tf.distribute.cluster_resolver, such "
                f"as TFConfigClusterResolver(). Received: {cluster_resolver!r}."
            )
        _check_workers(*_worker_of(cluster_resolver))
        super().__init__(ipu_device)
        self._cluster_resolver = cluster_resolver

    @property
    def cluster_resolver(self) -> Any:
        """The resolver that names the workers."""
        return self._cluster_resolver


IPUMultiWorkerStrategy = IPUMultiWorkerStrategyV1


def _check_workers(count: int, index: int) -> None:
    """Check that a resolver says the same as MPI."""
    joined = processes.join()
    if (joined.count, joined.index) == (count, index):
        return
    start = f"python -m ipu run -n {count}, or MPI's own launcher"
    if not processes.was_launched():
        raise FailedPreconditionError(
            f"The cluster has {count} workers, but this process is alone: MPI carries "
            f"the messages of workers, and has not started it. Start it with {start}."
        )
    raise ValueError(
        "The cluster resolver must say what MPI does. Received: worker "
        f"{index} of {count}, but this is process {joined.index} of {joined.count}. "
        f"Start the program with {start}, and number the workers as MPI does, or leave "
        "TF_CONFIG unset: MPI knows the workers."
    )


export(__name__)
