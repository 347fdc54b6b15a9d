# SPDX-License-Identifier: MIT
"""``ipu.keras.utils``: small helpers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import tf

__all__ = ["set_random_seed", "to_categorical"]


def to_categorical(
    y: Any, num_classes: int | None = None, dtype: Any = "float32"
) -> np.ndarray[Any, Any]:
    """Turn class numbers into rows with a one at the class.

    Args:
        y: Integers, any shape; a last axis of size 1 is taken away.
        num_classes: The length of a row; None for the largest number and one.
        dtype: The dtype of the result.

    Returns:
        An array of shape ``(*y.shape, num_classes)``.

    Raises:
        ValueError: A number is not in ``[0, num_classes)``.

    Source: ``tf.keras.utils.to_categorical`` of Keras 2.6.

    Example:
        >>> to_categorical([0, 2]).tolist()
        [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    labels = np.asarray(y, dtype=np.int64)
    if labels.ndim > 1 and labels.shape[-1] == 1:
        labels = labels.reshape(labels.shape[:-1])
    classes = int(labels.max()) + 1 if num_classes is None else num_classes
    if labels.size and not (labels.min() >= 0 and labels.max() < classes):
        raise ValueError(
            f"Class numbers must be in [0, {classes}). Received: numbers from "
            f"{labels.min()} to {labels.max()}."
        )
    return np.eye(classes, dtype=dtype)[labels]


def set_random_seed(seed: int) -> None:
    """Seed Python's, NumPy's and ``ipu``'s random numbers.

    Args:
        seed: An integer.
    """
    import random

    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    tf.random.set_seed(seed)
