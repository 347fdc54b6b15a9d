# SPDX-License-Identifier: MIT
"""The module ``popdist.tensorflow`` of old programs."""

from __future__ import annotations

from typing import Any

from ipu._device import processes
from ipu.drop_in import popdist

__all__ = ["set_ipu_config"]


def set_ipu_config(
    config: Any, ipus_per_replica: int | None = None, configure_device: bool = True
) -> None:
    """Write into a configuration what this process has.

    Args:
        config: An ``IPUConfig``.
        ipus_per_replica: IPUs of a replica; None for what the launcher said.
        configure_device: Whether to choose the IPUs, too.

    Example:
        >>> config = ipu.config.IPUConfig()
        >>> set_ipu_config(config, ipus_per_replica=2)
        >>> config.auto_select_ipus
        2
    """
    each = ipus_per_replica or popdist.getNumIpusPerReplica()
    joined = processes.share_devices()
    if configure_device:
        config.auto_select_ipus = each * popdist.getNumLocalReplicas()
    distribution = config.experimental.multi_replica_distribution
    distribution.process_count = joined.count
    distribution.process_index = joined.index
