# SPDX-License-Identifier: MIT
"""Leaves of elements that are not dense tensors of numbers: strings, ragged and sparse
tensors, and data sets.

The core moves them as vectors of bytes, of any length: one string as it is, anything
else pickled. So whatever hands elements on runs in C; whatever looks into them is
Python.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu.tf import nest
from ipu.tf._string_ops.tensors import StringTensor, is_text
from ipu.tf._tensor.composite_specs import (
    CompositeSpec,
    RaggedTensorSpec,
    SparseTensorSpec,
)
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf.data import _live
from ipu.tf.dtypes import string
from ipu.tf.tensor_spec import TensorSpec

if TYPE_CHECKING:
    from ipu.tf.data._dataset import Dataset

CORE = ("uint8", (None,))  # what the core sees of a packed leaf
_Arrays = tuple["np.ndarray[Any, Any]", ...]


class DatasetSpec(TensorSpec):
    """The spec of a data set that is (a part of) an element.

    Args:
        element_spec: The spec of its elements.

    Example:
        >>> windows = tf.data.Dataset.range(6).window(2)
        >>> windows.element_spec.element_spec.dtype.name
        'int64'
    """

    __slots__ = ("element_spec",)

    def __init__(self, element_spec: Any) -> None:
        super().__init__(None, string)
        self.element_spec = element_spec

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DatasetSpec) and self.element_spec == other.element_spec
        )

    __hash__ = TensorSpec.__hash__

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"


def is_packed(spec: Any) -> bool:
    """Return whether the leaf of this spec is packed."""
    if isinstance(spec, RaggedTensorSpec) and not spec.ragged_rank:
        return bool(spec.dtype == string)
    return isinstance(spec, CompositeSpec) or bool(spec.dtype == string)


def has_composite(structure: Any) -> bool:
    """Return whether batches of some leaf are ragged or sparse."""
    return any(isinstance(spec, CompositeSpec) for spec in nest.flatten(structure))


def has_packed(structure: Any) -> bool:
    """Return whether some leaf of the structure is packed."""
    return any(is_packed(spec) for spec in nest.flatten(structure))


def pack(spec: Any, value: Any) -> np.ndarray[Any, Any]:
    """Return the core's array of a leaf."""
    if not is_packed(spec):
        return np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if isinstance(spec, DatasetSpec):
        return pack_rows(list(packed_rows(value._impl)))
    if hasattr(value, "row_splits") or hasattr(value, "dense_shape"):
        data = pickle.dumps(_parts(value), pickle.HIGHEST_PROTOCOL)
    elif spec.shape == ():
        data = bytes(StringTensor(value))
    else:
        data = pickle.dumps(np.asarray(StringTensor(value)), pickle.HIGHEST_PROTOCOL)
    return np.frombuffer(data, np.uint8)


def unpack(spec: Any, tensor: Any) -> Any:
    """Return the leaf that the core's tensor stands for."""
    return unpack_array(spec, tensor.numpy()) if is_packed(spec) else tensor


def unpack_array(spec: Any, array: np.ndarray[Any, Any]) -> Any:
    """Return the packed leaf that the core's array stands for."""
    data = array.tobytes()
    if isinstance(spec, DatasetSpec):
        return of_rows(pickle.loads(data), spec.element_spec)
    if isinstance(spec, SparseTensorSpec):
        from ipu.tf.sparse import SparseTensor

        return SparseTensor(*pickle.loads(data))
    if isinstance(spec, RaggedTensorSpec) and spec.ragged_rank:
        from ipu.tf.ragged import RaggedTensor

        made, *all_splits = pickle.loads(data)
        for splits in all_splits:
            made = RaggedTensor(made, splits)
        return made
    return StringTensor(data if spec.shape == () else pickle.loads(data))


def _parts(value: Any) -> list[np.ndarray[Any, Any]]:
    """Return the tensors of a ragged one, the innermost values first, or of a sparse
    one."""
    if hasattr(value, "dense_shape"):
        return [np.asarray(p) for p in (value.indices, value.values, value.dense_shape)]
    if hasattr(value, "row_splits"):
        return [*_parts(value.values), np.asarray(value.row_splits)]
    return [np.asarray(value)]


def pack_rows(rows: list[_Arrays]) -> np.ndarray[Any, Any]:
    """Return the core's array of a data set of these elements."""
    return np.frombuffer(pickle.dumps(rows, pickle.HIGHEST_PROTOCOL), np.uint8)


def pack_column(column: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return the core's array of a data set of elements of one leaf each."""
    return pack_rows([(array,) for array in column])


def unpacker(structure: Any) -> Callable[[Sequence[Any]], Any]:
    """Return the function from the core's tensors to an element of this structure."""
    specs = nest.flatten(structure)
    if not has_packed(structure):
        return lambda tensors: nest.pack_sequence_as(structure, tensors)
    return lambda tensors: nest.pack_sequence_as(
        structure, [unpack(*pair) for pair in zip(specs, tensors, strict=True)]
    )


def elements(impl: Any, structure: Any) -> Iterator[Any]:
    """Return the elements of the core's data set, as Python sees them."""
    return map(unpacker(structure), _live.start_iterator(impl))


def packed_rows(impl: Any) -> Iterator[_Arrays]:
    """Return the elements of the core's data set as they are."""
    return map(row_of, _live.start_iterator(impl))


def row_of(tensors: Sequence[Any]) -> _Arrays:
    """Return an element of the core's as arrays."""
    return tuple(tensor.numpy() for tensor in tensors)


def of_rows(rows: list[_Arrays], structure: Any) -> Dataset:
    """Return a data set of elements that are there, as :func:`packed_rows` gives
    them."""
    from ipu.tf.data import _structure
    from ipu.tf.data._dataset import Dataset

    types = tuple(_structure.core_spec(spec) for spec in nest.flatten(structure))
    impl = _core.Dataset.generator(types, lambda: iter(rows), len(rows))
    return Dataset(impl, structure)


def spec_of_value(value: Any) -> Any:
    """Return the spec of what a function on the host has returned."""
    from ipu.tf.data import _structure
    from ipu.tf.data._dataset import Dataset

    if isinstance(value, Dataset):
        return DatasetSpec(value._structure)
    if hasattr(value, "row_splits"):
        return RaggedTensorSpec(value.shape, value.dtype, value.ragged_rank)
    if hasattr(value, "dense_shape"):
        return SparseTensorSpec(value.shape, value.dtype)
    if is_text(value):
        return TensorSpec(StringTensor(value).shape, string)
    tensor = convert_to_tensor(value)
    return _structure.spec_of((tensor.dtype.name, tuple(tensor.shape)))
