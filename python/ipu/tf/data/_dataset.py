# SPDX-License-Identifier: MIT
"""``Dataset``: sources, properties and iteration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ipu import _core, tf
from ipu._device import strategy_state
from ipu._text.errors import InvalidArgumentError
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._tensor.html import dataset_html
from ipu.tf.data import _generator, _rows, _structure
from ipu.tf.data._flattening import Flattening
from ipu.tf.data._forgiving import Forgiving
from ipu.tf.data._iterator import Iterator, NumpyIterator
from ipu.tf.data._made_by import note, note_source
from ipu.tf.data._mixtures import Mixtures
from ipu.tf.data._scans import Scans
from ipu.tf.data._selections import Selections
from ipu.tf.data._storage import Storage
from ipu.tf.data._transformations import Transformations, integer
from ipu.tf.data._windows import Windows

AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2


@boundaries(after=note)
class Dataset(
    Transformations,
    Selections,
    Flattening,
    Windows,
    Mixtures,
    Scans,
    Forgiving,
    Storage,
):
    """A stream of elements, each a tensor or a nest of tensors.

    A data set is a description: it can be read any number of times, and each
    transformation gives a new one. Nests are tuples, named tuples and dicts. Elements
    are made in C; ``for element in dataset`` gives eager tensors.

    Example:
        >>> dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3])
        >>> [int(x) for x in dataset.map(lambda x: x + 1)]
        [2, 3, 4]
    """

    # --- sources ---------------------------------------------------------------------

    @staticmethod
    def _slices_held(tensors: Any) -> Dataset:
        """As :meth:`from_tensor_slices`, but arrays are held, not copied: for what is
        read while a call lasts."""
        if _rows.holds_text(tensors):
            return Dataset(*_rows.text_slices(tensors))
        return Dataset._from_held(_core.Dataset.slices, tensors, _structure.to_array)

    @staticmethod
    def _from_held(
        make: Callable[[tuple[Any, ...]], Any],
        tensors: Any,
        to_array: Callable[[Any, str], Any] = _structure.to_own_array,
    ) -> Dataset:
        arrays = _structure.map_leaves(lambda leaf: to_array(leaf, "tensors"), tensors)
        impl = make(tuple(nest.flatten(arrays)))
        specs = [_structure.spec_of(spec) for spec in impl.types]
        made = Dataset(impl, nest.pack_sequence_as(arrays, specs))
        note_source(made, make.__name__, arrays)
        return made

    @staticmethod
    def from_tensor_slices(tensors: Any, name: str | None = None) -> Dataset:
        """Make elements of the slices of tensors along their first axis.

        NumPy arrays keep their dtype and are copied: what is written to them later is
        not seen. Data sets made of this one share the copy.

        Args:
            tensors: An array, tensor or nested list, or a nest of them with equal first
                sizes. Numbers in lists become int32 or float32.

        Returns:
            A data set of as many elements as the first size says.

        Raises:
            ValueError: A scalar, no tensor at all, or first sizes that differ.
            TypeError: Something that holds no numbers.

        Example:
            >>> x = np.zeros((4, 2), np.float32)
            >>> tf.data.Dataset.from_tensor_slices(x).element_spec.shape
            (2,)
        """
        del name
        if _rows.holds_text(tensors):
            return Dataset(*_rows.text_slices(tensors))
        return Dataset._from_held(_core.Dataset.slices, tensors)

    @staticmethod
    def from_tensors(tensors: Any, name: str | None = None) -> Dataset:
        """Make a data set of one element.

        Args:
            tensors: An array, tensor, number or nested list, or a nest of them; copied
                as in :meth:`from_tensor_slices`.

        Returns:
            A data set of one element.

        Raises:
            TypeError: Something that holds no numbers.

        Example:
            >>> [x.numpy().tolist() for x in tf.data.Dataset.from_tensors([1, 2])]
            [[1, 2]]
        """
        del name
        if _rows.holds_text(tensors):
            return Dataset(*_rows.text_tensors(tensors))
        return Dataset._from_held(_core.Dataset.tensors, tensors)

    @staticmethod
    def range(*args: Any, output_type: Any = None, name: str | None = None) -> Dataset:
        """Count.

        Args:
            *args: ``stop``, or ``start, stop``, or ``start, stop, step``; integers, as
                for Python's ``range``.
            output_type: dtype of the elements. Default int64.

        Returns:
            A data set of scalars.

        Raises:
            ValueError: No argument, or more than three.
            InvalidArgumentError: ``step`` is zero.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(1, 6, 2)]
            [1, 3, 5]
        """
        del name
        if not 1 <= len(args) <= 3:
            raise ValueError(
                "range takes stop, or start and stop, or start, stop and step. "
                f"Received: {len(args)} arguments."
            )
        numbers = [integer(number, "range's argument") for number in args]
        if len(numbers) == 1:
            numbers = [0, *numbers]
        impl = _core.Dataset.range(*numbers, *[1] * (3 - len(numbers)))
        dataset = Dataset(impl, _structure.spec_of(impl.types[0]))
        if output_type is None or tf.as_dtype(output_type) == tf.int64:
            return dataset
        return dataset.map(lambda number: tf.cast(number, output_type))

    @staticmethod
    def from_generator(
        generator: Callable[..., Any],
        output_types: Any = None,
        output_shapes: Any = None,
        args: tuple[Any, ...] | None = None,
        output_signature: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Make elements of what a Python generator yields.

        Args:
            generator: Called at the start of each pass; returns an iterable of
                elements, whose structure is that of the signature.
            output_types: dtype, or nest of dtypes, of an element.
            output_shapes: Shape, or nest of shapes, in the structure of
                ``output_types``; None for sizes, or a whole shape, that vary. Default:
                nothing is known. Devices need known shapes.
            args: Passed to ``generator``, as NumPy values.
            output_signature: Nest of ``TensorSpec``, in place of the two.

        Returns:
            A data set of unknown cardinality. It calls the generator from whatever
            thread reads, with Python's lock held.

        Raises:
            TypeError: ``generator`` cannot be called, or the element's structure is not
                said. When an element is read: it has another structure, or cannot be
                converted to its dtype, or has another shape. An exception of the
                generator itself arrives as it is.

        Example:
            >>> spec = tf.TensorSpec((), tf.float32)
            >>> dataset = tf.data.Dataset.from_generator(
            ...     lambda: iter([1.0, 2.0]), output_signature=spec)
            >>> [float(x) for x in dataset]
            [1.0, 2.0]
        """
        del name
        if not callable(generator):
            raise TypeError(
                f"`generator` must be a Python callable. Received: {generator!r}. "
                "Pass the generator function, not what it returns."
            )
        structure = _generator.declared(output_types, output_shapes, output_signature)
        values = tuple(_structure.to_own_array(arg, "args")[()] for arg in args or ())
        start = _generator.starter(generator, values, structure)
        specs = tuple(_structure.core_spec(spec) for spec in nest.flatten(structure))
        return Dataset(_core.Dataset.generator(specs, start), structure)

    @staticmethod
    def list_files(
        file_pattern: Any,
        shuffle: bool | None = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Make elements of the names of files that match a pattern.

        Args:
            file_pattern: A glob pattern, or a list of them.
            shuffle: Whether the order is another one in each pass; None (default): yes.
                Otherwise names are sorted.
            seed: As for :meth:`shuffle`.

        Returns:
            A data set of strings.

        Raises:
            InvalidArgumentError: No file matches.
        """
        del name
        found = tf.io.matching_files(file_pattern)
        if not len(found):
            raise InvalidArgumentError(f"No files matched pattern: {file_pattern!r}")
        names = Dataset.from_tensor_slices(found)
        return names if shuffle is False else names.shuffle(len(found), seed)

    @staticmethod
    def zip(*args: Any, datasets: Any = None, name: str | None = None) -> Dataset:
        """Join the elements of several data sets, up to the end of the shortest.

        Args:
            *args: Data sets, or one nest (tuple or dict) of data sets.
            datasets: The nest, by name.

        Returns:
            A data set whose elements have the structure of the arguments.

        Raises:
            TypeError: Something that is not a data set; a list.
            ValueError: No data set, or both ways of passing them.

        Example:
            >>> a, b = tf.data.Dataset.range(3), tf.data.Dataset.range(5, 9)
            >>> [(int(x), int(y)) for x, y in tf.data.Dataset.zip((a, b))]
            [(0, 5), (1, 6), (2, 7)]
        """
        del name
        if bool(args) == (datasets is not None):
            raise ValueError("zip takes data sets, or `datasets`, and not both.")
        if datasets is None:
            datasets = args[0] if len(args) == 1 else args
        leaves = nest.flatten(_structure.map_leaves(_checked_dataset, datasets))
        impl = _core.Dataset.zip(tuple(leaf._impl for leaf in leaves))
        concrete = [leaf._concrete() for leaf in leaves]
        example = None
        if None not in concrete:
            example = tuple(spec for one in concrete for spec in one or ())
        return Dataset(impl, _joined(datasets), example)

    # --- properties ------------------------------------------------------------------

    @property
    def element_spec(self) -> Any:
        """Nest of ``TensorSpec`` of an element; None for sizes that are not known.

        Example:
            >>> tf.data.Dataset.range(5).batch(2).element_spec.shape
            (None,)
        """
        return self._structure

    def cardinality(self, name: str | None = None) -> Any:
        """Give the number of elements.

        Returns:
            An int64 scalar tensor; ``tf.data.INFINITE_CARDINALITY`` (-1) for an endless
            data set, ``tf.data.UNKNOWN_CARDINALITY`` (-2) for one that must be read to
            be counted (a generator).

        Example:
            >>> int(tf.data.Dataset.range(5).batch(2).cardinality())
            3
        """
        del name
        return tf.convert_to_tensor(np.int64(self._impl.cardinality))

    def __len__(self) -> int:
        count: int = self._impl.cardinality
        if count == INFINITE_CARDINALITY:
            raise TypeError("The dataset is infinite.")
        if count == UNKNOWN_CARDINALITY:
            raise TypeError("The dataset length is unknown.")
        return count

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Dataset element_spec={self._structure!r}>"

    def _repr_html_(self) -> str:
        return dataset_html(int(self.cardinality()), self._structure)

    # --- iteration -------------------------------------------------------------------

    def __iter__(self) -> Any:
        """Start a pass: an ``Iterator`` of eager tensors.

        In the scope of an ``IPUStrategy`` that has ``enable_dataset_iterators``, an
        ``IPUOwnedIterator``, whose elements are taken by the device.
        """
        strategy = strategy_state.get_strategy()
        if (
            strategy is not None
            and strategy.enable_dataset_iterators
            and _core.open_trace() is None
        ):
            from ipu.ipu_infeed_queue import IPUOwnedIterator

            return IPUOwnedIterator(self)
        return Iterator(self._impl, self._structure)

    def as_numpy_iterator(self) -> NumpyIterator:
        """Give an iterator that converts tensors to NumPy arrays.

        Returns:
            An iterator over nests of arrays.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(3).as_numpy_iterator()]
            [0, 1, 2]
        """
        return NumpyIterator(self._impl, self._structure)


def _checked_dataset(leaf: Any) -> Dataset:
    if isinstance(leaf, list):
        raise TypeError(
            "The argument to `Dataset.zip()` must be a nest of data sets; a Python "
            "list is not supported. Use a tuple instead."
        )
    if not isinstance(leaf, Dataset):
        raise TypeError(
            "The argument to `Dataset.zip()` must be a nest of data sets. "
            f"Received: {leaf!r}."
        )
    return leaf


def _joined(datasets: Any) -> Any:
    """The nest of data sets with each replaced by its structure."""
    if isinstance(datasets, Dataset):
        return datasets._structure
    if isinstance(datasets, Mapping):
        return {key: _joined(item) for key, item in datasets.items()}
    items = [_joined(item) for item in datasets]
    return type(datasets)(*items) if hasattr(datasets, "_fields") else tuple(items)
