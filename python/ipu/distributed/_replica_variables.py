# SPDX-License-Identifier: MIT
"""Variables whose replicas are told how they come together: by ``aggregation``, and by
``synchronization``, in the scope of a strategy for several processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu._core import Tensor
from ipu._device import strategy_state
from ipu._device.placement import on_host
from ipu._device.strategy_state import (
    VariableAggregation,
    VariableSynchronization,
    as_option,
)
from ipu.tf.tensor_shape import TensorShape
from ipu.tf.variable import Variable


def reduced(value: Tensor, aggregation: VariableAggregation, replicas: int) -> Tensor:
    """Return what the values of the replicas of the open trace come to."""
    from ipu import all_to_all_op, cross_replica_ops

    if aggregation is VariableAggregation.SUM:
        return cross_replica_ops.cross_replica_sum(value)
    if aggregation is VariableAggregation.MEAN:
        return cross_replica_ops.cross_replica_mean(value)
    return all_to_all_op.all_gather(value, replicas)[0]


class SyncOnReadVariable(Variable):
    """A variable of which each replica has a value of its own.

    Every replica holds the values of all, so that they last from one program to the
    next, and reading does not involve all processes. Outside of programs what is read
    is the sum or mean of them, or the value of replica 0, as ``aggregation`` says; and
    what is assigned is what will be read: of a sum, replica 0 gets it all.
    """

    if not TYPE_CHECKING:

        def __init__(self, initial_value=None, trainable=None, *args, **more) -> None:
            if trainable:
                raise ValueError(
                    "A variable with synchronization=ON_READ cannot be trained: its "
                    "replicas go their own ways. Give trainable=False."
                )
            super().__init__(initial_value, False, *args, **more)

    def _set_options(self, options: dict[str, Any]) -> None:
        super()._set_options(options)
        self._mirror = None  # replicas write what is their own

    def _create(
        self, value: Any, trainable: bool, name: str | None, dtype: Any, shape: Any
    ) -> None:
        strategy = strategy_state.get_strategy()
        assert strategy is not None
        self._replicas = strategy.num_replicas_in_sync
        first = np.asarray(self._first_value(value, dtype))
        whole = np.repeat(first[None], self._replicas, axis=0)
        if shape is not None:
            shape = (self._replicas, *shape)
        super()._create(whole, trainable, name, dtype, shape)

    @property
    def shape(self) -> TensorShape:
        """The shape of a replica's value."""
        return TensorShape(self._type[1][1:])

    def get_shape(self) -> TensorShape:
        """Return the shape of a replica's value."""
        return self.shape

    def __ipu_tensor__(self) -> Tensor:
        from ipu import tf
        from ipu.ops._collectives import own_number

        whole = super().__ipu_tensor__()
        if _core.open_trace() is not None and not on_host():
            own: Tensor = tf.gather(whole, own_number(self._replicas))
            return own
        return self._of_all(whole)

    def _of_all(self, whole: Tensor) -> Tensor:
        from ipu.distributed import _tree_sum

        if self.aggregation is VariableAggregation.NONE:
            raise ValueError(
                f"Variable '{self.name}' has a value in each replica, and no "
                "aggregation that says which to read. Give tf.Variable aggregation="
                "tf.VariableAggregation.SUM, MEAN or ONLY_FIRST_REPLICA."
            )
        if self.aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            return whole[0]
        total = _tree_sum(list(whole.numpy()))
        if self.aggregation is VariableAggregation.MEAN:
            total = total / total.dtype.type(self._replicas)
        return Tensor(total)

    def numpy(self) -> Any:
        """Return what the values of all replicas come to, as a NumPy array."""
        return self._of_all(self._now()).numpy()

    def _write(self, op: str, value: Any) -> None:
        from ipu import all_to_all_op, tf

        new = self._checked(value)
        if op == "variable_add":
            new = self.value() + new
        if _core.open_trace() is not None and not on_host():
            whole = all_to_all_op.all_gather(new, self._replicas)
        elif self.aggregation is VariableAggregation.SUM:
            others = tf.zeros([self._replicas - 1, *self.shape], new.dtype)
            whole = tf.concat([new[None], others], 0)
        else:
            whole = tf.repeat(new[None], self._replicas, axis=0)
        self._write_tensor("variable_assign", whole)


def new_variable(options: dict[str, Any]) -> Variable | None:
    """Return the variable that options ask for, before it is initialised; None where it
    is one like any other."""
    asked = as_option(VariableSynchronization, options.get("synchronization"))
    if asked is not VariableSynchronization.ON_READ:
        return None
    return object.__new__(SyncOnReadVariable)
