# SPDX-License-Identifier: MIT
"""``class_weight``: sample weights by the class of the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras._types import Nest
from ipu.keras.engine.training.data_adapter import unpack


def bytes_of(weights: Any) -> bytes | None:
    """Give the weights as something that can be compared; None for None."""
    return None if weights is None else _table_of(weights).tobytes()


def _table_of(weights: Any) -> np.ndarray[Any, Any]:
    """The weights of classes 0, 1, ...; one more, 1, for all others."""
    if not isinstance(weights, Mapping) or not all(
        isinstance(number, (int, np.integer)) and number >= 0 for number in weights
    ):
        raise ValueError(
            "Expected `class_weight` to be a dict from class numbers, integers from 0, "
            f"to weights. Received: class_weight={weights!r}."
        )
    table = np.ones(max(weights, default=-1) + 2, np.float32)
    for number, weight in weights.items():
        table[number] = weight
    return table


def with_class_weight(element: Nest, weights: Any) -> Nest:
    """Multiply the sample weights of an element by those of their classes; in a trace.

    Args:
        element: ``(x, y)`` or ``(x, y, sample_weight)``.
        weights: A dict from class numbers to weights; 1 for those not in it.
    """
    table = _table_of(weights)
    x, y, sample_weight = unpack(element)
    if y is None or tf.nest.is_nested(y):
        raise ValueError(
            "`class_weight` is only supported for Models with a single output. "
            f"Received: targets {y!r}."
        )
    if len(y.shape) > 2:
        raise ValueError(
            "`class_weight` is not supported for targets of more than two axes. "
            f"Received: targets of shape {tuple(y.shape)}."
        )
    if len(y.shape) == 2 and y.shape[1] > 1:
        classes = tf.argmax(y, axis=1)
    else:
        classes = tf.cast(tf.reshape(y, (-1,)), "int32")
    # the last entry is for the classes that are not named
    last = len(table) - 1
    classes = tf.where((classes >= 0) & (classes < last), classes, last)
    weight = tf.gather(tf.constant(table), classes)
    if sample_weight is not None:
        given = tf.cast(sample_weight, "float32")
        weight = given * (weight if len(given.shape) == 1 else weight[:, None])
    return x, y, weight
