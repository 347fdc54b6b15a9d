# SPDX-License-Identifier: MIT
"""``ipu.horovod.ipu_multi_replica_strategy``: ``PopDistStrategy`` before its name."""

from __future__ import annotations

from ipu._text.exports import export
from ipu.distributed.popdist_strategy import PopDistStrategy

__all__ = ["IPUMultiReplicaStrategy"]


class IPUMultiReplicaStrategy(PopDistStrategy):
    """A strategy for the IPUs of all processes; see ``PopDistStrategy``.

    Args:
        ipu_device: Name of the device, "/device:IPU:0" by default.
        add_ipu_cross_replica_reductions: As for ``PopDistStrategy``.

    Source: ``ipu.horovod.ipu_multi_replica_strategy.IPUMultiReplicaStrategy``.

    Example:
        >>> IPUMultiReplicaStrategy().add_ipu_cross_replica_reductions
        True
    """

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        add_ipu_cross_replica_reductions: bool = True,
    ) -> None:
        super().__init__(ipu_device, add_ipu_cross_replica_reductions)


export(__name__)
