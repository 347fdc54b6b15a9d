# SPDX-License-Identifier: MIT
"""``ipu.horovod.ipu_horovod_strategy``: one IPU in each process."""

from __future__ import annotations

from ipu._text.exports import export
from ipu.distributed.popdist_strategy import PopDistStrategy

__all__ = ["IPUHorovodStrategy"]


class IPUHorovodStrategy(PopDistStrategy):
    """A strategy for processes that have a replica each; see ``PopDistStrategy``.

    Args:
        ipu_device: Name of the device, "/device:IPU:0" by default.
        variables_on_host: Accepted and not used: variables are in the host's memory as
            well.

    Source: ``ipu.horovod.ipu_horovod_strategy.IPUHorovodStrategy``.

    Example:
        >>> IPUHorovodStrategy().ipu_device
        '/device:IPU:0'
    """

    _begins_together = True

    def __init__(
        self, ipu_device: str = "/device:IPU:0", variables_on_host: bool = False
    ) -> None:
        del variables_on_host
        super().__init__(ipu_device)


export(__name__)
