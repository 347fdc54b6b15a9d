# SPDX-License-Identifier: MIT
"""Functions that would cut variables into parts. Variables stay whole here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Partitioner = Callable[..., list[int]]


def _whole(shape: Any, dtype: Any = None) -> list[int]:
    return [1] * len(shape)


def fixed_size_partitioner(num_shards: int, axis: int = 0) -> Partitioner:
    """Return what ``partitioner`` of a variable is; it stays whole.

    Args:
        num_shards: How many parts there would be.
        axis: Which axis would be cut.

    Returns:
        A function of a shape and a dtype: one part along each axis.

    Example:
        >>> v1.fixed_size_partitioner(2)([4, 3], tf.float32)
        [1, 1]
    """
    return _whole


def variable_axis_size_partitioner(
    max_shard_bytes: int,
    axis: int = 0,
    bytes_per_string_element: int = 16,
    max_shards: int | None = None,
) -> Partitioner:
    """Return what ``partitioner`` of a variable is; it stays whole.

    Args:
        max_shard_bytes: How large a part would be.
        axis: Which axis would be cut.
        bytes_per_string_element, max_shards: Accepted and not used.

    Returns:
        As :func:`fixed_size_partitioner`.

    Example:
        >>> v1.variable_axis_size_partitioner(1024)([4, 3], tf.float32)
        [1, 1]
    """
    return _whole


def min_max_variable_partitioner(
    max_partitions: int = 1,
    axis: int = 0,
    min_slice_size: int = 256 << 10,
    bytes_per_string_element: int = 16,
) -> Partitioner:
    """Return what ``partitioner`` of a variable is; it stays whole.

    Args:
        max_partitions: How many parts there would be at most.
        axis: Which axis would be cut.
        min_slice_size: How large a part would be at least.
        bytes_per_string_element: Accepted and not used.

    Returns:
        As :func:`fixed_size_partitioner`.

    Example:
        >>> v1.min_max_variable_partitioner(8)([4, 3], tf.float32)
        [1, 1]
    """
    return _whole
