# SPDX-License-Identifier: MIT
"""``Dataset``: sources, transformations, properties and iteration."""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from ipu import _core
from ipu._device import strategy_state
from ipu._files.whole import write_whole
from ipu._text.errors import (
    AlreadyExistsError,
    DataLossError,
    InvalidArgumentError,
    NotFoundError,
)
from ipu._text.log import logger
from ipu._text.refusals import refuse_given
from ipu._text.tracebacks import boundaries, drop_own_frames
from ipu.tf import nest
from ipu.tf._functions import function as _function
from ipu.tf._string_ops.host_only import HostOnlyError, NoShapeError
from ipu.tf._string_ops.tensors import is_text, path_of
from ipu.tf._tensor.composite_specs import (
    CompositeSpec,
    RaggedTensorSpec,
    SparseTensorSpec,
)
from ipu.tf._tensor.convert import cast, convert_to_tensor
from ipu.tf._tensor.face import dataset_html
from ipu.tf.data import (
    _generator,
    _iterator,
    _live,
    _map,
    _packed,
    _rows,
    _seeds,
    _stored,
    _structure,
)
from ipu.tf.data._iterator import NumpyIterator
from ipu.tf.data._made_by import note, note_source
from ipu.tf.data._map import HostFunction, Mapped, converted
from ipu.tf.data._options import Options
from ipu.tf.data._parallel import calls_of
from ipu.tf.data._rows import padded_shapes
from ipu.tf.data._turns import ByTurns
from ipu.tf.dtypes import as_dtype, int32, int64
from ipu.tf.tensor_shape import TensorShape
from ipu.tf.tensor_spec import TensorSpec

AUTOTUNE = -1
INFINITE_CARDINALITY = -1
UNKNOWN_CARDINALITY = -2
_CYCLE = 4  # inputs that interleave reads at a time where nothing is said
_MOST_FAILURES = 1000  # one after the other, where nobody knows how many there are
_DRAWN = 256  # random numbers that are made at once
_NEXT_PASS = 0x9E3779B97F4A7C15  # what sets the seeds of passes apart
_PEEKS = 8  # elements that say which sizes vary, where values say them
# in the folder of `save`
_ROWS, _MORE_ROWS, _ABOUT = "elements.rows", "elements.2.rows", "about.json"
_Arrays = tuple["np.ndarray[Any, Any]", ...]
_Self = TypeVar("_Self", bound="Dataset")


def integer(value: Any, name: str) -> int:
    """Return ``value``, an integer or integer scalar tensor, as an int."""
    if hasattr(value, "numpy"):
        value = value.numpy()
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} must be an integer. Received: {name}={value!r}."
        ) from None


class Reducer:
    """Reduce the elements of one key to one element.

    Args:
        init_func: Gets a key, an int64 scalar; gives the state of no element.
        reduce_func: Gets a state and an element; gives the next state.
        finalize_func: Gets the last state; gives the element.

    Example:
        >>> total = Reducer(lambda key: np.int64(0), lambda s, x: s + x, lambda s: s)
        >>> sums = tf.data.Dataset.range(6).group_by_reducer(lambda x: x % 2, total)
        >>> [int(x) for x in sums]
        [6, 9]
    """

    def __init__(
        self,
        init_func: Callable[[Any], Any],
        reduce_func: Callable[[Any, Any], Any],
        finalize_func: Callable[..., Any],
    ) -> None:
        for name, function in (
            ("init_func", init_func),
            ("reduce_func", reduce_func),
            ("finalize_func", finalize_func),
        ):
            if not callable(function):
                raise TypeError(f"`{name}` must be callable. Received: {function!r}.")
        self.init_func = init_func
        self.reduce_func = reduce_func
        self.finalize_func = finalize_func


