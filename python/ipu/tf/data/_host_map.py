# SPDX-License-Identifier: MIT
"""Functions over elements with strings or data sets: Python calls them, for each
element, with eager tensors.

Random numbers are a function of (seed, element), so they are the same in every run and
in whatever thread the data set is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ipu import _core, tf
from ipu.tf import nest
from ipu.tf._string_ops.tensors import is_text, text_tensor
from ipu.tf._tensor import varying_sizes
from ipu.tf._tensor.composite_specs import RaggedTensorSpec, SparseTensorSpec
from ipu.tf.data import _live, _packed, _structure
from ipu.tf.data._parallel import in_order

_ELEMENTS = 1 << 32  # keeps the seeds of functions apart from those of elements
_Arrays = tuple["np.ndarray[Any, Any]", ...]


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
        """What the function gives for element ``number``."""
        args = element if type(element) is tuple else (element,)
        seed = (self._seed * _ELEMENTS + number) & 0xFFFFFFFFFFFFFFFF
        return _core.with_random_stream(seed, self._function, tuple(args))

    def nest_of(self, number: int, element: Any) -> Any:
        """The result as a nest of tensors, strings and data sets."""
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
        return text_tensor(value) if is_text(value) else tf.convert_to_tensor(value)

    def structure(self, impl: Any, structure: Any) -> Any:
        """The spec of results: of the first element's, None for sizes that vary."""
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
        with varying_sizes.others() as sizes:
            try:
                other = self.nest_of(0, _grown(structure, first))
            except Exception:
                # It takes no other size: what has one of the varying sizes may vary.
                return nest.map_structure(lambda spec: _open(spec, None, sizes), made)
        specs = nest.map_structure(_packed.spec_of_value, other)
        return nest.map_structure(lambda a, b: _open(a, b, set()), made, specs)


def _is_composite(value: Any) -> bool:
    return hasattr(value, "row_splits") or hasattr(value, "dense_shape")


def _grown(structure: Any, element: Any) -> Any:
    """An element whose sizes that are not known are one larger."""
    grown = []
    for spec, leaf in zip(nest.flatten(structure), nest.flatten(element), strict=True):
        axes = [axis for axis, size in enumerate(spec.shape or ()) if size is None]
        if _is_composite(leaf):
            if axes[:1] == [0] and hasattr(leaf, "row_splits"):
                splits = np.asarray(leaf.row_splits)
                leaf = tf.RaggedTensor(leaf.values, [*splits, splits[-1]])
        elif axes:
            leaf = varying_sizes.varying(np.asarray(leaf), *axes)
            leaf = text_tensor(leaf) if is_text(leaf) else tf.convert_to_tensor(leaf)
        grown.append(leaf)
    return nest.pack_sequence_as(structure, grown)


def _open(spec: Any, other: Any, sizes: set[int]) -> Any:
    """A spec with None for the sizes that `other` has otherwise, and for `sizes`."""
    if isinstance(spec, _packed.DatasetSpec) or not spec.shape:
        return spec
    second = spec.shape if other is None else other.shape
    if len(second) != len(spec.shape):
        return tf.TensorSpec(None, spec.dtype)
    shape = [
        a if a == b and a not in sizes else None
        for a, b in zip(spec.shape, second, strict=True)
    ]
    if isinstance(spec, RaggedTensorSpec):
        return RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank)
    kind = SparseTensorSpec if isinstance(spec, SparseTensorSpec) else tf.TensorSpec
    return kind(shape, spec.dtype)


def mapped(
    impl: Any, structure: Any, function: HostFunction, calls: int = 1
) -> tuple[Any, Any]:
    """The core's data set of what the function gives, and its structure.

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
    """The core's data set of the elements that the predicate keeps."""
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
