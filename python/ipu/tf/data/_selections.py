# SPDX-License-Identifier: MIT
"""Methods of ``Dataset`` that choose elements, or put them together in other ways."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ipu import tf
from ipu._text.errors import InvalidArgumentError
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._functions import function as _function
from ipu.tf._string_ops.host_only import HostOnlyError
from ipu.tf.data import _host_map, _live, _packed, _rows, _seeds, _structure
from ipu.tf.data._host_map import HostFunction
from ipu.tf.data._made_by import note
from ipu.tf.data._map import Mapped
from ipu.tf.data._options import Options
from ipu.tf.data._transformations import integer

if TYPE_CHECKING:
    from ipu.tf.data._dataset import Dataset

_Self = TypeVar("_Self", bound="Selections")


@boundaries(after=note)
class Selections:
    """Mixed into :class:`Dataset`."""

    if TYPE_CHECKING:
        _impl: Any
        _structure: Any
        _example: tuple[Any, ...] | None

        def __init__(self, impl: Any, structure: Any, example: Any = None) -> None: ...
        def _then(self: _Self, impl: Any) -> _Self: ...
        def _concrete(self) -> tuple[Any, ...] | None: ...
        def _peek(self) -> tuple[Any, ...] | None: ...
        def batch(self: _Self, *args: Any, **kwargs: Any) -> _Self: ...

    def _with_types(self: _Self, impl: Any, example: Any = None) -> _Self:
        """Wrap a transformation that changes the types, not the structure."""
        old = nest.flatten(self._structure)
        specs = [
            spec if _packed.is_packed(spec) else _structure.spec_of(type_)
            for spec, type_ in zip(old, impl.types, strict=True)
        ]
        return type(self)(impl, nest.pack_sequence_as(self._structure, specs), example)

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
            ValueError: ``predicate`` gives something else than a bool scalar.
            TypeError: ``predicate`` cannot be called.

        Example:
            >>> dataset = tf.data.Dataset.range(6).filter(lambda x: x % 2 == 1)
            >>> [int(x) for x in dataset]
            [1, 3, 5]
        """
        del name
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
            ValueError: ``predicate`` gives something else than a bool scalar.
            TypeError: ``predicate`` cannot be called.
        """
        del name
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
            return self._then(
                _host_map.selected(self._impl, self._structure, called, ends)
            )
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
        del name
        count, number = integer(num_shards, "num_shards"), integer(index, "index")
        return self._then(self._impl.shard(count, number))

    # --- other elements ---------------------------------------------------------------

    def concatenate(self: _Self, dataset: Any, name: str | None = None) -> _Self:
        """Put another data set behind this one.

        Args:
            dataset: Of the same structure and dtypes.

        Returns:
            A data set of the elements of both; sizes that differ are not known.

        Raises:
            TypeError: ``dataset`` is none, or its elements are of another kind.

        Example:
            >>> a, b = tf.data.Dataset.range(2), tf.data.Dataset.range(8, 10)
            >>> [int(x) for x in a.concatenate(b)]
            [0, 1, 8, 9]
        """
        del name
        if not isinstance(dataset, Selections):
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
        del name
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
        from ipu.tf.data._dataset import Dataset

        del name
        last = np.iinfo(np.int64).max
        return Dataset.zip((Dataset.range(integer(start, "start"), last), self))

    # --- keeping, declaring -----------------------------------------------------------

    def _assert_cardinality(self: _Self, expected: int) -> _Self:
        count = integer(expected, "expected_cardinality")
        return self._then(self._impl.assert_cardinality(count))

    def with_options(self: _Self, options: Any, name: str | None = None) -> _Self:
        """Attach options; they change nothing here.

        Args:
            options: A ``tf.data.Options``.

        Returns:
            The same data set, with these options.

        Raises:
            TypeError: It is not a ``tf.data.Options``.
        """
        del name
        if not isinstance(options, Options):
            raise TypeError(
                f"with_options takes a tf.data.Options. Received: {options!r}."
            )
        same = self._then(self._impl)
        same.__dict__["_attached_options"] = options
        return same

    def options(self) -> Options:
        """The options that were attached to this data set, or the defaults."""
        found: Options = self.__dict__.get("_attached_options") or Options()
        return found

    # --- results ----------------------------------------------------------------------

    def apply(self: _Self, transformation_func: Callable[[Any], Any]) -> Any:
        """Give ``transformation_func(self)``.

        Raises:
            TypeError: It does not give a data set.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Selections):
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
        del name
        if _packed.has_packed(self._structure):
            value = _structure.map_leaves(tf.convert_to_tensor, initial_state)
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
        return nest.pack_sequence_as(state, [tf.convert_to_tensor(x) for x in leaves])

    def get_single_element(self, name: str | None = None) -> Any:
        """Give the element of a data set of one.

        Raises:
            InvalidArgumentError: There is none, or more than one.
        """
        del name
        elements = []
        for element in _live.start_iterator(self._impl):
            elements.append(element)
            if len(elements) > 1:
                raise InvalidArgumentError("Dataset had more than one element.")
        if not elements:
            raise InvalidArgumentError("Dataset was empty.")
        return _packed.unpacker(self._structure)(elements[0])


def _reducer(
    function: Callable[[Any, Any], Any],
    state: Any,
    types: list[Any],
    structure: Any,
    element: tuple[Any, ...],
) -> Any:
    """The program from (state, element) to the next state."""

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
