# SPDX-License-Identifier: MIT
"""Batches and slices of elements with leaves that the core cannot stack or cut."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._errors import InvalidArgumentError
from ipu.tf import nest
from ipu.tf._strings import StringTensor, is_text
from ipu.tf.data import _packed, _structure
from ipu.tf.dtypes import string
from ipu.tf.tensor_spec import TensorSpec

__all__ = [
    "batched",
    "holds_text",
    "padded",
    "padded_shapes",
    "padding_values",
    "stacked_batches",
    "text_slices",
    "text_tensors",
    "unbatched",
]

_Arrays = tuple["np.ndarray[Any, Any]", ...]
# From the leaves of a batch's rows, and the leaf's number, to the batch's leaf.
Stack = Callable[[Sequence[Any], int], Any]


def stacked_batches(
    impl: Any, specs: list[Any], made: list[Any], size: int, drop: bool, stack: Stack
) -> Any:
    """The core's data set of batches that Python makes.

    Args:
        impl: The core's data set of rows.
        specs: Of the rows' leaves.
        made: Of the batches' leaves.
        size: Rows in a batch.
        drop: Whether a last batch of fewer rows is dropped.
        stack: Makes a leaf of a batch.
    """
    types = tuple(_structure.core_spec(spec) for spec in made)

    def batch(rows: list[_Arrays]) -> _Arrays:
        columns = zip(*rows, strict=True)
        return tuple(
            _packed.pack(made[i], stack(_unpacked(specs[i], column), i))
            for i, column in enumerate(columns)
        )

    def start() -> Iterator[_Arrays]:
        rows: list[_Arrays] = []
        for row in _packed.packed_rows(impl):
            rows.append(row)
            if len(rows) == size:
                yield batch(rows)
                rows = []
        if rows and not drop:
            yield batch(rows)

    dataset = _core.Dataset.generator(types, start)
    count = impl.cardinality
    if count >= 0:
        count = count // size if drop else -(-count // size)
    return dataset if count == -2 else dataset.assert_cardinality(count)


def _unpacked(spec: Any, column: tuple[Any, ...]) -> Sequence[Any]:
    if not _packed.is_packed(spec):
        return column
    if isinstance(spec, _packed.DatasetSpec):
        raise TypeError(
            "A batch of data sets cannot be made. Turn each into tensors first: "
            ".flat_map(lambda window: window.batch(size))."
        )
    if spec.shape == ():
        return [np.array(array.tobytes(), object) for array in column]
    return [pickle.loads(array.tobytes()) for array in column]


def batched(impl: Any, structure: Any, size: int, drop: bool) -> tuple[Any, Any]:
    """``batch`` of elements with packed leaves: the core's data set, its structure."""
    if size < 1:
        raise InvalidArgumentError(
            f"batch: batch_size must be greater than zero, not {size}"
        )
    specs = nest.flatten(structure)
    made = [_grown(spec, size if drop else None) for spec in specs]

    def stack(column: Sequence[Any], index: int) -> Any:
        shapes = {array.shape for array in column}
        if len(shapes) > 1:
            raise InvalidArgumentError(
                f"batch: component {index} has elements of the shapes "
                f"{' and '.join(map(str, sorted(shapes)))}; all elements of a batch "
                "must have the same shape. Use padded_batch."
            )
        return np.stack(column)

    dataset = stacked_batches(impl, specs, made, size, drop, stack)
    return dataset, nest.pack_sequence_as(structure, made)


def _grown(spec: Any, size: int | None) -> Any:
    if isinstance(spec, _packed.DatasetSpec):
        _unpacked(spec, ())
    return TensorSpec(None if spec.shape is None else (size, *spec.shape), spec.dtype)


def unbatched(impl: Any, structure: Any) -> tuple[Any, Any]:
    """``unbatch`` of elements with packed leaves: the core's data set, structure."""
    specs = nest.flatten(structure)
    for number, spec in enumerate(specs):
        if spec.shape == () or isinstance(spec, _packed.DatasetSpec):
            raise ValueError(
                f"unbatch: component {number} is a scalar, which has no first axis"
            )
    made = [TensorSpec(spec.shape and spec.shape[1:], spec.dtype) for spec in specs]
    types = tuple(_structure.core_spec(spec) for spec in made)

    def start() -> Iterator[_Arrays]:
        for element in _packed.elements(impl, structure):
            leaves = nest.flatten(element)
            lengths = {len(leaf) for leaf in leaves}
            if len(lengths) > 1:
                raise InvalidArgumentError(
                    f"unbatch: components have {sorted(lengths)} rows."
                )
            for row in zip(*leaves, strict=True):
                yield tuple(map(_packed.pack, made, row))

    return _core.Dataset.generator(types, start), nest.pack_sequence_as(structure, made)


# --- padding --------------------------------------------------------------------------


def padded_shapes(
    given: Any, specs: list[Any], structure: Any
) -> list[tuple[int | None, ...]]:
    if given is None:
        for spec in specs:
            if spec.shape is None:
                raise ValueError(
                    "padded_batch needs `padded_shapes` where the number of axes is "
                    f"not known. Received: {spec!r}."
                )
        return [tuple(spec.shape) for spec in specs]
    if len(specs) == 1 and not nest.is_nested(structure):
        listed: list[Any] = [given]
    else:
        listed = _like(structure, given)
    return [
        tuple(None if n is None or n == -1 else int(n) for n in tuple(shape))
        for shape in listed
    ]


