# SPDX-License-Identifier: MIT
"""``keras.utils.Sequence``: batches by number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class Sequence:
    """Base class of data that a program makes batch by batch.

    A subclass defines ``__getitem__(index)``, which gives ``(x, y)``, and
    ``__len__()``, and may define ``on_epoch_begin()`` and ``on_epoch_end()``. Models
    outside of a strategy take it in place of a data set. In the scope of a strategy
    shapes must be known before there are data: give
    ``tf.data.Dataset.from_generator(lambda: sequence, output_signature=...)``.

    Args:
        workers: Threads that make batches, several at once; None: as ``fit`` is told.
        use_multiprocessing: Ignored: workers are threads.
        max_queue_size: Batches that are made before they are asked for; None: as
            ``fit`` is told.

    Source: ``tf.keras.utils.Sequence`` of Keras 2.6, ``keras.utils.PyDataset`` of
    Keras 3.

    Example:
        >>> class Squares(keras.utils.Sequence):
        ...     def __len__(self):
        ...         return 3
        ...     def __getitem__(self, index):
        ...         x = np.arange(4.0)[:, None] + 4 * index
        ...         return x, x * x
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> len(model.fit(Squares(), epochs=2, verbose=0).steps["loss"])
        6
    """

    # subclasses need not call __init__
    workers: int | None = None
    use_multiprocessing = False
    max_queue_size: int | None = None

    def __init__(
        self,
        workers: int | None = None,
        use_multiprocessing: bool = False,
        max_queue_size: int | None = None,
    ) -> None:
        self.workers = workers
        self.use_multiprocessing = use_multiprocessing
        self.max_queue_size = max_queue_size

    def __getitem__(self, index: int) -> Any:
        """Return a batch."""
        raise NotImplementedError(
            f"{type(self).__name__} must define __getitem__(index)."
        )

    def __len__(self) -> int:
        """Return the number of batches."""
        raise NotImplementedError(f"{type(self).__name__} must define __len__().")

    @property
    def num_batches(self) -> int | None:
        """The number of batches: ``len(self)``, unless a subclass says otherwise.

        None where there is no end: ``fit`` then needs ``steps_per_epoch``.
        """
        return len(self)

    def on_epoch_begin(self) -> None:
        """Do something before the first batch of an epoch is made."""

    def on_epoch_end(self) -> None:
        """Do something after the last batch of an epoch."""

    def __iter__(self) -> Iterator[Any]:
        """Return the batches in order."""
        return (self[index] for index in range(len(self)))


def number_of_batches(batches: Any) -> int | None:
    """Return the number of batches of a sequence, or None where there is no end.

    Args:
        batches: A :class:`Sequence`, or what is like one but for ``num_batches``.
    """
    if hasattr(batches, "num_batches"):
        count: int | None = batches.num_batches
        return count
    return len(batches)
