# SPDX-License-Identifier: MIT
"""What each pixel of a resized axis is made of, as a matrix.

Source: the kernels of TensorFlow's ``tf.image.resize``: those of Keys 1981 and of
Mitchell and Netravali 1988, and Lanczos's windowed sinc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def _triangle(x: Array) -> Array:
    return np.maximum(1.0 - x, 0.0)


def _keys(x: Array) -> Array:
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _mitchell(x: Array) -> Array:
    near = (7.0 * x - 12.0) * x * x / 6.0 + 16.0 / 18.0
    far = ((-7.0 / 18.0 * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _gaussian(x: Array) -> Array:
    return np.where(x < 1.5, np.exp(-2.0 * x * x), 0.0)


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        return np.where(x <= radius, np.sinc(x) * np.sinc(x / radius), 0.0)

    return kernel


KERNELS: dict[str, Callable[[Array], Array]] = {
    "bilinear": _triangle,
    "bicubic": _keys,
    "mitchellcubic": _mitchell,
    "gaussian": _gaussian,
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
}

_STEPS = 1024  # of that table, from one pixel to the next


def kernel_weights(method: str, old: int, new: int, antialias: bool) -> Array:
    """Give the matrix [new, old] of a kernel around the centres of the new pixels.

    Args:
        method: A name of ``KERNELS``.
        antialias: Whether the kernel covers a new pixel where that is larger than an
            old one.

    Returns:
        Weights; those of a row sum up to 1: what lies outside has none.
    """
    scale = old / new
    width = max(scale, 1.0) if antialias else 1.0
    centres = (np.arange(new) + 0.5) * scale
    if method == "bicubic" and not antialias:  # TensorFlow looks weights up in a table
        centres = np.rint((centres - 0.5) * _STEPS) / _STEPS + 0.5
    away = np.abs(np.arange(old) + 0.5 - centres[:, None]) / width
    weights = KERNELS[method](away)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def area_weights(old: int, new: int) -> Array:
    """Give the matrix [new, old] of the share that each old pixel has in a new one."""
    return sampled_area_weights(old, new, old / new)


def sampled_area_weights(old: int, new: int, step: float) -> Array:
    """Give the matrix [new, old] of shares, where a new pixel covers so many old ones.

    Args:
        step: Old pixels that a new one covers, the first one from the first on.
    """
    edges = np.arange(new + 1) * step
    low, high = edges[:-1, None], edges[1:, None]
    pixels = np.arange(old)
    shared = np.minimum(high, pixels + 1.0) - np.maximum(low, pixels)
    return np.asarray(np.maximum(shared, 0.0) / step)


def sampled_cubic_weights(old: int, centres: Array, is_soft: bool) -> Array:
    """Give the matrix [new, old] of a cubic kernel whose border repeats.

    Args:
        centres: Where the new pixels are among the old ones.
        is_soft: Whether it is the kernel of TensorFlow 2, of Keys, which leaves out
            what lies outside; else that of TensorFlow 1, which overshoots more.
    """
    low = np.floor(centres)
    away = np.rint((centres - low) * _STEPS) / _STEPS
    a = -0.5 if is_soft else -0.75
    weights = np.zeros((len(centres), old))
    for offset in (-1, 0, 1, 2):
        x = np.abs(offset - away)
        near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        share = np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))
        place = low + offset
        inside = (place >= 0) & (place < old)
        share = np.where(inside, share, 0.0) if is_soft else share
        column = np.clip(place, 0, old - 1).astype(int)
        np.add.at(weights, (np.arange(len(centres)), column), share)
    if is_soft:
        weights /= weights.sum(axis=1, keepdims=True)
    return weights
