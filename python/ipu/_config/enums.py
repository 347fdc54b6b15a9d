# SPDX-License-Identifier: MIT
"""The enumerations of the configuration; users find them in ``ipu.config``.

The numbers are what ``IPUConfig.to_dict`` writes.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ipu._text.exports import defined


class SelectionOrder(Enum):
    """Which IPU of a device serves which shard or pipeline device number.

    ``AUTO`` leaves it to the package, ``ZIGZAG`` counts up, ``SNAKE`` swaps the last
    two of each block of four, ``HOOF`` goes up the even positions and down the odd
    ones. It changes the reported hardware ids only, never a result.

    Example:
        >>> from ipu.config import IPUConfig
        >>> cfg = IPUConfig()
        >>> cfg.selection_order = SelectionOrder.SNAKE
        >>> cfg.selection_order.name
        'SNAKE'
    """

    AUTO = 0
    ZIGZAG = 1
    SNAKE = 2
    HOOF = 3


class DeviceConnectionType(Enum):
    """When a device is attached.

    ``ALWAYS``: at configuration. ``ON_DEMAND``: at the first run. ``NEVER``: programs
    compile, running one is an error. ``PRE_COMPILE``: programs compile; in place of a
    run results are zeros, outfeeds get one result of zeros, and variables keep their
    values. With the option ``serialization_output_folder`` programs are written that
    ``ipu.serving.load`` reads.

    Example:
        >>> from ipu.config import IPUConfig
        >>> cfg = IPUConfig()
        >>> cfg.device_connection.type = DeviceConnectionType.ON_DEMAND
        >>> cfg.device_connection.type.name
        'ON_DEMAND'
    """

    ALWAYS = 0
    ON_DEMAND = 1
    NEVER = 2
    PRE_COMPILE = 3


class StochasticRoundingBehaviour(Enum):
    """Ways to round float16 results.

    Example:
        >>> from ipu.config import IPUConfig
        >>> cfg = IPUConfig()
        >>> cfg.floating_point_behaviour.esr = StochasticRoundingBehaviour.ON
        >>> cfg.floating_point_behaviour.esr.name
        'ON'
    """

    OFF = 0
    ON = 1
    REPLICA_IDENTICAL_ONLY = 2

    @staticmethod
    def from_bool(value: bool) -> StochasticRoundingBehaviour:
        """Return ``ON`` for True and ``OFF`` for False.

        Raises:
            TypeError: ``value`` is not a bool.

        Example:
            >>> StochasticRoundingBehaviour.from_bool(True).name
            'ON'
        """
        if not isinstance(value, bool):
            raise TypeError(f"value must be a bool. Received: {value!r}.")
        behaviour = StochasticRoundingBehaviour
        return behaviour.ON if value else behaviour.OFF


class MergeRemoteBuffersBehaviour(Enum):
    """Choices of merging remote buffers of the same shape.

    Example:
        >>> from ipu.config import IPUConfig
        >>> IPUConfig().optimizations.merge_remote_buffers.name
        'IF_BENEFICIAL'
    """

    NO_MERGING = 0
    MERGE = 1
    IF_BENEFICIAL = 2


class SchedulingAlgorithm(Enum):
    """Ways to order the instructions of a program.

    Example:
        >>> from ipu.config import IPUConfig
        >>> IPUConfig().scheduling.algorithm.name
        'CHOOSE_BEST'
    """

    CHOOSE_BEST = 0
    CLUSTERING = 1
    POST_ORDER = 2
    LOOK_AHEAD = 3
    SHORTEST_PATH = 4


class ExecutionProfileType(Enum):
    """Kinds of execution profiles (first SDK generation).

    Example:
        >>> [kind.name for kind in ExecutionProfileType]
        ['NO_PROFILE', 'DEVICE_PROFILE', 'IPU_PROFILE', 'TILE_PROFILE']
    """

    NO_PROFILE = 0
    DEVICE_PROFILE = 1
    IPU_PROFILE = 2
    TILE_PROFILE = 3


if not TYPE_CHECKING:
    __all__ = defined(__name__)
