# SPDX-License-Identifier: MIT
"""``ipu.tf.data.experimental``: older names that programs still use."""

from __future__ import annotations

from typing import Any

from ipu.tf.data._dataset import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Dataset,
)

__all__ = ["AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "cardinality"]


def cardinality(dataset: Dataset) -> Any:
    """Give the number of elements of a data set.

    Args:
        dataset: A :class:`~ipu.tf.data.Dataset`.

    Returns:
        What :meth:`Dataset.cardinality` returns: an int64 scalar tensor, -1 for an
        endless data set, -2 where the number is not known.

    Source: ``tf.data.experimental.cardinality``.

    Example:
        >>> int(cardinality(Dataset.range(5)))
        5
    """
    return dataset.cardinality()
