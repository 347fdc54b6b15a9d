# SPDX-License-Identifier: MIT
"""``timeseries_dataset_from_array``: pieces of a series as a data set."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import tf
from ipu.tf.data._seeds import for_shuffle


def timeseries_dataset_from_array(
    data: Any,
    targets: Any,
    sequence_length: int,
    sequence_stride: int = 1,
    sampling_rate: int = 1,
    batch_size: int | None = 128,
    shuffle: bool = False,
    seed: int | None = None,
    start_index: int | None = None,
    end_index: int | None = None,
) -> Any:
    """Make a data set of pieces of a series.

    Args:
        data: An array of steps.
        targets: ``targets[i]`` belongs to the piece that begins at step ``i``; None:
            pieces alone.
        sequence_length: How many steps a piece has.
        sequence_stride: Steps from the beginning of one piece to that of the next.
        sampling_rate: Steps from one of a piece to its next one.
        batch_size: Pieces in a batch; None: not batched.
        shuffle: Whether the order is random, and another one in each pass.
        seed: Of the order.
        start_index: The first step that is used.
        end_index: The first step after those that are used.

    Returns:
        A ``tf.data.Dataset`` of pieces, or of (pieces, targets).

    Raises:
        ValueError: A number that is out of its range.

    Example:
        >>> data = timeseries_dataset_from_array(tf.range(5), [10, 20, 30], 3)
        >>> for x, y in data:
        ...     print(x.numpy().tolist(), y.numpy().tolist())
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]] [10, 20, 30]
    """
    series = np.asarray(data)
    first, last = _bounds(start_index, end_index, len(series))
    span = last - first
    for name, value in (
        ("sequence_length", sequence_length),
        ("sequence_stride", sequence_stride),
        ("sampling_rate", sampling_rate),
    ):
        most = span if name == "sequence_length" else max(span - 1, 1)
        if not 0 < value <= most:
            raise ValueError(
                f"`{name}` must be higher than 0 and not higher than the length of "
                f"the data, {len(series)}. Received: {name}={value!r}."
            )
    count = span - (sequence_length - 1) * sampling_rate
    labels = None if targets is None else np.asarray(targets)[first:last]
    if labels is not None:
        count = min(count, len(labels))
    if count <= 0:
        raise ValueError(
            f"There is no piece of sequence_length={sequence_length} with "
            f"sampling_rate={sampling_rate} in {span} steps. Use more data."
        )
    starts = np.arange(0, count, sequence_stride, dtype=np.int32)
    if shuffle:
        seed = for_shuffle() & 0xFFFFFFFF if seed is None else int(seed)
        np.random.RandomState(seed).shuffle(starts)
    steps = tf.constant(series[first:last])
    offsets = np.arange(0, sequence_length * sampling_rate, sampling_rate)
    places = tf.constant(offsets.astype(np.int32))
    dataset = tf.data.Dataset.from_tensor_slices(starts)
    dataset = dataset.map(lambda start: tf.gather(steps, start + places))
    if labels is not None:
        chosen = tf.data.Dataset.from_tensor_slices(labels[starts])
        dataset = tf.data.Dataset.zip((dataset, chosen))
    if shuffle:
        dataset = dataset.shuffle(1024 if batch_size is None else batch_size * 8, seed)
    if batch_size is not None:
        dataset = dataset.batch(batch_size)
    return dataset.prefetch(tf.data.AUTOTUNE)


def _bounds(first: int | None, last: int | None, count: int) -> tuple[int, int]:
    for name, value in (("start_index", first), ("end_index", last)):
        least, most = (0, count) if name == "start_index" else (1, count + 1)
        if value is not None and not least <= value < most:
            raise ValueError(
                f"`{name}` must be a step of the data, of which there are {count}. "
                f"Received: {name}={value!r}."
            )
    begin, end = first or 0, count if last is None else last
    if begin >= end:
        raise ValueError(
            "`end_index` must be higher than `start_index`. Received: "
            f"start_index={first!r}, end_index={last!r}."
        )
    return begin, end
