# SPDX-License-Identifier: MIT
"""Gradients beside their ops: ``ipu.optimizers.sharded_optimizer``."""

from __future__ import annotations

from typing import Any

from ipu._text.exports import export
from ipu.optimizers._wrapper import IpuOptimizer


class ShardedOptimizer(IpuOptimizer):
    """An optimizer for a program that is spread over several IPUs.

    Gradients are computed on the shards of the ops that they are gradients of, which
    they are here in any case; so this hands everything on.

    Args:
        optimizer: The optimizer.

    Example:
        >>> ShardedOptimizer(keras.optimizers.SGD(0.5)).name
        'ShardedOptimizer'

    Source: ``ipu.optimizers.ShardedOptimizer``.
    """

    def __init__(self, optimizer: Any) -> None:
        super().__init__(optimizer, "ShardedOptimizer")


export(__name__)