@boundaries(after=note)
class Dataset:
    """A stream of elements, each a tensor or a nest of tensors.

    A data set is a description: it can be read any number of times, and each
    transformation gives a new one. Nests are tuples, named tuples and dicts. Elements
    are made in C; ``for element in dataset`` gives eager tensors.

    Example:
        >>> dataset = tf.data.Dataset.from_tensor_slices([1, 2, 3])
        >>> [int(x) for x in dataset.map(lambda x: x + 1)]
        [2, 3, 4]
    """

    _impl: Any
    _structure: Any
    _example: tuple[Any, ...] | None
    # what was cut into batches, into how large ones, and how often that is passed over:
    # known where this is `batch`, perhaps repeated, and nothing else
    _batches: tuple[Any, int, int] | None = None

    def __init__(self, impl: Any, structure: Any, example: Any = None) -> None:
        """Wrap a ``_core.Dataset``; users call the ``from_...`` methods.

        Args:
            impl: The core's data set.
            structure: Nest of TensorSpec.
            example: Concrete core specs of a likely element, where not all are known.
        """
        self._impl = impl
        self._structure = structure
        self._example = example

    def _then(self: _Self, impl: Any) -> _Self:
        """Wrap a transformation that leaves elements as they are."""
        return type(self)(impl, self._structure, self._example)

    def _is_sharded(self, count: int) -> bool:
        """Return whether it, or what it is made of, is one of so many shards."""
        from ipu.tf.data._auto_shard import inputs_of

        is_one = bool(self._impl.shards == count)
        return is_one or any(one._is_sharded(count) for one in inputs_of(self))

    def _concrete(self) -> tuple[Any, ...] | None:
        """Return core specs of a likely element, if they are known without reading
        one."""
        specs = tuple(_structure.core_spec(s) for s in nest.flatten(self._structure))
        known = all(shape is not None and None not in shape for _, shape in specs)
        return specs if known else self._example

    def _peek(self) -> tuple[Any, ...] | None:
        def specs_of(element: Any) -> tuple[Any, ...]:
            return tuple((as_dtype(t.dtype).name, tuple(t.shape)) for t in element)

        found = _live.first_results(self._impl, specs_of)
        return found[0] if found else None

    def _with_types(self: _Self, impl: Any, example: Any = None) -> _Self:
        """Wrap a transformation that changes the types, not the structure."""
        old = nest.flatten(self._structure)
        specs = [
            spec if _packed.is_packed(spec) else _structure.spec_of(type_)
            for spec, type_ in zip(old, impl.types, strict=True)
        ]
        return type(self)(impl, nest.pack_sequence_as(self._structure, specs), example)

    # --- sources ---------------------------------------------------------------------

    @staticmethod
    def _slices_held(tensors: Any) -> Dataset:
        """Work like :meth:`from_tensor_slices`, but arrays are held, not copied: for
        what is read while a call lasts."""
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
        if output_type is None or as_dtype(output_type) == int64:
            return dataset
        return dataset.map(lambda number: cast(number, output_type))

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
        from ipu.tf.io._files import matching_files  # what few programs need

        found = matching_files(file_pattern)
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

    # --- elements in another order, in batches, changed -------------------------------

    def shuffle(
        self: _Self,
        buffer_size: int,
        seed: int | None = None,
        reshuffle_each_iteration: bool | None = True,
        name: str | None = None,
    ) -> _Self:
        """Shuffle over a window that slides over the data set.

        The window is filled with the first ``buffer_size`` elements; each step gives
        one of them, chosen uniformly, and takes the next element in its place. For a
        full shuffle make it as large as the data set: over arrays it holds references,
        not copies.

        Args:
            buffer_size: Elements in the window, at least 1.
            seed: An integer, for the same order in every run. None (default) draws one
                that follows ``tf.random.set_seed``.
            reshuffle_each_iteration: Whether each pass has an order of its own, a
                function of the seed and the number of the pass. Default True.

        Returns:
            A data set of the same elements.

        Raises:
            InvalidArgumentError: ``buffer_size`` is less than 1.
            TypeError: ``buffer_size`` or ``seed`` is not an integer.

        Example:
            >>> dataset = tf.data.Dataset.range(4).shuffle(4, seed=1)
            >>> sorted(int(x) for x in dataset)
            [0, 1, 2, 3]
        """
        size = integer(buffer_size, "buffer_size")
        number = _seeds.for_shuffle() if seed is None else integer(seed, "seed")
        reshuffle = reshuffle_each_iteration is None or bool(reshuffle_each_iteration)
        number &= 0xFFFFFFFFFFFFFFFF
        return self._then(self._impl.shuffle(size, number, reshuffle))

    def batch(
        self: _Self,
        batch_size: int,
        drop_remainder: bool = False,
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> _Self:
        """Stack consecutive elements along a new first axis.

        Args:
            batch_size: Elements in a batch, at least 1.
            drop_remainder: Whether a last batch of fewer elements is dropped. Devices
                need batches of one size. Default False.
            num_parallel_calls, deterministic: Accepted for compatibility.

        Returns:
            A data set of batches. In its ``element_spec`` the first size is
            ``batch_size`` with ``drop_remainder``, else None.

        Raises:
            InvalidArgumentError: ``batch_size`` is less than 1; or, when an element is
                read, the elements of a batch differ in shape.
            TypeError: ``batch_size`` is not an integer.

        Example:
            >>> [x.numpy().tolist() for x in tf.data.Dataset.range(5).batch(2)]
            [[0, 1], [2, 3], [4]]
        """
        size = integer(batch_size, "batch_size")
        packed = _packed.has_packed(self._structure)
        if packed or _packed.has_composite(self._structure):
            batched = _rows.batched(self._impl, self._structure, size, drop_remainder)
            return type(self)(*batched)
        impl = self._impl.batch(size, bool(drop_remainder))
        concrete = self._concrete()
        structure = nest.pack_sequence_as(
            self._structure, [_structure.spec_of(spec) for spec in impl.types]
        )
        example = concrete and tuple((d, (size, *shape)) for d, shape in concrete)
        made = type(self)(impl, structure, example)
        made._batches = (self, size, 1)
        return made

    def map(
        self: _Self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> _Self:
        """Apply a function to each element.

        The function is traced: it is called with symbolic tensors and its ops are
        compiled into a program that C runs for each element. Where elements hold
        strings or data sets, or the function makes strings or calls Python
        (``tf.py_function``, ``tf.print``), Python calls it for each element with eager
        tensors, and for the first one right away, to learn what it gives. A tuple is
        passed as several arguments, a dict or named tuple as one. Random ops give new
        numbers for each element of each pass, the same in every run under
        ``tf.random.set_seed``.

        Args:
            map_func: Gets an element, returns a tensor, or a tuple or dict of tensors;
                a list counts as a tuple, and Python numbers become tensors.
            num_parallel_calls: How many calls by Python run at once, in threads of
                theirs; AUTOTUNE for one by processor where calls are long. It gains
                where the function reads and decodes files. Traced functions take no
                notice.
            deterministic: Accepted for compatibility; the order is always kept.

        Returns:
            A data set of what ``map_func`` returns.

        Raises:
            TypeError: ``map_func`` cannot be called or returns no tensors.
            ValueError: ``num_parallel_calls`` is not a positive number.
            Exception: Whatever ``map_func`` raises while it is traced.

        Example:
            >>> dataset = tf.data.Dataset.range(3).map(lambda x: x * x)
            >>> [int(x) for x in dataset]
            [0, 1, 4]
        """
        calls = calls_of(num_parallel_calls)
        if not callable(map_func):
            raise TypeError(f"map_func must be callable. Received: {map_func!r}.")
        if _packed.has_packed(self._structure):
            peeks = _PEEKS if _packed.has_composite(self._structure) else 0
            return self._map_by_python(map_func, calls, peeks)
        try:
            mapped = Mapped(map_func, self._structure, self._example, self._peek)
        except NoShapeError:
            return self._map_by_python(map_func, calls, _PEEKS)
        except HostOnlyError:
            return self._map_by_python(map_func, calls)
        specs = tuple(_structure.core_spec(s) for s in nest.flatten(mapped.structure))
        impl = self._impl.map(specs, mapped.compile, _seeds.for_map())
        return type(self)(impl, mapped.structure, mapped.example)

    def _map_by_python(
        self: _Self, function: Callable[..., Any], calls: int, peeks: int = 0
    ) -> _Self:
        called = HostFunction("map", function, _seeds.for_map(), peeks)
        made = _map.mapped(self._impl, self._structure, called, calls)
        return type(self)(*made)

    def repeat(self: _Self, count: int | None = None, name: str | None = None) -> _Self:
        """Go over the data set several times.

        Args:
            count: Passes. None (default) or -1: for ever.

        Returns:
            A data set of ``count`` times as many elements.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(2).repeat(2)]
            [0, 1, 0, 1]
        """
        number = -1 if count is None else integer(count, "count")
        made = self._then(self._impl.repeat(number))
        if self._batches is not None and self._batches[2] == 1:
            made._batches = (*self._batches[:2], number)
        return made

    def _repeat_from(self: _Self, count: int, first: int) -> _Self:
        """Work like ``repeat(count)``, with passes of given numbers, whatever was read
        before.

        Args:
            count: Passes; -1: for ever.
        """
        return self._then(self._impl.repeat_from(count, first))

    def take(self: _Self, count: int, name: str | None = None) -> _Self:
        """Keep the first elements.

        Args:
            count: At most as many; -1: all.

        Returns:
            A data set of at most ``count`` elements.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(9).take(2)]
            [0, 1]
        """
        return self._then(self._impl.take(integer(count, "count")))

    def skip(self: _Self, count: int, name: str | None = None) -> _Self:
        """Leave out the first elements.

        Args:
            count: How many; -1: all.

        Returns:
            A data set of the rest.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(5).skip(3)]
            [3, 4]
        """
        return self._then(self._impl.skip(integer(count, "count")))

    def prefetch(self: _Self, buffer_size: int, name: str | None = None) -> _Self:
        """Make elements ahead of their use, in a thread.

        Args:
            buffer_size: Elements made ahead; ``tf.data.AUTOTUNE``: a few; 0: none.

        Returns:
            A data set of the same elements.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(3).prefetch(1)]
            [0, 1, 2]
        """
        made = self._then(self._impl.prefetch(integer(buffer_size, "buffer_size")))
        made._batches = self._batches
        return made

    # --- which elements ---------------------------------------------------------------

    def filter(
        self: _Self, predicate: Callable[..., Any], name: str | None = None
    ) -> _Self:
        """Keep the elements for which a function gives True.

        Args:
            predicate: Traced like the function of :meth:`map`; gives a bool scalar.

        Returns:
            A data set of unknown cardinality.

        Raises:
            ValueError: ``predicate`` does not give a bool scalar.
            TypeError: ``predicate`` cannot be called.

        Example:
            >>> dataset = tf.data.Dataset.range(6).filter(lambda x: x % 2 == 1)
            >>> [int(x) for x in dataset]
            [1, 3, 5]
        """
        return self._chosen(predicate, False)

    def take_while(
        self: _Self, predicate: Callable[..., Any], name: str | None = None
    ) -> _Self:
        """Keep the elements before the first for which a function gives False.

        Args:
            predicate: Traced like the function of :meth:`map`; gives a bool scalar.

        Returns:
            A data set of unknown cardinality.

        Raises:
            ValueError: ``predicate`` does not give a bool scalar.
            TypeError: ``predicate`` cannot be called.
        """
        return self._chosen(predicate, True)

    def _chosen(self: _Self, predicate: Callable[..., Any], ends: bool) -> _Self:
        if not callable(predicate):
            raise TypeError(f"predicate must be callable. Received: {predicate!r}.")
        mapped = None
        if not _packed.has_packed(self._structure):
            with contextlib.suppress(HostOnlyError):
                mapped = Mapped(predicate, self._structure, self._example, self._peek)
        if mapped is None:
            what = "take_while" if ends else "filter"
            called = HostFunction(what, predicate, _seeds.for_map())
            return self._then(_map.selected(self._impl, self._structure, called, ends))
        result = mapped.structure
        is_verdict = (
            not nest.is_nested(result)
            and result.shape == ()
            and result.dtype.name == "bool"
        )
        if not is_verdict:
            raise ValueError(
                "`predicate` return type must be convertible to a scalar boolean "
                f"tensor. Received: {result!r}."
            )
        return self._then(self._impl.filter(mapped.compile, _seeds.for_map(), ends))

    def shard(
        self: _Self, num_shards: int, index: int, name: str | None = None
    ) -> _Self:
        """Keep each element number ``index + k * num_shards``.

        Args:
            num_shards: How many parts there are, at least 1.
            index: Which part this is, from 0.

        Returns:
            A data set of that part.

        Raises:
            InvalidArgumentError: A number that is out of its range.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(7).shard(3, 1)]
            [1, 4]
        """
        count, number = integer(num_shards, "num_shards"), integer(index, "index")
        if count == number == -1:  # SHARD_HINT: for AutoShardPolicy.HINT
            return self._then(self._impl)
        return self._then(self._impl.shard(count, number))

    # --- other elements ---------------------------------------------------------------

    def concatenate(self: _Self, dataset: Any, name: str | None = None) -> _Self:
        """Put another data set after this one.

        Args:
            dataset: Of the same structure and dtypes.

        Returns:
            A data set of the elements of both; sizes that differ are not known.

        Raises:
            TypeError: ``dataset`` is not a data set, or has elements of another kind.

        Example:
            >>> a, b = tf.data.Dataset.range(2), tf.data.Dataset.range(8, 10)
            >>> [int(x) for x in a.concatenate(b)]
            [0, 1, 8, 9]
        """
        if not isinstance(dataset, Dataset):
            raise TypeError(
                f"concatenate takes a data set. Received: dataset={dataset!r}."
            )
        try:
            nest.assert_same_structure(self._structure, dataset._structure)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "Two datasets to concatenate have different types: "
                f"{self._structure!r} and {dataset._structure!r}."
            ) from error
        impl = self._impl.concatenate(dataset._impl)
        return self._with_types(impl, self._concrete())

    def unbatch(self: _Self, name: str | None = None) -> _Self:
        """Make elements of the slices of each element along the first axis.

        Returns:
            A data set of the slices.

        Raises:
            ValueError: A component is a scalar.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(5).batch(2).unbatch()]
            [0, 1, 2, 3, 4]
        """
        if _packed.has_packed(self._structure):
            return type(self)(*_rows.unbatched(self._impl, self._structure))
        concrete = self._concrete()
        example = concrete and tuple((d, tuple(shape[1:])) for d, shape in concrete)
        return self._with_types(self._impl.unbatch(), example)

    def rebatch(
        self: _Self,
        batch_size: int,
        drop_remainder: bool = False,
        name: str | None = None,
    ) -> _Self:
        """Make batches of another size, as ``unbatch().batch(...)``."""
        return self.unbatch().batch(batch_size, drop_remainder, name=name)

    def enumerate(self, start: int = 0, name: str | None = None) -> Dataset:
        """Number the elements.

        Args:
            start: The first number.

        Returns:
            A data set of pairs of a number, int64, and an element.

        Example:
            >>> dataset = tf.data.Dataset.range(5, 7).enumerate(start=1)
            >>> [(int(i), int(x)) for i, x in dataset]
            [(1, 5), (2, 6)]
        """
        last = np.iinfo(np.int64).max
        return Dataset.zip((Dataset.range(integer(start, "start"), last), self))

    # --- keeping, declaring -----------------------------------------------------------

    def _assert_cardinality(self: _Self, expected: int) -> _Self:
        count = integer(expected, "expected_cardinality")
        return self._then(self._impl.assert_cardinality(count))

    def with_options(self: _Self, options: Any, name: str | None = None) -> _Self:
        """Attach options, for this data set and those that are made of it.

        Args:
            options: A ``tf.data.Options``.

        Returns:
            The same data set, with these options.

        Raises:
            TypeError: It is not a ``tf.data.Options``.
        """
        if not isinstance(options, Options):
            raise TypeError(
                f"with_options takes a tf.data.Options. Received: {options!r}."
            )
        same = self._then(self._impl)
        same.__dict__["_attached_options"] = options
        return same

    def options(self) -> Options:
        """Return the options that were attached to this data set, and to those that it
        is made of; the defaults where there are none."""
        from ipu.tf.data._auto_shard import options_of

        return options_of(self)

    # --- elements of elements ---------------------------------------------------------

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
        kinds = nest.map_structure(_ragged_spec, self._structure)
        size, drop = integer(batch_size, "batch_size"), bool(drop_remainder)
        return Dataset(*_rows.batched(self._impl, self._structure, size, drop, kinds))

    def sparse_batch(
        self, batch_size: int, row_shape: Any, name: str | None = None
    ) -> Dataset:
        """Join consecutive tensors to sparse ones.

        Args:
            batch_size: Elements in a batch, at least 1.
            row_shape: The largest shape of an element; None for a size that is the
                largest one of the batch.

        Returns:
            A data set of ``tf.sparse.SparseTensor``, which hold all numbers of the
            elements.

        Raises:
            DataLossError: When an element is read: it is larger than ``row_shape``.
            InvalidArgumentError: ``batch_size`` is less than 1.
            TypeError: Elements are not dense tensors.

        Example:
            >>> rows = tf.data.Dataset.range(3).map(lambda n: tf.range(n))
            >>> for batch in rows.sparse_batch(3, [4]):
            ...     print(tf.sparse.to_dense(batch, -1).numpy().tolist())
            [[-1, -1, -1, -1], [0, -1, -1, -1], [0, 1, -1, -1]]
        """
        spec, size = self._structure, integer(batch_size, "batch_size")
        if nest.is_nested(spec) or _packed.has_composite(spec):
            raise TypeError(
                "sparse_batch takes elements that are one dense tensor. Received a "
                f"data set of {spec!r}."
            )
        shape = tuple(row_shape)
        made = SparseTensorSpec((None, *shape), spec.dtype)

        def stack(column: Sequence[Any], index: int) -> Any:
            return _rows.sparse_rows(column, shape)

        impl = _rows.stacked_batches(self._impl, [spec], [made], size, False, stack)
        return Dataset(impl, made)

    # --- neighbours -------------------------------------------------------------------

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
        """Do what `group_by_window` does; `example` has the structure of what is made,
        if given."""
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
            """Return what the group gives that is full with this element, if there is
            one."""
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
            padded_shapes, padding_values: As for :meth:`padded_batch`.
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

    # --- several data sets, random numbers --------------------------------------------

    @staticmethod
    def counter(
        start: int = 0, step: int = 1, dtype: Any = None, name: str | None = None
    ) -> Dataset:
        """Count for ever.

        Args:
            start: The first number.
            step: The number that is added each time.
            dtype: dtype of the elements. Default int64.

        Returns:
            An endless data set of scalars.

        Example:
            >>> [int(x) for x in tf.data.Dataset.counter(3, 2).take(3)]
            [3, 5, 7]
        """
        first, more = integer(start, "start"), integer(step, "step")
        if more == 0:
            numbers = Dataset.from_tensors(np.int64(first)).repeat()
        else:
            limits = np.iinfo(np.int64)
            last = int(limits.max if more > 0 else limits.min)
            numbers = Dataset.range(first, last, more)
            numbers = numbers._assert_cardinality(INFINITE_CARDINALITY)
        if dtype is None:
            return numbers
        return numbers.map(lambda number: cast(number, dtype))

    @staticmethod
    def random(
        seed: int | None = None,
        rerandomize_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Make random numbers for ever.

        Args:
            seed: An integer, for the same numbers in every run. None (default) draws
                one that follows ``tf.random.set_seed``.
            rerandomize_each_iteration: Whether each pass has numbers of its own; None:
                no.

        Returns:
            An endless data set of int64 scalars from 0 to 2^32 - 1; other numbers than
            TensorFlow's.

        Example:
            >>> numbers = tf.data.Dataset.random(seed=4).take(3)
            >>> [int(x) for x in numbers] == [int(x) for x in numbers]
            True
        """
        draws = _random_numbers(seed, bool(rerandomize_each_iteration))

        def start() -> Iterator[_Arrays]:
            generator = draws()
            while True:
                for number in generator.integers(0, 1 << 32, _DRAWN):
                    yield (np.asarray(number),)

        impl = _core.Dataset.generator((("int64", ()),), start, INFINITE_CARDINALITY)
        return Dataset(impl, TensorSpec((), "int64"))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Any],
        weights: Any = None,
        seed: int | None = None,
        stop_on_empty_dataset: bool = False,
        rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:
        """Take each element from one of several data sets, at random.

        Args:
            datasets: Data sets of one structure.
            weights: How probably each is taken, or a data set of such lists; None: all
                equally.
            seed: As for :meth:`random`.
            stop_on_empty_dataset: Whether the end of one data set is the end; else it
                goes on with the others.
            rerandomize_each_iteration: Whether each pass has an order of its own; None:
                yes.

        Returns:
            A data set of unknown cardinality.

        Raises:
            TypeError: Something that is not a data set, or elements of other kinds.
            ValueError: No data set, or another number of weights.

        Example:
            >>> ones, twos = (tf.data.Dataset.from_tensors(n).repeat() for n in (1, 2))
            >>> mixed = tf.data.Dataset.sample_from_datasets(
            ...     [ones, twos], weights=[0.0, 1.0])
            >>> [int(x) for x in mixed.take(3)]
            [2, 2, 2]
        """
        listed = _checked(datasets, "sample_from_datasets")
        again = rerandomize_each_iteration is None or bool(rerandomize_each_iteration)
        draws = _random_numbers(seed, again)
        if isinstance(weights, Dataset):
            varying = weights
            used = [True] * len(listed)

            def choices() -> Iterator[int]:
                generator = draws()
                return map(
                    lambda row: _chosen(
                        np.cumsum(_shares(row, len(listed))), generator.random()
                    ),
                    varying.as_numpy_iterator(),
                )

        else:
            shares = _shares(weights, len(listed))
            used = [bool(share > 0) for share in shares]

            def choices() -> Iterator[int]:
                generator, edges = draws(), np.cumsum(shares)
                while True:
                    for number in generator.random(_DRAWN):
                        yield _chosen(edges, number)

        return _directed(listed, choices, bool(stop_on_empty_dataset), used)

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Any], choice_dataset: Any, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Take each element from one of several data sets, as another one says.

        Args:
            datasets: Data sets of one structure.
            choice_dataset: A data set of int64 scalars: the numbers of the data sets.
            stop_on_empty_dataset: Whether the end of one data set is the end; else it
                is passed over.

        Returns:
            A data set of unknown cardinality.

        Raises:
            TypeError: Something that is not a data set, or elements of other kinds;
                numbers that are not int64 scalars.
            ValueError: No data set.
            InvalidArgumentError: When an element is read: no data set has its number.

        Example:
            >>> named = [tf.data.Dataset.from_tensors(n).repeat() for n in (10, 20, 30)]
            >>> choice = tf.data.Dataset.range(3).repeat(2)
            >>> chosen = tf.data.Dataset.choose_from_datasets(named, choice)
            >>> [int(x) for x in chosen]
            [10, 20, 30, 10, 20, 30]
        """
        listed = _checked(datasets, "choose_from_datasets")
        if (
            not isinstance(choice_dataset, Dataset)
            or nest.is_nested(choice_dataset.element_spec)
            or choice_dataset.element_spec != TensorSpec((), "int64")
        ):
            raise TypeError(
                "`choice_dataset` should be a data set of scalar int64 tensors. "
                f"Received: {choice_dataset!r}."
            )

        def chosen(number: Any) -> int:
            if not 0 <= number < len(listed):
                raise InvalidArgumentError(
                    f"Selector index out of range: {number} >= {len(listed)}."
                )
            return int(number)

        def choices() -> Iterator[int]:
            return map(chosen, choice_dataset.as_numpy_iterator())

        used = [True] * len(listed)
        return _directed(listed, choices, bool(stop_on_empty_dataset), used)

    # --- states -----------------------------------------------------------------------

    def scan(
        self,
        initial_state: Any,
        scan_func: Callable[[Any, Any], Any],
        name: str | None = None,
    ) -> Dataset:
        """Apply a function to each element and a state that it hands on.

        Args:
            initial_state: A nest of tensors.
            scan_func: ``scan_func(state, element)``, traced; gives the next state, of
                the same structure, dtypes and shapes, and the new element.

        Returns:
            A data set of the new elements.

        Raises:
            TypeError: The state changes its type, or the result is not a pair.

        Example:
            >>> sums = tf.data.Dataset.range(5).scan(
            ...     np.int64(0), lambda total, x: (total + x, total + x))
            >>> [int(x) for x in sums]
            [0, 1, 3, 6, 10]
        """
        impl, structure = self._impl, self._structure
        state = _structure.map_leaves(convert_to_tensor, initial_state)
        step = _Step(converted(scan_func), state, structure)
        has_text = any(is_text(leaf) for leaf in nest.flatten(state))
        if not has_text and not _packed.has_packed(structure):
            first = self._concrete() or self._peek()
            if first is not None:
                try:
                    step.program(first)
                except HostOnlyError:
                    step.is_on_host = True
        else:
            step.is_on_host = True
        if step.made is None:
            unpacked = _packed.unpacker(structure)
            samples = _live.first_results(
                impl, lambda tensors: step.on_host(state, unpacked(tensors))
            )
            if not samples:
                raise ValueError(
                    "scan cannot tell what its function gives, as there is no element "
                    "to call it with."
                )
        made = step.made
        if any(
            one.shape is None or None in one.shape for one in nest.flatten(structure)
        ):
            made = nest.map_structure(_opened, made)
        specs = nest.flatten(made)

        def start() -> Iterator[_Arrays]:
            leaves: list[Any] = nest.flatten(state)
            unpacked = _packed.unpacker(structure)

            def next_of(element: Any) -> _Arrays:
                nonlocal leaves
                if step.is_on_host:
                    old = nest.pack_sequence_as(state, leaves)
                    leaves, results = step.on_host(old, unpacked(element))
                else:
                    leaves, results = step.in_core(leaves, element)
                return tuple(map(_packed.pack, specs, results))

            return map(next_of, _live.start_iterator(impl))

        types = tuple(_structure.core_spec(spec) for spec in specs)
        return Dataset(_core.Dataset.generator(types, start, impl.cardinality), made)

    def unique(self, name: str | None = None) -> Dataset:
        """Keep the first of equal elements.

        Returns:
            A data set of unknown cardinality. It remembers all elements that it gave.

        Example:
            >>> dataset = tf.data.Dataset.from_tensor_slices([1, 37, 2, 37, 2, 1])
            >>> [int(x) for x in dataset.unique()]
            [1, 37, 2]
        """
        impl = self._impl
        specs = nest.flatten(self._structure)

        def start() -> Iterator[_Arrays]:
            seen: set[Any] = set()

            def is_new(row: _Arrays) -> bool:
                key = tuple((array.shape, array.tobytes()) for array in row)
                before = len(seen)
                seen.add(key)
                return len(seen) > before

            return filter(is_new, _packed.packed_rows(impl))

        types = tuple(_structure.core_spec(spec) for spec in specs)
        return self._then(_core.Dataset.generator(types, start))

    def rejection_resample(
        self,
        class_func: Callable[..., Any],
        target_dist: Any,
        initial_dist: Any = None,
        seed: int | None = None,
        name: str | None = None,
    ) -> Dataset:
        """Leave elements out so that classes are as frequent as wanted.

        Args:
            class_func: Gets an element, gives the number of its class.
            target_dist: How frequent each class shall be.
            initial_dist: How frequent it is; None: as frequent as so far.
            seed: As for :meth:`random`.

        Returns:
            A data set of pairs of a class, int32, and an element; of unknown
            cardinality.

        Raises:
            ValueError: The two have different lengths, or are not probabilities.
            InvalidArgumentError: When an element is read: its class does not exist.

        Example:
            >>> rows = tf.data.Dataset.range(100)
            >>> odd = rows.rejection_resample(
            ...     lambda x: tf.cast(x % 2, tf.int32), [0.0, 1.0], [0.5, 0.5])
            >>> len([x for _, x in odd])
            50
        """
        from ipu._text.errors import InvalidArgumentError

        del name
        wanted = _distribution(target_dist, "target_dist")
        given = None
        if initial_dist is not None:
            given = _distribution(initial_dist, "initial_dist")
            if given.shape != wanted.shape:
                raise ValueError(
                    "`target_dist` and `initial_dist` must have the same length. "
                    f"Received: {len(wanted)} and {len(given)}."
                )
        random = _random_numbers(seed, True)
        classes: Any = self.map(lambda *x: cast(class_func(*x), int32))
        paired = Dataset.zip((classes, self))
        specs = nest.flatten(paired._structure)

        def start() -> Iterator[_Arrays]:
            generator = random()
            counts = np.ones(len(wanted))

            def is_kept(row: _Arrays) -> bool:
                number = int(row[0])
                if not 0 <= number < len(wanted):
                    raise InvalidArgumentError(
                        f"There is no class {number}: `target_dist` has {len(wanted)}."
                    )
                if given is None:
                    counts[number] += 1
                frequent = counts / counts.sum() if given is None else given
                with np.errstate(divide="ignore", invalid="ignore"):
                    ratios = np.where(wanted > 0, wanted / frequent, 0.0)
                most = ratios[np.isfinite(ratios)].max(initial=0.0)
                share = ratios[number] / most if most else 0.0
                return bool(generator.random() < share)

            return filter(is_kept, _packed.packed_rows(paired._impl))

        types = tuple(_structure.core_spec(spec) for spec in specs)
        return Dataset(_core.Dataset.generator(types, start), paired._structure)

    # --- errors, groups ---------------------------------------------------------------

    def ignore_errors(
        self, log_warning: bool = False, name: str | None = None
    ) -> Dataset:
        """Leave out the elements that fail when they are read.

        An error belongs to its element: reading goes on after it, whatever made it.
        A Python generator that raises has no further elements; an iterator may.

        Args:
            log_warning: Whether each error is written to the log.

        Returns:
            A data set of unknown cardinality.

        Raises:
            OpError: When an element is read: 1000 in a row fail.

        Example:
            >>> numbers = tf.data.Dataset.from_tensor_slices(["1", "one", "3"])
            >>> [float(x) for x in numbers.map(tf.strings.to_number).ignore_errors()]
            [1.0, 3.0]
        """
        impl = self._impl
        types = tuple(
            _structure.core_spec(spec) for spec in nest.flatten(self._structure)
        )
        return self._then(
            _core.Dataset.generator(types, lambda: _Readable(impl, log_warning))
        )

    def group_by_reducer(
        self,
        key_func: Callable[..., Any],
        reducer: Reducer,
        name: str | None = None,
    ) -> Dataset:
        """Make one element of all elements of a key.

        Args:
            key_func: Gets an element, gives its key, an integer.
            reducer: A ``tf.data.experimental.Reducer``.

        Returns:
            A data set of unknown cardinality, in the order of the keys.

        Raises:
            TypeError: ``key_func`` is not callable, or ``reducer`` not a ``Reducer``.
            ValueError: There is no element to learn the structure from; or, when an
                element is read, a key is not an integer.

        Example: :class:`Reducer`.
        """
        if not callable(key_func):
            raise TypeError(f"`key_func` must be callable. Received: {key_func!r}.")
        if not isinstance(reducer, Reducer):
            raise TypeError(
                "`reducer` must be a tf.data.experimental.Reducer. "
                f"Received: {reducer!r}."
            )
        impl, structure = self._impl, self._structure
        key_of = HostFunction("group_by_reducer", key_func, 0)
        step = HostFunction("group_by_reducer", reducer.reduce_func, 0)
        last = HostFunction("group_by_reducer", reducer.finalize_func, 0)

        def started(key: int) -> Any:
            first = reducer.init_func(_core.Tensor(np.int64(key)))
            return _structure.map_leaves(convert_to_tensor, first)

        def key(number: int, element: Any) -> int:
            found = np.asarray(key_of(number, element))
            if found.shape != () or found.dtype.kind not in "iu":
                raise ValueError(
                    "`key_func` must return a scalar integer tensor. "
                    f"Received: {found!r}."
                )
            return int(found)

        def results(elements: Iterator[Any]) -> Iterator[Any]:
            states: dict[int, Any] = {}
            numbered = enumerate(elements)

            def next_key() -> int | None:
                for number, element in numbered:
                    place = key(number, element)
                    old = states[place] if place in states else started(place)
                    states[place] = step.nest_of(number, (old, element))
                return min(states, default=None)

            keys = iter(next_key, None)
            return map(lambda place: last.nest_of(0, states.pop(place)), keys)

        unpacked = _packed.unpacker(structure)
        samples = _live.first_results(
            impl, lambda tensors: next(results(iter([unpacked(tensors)])))
        )
        if not samples:
            raise ValueError(
                "group_by_reducer cannot tell what its functions give, as there is no "
                "element to call them with."
            )
        made = nest.map_structure(_packed.spec_of_value, samples[0])
        specs = nest.flatten(made)

        def packed(element: Any) -> _Arrays:
            return tuple(map(_packed.pack, specs, nest.flatten(element)))

        def start() -> Iterator[_Arrays]:
            return map(packed, results(_packed.elements(impl, structure)))

        types = tuple(_structure.core_spec(spec) for spec in specs)
        return Dataset(_core.Dataset.generator(types, start), made)

    # --- kept in memory and files -----------------------------------------------------

    def cache(self, filename: Any = "", name: str | None = None) -> Dataset:
        """Keep the elements when they are read for the first time.

        Later passes, of this or another iterator, take them from there: what is in
        front of ``cache`` (a generator, a ``map``) makes each element once.

        Args:
            filename: Where they are kept: "" (default) for memory, or the name of a
                file, which another process finds too. The file is there when they have
                been read to the end, without those that failed.

        Returns:
            A data set of the same elements.

        Raises:
            TypeError: A file is named, and elements are data sets.
            FailedPreconditionError: When an element is read: the file is of another
                pipeline, also of this one before its functions, its arguments or its
                data changed (files that it reads are known by name alone). Remove it to
                make it anew.
            DataLossError: When an element is read: the file is damaged.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(2).cache().repeat(2)]
            [0, 1, 0, 1]
        """
        path = "" if filename is None else path_of(filename)
        if not path:
            return self._then(self._impl.cache())
        from ipu.tf.data._fingerprint import fingerprint  # slow to import

        return self._then(self._kept(path, fingerprint(self)))

    def _kept(self, path: str, pipeline: str) -> Any:
        """Return the core's data set of elements that a file keeps."""
        impl, structure = self._impl, self._structure
        _stored.described(structure)

        def start() -> Iterator[_Arrays]:
            if os.path.exists(path):
                return _stored.read_rows(path, structure, None, pipeline)
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            rows = _packed.packed_rows(impl)
            return _stored.Written(path, structure, rows, None, pipeline)

        specs = nest.flatten(structure)
        types = tuple(_structure.core_spec(spec) for spec in specs)
        return _core.Dataset.generator(types, start, impl.cardinality)

    def snapshot(
        self,
        path: Any,
        compression: str | None = "AUTO",
        reader_func: Any = None,
        shard_func: Any = None,
        name: str | None = None,
    ) -> Dataset:
        """Keep the elements in a folder, also for later processes.

        Args:
            path: The folder, with a folder in it for each pipeline: where a function,
                an argument or the data before ``snapshot`` has changed, elements are
                made and kept anew (files that are read are known by name alone).
            compression: "GZIP"; "AUTO", "SNAPPY" or None: none.
            reader_func: Must be None.
            shard_func: Accepted for compatibility: there is one file.

        Returns:
            A data set of the same elements.

        Raises:
            TypeError: Elements are data sets.
            NotImplementedError: ``reader_func`` is given.

        Example:
            >>> import tempfile
            >>> kept = tf.data.Dataset.range(3).snapshot(tempfile.mkdtemp())
            >>> [int(x) for x in kept], [int(x) for x in kept]
            ([0, 1, 2], [0, 1, 2])
        """
        refuse_given(f"{__name__}.Dataset.snapshot", reader_func=reader_func)
        from ipu.tf.data._fingerprint import fingerprint

        pipeline = fingerprint(self)
        file = os.path.join(path_of(path), pipeline, _ROWS)
        return self._then(self._kept(file, pipeline))

    def save(
        self,
        path: Any,
        compression: str | None = None,
        shard_func: Any = None,
        checkpoint_args: Any = None,
    ) -> None:
        """Read all elements, and write them into a folder for :meth:`load`.

        Args:
            path: The folder; what was saved there before is replaced.
            compression: "GZIP" or None.
            shard_func: Accepted for compatibility: there is one file.
            checkpoint_args: Accepted for compatibility.

        Raises:
            ValueError: There is no such compression, or no end to the elements.
            TypeError: Elements are data sets.
            AlreadyExistsError: ``path`` is a file.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> tf.data.Dataset.range(3).save(folder)
            >>> [int(x) for x in tf.data.Dataset.load(folder)]
            [0, 1, 2]
        """
        import json

        del shard_func, checkpoint_args
        folder, kind = path_of(path), _checked_compression(compression)
        about = {"spec": _stored.described(self._structure), "compression": kind}
        if self._impl.cardinality == -1:
            raise ValueError(
                "A data set without an end cannot be saved. Use take() before."
            )
        try:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError as error:
            raise AlreadyExistsError(f"{folder} is a file.") from error
        rows = _packed.packed_rows(self._impl)
        described = os.path.join(folder, _ABOUT)
        try:
            with open(described, encoding="utf-8") as file:
                old = json.load(file).get("rows", _ROWS)
        except (OSError, ValueError, AttributeError):
            old = None
        # there are the old elements until the folder says that there are the new ones
        about["rows"], other = (_ROWS, _MORE_ROWS)[:: -1 if old == _ROWS else 1]
        target = os.path.join(folder, about["rows"])
        with contextlib.closing(
            _stored.Written(target, self._structure, rows, kind)
        ) as written:
            about["count"] = sum(1 for _ in written)
        write_whole(described, json.dumps(about).encode())
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, other))

    @staticmethod
    def load(
        path: Any,
        element_spec: Any = None,
        compression: str | None = None,
        reader_func: Callable[[Any], Any] | None = None,
        wait: bool = False,
    ) -> Dataset:
        """Return the elements that :meth:`save` wrote.

        Args:
            path: The folder.
            element_spec, compression: Accepted for compatibility: the folder says it.
            reader_func: Must be None.
            wait: Must be False.

        Returns:
            A data set.

        Raises:
            NotFoundError: Nothing was saved there.
            NotImplementedError: ``reader_func`` or ``wait`` is given.
            DataLossError: The folder's description is damaged; or when an element
                is read: the file of elements is.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> tf.data.Dataset.range(2).save(folder)
            >>> [int(x) for x in tf.data.Dataset.load(folder)]
            [0, 1]
        """
        import json

        del element_spec, compression
        refuse_given(f"{__name__}.Dataset.load", reader_func=reader_func, wait=wait)
        folder = path_of(path)
        described = os.path.join(folder, _ABOUT)
        try:
            with open(described, encoding="utf-8") as file:
                about = json.load(file)
            structure = _stored.spec_from(about["spec"])
            kind = _checked_compression(about["compression"])
            count = int(about["count"])
            rows = os.path.join(folder, os.path.basename(about.get("rows", _ROWS)))
        except OSError as error:
            raise NotFoundError(
                f"No data set was saved in {folder} ({error.strerror})."
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise DataLossError(
                f"The file {described!r}, which says what was saved, is damaged "
                f"({type(error).__name__}: {error}). Save the data set again."
            ) from error
        types = tuple(_structure.core_spec(spec) for spec in nest.flatten(structure))
        impl = _core.Dataset.generator(
            types, lambda: _stored.read_rows(rows, structure, kind)
        )
        return Dataset(impl.assert_cardinality(count), structure)

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
        """Return the number of elements.

        Returns:
            An int64 scalar tensor; ``tf.data.INFINITE_CARDINALITY`` (-1) for an endless
            data set, ``tf.data.UNKNOWN_CARDINALITY`` (-2) for one that must be read to
            be counted (a generator).

        Example:
            >>> int(tf.data.Dataset.range(5).batch(2).cardinality())
            3
        """
        return convert_to_tensor(np.int64(self._impl.cardinality))

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
        return _iterator.Iterator(self._impl, self._structure)

    def as_numpy_iterator(self) -> NumpyIterator:
        """Return an iterator that converts tensors to NumPy arrays.

        Returns:
            An iterator over nests of arrays.

        Example:
            >>> [int(x) for x in tf.data.Dataset.range(3).as_numpy_iterator()]
            [0, 1, 2]
        """
        return NumpyIterator(self._impl, self._structure)

    # --- results ----------------------------------------------------------------------

    def apply(self: _Self, transformation_func: Callable[[Any], Any]) -> Any:
        """Return ``transformation_func(self)``.

        Raises:
            TypeError: It does not give a data set.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(
                "`transformation_func` must return a tf.data.Dataset object. "
                f"Received: {dataset!r}."
            )
        return dataset

    def reduce(
        self,
        initial_state: Any,
        reduce_func: Callable[[Any, Any], Any],
        name: str | None = None,
    ) -> Any:
        """Combine all elements into one value.

        Args:
            initial_state: A nest of tensors.
            reduce_func: ``reduce_func(state, element)``, traced; gives the next state,
                of the same structure, dtypes and shapes.

        Returns:
            The last state.

        Raises:
            TypeError: The state changes its type.

        Example:
            >>> total = tf.data.Dataset.range(5).reduce(np.int64(0), lambda s, x: s + x)
            >>> int(total)
            10
        """
        if _packed.has_packed(self._structure):
            value = _structure.map_leaves(convert_to_tensor, initial_state)
            for packed in _packed.elements(self._impl, self._structure):
                value = reduce_func(value, packed)
            return value
        state = _structure.map_leaves(
            lambda leaf: _structure.to_array(leaf, "initial_state"), initial_state
        )
        leaves: list[Any] = nest.flatten(state)
        types = [(leaf.dtype.name, tuple(leaf.shape)) for leaf in leaves]
        programs: dict[Any, Any] = {}
        for element in _live.start_iterator(self._impl):
            made = tuple((t.dtype.name, tuple(t.shape)) for t in element)
            if made not in programs:
                programs[made] = _reducer(
                    reduce_func, state, types, self._structure, made
                )
            leaves = programs[made].run([*leaves, *element])
        return nest.pack_sequence_as(state, [convert_to_tensor(x) for x in leaves])

    def get_single_element(self, name: str | None = None) -> Any:
        """Return the element of a data set of one.

        Raises:
            InvalidArgumentError: There is none, or more than one.
        """
        elements = []
        for element in _live.start_iterator(self._impl):
            elements.append(element)
            if len(elements) > 1:
                raise InvalidArgumentError("Dataset had more than one element.")
        if not elements:
            raise InvalidArgumentError("Dataset was empty.")
        return _packed.unpacker(self._structure)(elements[0])


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
    """Return the nest of data sets with each replaced by its structure."""
    if isinstance(datasets, Dataset):
        return datasets._structure
    if isinstance(datasets, Mapping):
        return {key: _joined(item) for key, item in datasets.items()}
    items = [_joined(item) for item in datasets]
    return type(datasets)(*items) if hasattr(datasets, "_fields") else tuple(items)


def _reducer(
    function: Callable[[Any, Any], Any],
    state: Any,
    types: list[Any],
    structure: Any,
    element: tuple[Any, ...],
) -> Any:
    """Return the program from (state, element) to the next state."""

    def step(*leaves: Any) -> Any:
        old = nest.pack_sequence_as(state, leaves[: len(types)])
        new = function(old, nest.pack_sequence_as(structure, leaves[len(types) :]))
        return new

    specs = [_structure.spec_of(spec) for spec in (*types, *element)]
    traced = _function.trace_program(step, specs, host=True)
    made = [(spec.dtype.name, tuple(spec.shape)) for spec in traced.output_specs]
    if made != types:
        raise TypeError(
            "The element types for the new state must match the initial state. "
            f"Expected {types}; got {made}."
        )
    return traced.program


def _ragged_spec(spec: Any) -> Any:
    """Return the spec of a leaf for batches that are ragged where a size is not
    known."""
    if isinstance(spec, (CompositeSpec, _packed.DatasetSpec)):
        return spec
    varying = [axis for axis, size in enumerate(spec.shape or ()) if size is None]
    return RaggedTensorSpec(spec.shape, spec.dtype, varying[-1]) if varying else spec


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
    """Return padded shapes with a size for each that is not known."""
    specs = nest.flatten(structure)
    shapes = padded_shapes(given, specs, structure)
    filled = [tuple(size if one is None else one for one in s) for s in shapes]
    if not nest.is_nested(structure):
        return filled[0]
    return nest.pack_sequence_as(structure, [TensorShape(one) for one in filled])


class _Readable(Iterator[_Arrays]):
    """The rows of a data set that can be read."""

    def __init__(self, impl: Any, log_warning: bool) -> None:
        self._rows, self._log_warning = _packed.packed_rows(impl), log_warning

    def __next__(self) -> _Arrays:
        for _ in range(_MOST_FAILURES - 1):
            try:
                return next(self._rows)
            except StopIteration:
                raise
            except Exception as error:
                if self._log_warning:
                    logger.warning("ignore_errors leaves out an element: %s", error)
        return next(self._rows)


def _checked_compression(compression: Any) -> str | None:
    if compression in (None, "", "NONE"):
        return None
    if compression != "GZIP":
        raise ValueError(
            "`compression` must be None or 'GZIP'. "
            f"Received: compression={compression!r}."
        )
    return "GZIP"


# --- what is drawn at random, and taken from several data sets ------------------------


def _random_numbers(seed: int | None, again: bool) -> Callable[[], np.random.Generator]:
    """Return the function that gives each pass its random numbers."""
    number = _seeds.for_shuffle() if seed is None else integer(seed, "seed")
    passes = 0

    def generator() -> np.random.Generator:
        nonlocal passes
        key = (number + passes * _NEXT_PASS) & 0xFFFFFFFFFFFFFFFF
        passes += again
        return np.random.Generator(np.random.Philox(key=key))

    return generator


def _checked(datasets: Any, what: str) -> list[Any]:
    listed = list(datasets)
    if not listed:
        raise ValueError(f"{what}: `datasets` must not be empty. Received: [].")
    for one in listed:
        if not isinstance(one, Dataset):
            raise TypeError(f"{what} takes data sets. Received: {one!r}.")
        try:
            nest.assert_same_structure(listed[0]._structure, one._structure)
            fits = _kinds(one) == _kinds(listed[0])
        except (TypeError, ValueError):
            fits = False
        if not fits:
            raise TypeError(
                f"{what}: all data sets must have compatible element specs. Received: "
                f"{listed[0]._structure!r} and {one._structure!r}."
            )
    return listed


def _kinds(dataset: Any) -> list[str]:
    return [spec.dtype.name for spec in nest.flatten(dataset._structure)]


def _shares(weights: Any, count: int) -> np.ndarray[Any, Any]:
    made = np.ones(count) if weights is None else np.array(weights, np.float64)
    if made.shape != (count,) or (made < 0).any() or not made.sum() > 0:
        raise ValueError(
            "`weights` must be a probability for each data set, of which there are "
            f"{count}. Received: weights={weights!r}."
        )
    return made


def _chosen(edges: np.ndarray[Any, Any], number: float) -> int:
    """Return the number of the share in which a number from 0 to 1 lies."""
    at = np.searchsorted(edges, number * edges[-1], side="right")
    return int(min(at, len(edges) - 1))


def _directed(
    datasets: list[Any],
    choices: Callable[[], Iterator[int]],
    stop: bool,
    used: list[bool],
) -> Dataset:
    """Return the elements of several data sets in the order of the numbers."""
    structure = nest.map_structure(_common, *(one._structure for one in datasets))
    types = tuple(_structure.core_spec(spec) for spec in nest.flatten(structure))

    def start() -> Iterator[_Arrays]:
        sources = [_live.start_iterator(one._impl) for one in datasets]
        left = {at for at, is_used in enumerate(used) if is_used}
        return map(_packed.row_of, _Directed(sources, choices(), left, stop))

    return Dataset(_core.Dataset.generator(types, start), structure)


class _Directed(Iterator[Any]):
    """Elements of several iterators in the order of the numbers.

    Args:
        left: The numbers of those that have elements, perhaps.
        stop: Whether the end of one is the end.
    """

    def __init__(
        self, sources: list[Any], choices: Iterator[int], left: set[int], stop: bool
    ) -> None:
        self._sources, self._choices = sources, choices
        self._left, self._stop = left, stop

    def __next__(self) -> Any:
        for at in self._choices:
            try:
                element = next(self._sources[at], None) if at in self._left else None
            except KeyboardInterrupt:  # its turn is still to come
                self._choices = itertools.chain([at], self._choices)
                raise
            if element is not None:
                return element
            self._left.discard(at)
            if self._stop or not self._left:
                break
        raise StopIteration


def _common(*specs: Any) -> Any:
    """Return the spec of what one of several data sets gives."""
    first = specs[0]
    if isinstance(first, _packed.DatasetSpec) or all(one == first for one in specs):
        return first
    ranks = {None if one.shape is None else len(one.shape) for one in specs}
    if len(ranks) > 1 or None in ranks:
        return _structure.UnknownShapeSpec(first.dtype)
    sizes = zip(*(one.shape for one in specs), strict=True)
    shape = [each[0] if len(set(each)) == 1 else None for each in sizes]
    return TensorSpec(shape, first.dtype)


# --- the steps of scan, the shares of rejection_resample ------------------------------


def _opened(spec: Any) -> Any:
    """Return a spec with the same number of axes, of any size."""
    is_tensor = not isinstance(spec, _packed.DatasetSpec) and spec.shape
    return TensorSpec([None] * len(spec.shape), spec.dtype) if is_tensor else spec


def _distribution(given: Any, name: str) -> np.ndarray[Any, Any]:
    made = np.asarray(given, np.float64)
    if made.ndim != 1 or not len(made) or (made < 0).any() or not made.sum() > 0:
        raise ValueError(
            f"`{name}` must be a list of probabilities. Received: {name}={given!r}."
        )
    shares: np.ndarray[Any, Any] = made / made.sum()
    return shares


class _Step:
    """A function of a state and an element, as programs by the element's types."""

    def __init__(
        self, function: Callable[..., Any], state: Any, structure: Any
    ) -> None:
        self._function, self._state, self._structure = function, state, structure
        leaves = nest.flatten(state)
        self._types = [(leaf.dtype.name, tuple(leaf.shape)) for leaf in leaves]
        self._programs: dict[Any, Any] = {}
        self.is_on_host = False
        self.made: Any = None  # the structure of new elements

    def _call(self, state: Any, element: Any) -> tuple[Any, Any]:
        result = self._function(state, element)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                "The scan function must return a pair comprising the new state and the "
                f"output value. Received: {result!r}."
            )
        return result[0], result[1]

    def _check(self, types: list[Any]) -> None:
        if types != self._types:
            raise TypeError(
                "The element types for the new state must match the initial state. "
                f"Expected {self._types}; got {types}."
            )

    def program(self, element: tuple[Any, ...]) -> Any:
        """Return the program for elements of these types."""
        found = self._programs.get(element)
        if found is not None:
            return found
        count = len(self._types)
        given: list[Any] = []

        def step(*leaves: Any) -> Any:
            old = nest.pack_sequence_as(self._state, leaves[:count])
            row = nest.pack_sequence_as(self._structure, leaves[count:])
            state, output = self._call(old, row)
            output = _structure.map_leaves(convert_to_tensor, output)
            given.append(output)
            return [*nest.flatten(state), *nest.flatten(output)]

        specs = [_structure.spec_of(spec) for spec in (*self._types, *element)]
        traced = _function.trace_program(step, specs, host=True)
        made = [
            (s.dtype.name, tuple(s.shape)) for s in nest.flatten(traced.output_specs)
        ]
        self._check(made[:count])
        if self.made is None:
            self.made = nest.pack_sequence_as(
                given[0], [_structure.spec_of(spec) for spec in made[count:]]
            )
        self._programs[element] = traced.program
        return traced.program

    def in_core(self, leaves: list[Any], element: Any) -> tuple[list[Any], list[Any]]:
        """Return the leaves of the next state and of the new element."""
        types = tuple((t.dtype.name, tuple(t.shape)) for t in element)
        made = self.program(types).run([*leaves, *element])
        return made[: len(leaves)], made[len(leaves) :]

    def on_host(self, state: Any, element: Any) -> tuple[list[Any], list[Any]]:
        """Return the same, by Python."""
        new, output = self._call(state, element)
        new = _structure.map_leaves(convert_to_tensor, new)
        output = _structure.map_leaves(convert_to_tensor, output)
        leaves = nest.flatten(new)
        self._check([(leaf.dtype.name, tuple(leaf.shape)) for leaf in leaves])
        if self.made is None:
            self.made = nest.map_structure(_packed.spec_of_value, output)
        return leaves, nest.flatten(output)
