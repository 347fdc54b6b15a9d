# SPDX-License-Identifier: MIT
"""What an element looks like: nests of specs, and values brought into that form.

In data sets tuples, named tuples and mappings are containers; a list is a tensor
written as a Python list. Once a structure is made, it holds no lists, and
``ipu.tf.nest`` does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu.tf import nest
from ipu.tf._graph import mode
from ipu.tf._string_ops.tensors import plain
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf.data import _packed
from ipu.tf.dtypes import as_dtype
from ipu.tf.tensor_spec import TensorSpec

CoreSpec = tuple[str, "tuple[int | None, ...] | None"]

_MAX_RANK = 8
_SUPPORTED = frozenset(("float16", "float32", "float64", "bool")) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


class UnknownShapeSpec(TensorSpec):
    """The spec of a tensor whose rank is not known either: ``shape`` is None."""

    __slots__ = ()

    def __init__(self, dtype: Any) -> None:
        super().__init__((), dtype)
        self.shape = None

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether ``other`` (a tensor or a spec) has this dtype."""
        return bool(self.dtype == other.dtype)

    def __repr__(self) -> str:
        return f"TensorSpec(shape=<unknown>, dtype={self.dtype!r}, name=None)"


def is_container(value: Any) -> bool:
    """Return whether data sets look inside ``value``."""
    return isinstance(value, (tuple, Mapping))


def map_leaves(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply ``function`` to each leaf, lists being leaves."""
    if not is_container(value):
        return function(value)
    if isinstance(value, Mapping):
        made = {key: map_leaves(function, item) for key, item in value.items()}
        return made if type(value) is dict else _like(value, made)
    items = [map_leaves(function, item) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _like(value: Mapping[Any, Any], made: dict[Any, Any]) -> Any:
    """Return a mapping of the kind of ``value`` with other items."""
    if hasattr(value, "default_factory"):
        return type(value)(value.default_factory, made)  # type: ignore[call-arg]
    return type(value)(made)  # type: ignore[call-arg]


def to_array(value: Any, what: str) -> np.ndarray[Any, Any]:
    """Return a dense array in native byte order, sharing memory with ``value`` if it
    can.

    Args:
        value: An array, a tensor, a variable, a number, or a nested list of those.
            Python's ints become int32 and floats float32.

    Raises:
        TypeError: Nothing numeric.
    """
    value = plain(value)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
    elif hasattr(value, "numpy"):
        array = np.asarray(value.numpy())
    elif hasattr(value, "__array__"):
        array = np.asarray(value)
    elif _holds_arrays(value):
        array = np.stack([to_array(item, what) for item in value])
    else:
        try:
            with mode.suspended():
                array = np.asarray(convert_to_tensor(value).numpy())
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{what} must hold numbers, arrays or tensors, in tuples or dicts. "
                f"Received: {short(value)}. {error}"
            ) from None
    if array.dtype.name not in _SUPPORTED:
        raise TypeError(
            f"{what} has dtype {array.dtype}, which data sets do not hold. "
            f"Received: {short(value)}. Convert it to a number type first."
        )
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return np.asarray(array, order="C")


def to_own_array(value: Any, what: str) -> np.ndarray[Any, Any]:
    """Return an array as :func:`to_array` does that nobody else writes to.

    Args:
        value: As there; what is in an array, not in a tensor, is copied, once.
    """
    array = to_array(value, what)
    if isinstance(value, _core.Tensor) or not hasattr(value, "__array__"):
        return array
    if isinstance(value, np.ndarray) and not np.may_share_memory(array, value):
        return array
    copied: np.ndarray[Any, Any] = array.copy()
    return copied


def _holds_arrays(value: Any) -> bool:
    """Return whether the first leaf of a nested list has a dtype of its own."""
    for _ in range(_MAX_RANK):
        if not isinstance(value, list) or not value:
            break
        value = value[0]
    return hasattr(value, "dtype")


def short(value: Any) -> str:
    """Return ``repr(value)``, cut to a line."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def spec_of(core: CoreSpec) -> TensorSpec:
    """Turn the core's (dtype name, shape or None) into a TensorSpec."""
    dtype, shape = core
    if shape is None:
        return UnknownShapeSpec(dtype)
    return TensorSpec(shape, dtype)


def core_spec(spec: Any) -> CoreSpec:
    """Turn a TensorSpec into the core's (dtype name, shape or None)."""
    if _packed.is_packed(spec):
        return _packed.CORE
    return as_dtype(spec.dtype).name, spec.shape


def match(structure: Any, value: Any) -> list[Any]:
    """List the leaves of ``value`` in the order of ``structure``.

    A list in the place of a tuple counts as one, as in TensorFlow.

    Raises:
        TypeError: ``value`` does not have this structure.
    """
    leaves: list[Any] = []
    if not _collect(structure, value, leaves):
        expected = nest.map_structure(lambda spec: spec.dtype.name, structure)
        raise TypeError(
            "`generator` yielded an element that did not match the expected structure. "
            f"The expected structure was {expected!r}, but the yielded element was "
            f"{short(value)}."
        )
    return leaves


def _collect(structure: Any, value: Any, leaves: list[Any]) -> bool:
    if not is_container(structure):
        leaves.append(value)
        return not isinstance(value, Mapping)
    if isinstance(structure, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(structure):
            return False
        return all(_collect(structure[k], value[k], leaves) for k in sorted(structure))
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        return False
    return len(value) == len(structure) and all(
        _collect(part, item, leaves)
        for part, item in zip(structure, value, strict=True)
    )
