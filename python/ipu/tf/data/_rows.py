# SPDX-License-Identifier: MIT
"""Batches and slices of elements with leaves that the core cannot stack or cut."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._text.errors import DataLossError, InvalidArgumentError
from ipu.tf import nest
from ipu.tf._string_ops.tensors import StringTensor, is_text, plain
from ipu.tf._tensor.composite_specs import (
    CompositeSpec,
    RaggedTensorSpec,
    SparseTensorSpec,
)
from ipu.tf.data import _packed, _structure
from ipu.tf.data._turns import ByTurns
from ipu.tf.dtypes import string
from ipu.tf.tensor_spec import TensorSpec

_Arrays = tuple["np.ndarray[Any, Any]", ...]
# From the leaves of a batch's rows, and the leaf's number, to the batch's leaf.
Stack = Callable[[Sequence[Any], int], Any]


def stacked_batches(
    impl: Any, specs: list[Any], made: list[Any], size: int, drop: bool, stack: Stack
) -> Any:
    """Return the core's data set of batches that Python makes.

    Args:
        drop: Whether a last batch of fewer rows is dropped.
    """
    types = tuple(_structure.core_spec(spec) for spec in made)

    def batch(rows: list[_Arrays]) -> _Arrays:
        columns = zip(*rows, strict=True)
        return tuple(
            _packed.pack(made[i], stack(_unpacked(specs[i], column), i))
            for i, column in enumerate(columns)
        )

    def start() -> Iterator[_Arrays]:
        rows = _packed.packed_rows(impl)
        held: list[_Arrays] = []  # of the batch that is read

        def piece() -> list[_Arrays]:
            try:
                held.extend(itertools.islice(rows, size - len(held)))
            except Exception:  # not Ctrl-C, after which it goes on
                held.clear()
                raise
            made = held[:]
            held.clear()
            return made

        pieces = iter(piece, [])
        whole = filter(lambda piece: len(piece) == size, pieces) if drop else pieces
        return map(batch, whole)

    count = impl.cardinality
    if count >= 0:
        count = count // size if drop else -(-count // size)
    return _core.Dataset.generator(types, start, count)


def _unpacked(spec: Any, column: tuple[Any, ...]) -> Sequence[Any]:
    if not _packed.is_packed(spec):
        return column
    if isinstance(spec, _packed.DatasetSpec):
        raise TypeError(
            "A batch of data sets cannot be made. Turn each into tensors first: "
            ".flat_map(lambda window: window.batch(size))."
        )
    if isinstance(spec, CompositeSpec) and not _is_row(spec):
        return [_packed.unpack_array(spec, array) for array in column]
    if spec.shape == ():
        return [np.array(array.tobytes(), object) for array in column]
    return [pickle.loads(array.tobytes()) for array in column]


def _is_row(spec: Any) -> bool:
    """Return whether a leaf of a composite spec is a tensor with ragged batches."""
    return isinstance(spec, RaggedTensorSpec) and not spec.ragged_rank


def batched(
    impl: Any, structure: Any, size: int, drop: bool, kinds: Any = None
) -> tuple[Any, Any]:
    """Return ``batch`` of elements with packed leaves: the core's data set, its
    structure.

    Args:
        drop: Whether a last batch of fewer rows is dropped.
        kinds: What rows are taken for; None: for what they are.
    """
    if size < 1:
        raise InvalidArgumentError(
            f"batch: batch_size must be greater than zero, not {size}"
        )
    specs = nest.flatten(structure)
    taken = specs if kinds is None else nest.flatten(kinds)
    made = [_grown(spec, size if drop else None) for spec in taken]

    def stack(column: Sequence[Any], index: int) -> Any:
        if isinstance(made[index], RaggedTensorSpec):
            return ragged_of(column, taken[index].ragged_rank)
        shapes = {tuple(array.shape) for array in column}
        if len(shapes) > 1:
            raise InvalidArgumentError(
                f"batch: component {index} has elements of the shapes "
                f"{' and '.join(map(str, sorted(shapes)))}; all elements of a batch "
                "must have the same shape. Use padded_batch."
            )
        sparse = isinstance(made[index], SparseTensorSpec)
        return _sparse_of(column) if sparse else np.stack(column)

    dataset = stacked_batches(impl, specs, made, size, drop, stack)
    return dataset, nest.pack_sequence_as(structure, made)


def _grown(spec: Any, size: int | None) -> Any:
    if isinstance(spec, _packed.DatasetSpec):
        _unpacked(spec, ())
    shape = None if spec.shape is None else (size, *spec.shape)
    if isinstance(spec, RaggedTensorSpec):
        return RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank + 1)
    kind = SparseTensorSpec if isinstance(spec, SparseTensorSpec) else TensorSpec
    return kind(shape, spec.dtype)


def ragged_of(rows: Sequence[Any], ragged_rank: int) -> Any:
    """Return a ragged tensor of rows, which are dense or ragged."""
    from ipu.tf.ragged import RaggedTensor, stacked

    if ragged_rank:
        rows = [
            row
            if isinstance(row, RaggedTensor)
            else RaggedTensor.from_tensor(row, ragged_rank=ragged_rank)
            for row in rows
        ]
    return stacked(rows)


def _sparse_of(rows: Sequence[Any]) -> Any:
    """Return sparse tensors of one shape as one."""
    from ipu.tf.sparse import SparseTensor

    places = [np.asarray(row.indices) for row in rows]
    numbers = [np.full((len(one), 1), n) for n, one in enumerate(places)]
    values = np.concatenate([np.asarray(row.values) for row in rows])
    joined = np.concatenate([np.hstack(p) for p in zip(numbers, places, strict=True)])
    return SparseTensor(joined, values, (len(rows), *rows[0].shape))


def sparse_rows(rows: Sequence[Any], shape: tuple[int | None, ...]) -> Any:
    """Return a sparse tensor of dense rows, each in the corner of ``shape``.

    Raises:
        DataLossError: A row is larger.
    """
    from ipu.tf.sparse import SparseTensor

    for row in rows:
        fits = np.ndim(row) == len(shape) and all(
            most is None or have <= most
            for have, most in zip(np.shape(row), shape, strict=True)
        )
        if not fits:
            raise DataLossError(
                f"sparse_batch: an element has shape {np.shape(row)}, which does not "
                f"fit into row_shape={list(shape)}."
            )
    sizes = [
        max(np.shape(row)[axis] for row in rows) if most is None else most
        for axis, most in enumerate(shape)
    ]
    places = [
        (n, *at) for n, row in enumerate(rows) for at in np.ndindex(np.shape(row))
    ]
    values = np.concatenate([np.ravel(row) for row in rows])
    return SparseTensor(places, values, (len(rows), *sizes))


def unbatched(impl: Any, structure: Any) -> tuple[Any, Any]:
    """Apply ``unbatch`` to elements with packed leaves: the core's data set,
    structure."""
    specs = nest.flatten(structure)
    for number, spec in enumerate(specs):
        if spec.shape == () or isinstance(spec, _packed.DatasetSpec):
            raise ValueError(
                f"unbatch: component {number} is a scalar, which has no first axis"
            )
        if isinstance(spec, SparseTensorSpec):
            raise TypeError(
                f"unbatch: component {number} is a sparse tensor. Map it with "
                "tf.sparse.to_dense first."
            )
    made = list(map(_row_spec, specs))
    types = tuple(_structure.core_spec(spec) for spec in made)

    def rows_of(element: Any) -> Iterator[Any]:
        leaves = nest.flatten(element)
        lengths = {len(leaf) for leaf in leaves}
        if len(lengths) > 1:
            raise InvalidArgumentError(
                f"unbatch: components have {sorted(lengths)} rows."
            )
        return zip(*leaves, strict=True)

    def packed(row: Any) -> _Arrays:
        return tuple(map(_packed.pack, made, row))

    def start() -> Iterator[_Arrays]:
        wholes = map(rows_of, _packed.elements(impl, structure))
        return map(packed, ByTurns(wholes, 1, 1))

    return _core.Dataset.generator(types, start), nest.pack_sequence_as(structure, made)


def _row_spec(spec: Any) -> Any:
    """Return the spec of a leaf's rows."""
    shape = spec.shape and spec.shape[1:]
    if isinstance(spec, RaggedTensorSpec) and spec.ragged_rank:
        return RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank - 1)
    return TensorSpec(shape, spec.dtype)


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
        return [copy.copy(given)] * len(specs)
    return [copy.copy(value) for value in _like(structure, given)]


