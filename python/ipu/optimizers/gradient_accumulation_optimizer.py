# SPDX-License-Identifier: MIT
"""One update for several mini-batches: ``ipu.optimizers``' accumulating ones.

They are used in the body of a loop of mini-batches. Instead of
``repeat(trips) { body; update }`` the device runs ``repeat(trips / n) { n times body;
update }``: sums of gradients begin with zeros in each group of n turns, and a program
ends after an update.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu._loops.optimizer_state import StatePlaces
from ipu._loops.training_loop import Update, accumulate_here
from ipu._text.arguments import as_int
from ipu._text.errors import FailedPreconditionError
from ipu._text.exports import export
from ipu.gradient_accumulation import GradientAccumulationReductionMethod
from ipu.keras.optimizers import SGD
from ipu.keras.optimizers._aggregation import aggregated, is_aggregated
from ipu.optimizers._wrapper import IpuOptimizer, Pair
from ipu.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from ipu.tf._functions.tracing import current_build


class _Accumulating(IpuOptimizer):
    """Collects the gradients of ``num_mini_batches`` turns of a loop.

    Attributes:
        _method: How they become one.
        _dtype: Of the accumulators.
        _places: Where the state of the wrapped optimizer lies.
    """

    _method = GradientAccumulationReductionMethod.SUM
    _dtype: Any = None
    _places = StatePlaces()

    def __init__(self, opt: Any, num_mini_batches: int, name: str) -> None:
        super().__init__(opt, name)
        num_mini_batches = as_int(num_mini_batches)
        if (
            isinstance(num_mini_batches, bool)
            or not isinstance(num_mini_batches, int)
            or num_mini_batches < 1
        ):
            raise ValueError(
                "num_mini_batches must be a positive number. Received: "
                f"{num_mini_batches!r}."
            )
        self._num_mini_batches = num_mini_batches

    def _apply(self, pairs: Sequence[Pair], global_step: Any) -> Any:
        reduced = is_aggregated()

        def update(accumulated: Sequence[Pair]) -> None:
            without = [pair for pair in pairs if pair[0] is None]
            with aggregated(reduced):
                IpuOptimizer._apply(self, [*accumulated, *without], global_step)
            self._places.settle(self._opt, [variable for _, variable in pairs])

        return accumulate_here(
            Update(self._num_mini_batches, pairs, self._method, self._dtype, update)
        )


class GradientAccumulationOptimizerV2(_Accumulating):
    """An optimizer that is given the gradients of several turns of a loop at once.

    Args:
        opt: The optimizer.
        num_mini_batches: Turns of an update; the loop's number of iterations, which is
            a Python int, must be a multiple.
        offload_weight_update_variables: Whether the state of ``opt`` lies in remote
            memory.
        replicated_optimizer_state_sharding: Whether each replica has a part of that
            state, and updates that part of the variables; None: where it is offloaded.
        dtype: Of the accumulators, and of the gradients that ``opt`` is given: None for
            the variable's, a dtype, or ``callable(variable) -> dtype``.
        reduction_method: How the gradients become one: a
            ``GradientAccumulationReductionMethod`` or its name.
        name: A name.

    Raises:
        ValueError: ``num_mini_batches`` is not a positive number, or no such method.
        FailedPreconditionError: When gradients are applied: outside of such a loop,
            twice in it, or in one whose number of iterations is not a multiple.

    Example:
        >>> from ipu import keras, loops, tf
        >>> v = tf.Variable(0.0)
        >>> opt = GradientAccumulationOptimizerV2(keras.optimizers.SGD(1.0), 4)
        >>> def body(x):
        ...     opt.minimize(-x * v, var_list=[v])
        ...     return x + 1.0
        >>> @tf.function(jit_compile=True)
        ... def train():
        ...     return loops.repeat(8, body, [tf.constant(1.0)])
        >>> _ = train()
        >>> float(v)  # 1 + 2 + 3 + 4, then 5 + 6 + 7 + 8
        36.0

    Source: ``ipu.optimizers.GradientAccumulationOptimizerV2``.
    """

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool | None = False,
        dtype: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
        name: str = "GradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(opt, num_mini_batches, name)
        self._places = StatePlaces.of(
            offload_weight_update_variables, replicated_optimizer_state_sharding
        )
        self._dtype = dtype
        self._method = GradientAccumulationReductionMethod.parse(reduction_method)


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """One whose accumulated gradients are averaged over the replicas, once an update.

    The arguments are those of :class:`GradientAccumulationOptimizerV2`.

    Example:
        >>> sgd = keras.optimizers.SGD(0.1)
        >>> CrossReplicaGradientAccumulationOptimizerV2(sgd, 8).name
        'CrossReplicaGradientAccumulationOptimizerV2'

    Source: ``ipu.optimizers.CrossReplicaGradientAccumulationOptimizerV2``.
    """

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool | None = False,
        dtype: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
        name: str = "CrossReplicaGradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(
            CrossReplicaOptimizer(opt),
            num_mini_batches,
            offload_weight_update_variables,
            replicated_optimizer_state_sharding,
            dtype,
            reduction_method,
            name,
        )


class GradientAccumulationOptimizer(_Accumulating):
    """The first form: the sum of gradients, for gradient descent alone.

    Args:
        opt: Gradient descent, with momentum or without.
        num_mini_batches: Turns of an update, as of
            :class:`GradientAccumulationOptimizerV2`.
        verify_usage: Whether another ``opt`` is refused.
        name: A name.

    Raises:
        ValueError: ``num_mini_batches`` is not a positive number.
        FailedPreconditionError: When gradients are applied: as of
            :class:`GradientAccumulationOptimizerV2`, or ``opt`` is something else. When
            compiled: the program is replicated and ``opt`` has momentum.

    Example:
        >>> from ipu import keras, loops, tf
        >>> v = tf.Variable(0.0)
        >>> opt = GradientAccumulationOptimizer(keras.optimizers.SGD(1.0), 2)
        >>> @tf.function(jit_compile=True)
        ... def train():
        ...     loops.repeat(4, lambda: opt.minimize(-3.0 * v, var_list=[v]))
        >>> train()
        >>> float(v)
        12.0

    Source: ``ipu.optimizers.GradientAccumulationOptimizer``.
    """

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "GradientAccumulationOptimizer",
    ) -> None:
        super().__init__(opt, num_mini_batches, name)
        self._verify_usage = verify_usage

    def _apply(self, pairs: Sequence[Pair], global_step: Any) -> Any:
        reduces = isinstance(self._opt, CrossReplicaOptimizer)
        inner = self._opt._opt if reduces else self._opt
        if self._verify_usage and not isinstance(inner, SGD):
            raise FailedPreconditionError(
                f"{type(self).__name__} serves GradientDescentOptimizer and "
                f"MomentumOptimizer only, but wraps {type(inner).__name__}. Use "
                f"{type(self).__name__}V2."
            )
        if not reduces and bool(getattr(inner, "momentum", False)):
            current_build().checks.append(_refuse_replicas)
        return super()._apply(pairs, global_step)


def _refuse_replicas(replicas: int) -> None:
    if replicas > 1:
        raise FailedPreconditionError(
            "GradientAccumulationOptimizer with momentum is used in a program of "
            f"{replicas} replicas. Use CrossReplicaGradientAccumulationOptimizer."
        )


class CrossReplicaGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """The first form, averaged over the replicas, once an update.

    The arguments are those of :class:`GradientAccumulationOptimizer`.

    Example:
        >>> sgd = keras.optimizers.SGD(0.1, momentum=0.9)
        >>> CrossReplicaGradientAccumulationOptimizer(sgd, 8).name
        'CrossReplicaGradientAccumulationOptimizer'

    Source: ``ipu.optimizers.CrossReplicaGradientAccumulationOptimizer``.
    """

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "CrossReplicaGradientAccumulationOptimizer",
    ) -> None:
        super().__init__(
            CrossReplicaOptimizer(opt), num_mini_batches, verify_usage, name
        )


export(__name__)
