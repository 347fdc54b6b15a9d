# SPDX-License-Identifier: MIT
"""Functions of one string, applied to all strings of a tensor, dense or ragged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu.tf._string_ops.tensors import StringTensor
from ipu.tf._tensor import varying_sizes
from ipu.tf.ragged import RaggedTensor


def objects(texts: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Return a vector of byte strings as NumPy holds them."""
    made = np.empty(len(texts), object)
    made[:] = texts
    return made


def each(function: Callable[[bytes], Any], value: Any, dtype: Any = object) -> Any:
    """Return what a function gives for each string, in the form of the strings.

    Args:
        function: Gives bytes, or a number where ``dtype`` says so.
        dtype: NumPy's type of the results; object: strings.
    """
    if isinstance(value, RaggedTensor):
        return RaggedTensor(each(function, value.values, dtype), value.row_splits)
    array = np.asarray(StringTensor(value))
    made = np.empty(array.shape, dtype)
    for place, item in np.ndenumerate(array):
        made[place] = function(item)
    return _tensor(made)


def cut(function: Callable[[bytes], np.ndarray[Any, Any]], value: Any) -> Any:
    """Return the parts of one string as a vector, those of several as a ragged tensor.

    Args:
        function: Gives the vector of a string's parts; of no string one of no parts.
    """
    if isinstance(value, RaggedTensor):
        return RaggedTensor(cut(function, value.values), value.row_splits)
    array = np.asarray(StringTensor(value))
    if not array.ndim:
        return _tensor(varying_sizes.varying(function(bytes(array[()])), 0))
    parts = [function(item) for item in array.ravel().tolist()]
    rows = _tensor(np.concatenate([function(b"")[:0], *parts]))
    made = RaggedTensor.from_row_lengths(rows, [len(part) for part in parts])
    for size in array.shape[:0:-1]:
        count = len(made) // size if size else 0
        made = RaggedTensor.from_row_lengths(made, [size] * count)
    return made


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    return StringTensor(array) if array.dtype == object else _core.Tensor(array)