def _like(structure: Any, given: Any) -> list[Any]:
    """Return the parts of ``given`` in the places of the leaves of ``structure``."""
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
    """Return a batch of arrays, each filled up after its ends.

    Args:
        shape: The shape that each is filled up to; None: the largest size there is.
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
        corner: tuple[Any, ...] = (row, *(slice(0, n) for n in array.shape))
        whole[corner] = array[()] if array.ndim == 0 else array
    return whole


def _filling(value: Any, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "O":
        return StringTensor(b"" if value is None else value).numpy()
    return np.asarray(0 if value is None else getattr(value, "numpy", lambda: value)())


# --- sources --------------------------------------------------------------------------


def holds_text(tensors: Any) -> bool:
    """Return whether a nest of tensors has strings, or ragged rows, in it."""
    found: list[bool] = []
    _structure.map_leaves(
        lambda leaf: found.append(is_text(plain(leaf)) or _is_ragged(leaf)), tensors
    )
    return any(found)


def _is_ragged(leaf: Any) -> bool:
    return hasattr(leaf, "row_splits")


def _leaves(tensors: Any, what: str) -> Any:
    def leaf_of(leaf: Any) -> Any:
        if _is_ragged(leaf):
            return leaf
        leaf = plain(leaf)
        if is_text(leaf):
            return StringTensor(leaf)
        return _structure.to_own_array(leaf, what)

    return _structure.map_leaves(leaf_of, tensors)


def _spec(leaf: Any, rows: bool) -> Any:
    if _is_ragged(leaf):
        whole = _packed.spec_of_value(leaf)
        return _row_spec(whole) if rows else whole
    shape = leaf.shape[1:] if rows else leaf.shape
    is_string = leaf.dtype == string
    return TensorSpec(shape, string if is_string else leaf.dtype.name)


def text_slices(tensors: Any) -> tuple[Any, Any]:
    """Apply ``from_tensor_slices`` to a nest with strings: the core's data set,
    structure."""
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
    """Apply ``from_tensors`` to a nest with strings: the core's data set, structure."""
    leaves = _leaves(tensors, "tensors")
    structure = nest.map_structure(lambda leaf: _spec(leaf, False), leaves)
    return _rows_of(structure, lambda: iter([nest.flatten(leaves)]), 1)


def _rows_of(
    structure: Any, rows: Callable[[], Iterator[Any]], count: int
) -> tuple[Any, Any]:
    specs = nest.flatten(structure)
    types = tuple(_structure.core_spec(spec) for spec in specs)

    def packed(row: Any) -> _Arrays:
        return tuple(map(_packed.pack, specs, row))

    impl = _core.Dataset.generator(types, lambda: map(packed, rows()), count)
    return impl, structure
