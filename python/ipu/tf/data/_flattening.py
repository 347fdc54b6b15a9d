# SPDX-License-Identifier: MIT
"""Methods of ``Dataset`` that run Python for each element: data sets made of elements,
and batches of elements of different shapes.

They are generators on the host: right for reading many sources one after the other, not
for the work on each sample, which belongs into ``map``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._tensor.composite_specs import (
    CompositeSpec,
    RaggedTensorSpec,
    SparseTensorSpec,
)
from ipu.tf.data import _live, _packed, _rows
from ipu.tf.data._made_by import note
from ipu.tf.data._transformations import integer
from ipu.tf.data._turns import ByTurns
from ipu.tf.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from ipu.tf.data._dataset import Dataset

_CYCLE = 4  # inputs that interleave reads at a time where nothing is said
_Arrays = tuple["np.ndarray[Any, Any]", ...]


@boundaries(after=note)
class Flattening:
    """Mixed into :class:`Dataset`."""

    if TYPE_CHECKING:
        _impl: Any
        _structure: Any

    def flat_map(
        self, map_func: Callable[..., Any], name: str | None = None
    ) -> Dataset:
        """Make a data set of each element, and give the elements of one after another.

        Args:
            map_func: Gets an element as eager tensors, returns a ``Dataset``. It is
                also called once at the start, to learn the structure.

        Returns:
            A data set of unknown cardinality.

        Raises:
            TypeError: ``map_func`` does not return a data set.
            ValueError: There is no element to learn the structure from.

        Example:
            >>> dataset = tf.data.Dataset.range(3).flat_map(
            ...     lambda x: tf.data.Dataset.from_tensors(x).repeat(2))
            >>> [int(x) for x in dataset]
            [0, 0, 1, 1, 2, 2]
        """
        del name
        return self._flattened("flat_map", map_func, 1, 1)

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: int | None = None,
        block_length: int | None = None,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Make a data set of each element, and give elements of several by turns.

        Args:
            map_func: As for :meth:`flat_map`.
            cycle_length: How many are read at a time; None or AUTOTUNE: 4.
            block_length: Elements of one before it is the next one's turn, 1.
            num_parallel_calls: Accepted for compatibility.
            deterministic: Accepted for compatibility; the order is always the same.

        Returns:
            A data set of unknown cardinality.

        Raises:
            TypeError: ``map_func`` does not return a data set.
            ValueError: A length below 1, or no element to learn the structure from.

        Example:
            >>> dataset = tf.data.Dataset.range(2).interleave(
            ...     lambda x: tf.data.Dataset.from_tensors(x).repeat(3), cycle_length=2)
            >>> [int(x) for x in dataset]
            [0, 1, 0, 1, 0, 1]
        """
        del num_parallel_calls, deterministic, name
        cycle = -1 if cycle_length is None else integer(cycle_length, "cycle_length")
        cycle = _CYCLE if cycle == -1 else cycle
        block = 1 if block_length is None else integer(block_length, "block_length")
        if cycle < 1 or block < 1:
            raise ValueError(
                "`cycle_length` and `block_length` must be greater than zero. "
                f"Received: cycle_length={cycle_length!r}, "
                f"block_length={block_length!r}."
            )
        return self._flattened("interleave", map_func, cycle, block)

    def _flattened(
        self, what: str, map_func: Callable[..., Any], cycle: int, block: int
    ) -> Dataset:
        from ipu.tf.data._dataset import Dataset

        impl = self._impl
        unpacked = _packed.unpacker(self._structure)

        def inner(element: tuple[Any, ...]) -> Dataset:
            packed = unpacked(element)
            unpacks = type(packed) is tuple
            made = map_func(*packed) if unpacks else map_func(packed)
            if not isinstance(made, Dataset):
                raise TypeError(
                    f"`map_func` of {what} must return a `Dataset` object. "
                    f"Received: {made!r}."
                )
            return made

        def opened(element: tuple[Any, ...]) -> Any:
            return _live.start_iterator(inner(element)._impl)

        def start() -> Iterator[_Arrays]:
            sources = map(opened, _live.start_iterator(impl))
            return map(_packed.row_of, ByTurns(sources, cycle, block))

        examples = _live.first_results(impl, inner)
        if not examples:
            raise ValueError(
                f"{what} cannot tell the structure of its elements, as there is none "
                "to make a data set of."
            )
        made = _core.Dataset.generator(examples[0]._impl.types, start)
        return Dataset(made, examples[0]._structure)

    def padded_batch(
        self,
        batch_size: int,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:
        """Stack elements whose shapes differ, after padding them.

        Args:
            batch_size: Elements in a batch, at least 1.
            padded_shapes: Nest of shapes in the structure of the elements; None for a
                size is the largest in the batch. Default: all sizes that are not known.
            padding_values: Nest of scalars, or one for all. Default: 0.
            drop_remainder: Whether a last batch of fewer elements is dropped.

        Returns:
            A data set of batches.

        Raises:
            InvalidArgumentError: An element does not fit into its padded shape.
            ValueError: ``batch_size`` is less than 1.

        Example:
            >>> spec = tf.TensorSpec((None,), tf.int32)
            >>> dataset = tf.data.Dataset.from_generator(
            ...     lambda: ([1], [1, 2]), output_signature=spec)
            >>> [x.numpy().tolist() for x in dataset.padded_batch(2)]
            [[[1, 0], [1, 2]]]
        """
        from ipu.tf.data._dataset import Dataset

        del name
        size = integer(batch_size, "batch_size")
        if size < 1:
            raise ValueError(
                f"`batch_size` must be at least 1. Received: batch_size={batch_size!r}."
            )
        specs = nest.flatten(self._structure)
        for number, spec in enumerate(specs):
            if isinstance(spec, CompositeSpec) and _packed.is_packed(spec):
                raise TypeError(
                    f"padded_batch: component {number} is {spec!r}. Batch it with "
                    "batch(), and map the batches with to_tensor()."
                )
        shapes = _rows.padded_shapes(padded_shapes, specs, self._structure)
        values = _rows.padding_values(padding_values, specs, self._structure)
        first = size if drop_remainder else None
        made = [
            TensorSpec((first, *shape), spec.dtype)
            for spec, shape in zip(specs, shapes, strict=True)
        ]

        def stack(column: Sequence[Any], index: int) -> np.ndarray[Any, Any]:
            return _rows.padded(column, shapes[index], values[index], index)

        impl = _rows.stacked_batches(
            self._impl, specs, made, size, bool(drop_remainder), stack
        )
        return Dataset(impl, nest.pack_sequence_as(self._structure, made))

    def ragged_batch(
        self,
        batch_size: int,
        drop_remainder: bool = False,
        row_splits_dtype: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Join consecutive elements, whose sizes may differ, to ragged tensors.

        Args:
            batch_size: Elements in a batch, at least 1.
            drop_remainder: Whether a last batch of fewer elements is dropped.
            row_splits_dtype: Accepted; splits are int64.

        Returns:
            A data set whose elements are :class:`tf.RaggedTensor` where sizes are not
            known, and dense tensors where they are.

        Raises:
            InvalidArgumentError: ``batch_size`` is less than 1.
            TypeError: ``batch_size`` is not an integer.

        Example:
            >>> rows = tf.data.Dataset.range(4).map(lambda n: tf.range(n))
            >>> [batch.to_list() for batch in rows.ragged_batch(2)]
            [[[], [0]], [[0, 1], [0, 1, 2]]]
        """
        from ipu.tf.data._dataset import Dataset

        del name, row_splits_dtype
        kinds = nest.map_structure(_ragged_spec, self._structure)
        size, drop = integer(batch_size, "batch_size"), bool(drop_remainder)
        return Dataset(*_rows.batched(self._impl, self._structure, size, drop, kinds))

    def sparse_batch(
        self, batch_size: int, row_shape: Any, name: str | None = None
    ) -> Dataset:
        """Join consecutive tensors to sparse ones.

        Args:
            batch_size: Elements in a batch, at least 1.
            row_shape: What no element is larger than; None for a size that is the
                largest one of the batch.

        Returns:
            A data set of ``tf.sparse.SparseTensor``, which hold all numbers of the
            elements.

        Raises:
            DataLossError: When an element is read: it is larger than ``row_shape``.
            InvalidArgumentError: ``batch_size`` is less than 1.
            TypeError: Elements are no dense tensors.

        Example:
            >>> rows = tf.data.Dataset.range(3).map(lambda n: tf.range(n))
            >>> for batch in rows.sparse_batch(3, [4]):
            ...     print(tf.sparse.to_dense(batch, -1).numpy().tolist())
            [[-1, -1, -1, -1], [0, -1, -1, -1], [0, 1, -1, -1]]
        """
        from ipu.tf.data._dataset import Dataset

        del name
        spec, size = self._structure, integer(batch_size, "batch_size")
        if nest.is_nested(spec) or _packed.has_composite(spec):
            raise TypeError(
                "sparse_batch takes elements that are one dense tensor. Received a "
                f"data set of {spec!r}."
            )
        shape = tuple(row_shape)
        made = SparseTensorSpec((None, *shape), spec.dtype)

        def stack(column: Sequence[Any], index: int) -> Any:
            del index
            return _rows.sparse_rows(column, shape)

        impl = _rows.stacked_batches(self._impl, [spec], [made], size, False, stack)
        return Dataset(impl, made)


def _ragged_spec(spec: Any) -> Any:
    """The spec of a leaf for batches that are ragged where a size is not known."""
    if isinstance(spec, (CompositeSpec, _packed.DatasetSpec)):
        return spec
    varying = [axis for axis, size in enumerate(spec.shape or ()) if size is None]
    return RaggedTensorSpec(spec.shape, spec.dtype, varying[-1]) if varying else spec
