# SPDX-License-Identifier: MIT
"""Batches that the host reads one by one: of data sets, generators and sequences.

A source gives an iterator for each pass. Generators and sequences are read ahead, in
threads, so that they work while the device does.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ipu import tf
from ipu._device.generators import generator_of_pass
from ipu._device.locks import Condition
from ipu.keras._random_state import Order
from ipu.keras._sequence import number_of_batches
from ipu.keras._types import Nest
from ipu.tf.data import Iterator as DataIterator

if TYPE_CHECKING:
    from concurrent.futures import Future

_AHEAD = 3  # batches of a data set that are made while the device is busy
_LEAVE_S = 1.0  # how long a generator may take to be left


class Pass(Protocol):
    """The batches of a pass."""

    def __iter__(self) -> Iterator[Nest]:
        """Itself."""

    def __next__(self) -> Nest:
        """Return the next batch, of tensors."""

    def close(self) -> None:
        """Stop reading."""


class HostSource:
    """Data that the host reads batch by batch.

    Attributes:
        starts_again: Whether each pass starts with the first batch; what a generator
            has given is gone.
        is_endless: Whether a pass goes on with the first batch.
        most: How many batches are taken of a generator, where the others shall stay in
            it; None for all.
    """

    starts_again = True
    is_endless = False
    most: int | None = None

    def read(self) -> Pass:
        """Start a pass."""
        raise NotImplementedError


class DatasetSource(HostSource):
    """A ``tf.data.Dataset`` of batches.

    Args:
        of_pass: Batches of one pass over the data, where its last one is filled up.
        tail: Rows of that last batch which count; 0: all batches are full.
        first: The number of the first pass; None: it goes on with those that the data
            set has had.
    """

    def __init__(
        self, dataset: Any, of_pass: int = 0, tail: int = 0, first: int | None = None
    ) -> None:
        self._dataset = dataset
        self._of_pass = of_pass
        self._tail = tail
        self._next = first

    def read(self) -> Pass:
        count = -1 if self.is_endless else 1
        dataset = self._dataset
        if self._next is not None:
            dataset = dataset._repeat_from(count, self._next)
            self._next += 1
        elif self.is_endless:
            dataset = dataset.repeat()
        dataset = dataset.prefetch(_AHEAD)
        batches = DataIterator(dataset._impl, dataset.element_spec)
        return _cut(batches, self._of_pass, self._tail) if self._tail else batches


def _cut(batches: Pass, of_pass: int, tail: int) -> Generator[Nest, None, None]:
    """Yield a pass whose last batches have only the rows that count."""
    try:
        for number, batch in enumerate(batches, 1):
            if number % of_pass:
                yield batch
            else:
                yield tf.nest.map_structure(lambda leaf: leaf[:tail], batch)
    finally:
        batches.close()


# --- generators -----------------------------------------------------------------------


class GeneratorSource(HostSource):
    """A Python iterator over batches, which has one pass.

    Args:
        ahead: How many batches are read before they are asked for; 0: none.
    """

    starts_again = False

    def __init__(
        self,
        batches: Iterator[Any],
        convert: Callable[[Any], Nest],
        ahead: int,
    ) -> None:
        self._batches = batches
        self._convert = convert
        self._ahead = ahead

    def read(self) -> Pass:
        batches = itertools.islice(self._batches, self.most)
        elements = (self._convert(batch) for batch in batches)
        return _ReadAhead(elements, self._ahead) if self._ahead else elements


class _Read(NamedTuple):
    """An element that a thread read, or the error that ended the reading."""

    element: Nest = None
    end: BaseException | None = None


class _ReadAhead:
    """A pass that a thread reads."""

    def __init__(self, elements: Iterator[Nest], ahead: int) -> None:
        self._elements = elements
        self._ahead = ahead
        self._changed = Condition()
        self._found: deque[_Read] = deque()
        self._is_closed = False
        self._end: BaseException | None = None
        self._thread = threading.Thread(
            target=self._read, name="ipu-generator", daemon=True
        )
        self._thread.start()

    def _read(self) -> None:
        try:
            for element in self._elements:
                self._put(_Read(element))
                if self._is_closed:
                    return
            self._put(_Read(end=StopIteration()))
        except BaseException as error:  # raised again where the element is asked for
            self._put(_Read(end=error))

    def _has_room(self) -> bool:
        return len(self._found) < self._ahead

    def _put(self, read: _Read) -> None:
        with self._changed:
            self._changed.wait_for(self._has_room)
            self._found.append(read)
            self._changed.notify_all()

    def __iter__(self) -> Iterator[Nest]:
        return self

    def __next__(self) -> Nest:
        if self._end is None:
            with self._changed:
                self._changed.wait_for(lambda: self._found)
                element, self._end = self._found.popleft()
                self._changed.notify_all()
            if self._end is None:
                return element
        raise self._end

    def close(self) -> None:
        """Stop reading, and drop what has been read."""
        with self._changed:
            self._is_closed = True
            self._found.clear()
            self._changed.notify_all()
        self._thread.join(_LEAVE_S)


# --- sequences ------------------------------------------------------------------------


class SequenceSource(HostSource):
    """A ``keras.utils.Sequence``: batches by number.

    Args:
        order: In which order batches come in each pass; None: in theirs.
        workers: Threads that make them; 0: they are made when they are asked for.
        ahead: How many are made before they are asked for.
    """

    def __init__(
        self,
        sequence: Any,
        convert: Callable[[Any], Nest],
        order: Order | None,
        workers: int,
        ahead: int,
    ) -> None:
        self._sequence = sequence
        self._convert = convert
        self._order = order
        if order is not None:
            self._next = order.passes
        self._workers = workers
        self._ahead = max(ahead, workers)

    def read(self) -> Generator[Nest, None, None]:
        yield from self._one_pass()
        while self.is_endless:
            yield from self._one_pass()

    def _one_pass(self) -> Iterator[Nest]:
        count = number_of_batches(self._sequence)
        numbers = iter(self._numbers(count))
        begin = getattr(self._sequence, "on_epoch_begin", None)
        if begin is not None:
            begin()
        given = 0
        try:
            for element in self._made(numbers):
                given += 1
                yield element
        finally:  # also where nobody asks whether there is another one
            if given == count:
                self._sequence.on_epoch_end()

    def _numbers(self, count: int | None) -> Iterable[int]:
        """Return the batches of the next pass, in order."""
        if count is None:
            return itertools.count()
        if self._order is None:
            return range(count)
        random = generator_of_pass(self._order.seed, self._next)
        self._next += 1
        numbers: list[int] = random.permutation(count).tolist()
        return numbers

    def _made(self, numbers: Iterator[int]) -> Iterator[Nest]:
        if self._workers == 0:
            yield from map(self._batch, numbers)
            return
        from concurrent.futures import ThreadPoolExecutor  # slow to import

        pool = ThreadPoolExecutor(self._workers, "ipu-sequence")
        waiting: deque[Future[Nest]] = deque()
        try:
            while True:
                for number in itertools.islice(numbers, self._ahead - len(waiting)):
                    waiting.append(pool.submit(self._batch, number))
                if not waiting:
                    return
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _batch(self, number: int) -> Nest:
        return self._convert(self._sequence[number])
