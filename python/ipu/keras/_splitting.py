# SPDX-License-Identifier: MIT
"""Parts of data: those of an element, and those for training and validation."""

from __future__ import annotations

from typing import Any

from ipu import tf


def pack_x_y_sample_weight(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    """Put inputs, targets and weights into one element.

    Args:
        x: Inputs.
        y: Targets, or None.
        sample_weight: Weights, or None.

    Returns:
        ``x`` (in a tuple, where it is a nest), ``(x, y)`` or ``(x, y, sample_weight)``.

    Example:
        >>> pack_x_y_sample_weight(1, 2)
        (1, 2)
    """
    if y is None:
        return (x,) if tf.nest.is_nested(x) else x
    return (x, y) if sample_weight is None else (x, y, sample_weight)


def unpack_x_y_sample_weight(data: Any) -> tuple[Any, Any, Any]:
    """Take an element apart: what ``train_step`` begins with.

    Args:
        data: ``x``, ``(x,)``, ``(x, y)`` or ``(x, y, sample_weight)``.

    Returns:
        Inputs, targets, weights; None for what is not there.

    Raises:
        ValueError: There are more parts.

    Example:
        >>> unpack_x_y_sample_weight((1, 2))
        (1, 2, None)
    """
    from ipu.keras.engine.training.data_adapter import unpack

    return unpack(data)


def split_dataset(
    dataset: Any,
    left_size: float | None = None,
    right_size: float | None = None,
    shuffle: bool = False,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """Split data into two data sets, such as for training and testing.

    Args:
        dataset: A ``tf.data.Dataset``, an array, or a tuple, list or dict of arrays.
        left_size: Elements of the first one: an integer, or a share from 0 to 1; None:
            what is left.
        right_size: The same of the second one.
        shuffle: Whether elements are shuffled before.
        seed: Of the order.

    Returns:
        Two data sets.

    Raises:
        ValueError: Both sizes are None, not sizes at all, or too large.
        TypeError: A size is not a number, or there is no end to the data.

    Example:
        >>> left, right = split_dataset(tf.range(10), left_size=0.8)
        >>> [int(x) for x in right]
        [8, 9]
    """
    if not isinstance(dataset, tf.data.Dataset):
        given = tuple(dataset) if isinstance(dataset, list) else dataset
        dataset = tf.data.Dataset.from_tensor_slices(given)
    count = int(dataset.cardinality())
    if count == tf.data.INFINITE_CARDINALITY:
        raise TypeError("A data set without an end cannot be split. Use take() before.")
    if count == tf.data.UNKNOWN_CARDINALITY:
        count = sum(1 for _ in dataset)
    left, right = _sizes(left_size, right_size, count)
    if shuffle:
        dataset = dataset.shuffle(count, seed, reshuffle_each_iteration=False)
    return dataset.take(left), dataset.skip(left).take(right)


def _sizes(left: Any, right: Any, count: int) -> tuple[int, int]:
    if left is None and right is None:
        raise ValueError(
            "At least one of the `left_size` or `right_size` must be specified. "
            "Received: left_size=None and right_size=None."
        )
    sizes: list[int | None] = []
    for name, size in (("left_size", left), ("right_size", right)):
        if size is None:
            sizes.append(None)
            continue
        if isinstance(size, bool) or not isinstance(size, (int, float)):
            raise TypeError(
                f"`{name}` must be an integer or a float. Received: {name}={size!r}."
            )
        most = 1 if isinstance(size, float) else count
        if not 0 < size <= most or (isinstance(size, float) and size == 1):
            raise ValueError(
                f"`{name}` must be a share in (0, 1), or an integer from 1 to the "
                f"number of elements, {count}. Received: {name}={size!r}."
            )
        sizes.append(round(size * count) if isinstance(size, float) else size)
    first, second = sizes
    first = count - (second or 0) if first is None else first
    second = count - first if second is None else second
    if first + second > count:
        raise ValueError(
            "The sum of `left_size` and `right_size` should be smaller than the number "
            f"of elements, {count}. Received: left_size={left!r}, right_size={right!r}."
        )
    if not first or not second:
        raise ValueError(
            f"One of the two parts of {count} elements is empty. Received: "
            f"left_size={left!r}, right_size={right!r}. Pass other sizes."
        )
    return first, second
