# SPDX-License-Identifier: MIT
"""What a ``for`` on the device can run over: a length and the i-th item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf._ops import elementwise
from ipu.tf._string_ops.host_only import NoShapeError
from ipu.tf._tensor import convert
from ipu.tf.variable import Variable


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor or a variable."""
    return isinstance(value, (Tensor, Variable))


class Items:
    """Items of a known or unknown number, made in the program.

    Attributes:
        length: How many: an int, an int32 scalar, or None where nobody knows.
    """

    length: Any = None

    def item(self, index: Tensor) -> Any:
        """Return the item of an iteration; called once, in the loop's body."""
        raise NotImplementedError

    def __iter__(self) -> Any:
        raise TypeError(
            "Something whose length is only known on the device is iterated by Python. "
            "Use it directly in the `for` of a function that AutoGraph converts."
        )


class TensorItems(Items):
    """The slices of a tensor along its first axis."""

    def __init__(self, tensor: Tensor) -> None:
        if tensor.ndim == 0:
            raise TypeError("A scalar tensor cannot be iterated over.")
        self._tensor = tensor
        self.length = tensor.shape[0]

    def item(self, index: Tensor) -> Tensor:
        return self._tensor[index]


class RangeItems(Items):
    """The numbers of a range whose bounds may be tensors."""

    def __init__(self, start: Any, limit: Any = None, delta: Any = 1) -> None:
        if limit is None:
            start, limit = 0, start
        known = not any(is_tensor(v) and _symbolic(v) for v in (start, limit, delta))
        if known:
            start, limit, delta = (_number(v) for v in (start, limit, delta))
            if delta == 0:
                raise ValueError("The step of a range must not be 0.")
            count = (limit - start + delta - (1 if delta > 0 else -1)) // delta
            floats = any(isinstance(v, float) for v in (start, limit, delta))
            self.length: Any = max(0, -int((start - limit) // delta) if floats
                                   else int(count))  # fmt: skip
        elif isinstance(delta, int) and delta == 1:
            self.length = elementwise.subtract(limit, start)
        else:
            self.length = elementwise.negative(
                elementwise.floordiv(elementwise.subtract(start, limit), delta)
            )
        self._start, self._delta = start, delta

    def item(self, index: Tensor) -> Tensor:
        if isinstance(self._start, float) or isinstance(self._delta, float):
            index = convert.cast(index, "float32")
        if self._delta != 1 if not is_tensor(self._delta) else True:
            index = index * self._delta
        if self._start == 0 if not is_tensor(self._start) else False:
            return index
        result: Tensor = index + self._start
        return result

    def _no_tensor(self, *_: Any) -> Any:
        raise NoShapeError(
            "tf.range of a length that is only known on the device has no shape; it "
            "can only be iterated over. Every shape of a program must be known."
        )

    __ipu_tensor__ = property(_no_tensor)
    __getitem__ = __array__ = __neg__ = _no_tensor
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_tensor
    __truediv__ = __floordiv__ = __mod__ = __pow__ = _no_tensor
    __lt__ = __le__ = __gt__ = __ge__ = _no_tensor


class _Enumerated(Items):
    def __init__(self, items: Items, start: Any) -> None:
        self._items, self._start = items, start
        self.length = items.length

    def item(self, index: Tensor) -> tuple[Tensor, Any]:
        return index + self._start, self._items.item(index)


class _Zipped(Items):
    def __init__(self, parts: Sequence[Items]) -> None:
        self._parts = parts
        lengths = [p.length for p in parts if p.length is not None]
        known = [n for n in lengths if isinstance(n, int)]
        shortest: Any = min(known) if known else None
        for length in lengths:
            if not isinstance(length, int):
                shortest = (
                    length
                    if shortest is None
                    else elementwise.minimum(length, shortest)
                )
        self.length = shortest

    def item(self, index: Tensor) -> tuple[Any, ...]:
        return tuple(part.item(index) for part in self._parts)


class _SequenceItems(Items):
    """A Python range beside something staged, in ``zip``."""

    def __init__(self, values: range) -> None:
        self._values = values
        self.length = len(values)

    def item(self, index: Tensor) -> Tensor:
        return index * self._values.step + self._values.start


class DatasetItems(Items):
    """The elements of a data set, from its first one in each run of the program."""

    def __init__(self, dataset: Any) -> None:
        from ipu.tf._functions import tracing
        from ipu.tf.autograph._feed import RestartedFeed

        count = int(dataset.cardinality())
        self.length = None if count < 0 else count
        self._feed = RestartedFeed(dataset, tracing.current_build())

    def item(self, index: Tensor) -> Any:
        return self._feed.next()


class IteratorItems(Items):
    """The elements of an iterator that the device reads."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def item(self, index: Tensor) -> Any:
        return next(self._iterator)


def _symbolic(value: Any) -> bool:
    return isinstance(value, Variable) or bool(value.is_symbolic)


def _number(value: Any) -> Any:
    return value.numpy().item() if is_tensor(value) else value


def staged(iterable: Any) -> Items | None:
    """Return how the device runs over ``iterable``; None where Python does.

    Only while a function is traced.
    """
    if isinstance(iterable, Items):
        return iterable
    if is_tensor(iterable):
        return TensorItems(Tensor(iterable))
    from ipu.ipu_infeed_queue import IPUIterator
    from ipu.tf.data import Dataset

    if isinstance(iterable, Dataset):
        return DatasetItems(iterable)
    if isinstance(iterable, (IPUIterator, FeedIterator)):
        return IteratorItems(iterable)
    return None


class FeedIterator:
    """``iter(dataset)`` in a traced function: from the start in each run."""

    def __init__(self, dataset: Any) -> None:
        from ipu.tf._functions import tracing
        from ipu.tf.autograph._feed import RestartedFeed

        self._feed = RestartedFeed(dataset, tracing.current_build())

    def __iter__(self) -> FeedIterator:
        return self

    def __next__(self) -> Any:
        return self._feed.next()

    get_next = __next__


def lazy_iter(iterable: Any, *sentinel: Any) -> Any:
    """Return ``iter``; of a data set in a traced function, one that the device
    reads."""
    from ipu.tf.data import Dataset

    if (
        not sentinel
        and _core.open_trace() is not None
        and isinstance(iterable, Dataset)
    ):
        return FeedIterator(iterable)
    return iter(iterable, *sentinel)


def lazy_enumerate(iterable: Iterable[Any], start: Any = 0) -> Any:
    """Return ``enumerate``, staged where ``iterable`` is."""
    items = staged(iterable) if _core.open_trace() is not None else None
    if items is None:
        return enumerate(iterable, start)
    return _Enumerated(items, start)


def lazy_zip(*iterables: Iterable[Any], **options: Any) -> Any:
    """Return ``zip``, staged where one of the iterables is."""
    if _core.open_trace() is None:
        return zip(*iterables, **options)  # noqa: B905
    parts = [
        _SequenceItems(one) if isinstance(one, range) else staged(one)
        for one in iterables
    ]
    if not any(p is not None and not isinstance(p, _SequenceItems) for p in parts):
        return zip(*iterables, **options)  # noqa: B905
    if any(p is None for p in parts):
        raise TypeError(
            "zip of tensors, data sets or device iterators with Python iterables: "
            "convert the Python ones to tensors."
        )
    return _Zipped([p for p in parts if p is not None])
