# SPDX-License-Identifier: MIT
"""Functions that did something else in TensorFlow 1."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.tf._tensor.dispatch import op

where_v2 = tf.where


@op
def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Elements, or rows, of ``x`` where ``condition`` holds, else of ``y``.

    Args:
        condition: bool: of the shape of ``x``, a scalar, or one for each row of ``x``.
        x: Taken where True.
        y: Taken where False; of the shape and dtype of ``x``.

    Returns:
        A tensor like ``x``; with the condition alone the places where it holds.

    Raises:
        ValueError: One of ``x`` and ``y`` is missing, or shapes do not fit.

    Example:
        >>> where([True, False], [[1, 2], [3, 4]], [[5, 6], [7, 8]]).numpy().tolist()
        [[1, 2], [7, 8]]
    """
    if x is None or y is None:
        return tf.where(condition, x, y)
    mask, first, second = map(tf.convert_to_tensor, (condition, x, y))
    if first.shape != second.shape:
        raise ValueError(
            f"tf.where takes x and y of one shape. Received: {first.shape} and "
            f"{second.shape}. tf.where_v2 broadcasts them."
        )
    if mask.shape.rank == 1 and mask.shape[0] == (first.shape or (None,))[0]:
        mask = tf.reshape(mask, [-1] + [1] * (len(first.shape) - 1))
    elif mask.shape.rank and mask.shape != first.shape:
        raise ValueError(
            "The condition of tf.where is a scalar, or of the shape of x, or has one "
            f"bool for each row of x. Received: {mask.shape} for x of shape "
            f"{first.shape}."
        )
    return tf.where(mask, first, second)


@op
def div(x: Any, y: Any, name: str | None = None) -> Any:
    """The quotient as Python 2 has it: integers are rounded down.

    Args:
        x: The dividend.
        y: The divisor, of the same dtype.

    Example:
        >>> int(div(-7, 2)), float(div(7.0, 2.0))
        (-4, 3.5)
    """
    first = tf.convert_to_tensor(x)
    is_whole = first.dtype.is_integer
    return tf.math.floordiv(first, y) if is_whole else tf.divide(first, y)
