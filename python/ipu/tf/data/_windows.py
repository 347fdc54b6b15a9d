# SPDX-License-Identifier: MIT
"""Methods of ``Dataset`` that make data sets of neighbouring or similar elements."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError
from ipu._text.tracebacks import boundaries, drop_own_frames
from ipu.tf import nest
from ipu.tf.data import _live, _packed
from ipu.tf.data._made_by import note
from ipu.tf.data._rows import padded_shapes
from ipu.tf.data._transformations import integer
from ipu.tf.data._turns import ByTurns
from ipu.tf.tensor_shape import TensorShape

if TYPE_CHECKING:
    from ipu.tf.data._dataset import Dataset

_Arrays = tuple["np.ndarray[Any, Any]", ...]


@boundaries(after=note)
class Windows:
    """Mixed into :class:`Dataset`."""

    if TYPE_CHECKING:
        _impl: Any
        _structure: Any

        def batch(self, *args: Any, **kwargs: Any) -> Dataset: ...
        def padded_batch(self, *args: Any, **kwargs: Any) -> Dataset: ...

    def window(
        self,
        size: int,
        shift: int | None = None,
        stride: int = 1,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Make a data set of each window over the elements.

        Args:
            size: Elements in a window, at least 1.
            shift: Elements from the beginning of one window to that of the next one;
                None: ``size``.
            stride: Elements from one of a window to its next one.
            drop_remainder: Whether windows of fewer elements, at the end, are dropped.

        Returns:
            A data set of data sets; where elements are nests, of nests of them. Turn
            them into tensors with ``flat_map``.

        Raises:
            InvalidArgumentError: A number is less than 1.

        Example:
            >>> windows = tf.data.Dataset.range(5).window(3, 1, drop_remainder=True)
            >>> rows = windows.flat_map(lambda window: window.batch(3))
            >>> [x.numpy().tolist() for x in rows]
            [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        from ipu.tf.data._dataset import Dataset

        del name
        count = integer(size, "size")
        step = count if shift is None else integer(shift, "shift")
        apart = integer(stride, "stride")
        for what, number in (("size", count), ("shift", step), ("stride", apart)):
            if number < 1:
                raise InvalidArgumentError(
                    f"Window {what} must be greater than zero. "
                    f"Received: {what}={number}."
                )
        impl, specs = self._impl, nest.flatten(self._structure)
        made = [_packed.DatasetSpec(spec) for spec in specs]

        def packed(rows: list[_Arrays]) -> _Arrays:
            return tuple(map(_packed.pack_column, zip(*rows, strict=True)))

        def start() -> Iterator[_Arrays]:
            rows = _packed.packed_rows(impl)
            return map(packed, _Views(rows, count, step, apart, bool(drop_remainder)))

        total = impl.cardinality
        if total >= 0:
            span = (count - 1) * apart + 1
            total = (
                max(total - span, -step) // step + 1
                if drop_remainder
                else (-(-total // step))
            )
        types = (_packed.CORE,) * len(made)
        dataset = _core.Dataset.generator(types, start, total)
        return Dataset(dataset, nest.pack_sequence_as(self._structure, made))

    def group_by_window(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        window_size: int | None = None,
        window_size_func: Callable[[Any], Any] | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Collect elements by key, and turn each full collection into elements.

        Args:
            key_func: Gets an element, gives its key, an integer.
            reduce_func: Gets a key (an int64 scalar) and a data set of elements of that
                key, gives a data set. It is also called once at the start, to learn the
                structure.
            window_size: Elements of one key that make a collection.
            window_size_func: Gives that number for a key, in place of it.

        Returns:
            A data set of unknown cardinality: what full collections give, in the order
            in which they get full; at the end what is left, by key.

        Raises:
            ValueError: Neither or both sizes are given; a key is not an integer; there
                is no element to learn the structure from.
            TypeError: ``reduce_func`` does not return a data set.
            InvalidArgumentError: When an element is read: a size is less than 1.

        Example:
            >>> groups = tf.data.Dataset.range(6).group_by_window(
            ...     lambda x: x % 2, lambda key, group: group.batch(2), window_size=2)
            >>> [x.numpy().tolist() for x in groups]
            [[0, 2], [1, 3], [4], [5]]
        """
        del name
        if (window_size is None) == (window_size_func is None):
            raise ValueError(
                "Either the `window_size` argument or the `window_size_func` argument "
                f"must be specified, not {'both' if window_size else 'none'}."
            )
        if window_size is not None:
            integer(window_size, "window_size")
        size_of = window_size_func or (lambda key: window_size)
        return self._grouped(key_func, reduce_func, size_of, None)

    def _grouped(
        self,
        key_func: Callable[..., Any],
        reduce_func: Callable[[Any, Any], Any],
        size_func: Callable[[Any], Any],
        example: Any,
    ) -> Dataset:
        """`group_by_window`; `example` has the structure of what is made, if given."""
        from ipu.tf.data._dataset import Dataset

        impl, structure = self._impl, self._structure
        unpacked = _packed.unpacker(structure)

        def size_of(key: Any) -> int:
            size = integer(size_func(_core.Tensor(key)), "window_size")
            if size < 1:
                raise InvalidArgumentError(
                    f"Window size must be greater than zero, but got {size}."
                )
            return size

        def reduced(key: Any, rows: list[_Arrays]) -> Dataset:
            made = reduce_func(_core.Tensor(key), _packed.of_rows(rows, structure))
            if not isinstance(made, Dataset):
                raise TypeError(
                    "`reduce_func` must return a single `tf.data.Dataset` object. "
                    f"Received: {made!r}."
                )
            return made

        def key_of(element: Any) -> Any:
            args = element if type(element) is tuple else (element,)
            key = np.asarray(key_func(*args))
            if key.dtype.kind not in "iu" or key.size != 1:
                raise ValueError(
                    f"`key_func` must give an integer scalar. Received: {key!r}."
                )
            return np.int64(key.reshape(()))

        def results(groups: dict[Any, list[_Arrays]], key: Any) -> Iterator[_Arrays]:
            return _packed.packed_rows(reduced(key, groups.pop(key))._impl)

        def full(groups: dict[Any, list[_Arrays]], tensors: Any) -> Any:
            """What the group gives that is full with this element, if there is one."""
            key = key_of(unpacked(tensors))
            size = size_of(key)
            group = groups.setdefault(key, [])
            group.append(_packed.row_of(tensors))
            return results(groups, key) if len(group) >= size else iter(())

        def start() -> Iterator[_Arrays]:
            groups: dict[Any, list[_Arrays]] = {}
            elements = _live.start_iterator(impl)
            keys = iter(lambda: min(groups, default=None), None)
            made = ByTurns(map(lambda one: full(groups, one), elements), 1, 1)
            left = ByTurns(map(lambda key: results(groups, key), keys), 1, 1)
            return ByTurns(iter([made, left]), 1, 1)

        if example is None:
            examples = _live.first_results(
                impl,
                lambda first: reduced(key_of(unpacked(first)), [_packed.row_of(first)]),
            )
            if not examples:
                raise ValueError(
                    "group_by_window cannot tell the structure of its elements, as "
                    "there is none to make a group of."
                )
            example = examples[0]
        made = _core.Dataset.generator(example._impl.types, start)
        return Dataset(made, example._structure)

    def bucket_by_sequence_length(
        self,
        element_length_func: Callable[..., Any],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        padded_shapes: Any = None,
        padding_values: Any = None,
        pad_to_bucket_boundary: bool = False,
        no_padding: bool = False,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Make padded batches of elements of similar length.

        Args:
            element_length_func: Gets an element, gives its length, an integer.
            bucket_boundaries: Lengths at which the next bucket begins, ascending.
            bucket_batch_sizes: Batch size of each bucket: one more than boundaries.
            padded_shapes: As for :meth:`padded_batch`.
            padding_values: As for :meth:`padded_batch`.
            pad_to_bucket_boundary: Whether sizes that are not known are padded to the
                bucket's largest length rather than the batch's. So there are only as
                many shapes as buckets.
            no_padding: Whether elements have the same lengths already.
            drop_remainder: Whether batches that do not fill up are dropped.

        Returns:
            A data set of batches, of unknown cardinality.

        Raises:
            ValueError: The number of sizes is wrong.
            InvalidArgumentError: With ``pad_to_bucket_boundary`` an element is as long
                as the last boundary, or longer.

        Example:
            >>> rows = tf.data.Dataset.from_generator(
            ...     lambda: ([1], [1, 2, 3], [1, 2]),
            ...     output_signature=tf.TensorSpec((None,), tf.int32))
            >>> buckets = rows.bucket_by_sequence_length(len, [3], [2, 2])
            >>> [x.numpy().tolist() for x in buckets]
            [[[1, 0], [1, 2]], [[1, 2, 3]]]
        """
        if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
            raise ValueError(
                "`len(bucket_batch_sizes)` must equal `len(bucket_boundaries) + 1`. "
                f"Received: {len(bucket_batch_sizes)} sizes and "
                f"{len(bucket_boundaries)} boundaries."
            )
        boundaries = [integer(one, "bucket_boundaries") for one in bucket_boundaries]
        sizes = [integer(one, "bucket_batch_sizes") for one in bucket_batch_sizes]

        def key_of(*element: Any) -> np.int64:
            length = int(np.asarray(element_length_func(*element)))
            bucket: np.int64 = np.searchsorted(boundaries, length, side="right")
            return bucket

        def batch(key: Any, group: Any) -> Any:
            number = int(key)
            if no_padding:
                return group.batch(sizes[number], drop_remainder)
            shapes = padded_shapes
            if pad_to_bucket_boundary:
                if number == len(boundaries):
                    raise InvalidArgumentError(
                        "When pad_to_bucket_boundary=True, elements must have length "
                        f"< max(bucket_boundaries), which is {boundaries[-1]}."
                    )
                shapes = _filled(padded_shapes, self._structure, boundaries[number] - 1)
            return group.padded_batch(
                sizes[number], shapes, padding_values, drop_remainder
            )

        example = (
            self.batch(1)
            if no_padding
            else self.padded_batch(1, padded_shapes, padding_values)
        )
        return self._grouped(key_of, batch, lambda key: sizes[int(key)], example)


class _Views(Iterator[list[_Arrays]]):
    """The rows of each window: those that the next ones need are kept.

    A window fails with a row of its own that fails; other rows are nothing to it.
    """

    def __init__(
        self, rows: Iterator[_Arrays], size: int, shift: int, stride: int, drop: bool
    ) -> None:
        self._source = rows
        self._size, self._shift, self._stride, self._drop = size, shift, stride, drop
        self._ahead: deque[_Arrays | Exception] = deque()
        self._gap = 0  # rows between the last window and the next one

    def _read(self) -> _Arrays | Exception | None:
        try:
            return next(self._source, None)
        except Exception as error:
            drop_own_frames(error)  # which hold this object, and it the error
            return error

    def __next__(self) -> list[_Arrays]:
        while self._gap and self._read() is not None:
            self._gap -= 1
        span = (self._size - 1) * self._stride + 1
        while len(self._ahead) < span and not self._gap:
            row = self._read()
            if row is None:
                break
            self._ahead.append(row)
        held = min(len(self._ahead), span)
        view = [self._ahead[at] for at in range(0, held, self._stride)]
        if not view or (self._drop and len(view) < self._size):
            raise StopIteration
        self._gap = max(0, self._shift - len(self._ahead))
        for _ in range(self._shift - self._gap):
            self._ahead.popleft()
        rows = []
        for row in view:
            if isinstance(row, Exception):
                raise row
            rows.append(row)
        return rows


def _filled(given: Any, structure: Any, size: int) -> Any:
    """Padded shapes with a size for each that is not known."""
    specs = nest.flatten(structure)
    shapes = padded_shapes(given, specs, structure)
    filled = [tuple(size if one is None else one for one in s) for s in shapes]
    if not nest.is_nested(structure):
        return filled[0]
    return nest.pack_sequence_as(structure, [TensorShape(one) for one in filled])
