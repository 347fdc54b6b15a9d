# SPDX-License-Identifier: MIT
"""The functions that ``map`` and its like apply to elements.

One of numbers is traced and compiled for the types of its input (:class:`Mapped`). One
of strings or data sets Python calls, for each element, with eager tensors
(:class:`HostFunction`); its random numbers are a function of (seed, element), so that
they are the same in every run and in whatever thread the data set is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ipu import _core
from ipu.tf import nest
from ipu.tf._functions import function as _function
from ipu.tf._string_ops.host_only import HostOnlyError
from ipu.tf._string_ops.tensors import is_text, text_tensor
from ipu.tf._tensor import varying_sizes
from ipu.tf._tensor.composite_specs import RaggedTensorSpec, SparseTensorSpec
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf.data import _live, _packed, _structure
from ipu.tf.data._parallel import in_order
from ipu.tf.tensor_spec import TensorSpec

_ELEMENTS = 1 << 32  # keeps the seeds of functions apart from those of elements
_Arrays = tuple["np.ndarray[Any, Any]", ...]
_Core = tuple[str, tuple[int, ...]]


class Mapped:
    """A map function over elements of one structure, with its programs.

    Args:
        structure: Nest of TensorSpec of the input elements.
        example: Concrete core specs of a likely element, or None.
        peek: Gives the concrete core specs of the first element, or None if there is
            none; called only if there is no other way.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        structure: Any,
        example: tuple[_Core, ...] | None,
        peek: Callable[[], tuple[_Core, ...] | None],
    ) -> None:
        self._function = converted(function)
        self._input = structure
        self._programs: dict[tuple[_Core, ...], Any] = {}
        self._output: Any = None
        self.example: tuple[_Core, ...] | None = None
        self.structure = self._probe(example, peek)

    def compile(self, specs: tuple[_Core, ...]) -> Any:
        """Return the ``_core.Program`` for these concrete input types."""
        if specs not in self._programs:
            self._trace(specs)
        return self._programs[specs].program

    def _call(self, *tensors: Any) -> tuple[Any, ...]:
        element = nest.pack_sequence_as(self._input, tensors)
        # As TensorFlow: a plain tuple is unpacked, a dict or named tuple is not.
        if type(element) is tuple:
            result = self._function(*element)
        else:
            result = self._function(element)
        if isinstance(result, list):
            result = tuple(result)
        result = _structure.map_leaves(self._tensor, result)
        leaves = nest.flatten(result)
        if not leaves:
            raise TypeError(
                "map_func must return at least one tensor. "
                f"Received: {result!r}. Return the tensors of the new element."
            )
        self._output = nest.map_structure(lambda _: None, result)
        return tuple(leaves)

    @staticmethod
    def _tensor(value: Any) -> Any:
        if value is None:
            raise TypeError(
                "map_func must return tensors, or tuples or dicts of them. "
                "Received: None. Is there a `return` statement?"
            )
        if hasattr(value, "row_splits") or hasattr(value, "dense_shape"):
            raise HostOnlyError("map_func gives a ragged or sparse tensor.")
        if is_text(value):
            raise HostOnlyError("map_func gives strings, which are on the host alone.")
        return convert_to_tensor(value)

    def _trace(self, specs: tuple[_Core, ...]) -> tuple[_Core, ...]:
        """Trace for concrete types; give those of the results."""
        known = self._output
        arguments = [_structure.spec_of(spec) for spec in specs]
        traced = _function.trace_program(self._call, arguments, host=True)
        if known is not None:
            nest.assert_same_structure(known, self._output)
        self._programs[specs] = traced
        return tuple(
            _structure.core_spec(spec)  # type: ignore[misc]
            for spec in nest.flatten(traced.output_specs)
        )

    def _probe(
        self,
        example: tuple[_Core, ...] | None,
        peek: Callable[[], tuple[_Core, ...] | None],
    ) -> Any:
        declared = [_structure.core_spec(spec) for spec in nest.flatten(self._input)]
        if all(_is_static(spec) for spec in declared):
            static = tuple(declared)
            self.example = self._trace(static)  # type: ignore[arg-type]
            return self._specs(self.example)
        if example is None and any(shape is None for _, shape in declared):
            example = peek()
            if example is None:
                raise ValueError(
                    "map cannot tell the shapes of a generator without declared shapes "
                    "that yields nothing. Pass output_shapes or output_signature."
                )
        first = example or _with_size(declared, 2)
        try:
            made = self._trace(first)
        except Exception:
            # Sizes of our own choosing may be ones that the function never meets.
            actual = None if example is not None else peek()
            if actual is None:
                raise
            first = actual
            made = self._trace(first)
        self.example = made
        return self._specs(made, self._second(declared, first, made))

    def _second(
        self, declared: list[Any], first: tuple[_Core, ...], made: tuple[_Core, ...]
    ) -> tuple[Any, ...]:
        """Trace for another size; give the results' types, None in unknown places."""
        sizes: set[int] = set()
        other = []
        for (dtype, want), (_, shape) in zip(declared, first, strict=True):
            unknown = [want is None or want[axis] is None for axis in range(len(shape))]
            pairs = list(zip(shape, unknown, strict=True))
            sizes.update(size for size, varies in pairs if varies)
            other.append((dtype, tuple(size + varies for size, varies in pairs)))
        try:
            return self._trace(tuple(other))
        except Exception:
            # It does not take another size: what has one of the varying sizes may vary.
            return tuple(
                (dtype, tuple(None if size in sizes else size for size in shape))
                for dtype, shape in made
            )

    def _specs(
        self, made: tuple[Any, ...], other: tuple[Any, ...] | None = None
    ) -> Any:
        """Return the nest of TensorSpec of the results, None where the two differ."""
        leaves = []
        for (dtype, shape), (_, second) in zip(made, other or made, strict=True):
            if len(shape) != len(second):
                leaves.append(_structure.spec_of((dtype, None)))
                continue
            sizes = tuple(
                a if a == b else None for a, b in zip(shape, second, strict=True)
            )
            leaves.append(_structure.spec_of((dtype, sizes)))
        return nest.pack_sequence_as(self._output, leaves)


