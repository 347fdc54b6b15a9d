# SPDX-License-Identifier: MIT
"""``ipu.distributed.popdist_strategy``: a model that several processes replicate."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from ipu._device import placement, processes
from ipu._device.strategy_state import ReduceOp, VariableAggregation
from ipu._text.exports import export
from ipu.ipu_strategy import InputContext, IPUStrategyV1, _reduce_op
from ipu.tf import nest
from ipu.tf._graph import mode
from ipu.tf.data._auto_shard import auto_shard

__all__ = ["PopDistStrategy"]

T = TypeVar("T")


class PopDistStrategy(IPUStrategyV1):
    """A strategy for the IPUs of all processes that a launcher has started.

    Each process drives the IPUs of its own device. A model has one replica for each
    group of IPUs that it needs, in all processes, numbered by process first; their
    gradients are reduced inside of the program. Variables have the first values of
    process 0. However replicas are spread over processes, the numbers are the same to
    the bit.

    Keras losses are divided by the number of replicas, and gradients are summed, so a
    training of several replicas is that of one with a batch as large as all of theirs.
    ``fit``, ``evaluate`` and ``predict`` are called in all processes, with the same
    data: each process takes the batches of its replicas. A data set that is sharded
    over the processes already is taken as it is. Progress is shown, and files of
    callbacks are written, by process 0; the history is the same in all.

    Args:
        ipu_device: Name of the device, "/device:IPU:0" by default.
        add_ipu_cross_replica_reductions: Whether :meth:`reduce` and Keras's optimizers
            reduce over the replicas; without it programs do so themselves.
        enable_dataset_iterators: As for ``IPUStrategy``.
        enable_keras_extensions: As for ``IPUStrategy``.

    Raises:
        FailedPreconditionError: An MPI launcher has started the process, and ``mpi4py``
            is not installed.
        ValueError: ``ipu_device`` does not name an IPU.

    Source: ``ipu.distributed.popdist_strategy.PopDistStrategy``.

    Example:
        >>> strategy = PopDistStrategy()
        >>> strategy.num_replicas_in_sync == strategy.num_ipus
        True
    """

    _has_workers = True
    # whether variables get the values of process 0 when they are made, not when a
    # program uses them first
    _begins_together = False

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
    ) -> None:
        super().__init__(
            ipu_device,
            "/device:CPU:0",
            enable_dataset_iterators,
            enable_keras_extensions,
        )
        self._reduces = bool(add_ipu_cross_replica_reductions)
        self._ipus_per_replica = 1
        processes.share_devices()

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are in all processes."""
        local = max(1, self.num_ipus // self._ipus_per_replica)
        return local * processes.join().count

    @property
    def add_ipu_cross_replica_reductions(self) -> bool:
        """Whether gradients are reduced over the replicas."""
        return self._reduces

    def reduce(self, reduce_op: Any, value: T, axis: int | None = None) -> T:
        """Reduce a value over all replicas, or on the host over all processes.

        Args:
            reduce_op: ``ReduceOp.SUM``, ``ReduceOp.MEAN``, or their names.
            value: A structure of tensors.
            axis: None, or the axis of each tensor to reduce besides.

        Returns:
            The value, without that axis where one is given.

        Raises:
            ValueError: ``reduce_op`` is something else.

        Example:
            >>> float(PopDistStrategy().reduce("sum", 3.0))
            3.0
        """
        from ipu import _core, distributed

        graph = mode.building()
        of_device = graph is not None and placement.graph_ordinal() is not None
        if _core.open_trace() is not None or of_device:
            return super().reduce(reduce_op, value, axis) if self._reduces else value
        kind = _reduce_op(reduce_op)
        reduced: T
        if graph is None:
            reduced = distributed.allreduce(value, kind)
        else:
            reduced = _in_graph(graph, kind, value)
        return self._reduce_axis(kind, reduced, axis)

    def broadcast(self, value: Any, root_rank: int = 0) -> Any:
        """Give all processes the value of one, outside of programs.

        Args:
            value: As for ``ipu.distributed.broadcast``.
            root_rank: The number of the process whose value it is.

        Returns:
            Tensors like ``value``.

        Raises:
            ValueError: There is no such process.

        Example:
            >>> PopDistStrategy().broadcast([1.0, 2.0]).numpy().tolist()
            [1.0, 2.0]
        """
        from ipu import distributed

        return distributed.broadcast(value, root_rank)

    def update_ipu_config(self, config: Any) -> Any:
        """Write into a configuration how many processes there are, and which this is.

        Args:
            config: An ``IPUConfig``, or the first release's options.

        Returns:
            The configuration.

        Example:
            >>> from ipu.config import IPUConfig
            >>> config = PopDistStrategy().update_ipu_config(IPUConfig())
            >>> config.experimental.multi_replica_distribution.process_index
            0
        """
        joined = processes.join()
        tree = getattr(config, "config", config)  # that of the first release's options
        distribution = tree.experimental.multi_replica_distribution
        distribution.process_count = joined.count
        distribution.process_index = joined.index
        return config

    def distribute_datasets_from_function(
        self, dataset_fn: Any, options: Any = None
    ) -> Any:
        """Call a function that makes the data set of this process.

        Args:
            dataset_fn: Called with an :class:`ipu.ipu_strategy.InputContext`, which
                says how many processes there are, and which this is.
            options: Accepted for compatibility, without effect.

        Returns:
            The result of ``dataset_fn``.

        Example:
            >>> PopDistStrategy().distribute_datasets_from_function(
            ...     lambda context: context.input_pipeline_id)
            0
        """
        del options
        joined = processes.join()
        return dataset_fn(
            InputContext(joined.count, joined.index, self.num_replicas_in_sync)
        )

    experimental_distribute_datasets_from_function = distribute_datasets_from_function

    def experimental_distribute_dataset(self, dataset: T, options: Any = None) -> T:
        """Return what this process takes of a data set that all processes have.

        Its ``auto_shard_policy`` (``tf.data.Options``) says how it is cut up.

        Args:
            dataset: A ``tf.data.Dataset`` of batches for a replica each.
            options: Accepted for compatibility, without effect.

        Returns:
            The data set of this process, which ``fit`` takes as it is.

        Raises:
            ValueError: The policy is ``FILE``, and there are no files, or fewer than
                processes.

        Example:
            >>> data = tf.data.Dataset.range(4).batch(2)
            >>> len(PopDistStrategy().experimental_distribute_dataset(data))
            2
        """
        del options
        part: T = auto_shard(dataset, self.num_replicas_in_sync)
        return part

    @property
    def _adds_up_in_graphs(self) -> bool:
        return self._reduces

    def _takes(self, ipus: int) -> None:
        self._ipus_per_replica = ipus

    def _new_variable(self, options: dict[str, Any]) -> Any:
        from ipu.distributed import _replica_variables

        return _replica_variables.new_variable(options)

    def _reduce_assigned(self, value: Any, aggregation: VariableAggregation) -> Any:
        from ipu.distributed._replica_variables import reduced

        return reduced(value, aggregation, self.num_replicas_in_sync)

    def _first_of_all(self, value: Any) -> Any:
        if not self._begins_together or processes.join().count == 1:
            return value
        from ipu import distributed

        first: Any = distributed.broadcast(np.asarray(value)).numpy()
        return first


def _in_graph(graph: Any, kind: ReduceOp, value: T) -> T:
    """Reduce tensors of a graph of TensorFlow 1 over the processes, on the host."""
    from ipu import distributed, tf

    leaves = [tf.convert_to_tensor(leaf) for leaf in nest.flatten(value)]
    specs = [tf.TensorSpec(leaf.shape, leaf.dtype) for leaf in leaves]

    def reduce(*given: Any) -> Any:
        return [distributed.allreduce(one, kind) for one in given]

    found = graph.python("AllReduce", reduce, specs, tuple(leaves))
    reduced: T = nest.pack_sequence_as(value, found)
    return reduced


export(__name__)
