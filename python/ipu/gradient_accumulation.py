# SPDX-License-Identifier: MIT
"""How gradients of micro-batches become one: ``ipu.gradient_accumulation``."""

from __future__ import annotations

from enum import Enum
from typing import Any

__all__ = ["GradientAccumulationReductionMethod"]


class GradientAccumulationReductionMethod(Enum):
    """Ways to reduce the gradients ``g_1, ..., g_n`` of a step's micro-batches.

    ``SUM``: ``g_1 + ... + g_n``. ``MEAN``: ``g_1 / n + ... + g_n / n``, each divided
    before it is added. ``RUNNING_MEAN``: ``a_k = a_(k-1) (k - 1) / k + g_k / k``, which
    in float16 neither overflows as a sum may nor loses small gradients as a mean may.

    Source: ``ipu.gradient_accumulation.GradientAccumulationReductionMethod``.

    Example:
        >>> [method.name for method in GradientAccumulationReductionMethod]
        ['SUM', 'MEAN', 'RUNNING_MEAN']
    """

    SUM = 0
    MEAN = 1
    RUNNING_MEAN = 2

    @classmethod
    def parse(cls, value: Any) -> GradientAccumulationReductionMethod:
        """Return the method that an argument says.

        Args:
            value: A member, or its name in any case.

        Raises:
            ValueError: It is neither.

        Example:
            >>> GradientAccumulationReductionMethod.parse("running_mean").name
            'RUNNING_MEAN'
        """
        if isinstance(value, cls):
            return value
        name = value.upper() if isinstance(value, str) else ""
        if name in cls.__members__:
            return cls[name]
        raise ValueError(
            f"Cannot parse {value!r} as one of GradientAccumulationReductionMethod. "
            f"Valid values are: {[method.name for method in cls]}."
        )