def converted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with Python control flow that works on tensors."""
    from ipu.tf import autograph

    converted: Callable[..., Any] = autograph.tf_convert(function)
    return converted


def _is_static(spec: tuple[str, tuple[int | None, ...] | None]) -> bool:
    return spec[1] is not None and None not in spec[1]


def _with_size(declared: list[Any], size: int) -> tuple[_Core, ...]:
    return tuple(
        (dtype, tuple(size if one is None else one for one in shape))
        for dtype, shape in declared
    )


class HostFunction:
    """A user's function over the elements of a data set.

    Args:
        function: Gets an element; a tuple is unpacked.
        peeks: How many further elements say which sizes of its results vary.
    """

    def __init__(
        self, what: str, function: Callable[..., Any], seed: int, peeks: int = 0
    ) -> None:
        self._what, self._function, self._seed = what, function, seed
        self._peeks = peeks

    def __call__(self, number: int, element: Any) -> Any:
        """Return what the function gives for element ``number``."""
        args = element if type(element) is tuple else (element,)
        seed = (self._seed * _ELEMENTS + number) & 0xFFFFFFFFFFFFFFFF
        return _core.with_random_stream(seed, self._function, tuple(args))

    def nest_of(self, number: int, element: Any) -> Any:
        """Return the result as a nest of tensors, strings and data sets."""
        result = self(number, element)
        if isinstance(result, list) and not is_text(result):
            result = tuple(result)
        return _structure.map_leaves(self._leaf, result)

    def _leaf(self, value: Any) -> Any:
        from ipu.tf.data._dataset import Dataset

        if value is None:
            raise TypeError(
                f"The function of {self._what} must return tensors, or tuples or dicts "
                "of them. Received: None. Is there a `return` statement?"
            )
        if isinstance(value, Dataset):
            return value
        if _is_composite(value):
            return value
        return text_tensor(value) if is_text(value) else convert_to_tensor(value)

    def structure(self, impl: Any, structure: Any) -> Any:
        """Return the spec of results: of the first element's, None for sizes that
        vary."""
        unpacked = _packed.unpacker(structure)

        def look(tensors: Any) -> tuple[Any, Any]:
            element = unpacked(tensors)
            result = self.nest_of(0, element)
            return element, nest.map_structure(_packed.spec_of_value, result)

        found = _live.first_results(impl, look, 1 + self._peeks)
        if not found:
            raise ValueError(
                f"{self._what} cannot tell what its function gives, as there is no "
                "element to call it with."
            )
        first, made = found[0]
        for _, specs in found[1:]:
            made = nest.map_structure(lambda a, b: _open(a, b, set()), made, specs)
        with varying_sizes.others() as call:
            while True:
                try:
                    other = self.nest_of(0, _grown(structure, first))
                    break
                except Exception:
                    if not call.fix():
                        # It takes no other size: what has one that varies may vary.
                        return nest.map_structure(
                            lambda spec: _open(spec, None, call.made_larger), made
                        )
        specs = nest.map_structure(_packed.spec_of_value, other)
        return nest.map_structure(lambda a, b: _open(a, b, set()), made, specs)


def _is_composite(value: Any) -> bool:
    return hasattr(value, "row_splits") or hasattr(value, "dense_shape")


def _grown(structure: Any, element: Any) -> Any:
    """Return an element whose sizes that are not known are one larger."""
    grown = []
    for spec, leaf in zip(nest.flatten(structure), nest.flatten(element), strict=True):
        axes = [axis for axis, size in enumerate(spec.shape or ()) if size is None]
        if _is_composite(leaf):
            if axes[:1] == [0] and hasattr(leaf, "row_splits"):
                splits = np.asarray(leaf.row_splits)
                leaf = type(leaf)(leaf.values, [*splits, splits[-1]])
        elif axes:
            leaf = varying_sizes.varying(np.asarray(leaf), *axes)
            leaf = text_tensor(leaf) if is_text(leaf) else convert_to_tensor(leaf)
        grown.append(leaf)
    return nest.pack_sequence_as(structure, grown)


def _open(spec: Any, other: Any, sizes: set[int]) -> Any:
    """Return a spec with None for the sizes that `other` has otherwise, and for
    `sizes`."""
    if isinstance(spec, _packed.DatasetSpec) or not spec.shape:
        return spec
    second = spec.shape if other is None else other.shape
    if len(second) != len(spec.shape):
        return TensorSpec(None, spec.dtype)
    shape = [
        a if a == b and a not in sizes else None
        for a, b in zip(spec.shape, second, strict=True)
    ]
    if isinstance(spec, RaggedTensorSpec):
        return RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank)
    kind = SparseTensorSpec if isinstance(spec, SparseTensorSpec) else TensorSpec
    return kind(shape, spec.dtype)


def mapped(
    impl: Any, structure: Any, function: HostFunction, calls: int = 1
) -> tuple[Any, Any]:
    """Return the core's data set of what the function gives, and its structure.

    Args:
        impl: The core's data set of the elements.
        calls: How many calls of it run at once.
    """
    made = function.structure(impl, structure)
    specs = nest.flatten(made)

    def leaves_of(number: int, element: Any) -> _Arrays:
        result = function.nest_of(number, element)
        nest.assert_same_structure(made, result)
        return tuple(map(_packed.pack, specs, nest.flatten(result)))

    def start() -> Iterator[_Arrays]:
        return in_order(leaves_of, _packed.elements(impl, structure), calls)

    types = tuple(_structure.core_spec(spec) for spec in specs)
    return _core.Dataset.generator(types, start, impl.cardinality), made


def selected(impl: Any, structure: Any, predicate: HostFunction, ends: bool) -> Any:
    """Return the core's data set of the elements that the predicate keeps."""
    types = tuple(_structure.core_spec(spec) for spec in nest.flatten(structure))
    return _core.Dataset.generator(
        types, lambda: _Selected(impl, structure, predicate, ends)
    )


class _Selected(Iterator[_Arrays]):
    """The rows that a predicate keeps. No generator: one would end with an error."""

    def __init__(
        self, impl: Any, structure: Any, predicate: HostFunction, ends: bool
    ) -> None:
        self._numbered = enumerate(_live.start_iterator(impl))
        self._unpacked = _packed.unpacker(structure)
        self._predicate, self._ends = predicate, ends

    def __next__(self) -> _Arrays:
        for number, tensors in self._numbered:
            verdict = np.asarray(self._predicate(number, self._unpacked(tensors)))
            if verdict.shape != () or verdict.dtype != np.bool_:
                raise ValueError(
                    "`predicate` return type must be convertible to a scalar boolean "
                    f"tensor. Received: {verdict!r}."
                )
            if verdict:
                return _packed.row_of(tensors)
            if self._ends:
                break
        raise StopIteration