def padding_values(given: Any, specs: list[Any], structure: Any) -> list[Any]:
    if given is None:
        return [None] * len(specs)
    if not nest.is_nested(given):
        return [given] * len(specs)
    return _like(structure, given)


def _like(structure: Any, given: Any) -> list[Any]:
    """The parts of ``given`` in the places of the leaves of ``structure``."""
    if not nest.is_nested(structure):
        return [given]
    if isinstance(structure, dict):
        parts = [(structure[key], given[key]) for key in sorted(structure)]
    else:
        parts = list(zip(structure, given, strict=True))
    return [leaf for part, one in parts for leaf in _like(part, one)]


def padded(
    column: Sequence[Any], shape: tuple[int | None, ...], value: Any, index: int
) -> np.ndarray[Any, Any]:
    """A batch of arrays, each filled up behind its ends.

    Args:
        column: The arrays.
        shape: What each is filled up to; None: the largest size there is.
        value: What it is filled with.
        index: The number of the component, for messages.

    Raises:
        InvalidArgumentError: An array is larger than ``shape``.
    """
    for array in column:
        fits = array.ndim == len(shape) and all(
            want is None or have <= want
            for have, want in zip(array.shape, shape, strict=True)
        )
        if not fits:
            raise InvalidArgumentError(
                f"padded_batch: component {index} of an element has shape "
                f"{array.shape}, which does not fit into the padded shape {shape}."
            )
    sizes = tuple(
        max(array.shape[axis] for array in column) if want is None else want
        for axis, want in enumerate(shape)
    )
    fill = _filling(value, column[0].dtype)
    whole = np.full((len(column), *sizes), fill, column[0].dtype)
    for row, array in enumerate(column):
        corner: tuple[Any, ...] = tuple(slice(0, n) for n in array.shape)
        whole[(row, *corner)] = array[()] if array.ndim == 0 else array
    return whole


def _filling(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "O":
        return StringTensor(b"" if value is None else value).numpy()
    return np.asarray(0 if value is None else getattr(value, "numpy", lambda: value)())


# --- sources --------------------------------------------------------------------------


def holds_text(tensors: Any) -> bool:
    """Whether a nest of tensors has strings, or ragged rows, in it."""
    found: list[bool] = []
    _structure.map_leaves(
        lambda leaf: found.append(is_text(leaf) or _is_ragged(leaf)), tensors
    )
    return any(found)


def _is_ragged(leaf: Any) -> bool:
    return hasattr(leaf, "row_splits")


def _leaves(tensors: Any, what: str) -> Any:
    def leaf_of(leaf: Any) -> Any:
        if _is_ragged(leaf):
            return leaf
        return StringTensor(leaf) if is_text(leaf) else _structure.to_array(leaf, what)

    return _structure.map_leaves(leaf_of, tensors)


def _spec(leaf: Any, rows: bool) -> Any:
    if _is_ragged(leaf) and (not rows or leaf.ragged_rank > 1):
        raise TypeError(
            "Elements hold dense tensors: a ragged tensor can be cut into its rows, "
            f"where those are dense. Received: {leaf!r}. Use to_tensor()."
        )
    shape = leaf.shape[1:] if rows else leaf.shape
    is_string = leaf.dtype == string
    return TensorSpec(shape, string if is_string else leaf.dtype.name)


def text_slices(tensors: Any) -> tuple[Any, Any]:
    """``from_tensor_slices`` of a nest with strings: the core's data set, structure."""
    leaves = _leaves(tensors, "tensors")
    flat = nest.flatten(leaves)
    for number, leaf in enumerate(flat):
        if leaf.ndim == 0:
            raise ValueError(
                f"from_tensor_slices: component {number} is a scalar, which has no "
                "first axis"
            )
    sizes = {len(leaf) for leaf in flat}
    if len(sizes) > 1:
        raise ValueError(
            "The tensors of from_tensor_slices must have the same first size. "
            f"Received: {', '.join(str(len(leaf)) for leaf in flat)}."
        )
    structure = nest.map_structure(lambda leaf: _spec(leaf, True), leaves)
    return _rows_of(structure, lambda: zip(*flat, strict=True), sizes.pop())


def text_tensors(tensors: Any) -> tuple[Any, Any]:
    """``from_tensors`` of a nest with strings: the core's data set, structure."""
    leaves = _leaves(tensors, "tensors")
    structure = nest.map_structure(lambda leaf: _spec(leaf, False), leaves)
    return _rows_of(structure, lambda: iter([nest.flatten(leaves)]), 1)


def _rows_of(
    structure: Any, rows: Callable[[], Iterator[Any]], count: int
) -> tuple[Any, Any]:
    specs = nest.flatten(structure)
    types = tuple(_structure.core_spec(spec) for spec in specs)

    def start() -> Iterator[_Arrays]:
        for row in rows():
            yield tuple(map(_packed.pack, specs, row))

    dataset = _core.Dataset.generator(types, start)
    return dataset.assert_cardinality(count), structure
