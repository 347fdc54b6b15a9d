# SPDX-License-Identifier: MIT
"""``ipu.optimizers``: optimizers that wrap others, for what IPU programs do."""

from __future__ import annotations

from ipu._text.exports import export
from ipu.optimizers import (
    cross_replica_optimizer,
    gradient_accumulation_optimizer,
    map_gradient_optimizer,
    sharded_optimizer,
)
from ipu.optimizers._wrapper import IpuOptimizer
from ipu.optimizers.cross_replica_optimizer import CrossReplicaOptimizer
from ipu.optimizers.gradient_accumulation_optimizer import (
    CrossReplicaGradientAccumulationOptimizer,
    CrossReplicaGradientAccumulationOptimizerV2,
    GradientAccumulationOptimizer,
    GradientAccumulationOptimizerV2,
)
from ipu.optimizers.map_gradient_optimizer import MapGradientOptimizer
from ipu.optimizers.sharded_optimizer import ShardedOptimizer

__all__ = [
    "CrossReplicaGradientAccumulationOptimizer",
    "CrossReplicaGradientAccumulationOptimizerV2",
    "CrossReplicaOptimizer",
    "GradientAccumulationOptimizer",
    "GradientAccumulationOptimizerV2",
    "IpuOptimizer",
    "MapGradientOptimizer",
    "ShardedOptimizer",
    "cross_replica_optimizer",
    "gradient_accumulation_optimizer",
    "map_gradient_optimizer",
    "sharded_optimizer",
]


export(__name__)
