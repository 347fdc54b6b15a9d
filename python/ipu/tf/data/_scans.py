# SPDX-License-Identifier: MIT
"""Methods of ``Dataset`` that look at elements one after the other and remember."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core, tf
from ipu._text.tracebacks import boundaries
from ipu.tf import nest
from ipu.tf._functions import function as _function
from ipu.tf._string_ops.host_only import HostOnlyError
from ipu.tf._string_ops.tensors import is_text
from ipu.tf.data import _live, _packed, _structure
from ipu.tf.data._made_by import note
from ipu.tf.data._map import converted
from ipu.tf.data._mixtures import random_numbers

if TYPE_CHECKING:
    from ipu.tf.data._dataset import Dataset

_Arrays = tuple["np.ndarray[Any, Any]", ...]


@boundaries(after=note)
class Scans:
    """Mixed into :class:`Dataset`."""

    if TYPE_CHECKING:
        _impl: Any
        _structure: Any

        def _concrete(self) -> tuple[Any, ...] | None: ...
        def _peek(self) -> tuple[Any, ...] | None: ...
        def _then(self, impl: Any) -> Dataset: ...

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
            TypeError: The state changes its type, or it gives no pair.

        Example:
            >>> sums = tf.data.Dataset.range(5).scan(
            ...     np.int64(0), lambda total, x: (total + x, total + x))
            >>> [int(x) for x in sums]
            [0, 1, 3, 6, 10]
        """
        from ipu.tf.data._dataset import Dataset

        del name
        impl, structure = self._impl, self._structure
        state = _structure.map_leaves(tf.convert_to_tensor, initial_state)
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
            made = nest.map_structure(_open, made)
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
        del name
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
            ValueError: The two have different lengths, or are no probabilities.
            InvalidArgumentError: When an element is read: a class that there is not.

        Example:
            >>> rows = tf.data.Dataset.range(100)
            >>> odd = rows.rejection_resample(
            ...     lambda x: tf.cast(x % 2, tf.int32), [0.0, 1.0], [0.5, 0.5])
            >>> len([x for _, x in odd])
            50
        """
        from ipu._text.errors import InvalidArgumentError
        from ipu.tf.data._dataset import Dataset

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
        random = random_numbers(seed, True)
        classes: Any = self.map(lambda *x: tf.cast(class_func(*x), tf.int32))  # type: ignore[attr-defined]
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


def _open(spec: Any) -> Any:
    """A spec with the same number of axes, of any size."""
    is_tensor = not isinstance(spec, _packed.DatasetSpec) and spec.shape
    return tf.TensorSpec([None] * len(spec.shape), spec.dtype) if is_tensor else spec


def _distribution(given: Any, name: str) -> np.ndarray[Any, Any]:
    made = np.asarray(given, np.float64)
    if made.ndim != 1 or not len(made) or (made < 0).any() or not made.sum() > 0:
        raise ValueError(
            f"`{name}` must be a list of probabilities. Received: {name}={given!r}."
        )
    shares: np.ndarray[Any, Any] = made / made.sum()
    return shares


class _Step:
    """A function of a state and an element, as programs by the element's types.

    Args:
        function: The user's.
        state: The initial state.
        structure: Of the elements.
    """

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
        """The program for elements of these types."""
        found = self._programs.get(element)
        if found is not None:
            return found
        count = len(self._types)
        given: list[Any] = []

        def step(*leaves: Any) -> Any:
            old = nest.pack_sequence_as(self._state, leaves[:count])
            row = nest.pack_sequence_as(self._structure, leaves[count:])
            state, output = self._call(old, row)
            output = _structure.map_leaves(tf.convert_to_tensor, output)
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
        """The leaves of the next state and of the new element."""
        types = tuple((t.dtype.name, tuple(t.shape)) for t in element)
        made = self.program(types).run([*leaves, *element])
        return made[: len(leaves)], made[len(leaves) :]

    def on_host(self, state: Any, element: Any) -> tuple[list[Any], list[Any]]:
        """The same, by Python."""
        new, output = self._call(state, element)
        new = _structure.map_leaves(tf.convert_to_tensor, new)
        output = _structure.map_leaves(tf.convert_to_tensor, output)
        leaves = nest.flatten(new)
        self._check([(leaf.dtype.name, tuple(leaf.shape)) for leaf in leaves])
        if self.made is None:
            self.made = nest.map_structure(_packed.spec_of_value, output)
        return leaves, nest.flatten(output)
