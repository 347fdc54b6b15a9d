# SPDX-License-Identifier: MIT
"""What of a call's arguments a traced function depends on, as a dictionary key.

Tensors and arrays count by dtype and shape, numbers, strings and None by type and
value (0.0 and -0.0 are two, NaN is one), everything else by identity. Two keys of
different calls can be compared, to say in words which argument changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ipu._core import Tensor, apply
from ipu._device import strategy_state
from ipu._device.placement import is_placed
from ipu.tf import nest
from ipu.tf._tensor.convert import convert_to_tensor
from ipu.tf.tensor_spec import TensorSpec

_TENSOR = "tensor"
_WIDE = ("float64", "int64")
_WIDE_DTYPES = (np.dtype(np.float64), np.dtype(np.int64))
# the name of an array's dtype takes NumPy longer than all else here
_NAMES = {np.dtype(kind): np.dtype(kind).name for kind in "?bBhHiIlLefd"}
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def is_tensor_argument(leaf: Any) -> bool:
    """Return whether a leaf of the arguments is an input of the program."""
    return isinstance(leaf, (Tensor, np.ndarray, np.generic))


def narrow(value: Any) -> Any:
    """Return arguments as a device takes them: int64 as int32, float64 as float32.

    Args:
        value: An argument, or a nest of them. In the scope of a strategy or device
            float64 stays as it is, which is an error there.
    """
    kind = type(value)
    if kind is Tensor:
        return _narrow(value) if value.dtype_name in _WIDE else value
    if kind is np.ndarray:
        return _narrow(value) if value.dtype in _WIDE_DTYPES else value
    if kind in _PLAIN:
        return value
    if kind is tuple or kind is list:
        items = [narrow(item) for item in value]
        is_same = all(a is b for a, b in zip(items, value, strict=True))
        return value if is_same else kind(items)
    if kind is dict:
        return {name: narrow(item) for name, item in value.items()}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.name in _WIDE:
        return _narrow(value)
    return value


def _narrow(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind == "f":
        if strategy_state.has_strategy() or is_placed():
            return value
        # of a tensor by an op, which a tape sees
        return apply("cast", (Tensor(value),), {"dtype": "float32"})
    if array.size and not (array.min() >= -(2**31) and array.max() < 2**31):
        raise ValueError(
            "The widest integers of a device are int32, and an argument does not fit "
            f"into them. Received: values from {array.min()} to {array.max()}."
        )
    return Tensor(array.astype(np.int32))


def exact(value: Any) -> Any:
    """Return a number, string or None such that those of one type are ``==`` by their
    bits."""
    if isinstance(value, complex):
        return repr(value)
    if isinstance(value, float) and (value == 0.0 or value != value):
        return repr(value)
    return value


def key_of(value: Any) -> Any:
    """Return the part of an argument that matters; hashable."""
    kind = type(value)
    if kind is Tensor:
        return (_TENSOR, value.dtype_name, value.shape)
    if kind is np.ndarray:
        return (_TENSOR, _NAMES.get(value.dtype) or value.dtype.name, value.shape)
    if kind in _PLAIN:
        return (kind, exact(value))
    if kind is list or kind is tuple:
        return (kind, *[key_of(item) for item in value])
    if isinstance(value, TensorSpec):
        return (_TENSOR, value.dtype.name, tuple(value.shape))
    if is_tensor_argument(value):
        return (_TENSOR, np.asarray(value).dtype.name, np.shape(value))
    if isinstance(value, _PLAIN):
        return (kind, exact(value))
    if nest.is_nested(value):
        if isinstance(value, Mapping):
            items = [(key_of(name), key_of(item)) for name, item in value.items()]
            return (kind, *sorted(items, key=lambda pair: repr(pair[0])))
        return (kind, *[key_of(item) for item in value])
    return (object, id(value), kind.__qualname__)


def objects_in(value: Any) -> list[Any]:
    """Return the leaves that count by identity."""
    return [
        leaf
        for leaf in nest.flatten(value)
        if not is_tensor_argument(leaf) and not isinstance(leaf, (*_PLAIN, TensorSpec))
    ]


def _describe(key: Any) -> str:
    if key[0] == _TENSOR:
        shape = ", ".join(str(size) for size in key[2])
        return f"a {key[1]} tensor of shape ({shape}{',' if len(key[2]) == 1 else ''})"
    if key[0] in (float, complex):
        return str(key[1])
    if key[0] in _PLAIN:
        return repr(key[1])
    if key[0] is object:
        return f"an object of {key[2]}"
    return f"a {key[0].__name__} of {len(key) - 1}"


def difference(
    before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[tuple[str, str, str]]:
    """Return which arguments differ, from what to what, in words.

    Args:
        before: For each parameter its key in an earlier call.
        after: The same of the new call.
    """
    found: list[tuple[str, str, str]] = []
    for name, new in after.items():
        if name in before and before[name] != new:
            _compare(name, before[name], new, found.append)
    return found


def _compare(
    name: str, old: Any, new: Any, tell: Callable[[tuple[str, str, str]], None]
) -> None:
    nested = old[0] == new[0] and old[0] in (list, tuple) and len(old) == len(new)
    if nested:
        for i, (a, b) in enumerate(zip(old[1:], new[1:], strict=True)):
            if a != b:
                _compare(f"{name}[{i}]", a, b, tell)
        return
    if old[0] is object and new[0] is object and old[2] == new[2]:
        tell((name, f"one {old[2]}", f"another {new[2]}"))
        return
    tell((name, _describe(old), _describe(new)))


def spec_of(leaf: Any) -> Any:
    """Return a ``TensorSpec`` for a tensor or array; anything else as it is."""
    if is_tensor_argument(leaf):
        return TensorSpec(leaf.shape, leaf.dtype.name)
    return leaf


def checked_signature(signature: Any) -> tuple[Any, ...] | None:
    """Return the declared signature as a tuple."""
    if signature is None:
        return None
    if not isinstance(signature, (list, tuple)):
        raise TypeError(
            "input_signature must be a list or tuple with a TensorSpec for each "
            f"argument. Received: {signature!r}."
        )
    for leaf in nest.flatten(signature):
        if not isinstance(leaf, TensorSpec):
            raise TypeError(
                "input_signature must be a possibly nested sequence of TensorSpec. "
                f"Received: {leaf!r} in it."
            )
    return tuple(signature)


def fit_argument(name: str, index: int, spec: Any, argument: Any) -> Any:
    """Return an argument as tensors of its declared types."""

    def fit(one: TensorSpec, value: Any) -> Any:
        if isinstance(value, TensorSpec):
            return value
        try:
            tensor = convert_to_tensor(value, one.dtype)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"Python inputs incompatible with input_signature of {name}: argument "
                f"{index} must be {one}. Received: {value!r}."
            ) from error
        if not one.is_compatible_with(tensor):
            raise ValueError(
                f"Python inputs incompatible with input_signature of {name}: argument "
                f"{index} must have shape {one.shape}. Received: {tensor.shape}."
            )
        return tensor

    def walk(one: Any, value: Any) -> Any:
        if isinstance(one, TensorSpec):
            return fit(one, value)
        if type(one) is not type(value) or len(one) != len(value):
            raise ValueError(
                f"Python inputs incompatible with input_signature of {name}: argument "
                f"{index} must have the structure {one}. Received: {value!r}."
            )
        if isinstance(one, Mapping):
            return type(value)((key, walk(one[key], value[key])) for key in value)
        fitted = [walk(a, b) for a, b in zip(one, value, strict=True)]
        return nest.pack_sequence_as(value, nest.flatten(fitted))

    return walk(spec, argument)
