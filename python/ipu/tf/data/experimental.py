# SPDX-License-Identifier: MIT
"""``ipu.tf.data.experimental``: older names that programs still use."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._faces import face
from ipu.tf.data._dataset import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Dataset,
)

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "AutoShardPolicy",
    "Counter",
    "assert_cardinality",
    "bucket_by_sequence_length",
    "cardinality",
    "enumerate_dataset",
    "get_single_element",
    "group_by_window",
    "map_and_batch",
    "shuffle_and_repeat",
    "take_while",
    "unbatch",
]

_Transformation = Callable[[Dataset], Dataset]


class AutoShardPolicy(IntEnum):
    """How a data set is cut up for several workers; accepted in ``tf.data.Options``."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


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


def assert_cardinality(expected_cardinality: Any) -> _Transformation:
    """Say how many elements a data set has, where that is not known.

    Args:
        expected_cardinality: The number, or INFINITE_CARDINALITY.

    Returns:
        A function for ``Dataset.apply``. Reading the data set to its end raises
        FailedPreconditionError where there is another number of elements.

    Source: ``tf.data.experimental.assert_cardinality``.

    Example:
        >>> odd = Dataset.range(6).filter(lambda x: x % 2 == 1)
        >>> len(odd.apply(assert_cardinality(3)))
        3
    """
    return lambda dataset: dataset._assert_cardinality(expected_cardinality)


def Counter(start: int = 0, step: int = 1, dtype: Any = None) -> Dataset:
    """Count for ever; ``tf.data.experimental.Counter``."""
    stop = np.iinfo(np.int64).max if step > 0 else np.iinfo(np.int64).min
    return Dataset.range(start, stop, step, output_type=dtype)


def enumerate_dataset(start: int = 0) -> _Transformation:
    """``Dataset.enumerate`` for ``Dataset.apply``."""
    return lambda dataset: dataset.enumerate(start)


def get_single_element(dataset: Dataset) -> Any:
    """``Dataset.get_single_element``."""
    return dataset.get_single_element()


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: int,
    num_parallel_batches: int | None = None,
    drop_remainder: bool = False,
    num_parallel_calls: int | None = None,
) -> _Transformation:
    """``map(map_func).batch(batch_size, drop_remainder)`` for ``Dataset.apply``."""
    del num_parallel_batches, num_parallel_calls
    return lambda dataset: dataset.map(map_func).batch(batch_size, drop_remainder)


def shuffle_and_repeat(
    buffer_size: int, count: int | None = None, seed: int | None = None
) -> _Transformation:
    """``shuffle(buffer_size, seed).repeat(count)`` for ``Dataset.apply``."""
    return lambda dataset: dataset.shuffle(buffer_size, seed).repeat(count)


def take_while(predicate: Callable[..., Any]) -> _Transformation:
    """``Dataset.take_while`` for ``Dataset.apply``."""
    return lambda dataset: dataset.take_while(predicate)


def unbatch() -> _Transformation:
    """``Dataset.unbatch`` for ``Dataset.apply``."""
    return lambda dataset: dataset.unbatch()


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Any],
    window_size: int | None = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> _Transformation:
    """``Dataset.group_by_window`` for ``Dataset.apply``."""
    return lambda dataset: dataset.group_by_window(
        key_func, reduce_func, window_size, window_size_func
    )


def bucket_by_sequence_length(*args: Any, **kwargs: Any) -> _Transformation:
    """``Dataset.bucket_by_sequence_length`` for ``Dataset.apply``."""
    return lambda dataset: dataset.bucket_by_sequence_length(*args, **kwargs)


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
