# SPDX-License-Identifier: MIT
"""``class_weight``: weights of samples by their class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras._sequence import number_of_batches
from ipu.keras._types import Nest
from ipu.keras.engine.training.data_adapter import arrays_of, is_batched, unpack


def resolved(class_weight: Any, x: Any, y: Any) -> Any:
    """Return the dict that ``class_weight="balanced"`` stands for; else what is given.

    A class of which there are ``count`` of the ``n`` samples has the weight
    ``n / (classes * count)``, scikit-learn's rule: each class then counts alike, and
    the mean weight is 1. Batches are read once for the counts, before training.

    Args:
        class_weight: The argument of ``fit``.
        x: Inputs, or batches.
        y: Targets; None with batches.

    Raises:
        ValueError: There are no targets, more than one output, or batches that cannot
            be read twice.

    Example:
        >>> resolved("balanced", None, [0, 0, 0, 1])
        {0: 0.6666666666666666, 1: 2.0}
    """
    if not isinstance(class_weight, str) or class_weight != "balanced":
        return class_weight
    counts: Counter[int] = Counter()
    for targets in _targets(x, y):
        counts.update(_classes(targets).tolist())
    total = sum(counts.values())
    return {one: total / (len(counts) * counts[one]) for one in sorted(counts)}


def _targets(x: Any, y: Any) -> Iterator[Any]:
    """Yield the targets of all samples, in parts."""
    if not is_batched(x):
        if y is None:
            raise ValueError(
                "`class_weight='balanced'` counts the targets. Received: y=None."
            )
        yield arrays_of(y, "y")
        return
    if isinstance(x, Iterator):
        raise ValueError(
            "`class_weight='balanced'` reads the targets once before training, and a "
            f"generator can be read once only. Received: {type(x).__name__}. Give "
            "arrays, a tf.data.Dataset, a keras.utils.PyDataset, or a dict of weights."
        )
    is_dataset = hasattr(x, "element_spec")
    count = int(x.cardinality()) if is_dataset else number_of_batches(x)
    if count in (None, tf.data.INFINITE_CARDINALITY):
        raise ValueError(
            "`class_weight='balanced'` counts the targets of all batches, and these "
            f"do not end. Received: {type(x).__name__}. Give batches that end, or a "
            "dict of weights."
        )
    for element in x if is_dataset else map(x.__getitem__, range(count)):
        yield unpack(element)[1]


def _classes(targets: Any) -> np.ndarray[Any, Any]:
    """Return class numbers of targets: those that :func:`with_class_weight` finds."""
    _check(targets)
    array = np.asarray(targets)
    is_one_hot = array.ndim == 2 and array.shape[1] > 1
    classes: np.ndarray[Any, Any] = array.argmax(1) if is_one_hot else array.ravel()
    return classes.astype(np.int32)


def _check(targets: Any) -> None:
    if targets is None or tf.nest.is_nested(targets):
        raise ValueError(
            "`class_weight` is only supported for Models with a single output. "
            f"Received: targets {targets!r}."
        )
    if len(targets.shape) > 2:
        raise ValueError(
            "`class_weight` is not supported for targets of more than two axes. "
            f"Received: targets of shape {tuple(targets.shape)}."
        )


def bytes_of(weights: Any) -> bytes | None:
    """Return the weights as something that can be compared; None for None."""
    return None if weights is None else _table_of(weights).tobytes()


def _table_of(weights: Any) -> np.ndarray[Any, Any]:
    """Return the weights of classes 0, 1, ...; one more, 1, for all others."""
    if not isinstance(weights, Mapping) or not all(
        isinstance(number, (int, np.integer)) and number >= 0 for number in weights
    ):
        raise ValueError(
            "Expected `class_weight` to be a dict from class numbers, integers from 0, "
            "to weights; fit also takes 'balanced', and makes a dict of its targets. "
            f"Received: class_weight={weights!r}."
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
    _check(y)
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
