# SPDX-License-Identifier: MIT
"""Initializers whose variance fits the number of inputs or outputs of a weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu.keras._initializer_base import (
    Array,
    SeededInitializer,
    truncated_normal_values,
    uniform_values,
)


class VarianceScaling(SeededInitializer):
    """Draws with a variance that fits the number of a weight's inputs or outputs.

    Args:
        scale: Factor of the variance, above 0.
        mode: ``"fan_in"``, ``"fan_out"`` or ``"fan_avg"``: what divides ``scale``.
        distribution: ``"truncated_normal"``, ``"untruncated_normal"`` or
            ``"uniform"``.
        seed: An integer for the same values at every call; None draws new ones.

    Raises:
        ValueError: An argument is none of these.

    Example:
        >>> draw = VarianceScaling(scale=1.0, mode="fan_out", seed=1)
        >>> f"{draw((300, 100)).numpy().std():.1f}"
        '0.1'
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
    ) -> None:
        if not scale > 0.0:
            raise ValueError(
                f"`scale` must be positive float. Received: scale={scale!r}."
            )
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(
                "`mode` must be 'fan_in', 'fan_out' or 'fan_avg'. "
                f"Received: mode={mode!r}."
            )
        distribution = distribution.lower()
        if distribution == "normal":
            distribution = "truncated_normal"
        if distribution not in ("uniform", "truncated_normal", "untruncated_normal"):
            raise ValueError(
                "`distribution` must be 'uniform', 'truncated_normal' or "
                f"'untruncated_normal'. Received: distribution={distribution!r}."
            )
        self.scale = scale
        self.mode = mode
        self.distribution = distribution
        self.seed = seed

    def _variance(self, shape: tuple[int, ...]) -> float:
        fan_in, fan_out = _fans(shape)
        fan = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2.0,
        }[self.mode]
        return self.scale / max(1.0, fan)

    def values_as(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Draw in this dtype."""
        if self.distribution != "uniform":
            return super().values_as(shape, dtype)
        limit = math.sqrt(3.0 * self._variance(shape))
        return uniform_values(self.rng(), (-limit, limit), shape, dtype)

    def values(self, shape: tuple[int, ...]) -> Array:
        """Draw."""
        if self.distribution == "uniform":
            return self.values_as(shape, np.dtype(np.float64))
        variance = self._variance(shape)
        if self.distribution == "untruncated_normal":
            return self.rng().normal(0.0, math.sqrt(variance), shape)
        # what cutting at two standard deviations takes away from the spread
        stddev = math.sqrt(variance) / 0.87962566103423978
        return stddev * truncated_normal_values(self.rng(), shape)


class _Named(VarianceScaling):
    """A VarianceScaling with everything fixed but the seed."""

    fixed: tuple[float, str, str]

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(*self.fixed, seed=seed)


class GlorotUniform(_Named):
    """Uniform within ``sqrt(6 / (fan_in + fan_out))`` (Glorot and Bengio 2010).

    Args:
        seed: An integer for the same values at every call; None draws new ones.

    Example:
        >>> largest = abs(GlorotUniform(seed=1)((100, 500)).numpy()).max()
        >>> bool(largest <= 0.1)
        True
    """

    fixed = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Named):
    """Cut normal of variance ``2 / (fan_in + fan_out)`` (Glorot and Bengio 2010).

    Args:
        seed: An integer for the same values at every call; None draws new ones.

    Example:
        >>> f"{GlorotNormal(seed=1)((50, 150)).numpy().std():.1f}"
        '0.1'
    """

    fixed = (1.0, "fan_avg", "truncated_normal")


class HeUniform(_Named):
    """Uniform within ``sqrt(6 / fan_in)`` (He et al. 2015).

    Args:
        seed: An integer for the same values at every call; None draws new ones.

    Example:
        >>> bool(abs(HeUniform(seed=1)((600, 10)).numpy()).max() <= 0.1)
        True
    """

    fixed = (2.0, "fan_in", "uniform")


class HeNormal(_Named):
    """Cut normal of variance ``2 / fan_in`` (He et al. 2015).

    Args:
        seed: An integer for the same values at every call; None draws new ones.

    Example:
        >>> f"{HeNormal(seed=1)((200, 300)).numpy().std():.1f}"
        '0.1'
    """

    fixed = (2.0, "fan_in", "truncated_normal")


class LecunUniform(_Named):
    """Uniform within ``sqrt(3 / fan_in)`` (LeCun et al. 1998).

    Args:
        seed: An integer for the same values at every call; None draws new ones.

    Example:
        >>> bool(abs(LecunUniform(seed=1)((300, 10)).numpy()).max() <= 0.1)
        True
    """

    fixed = (1.0, "fan_in", "uniform")


class LecunNormal(_Named):
    """Cut normal of variance ``1 / fan_in`` (LeCun et al. 1998).

    Args:
        seed: An integer for the same values at every call; None draws new ones.

    Example:
        >>> f"{LecunNormal(seed=1)((100, 300)).numpy().std():.1f}"
        '0.1'
    """

    fixed = (1.0, "fan_in", "truncated_normal")


def _fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """How many inputs and outputs a weight of this shape connects."""
    if len(shape) < 1:
        return 1.0, 1.0
    if len(shape) == 1:
        return float(shape[0]), float(shape[0])
    field = float(math.prod(shape[:-2]))
    return shape[-2] * field, shape[-1] * field
