# SPDX-License-Identifier: MIT
"""Data sets of the IPU's extensions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ipu._text.exports import export
from ipu.tf import nest
from ipu.tf.data import Dataset
from ipu.tf.data._dataset import integer

__all__ = ["BufferDataset"]


def BufferDataset(input_dataset: Any, buffer_size: int) -> Dataset:
    """Return the elements of a data set in whole groups.

    The elements are those of ``input_dataset``, but a last group of fewer than
    ``buffer_size`` is left out: so many are always there at once.

    Args:
        input_dataset: A ``tf.data.Dataset``.
        buffer_size: How many elements a group has.

    Returns:
        A data set of the same structure.

    Raises:
        TypeError: ``input_dataset`` is not a data set.
        ValueError: ``buffer_size`` is below 1.

    Source: ``ipu.data.ops.dataset_ops.BufferDataset`` of SDK 1.3 to 3.4.

    Example:
        >>> ds = BufferDataset(tf.data.Dataset.range(5), 2)
        >>> [int(x) for x in ds]
        [0, 1, 2, 3]
    """
    if not isinstance(input_dataset, Dataset):
        raise TypeError(
            "`input_dataset` of BufferDataset must be a tf.data.Dataset. Received: "
            f"{input_dataset!r}."
        )
    size = integer(buffer_size, "buffer_size")
    if size < 1:
        raise ValueError(
            f"`buffer_size` of BufferDataset must be at least 1. Received: {size}."
        )
    shapes = [spec.shape for spec in nest.flatten(input_dataset.element_spec)]
    if all(shape is not None and None not in shape for shape in shapes):
        return input_dataset.batch(size, drop_remainder=True).unbatch()

    def elements() -> Iterator[Any]:
        rest = iter(input_dataset)
        while len(group := list(itertools.islice(rest, size))) == size:
            yield from group

    return Dataset.from_generator(elements, output_signature=input_dataset.element_spec)


export(__name__)
