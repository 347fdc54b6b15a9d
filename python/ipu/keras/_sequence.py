# SPDX-License-Identifier: MIT
"""``keras.utils.Sequence``: batches by number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["Sequence"]


class Sequence:
    """Base class of data that a program makes batch by batch.

    A subclass defines ``__getitem__(index)`` and ``__len__()``. ``fit`` needs the
    shapes of data before there are any, so it takes a data set made of this one:
    ``tf.data.Dataset.from_generator(lambda: sequence, output_signature=...)``.

    Source: ``tf.keras.utils.Sequence`` of Keras 2.6.
    """

    def __getitem__(self, index: int) -> Any:
        """Give a batch."""
        raise NotImplementedError(
            f"{type(self).__name__} must define __getitem__(index)."
        )

    def __len__(self) -> int:
        """Give the number of batches."""
        raise NotImplementedError(f"{type(self).__name__} must define __len__().")

    def on_epoch_end(self) -> None:
        """Do something between two epochs."""

    def __iter__(self) -> Iterator[Any]:
        """Give the batches in order."""
        return (self[index] for index in range(len(self)))
