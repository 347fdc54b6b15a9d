# SPDX-License-Identifier: MIT
"""Batches of generators and sequences for loops of a program's own, read in threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipu.keras._random_state import Order
from ipu.keras.engine.training.host_sources import (
    GeneratorSource,
    HostSource,
    SequenceSource,
)


class SequenceEnqueuer:
    """Base class of what reads batches ahead.

    Args:
        sequence: The batches.
        use_multiprocessing: Ignored: workers are threads.

    Example:
        >>> enqueuer = GeneratorEnqueuer(iter([1, 2]))
        >>> isinstance(enqueuer, SequenceEnqueuer)
        True
    """

    def __init__(self, sequence: Any, use_multiprocessing: bool = False) -> None:
        del use_multiprocessing
        self.sequence = sequence
        self._pass: Any = None

    def _source(self, workers: int, ahead: int) -> HostSource:
        raise NotImplementedError

    def start(self, workers: int = 1, max_queue_size: int = 10) -> None:
        """Begin to read.

        Args:
            workers: Threads that read; 0: none but the program's own.
            max_queue_size: Batches that are read before they are asked for.

        Raises:
            RuntimeError: It has begun before.
        """
        if self._pass is not None:
            raise RuntimeError("This enqueuer is running. Call stop() before start().")
        self._pass = self._source(workers, max_queue_size if workers else 0).read()

    def is_running(self) -> bool:
        """Return whether it reads."""
        return self._pass is not None

    def get(self) -> Iterator[Any]:
        """Return the batches.

        Returns:
            An iterator.

        Raises:
            RuntimeError: It does not read.
        """
        if self._pass is None:
            raise RuntimeError("This enqueuer is not running. Call start() first.")
        batches: Iterator[Any] = iter(self._pass)
        return batches

    def stop(self, timeout: float | None = None) -> None:
        """End the reading; what has been read is dropped.

        Args:
            timeout: Ignored.
        """
        del timeout
        if self._pass is not None:
            self._pass.close()
            self._pass = None


class GeneratorEnqueuer(SequenceEnqueuer):
    """Reads a Python iterator ahead, in a thread.

    Args:
        generator: The iterator.
        use_multiprocessing: Ignored: the worker is a thread.
        random_seed: Ignored.

    Example:
        >>> enqueuer = GeneratorEnqueuer(iter([1, 2, 3]))
        >>> enqueuer.start()
        >>> list(enqueuer.get())
        [1, 2, 3]
        >>> enqueuer.stop()
    """

    def __init__(
        self,
        generator: Iterator[Any],
        use_multiprocessing: bool = False,
        random_seed: int | None = None,
    ) -> None:
        del random_seed
        super().__init__(generator, use_multiprocessing)

    def _source(self, workers: int, ahead: int) -> HostSource:
        return GeneratorSource(self.sequence, _as_it_is, ahead)


class OrderedEnqueuer(SequenceEnqueuer):
    """Reads a ``Sequence`` ahead, in threads, epoch after epoch.

    Args:
        sequence: The batches.
        use_multiprocessing: Ignored: workers are threads.
        shuffle: Whether batches come in another order in each epoch.

    Example:
        >>> from ipu.keras.utils import Sequence
        >>> class Numbers(Sequence):
        ...     def __len__(self):
        ...         return 2
        ...     def __getitem__(self, index):
        ...         return index
        >>> enqueuer = OrderedEnqueuer(Numbers())
        >>> enqueuer.start(workers=2)
        >>> batches = enqueuer.get()
        >>> [next(batches) for _ in range(3)]
        [0, 1, 0]
        >>> enqueuer.stop()
    """

    def __init__(
        self, sequence: Any, use_multiprocessing: bool = False, shuffle: bool = False
    ) -> None:
        super().__init__(sequence, use_multiprocessing)
        self.shuffle = shuffle

    def _source(self, workers: int, ahead: int) -> HostSource:
        order = Order() if self.shuffle else None
        source = SequenceSource(self.sequence, _as_it_is, order, workers, max(ahead, 1))
        source.is_endless = True
        return source


def _as_it_is(batch: Any) -> Any:
    return batch
