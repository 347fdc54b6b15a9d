# SPDX-License-Identifier: MIT
"""The mean of gradients over replicas: ``ipu.optimizers.cross_replica_optimizer``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu._text.exports import export
from ipu.keras.optimizers._aggregation import aggregated
from ipu.ops.cross_replica_ops import cross_replica_mean
from ipu.optimizers._wrapper import IpuOptimizer, Pair


class CrossReplicaOptimizer(IpuOptimizer):
    """An optimizer that applies the mean of the replicas' gradients.

    Args:
        opt: The optimizer that gets the means. Pairs without a gradient reach it as
            they are.
        name: A name.

    Example:
        >>> v = tf.Variable(1.0)
        >>> opt = CrossReplicaOptimizer(keras.optimizers.SGD(0.5))
        >>> @tf.function(jit_compile=True)
        ... def step():
        ...     opt.minimize(v * v, var_list=[v])
        >>> step()
        >>> float(v)
        0.0

    Source: ``ipu.optimizers.CrossReplicaOptimizer``.
    """

    def __init__(self, opt: Any, name: str = "CrossReplicaOptimizer") -> None:
        super().__init__(opt, name)

    def _apply(self, pairs: Sequence[Pair], global_step: Any) -> Any:
        means = [
            (None if gradient is None else cross_replica_mean(gradient), variable)
            for gradient, variable in pairs
        ]
        with aggregated():
            return super()._apply(means, global_step)


export(__name__)
