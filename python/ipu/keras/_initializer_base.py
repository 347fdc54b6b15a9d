# SPDX-License-Identifier: MIT
"""What initializers have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu._device.generators import generator
from ipu.keras._arguments import Configured
from ipu.keras._types import Tensor

PIECE = 1 << 16  # numbers

Array = np.ndarray[Any, np.dtype[Any]]


class Initializer(Configured):
    """A callable ``(shape, dtype)`` that gives the first value of a weight.

    Example:
        >>> import math
        >>> from ipu import tf
        >>> class Ramp(Initializer):
        ...     def __call__(self, shape, dtype=None, **kwargs):
        ...         return tf.reshape(tf.range(float(math.prod(shape))), shape)
        ...
        >>> Ramp()((2, 2)).numpy().tolist()
        [[0.0, 1.0], [2.0, 3.0]]
    """

    def __call__(
        self, shape: Sequence[int], dtype: Any = "float32", **kwargs: Any
    ) -> Tensor:
        """Give a tensor of the shape and dtype.

        Args:
            shape: The sizes.
            dtype: A dtype or its name, float32 by default.
            **kwargs: Accepted and ignored, as in Keras.
        """
        sizes = tuple(int(size) for size in shape)
        wanted = tf.as_dtype("float32" if dtype is None else dtype)
        return tf.constant(self.values_as(sizes, np.dtype(wanted.as_numpy_dtype)))

    def values_as(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Give what ``values`` gives, in this dtype."""
        return self.values(shape).astype(dtype)

    def values(self, shape: tuple[int, ...]) -> Array:
        """Give the value as an array, which need not have the final dtype."""
        raise NotImplementedError(
            f"{type(self).__name__} must define __call__(shape, dtype) or "
            "values(shape)."
        )


class SeededInitializer(Initializer):
    """An initializer that draws its values."""

    seed: int | None

    def rng(self) -> np.random.Generator:
        """Give the generator of one draw."""
        return generator(self.seed)


def uniform_values(
    rng: np.random.Generator,
    limits: tuple[float, float],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> Array:
    """Draw uniform numbers piece by piece: all at once take twice the room in float64.

    They are the numbers that one draw gives.
    """
    values = np.empty(math.prod(shape), dtype)
    for start in range(0, values.size, PIECE):
        piece = values[start : start + PIECE]
        piece[:] = rng.uniform(*limits, piece.size)
    return values.reshape(shape)


def truncated_normal_values(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Draw normal numbers, again where they are outside of two deviations."""
    draw = rng.normal(size=shape)
    while True:
        outside = np.abs(draw) > 2.0
        count = int(outside.sum())
        if count == 0:
            return np.asarray(draw)
        draw = np.asarray(draw)
        draw[outside] = rng.normal(size=count)
