# SPDX-License-Identifier: MIT
"""Tensors of strings: file names, labels, records.

They live on the host and outside of traced functions only: the core knows numbers. What
works on them is Python, called for each element of a data set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ipu import _core
from ipu.tf._string_ops.host_only import on_host
from ipu.tf._tensor import dispatch
from ipu.tf.dtypes import DType, as_dtype, string
from ipu.tf.tensor_shape import TensorShape

_MOST_AXES = 64  # of an array of NumPy


class StringTensor:
    """An eager tensor of byte strings.

    Args:
        value: Bytes, text (which becomes UTF-8), or a nested list or array of them.

    Example:
        >>> names = StringTensor(["cat", "dog"])
        >>> names[1].numpy(), (names == "cat").numpy().tolist()
        (b'dog', [True, False])
    """

    __slots__ = ("_values",)
    __hash__ = object.__hash__
    dtype: DType = string
    dtype_name = "string"
    is_symbolic = False
    device = "/job:localhost/replica:0/task:0/device:CPU:0"

    def __init__(self, value: Any) -> None:
        if not _OPS:
            _register()
        on_host("A tensor of strings", value)
        array = np.array(value, dtype=object)
        flat = [to_bytes(item) for item in array.ravel()]
        self._values = np.empty(array.shape, object)
        self._values[...] = np.array([*flat, None], object)[:-1].reshape(array.shape)

    @property
    def shape(self) -> TensorShape:
        """Sizes."""
        return TensorShape(self._values.shape)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._values.ndim

    def get_shape(self) -> TensorShape:
        """Return :attr:`shape`."""
        return self.shape

    def numpy(self) -> Any:
        """Return bytes, or an array of objects."""
        return self._values[()] if self.ndim == 0 else self._values.copy()

    def filled(self, shape: tuple[int, ...]) -> StringTensor:
        """Return these strings in another shape; one string fills it."""
        if self._values.size == 1:
            return StringTensor(np.full(shape, self._values.ravel()[0], object))
        return StringTensor(self._values.reshape(shape))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._values if dtype is None else self._values.astype(dtype)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[StringTensor]:
        return (StringTensor(item) for item in self._values)

    def __getitem__(self, index: Any) -> StringTensor:
        parts = index if isinstance(index, tuple) else (index,)
        plain = tuple(
            part.numpy() if isinstance(part, _core.Tensor) else part for part in parts
        )
        return StringTensor(self._values[plain])

    def __eq__(self, other: object) -> Any:
        if not is_text(other):
            return False
        same = self._values == StringTensor(other)._values
        return _core.Tensor(np.asarray(same, bool))

    def __ne__(self, other: object) -> Any:
        if not is_text(other):
            return True
        differs = self._values != StringTensor(other)._values
        return _core.Tensor(np.asarray(differs, bool))

    def __add__(self, other: Any) -> StringTensor:
        return StringTensor(self._values + StringTensor(other)._values)

    def __radd__(self, other: Any) -> StringTensor:
        return StringTensor(StringTensor(other)._values + self._values)

    def __bytes__(self) -> bytes:
        if self.ndim:
            raise TypeError(f"Only a scalar is one string. Received: {self!r}.")
        return bytes(self._values[()])

    def __int__(self) -> int:
        return int(bytes(self))

    def __float__(self) -> float:
        return float(bytes(self))

    def __repr__(self) -> str:
        value = self.numpy()
        return f"<tf.Tensor: shape={self.shape}, dtype=string, numpy={value!r}>"


def to_bytes(value: Any) -> bytes:
    """Return one string as bytes.

    Raises:
        TypeError: It is not a string.
    """
    if isinstance(value, StringTensor):
        value = value.numpy()
    if hasattr(value, "__fspath__"):
        value = value.__fspath__()
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return bytes(value)
    raise TypeError(f"A string is needed. Received: {value!r}.")


def path_of(name: Any) -> str:
    """Return a file's name as text."""
    return os.fsdecode(to_bytes(name))


def plain(value: Any) -> Any:
    """Return a pandas object as an array, an array of Python's numbers as one of
    numbers.

    Anything else is given as it is.
    """
    if hasattr(value, "iloc") and hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if type(value) is np.ndarray and value.dtype.kind == "O" and not is_text(value):
        leaves = value.ravel().tolist()
        if all(isinstance(leaf, (int, float, np.generic)) for leaf in leaves):
            return np.array(leaves).reshape(value.shape)
    return value


def is_text(value: Any) -> bool:
    """Return whether ``value`` is a string, or a list or an array of strings."""
    for _ in range(_MOST_AXES):  # a list may hold itself
        if not (isinstance(value, (list, tuple)) and value):
            break
        value = value[0]
    if isinstance(value, np.ndarray):
        if value.dtype.kind != "O":
            return value.dtype.kind in "SUT"
        return not value.size or isinstance(value.ravel()[0], (str, bytes))
    return isinstance(value, (str, bytes, StringTensor))


def text_tensor(value: Any, dtype: Any = None) -> StringTensor:
    """Return strings as a tensor.

    Raises:
        TypeError: Another dtype than string is wanted.
    """
    if dtype is not None and as_dtype(dtype) != string:
        raise TypeError(
            f"Cannot convert {value!r} to a tensor of dtype {as_dtype(dtype).name}."
        )
    return value if isinstance(value, StringTensor) else StringTensor(value)


# --- functions of `ipu.tf` that take strings ------------------------------------------

_OPS: dict[str, Any] = {}


def _register() -> None:
    """Register from the first string on: programs without strings pay nothing."""
    array = np.asarray
    _OPS.update(
        add=lambda x, y: StringTensor(x) + y,
        constant=lambda value, dtype=None, shape=None: _filled(value, dtype, shape),
        convert_to_tensor=lambda value, dtype=None, dtype_hint=None: text_tensor(
            value, dtype
        ),
        concat=lambda values, axis: np.concatenate([*map(array, values)], axis),
        equal=lambda x, y: StringTensor(x) == y,
        expand_dims=lambda input, axis: np.expand_dims(array(input), axis),
        gather=lambda params, indices: params[indices],
        identity=lambda input: input,
        not_equal=lambda x, y: StringTensor(x) != y,
        rank=lambda input: array(input).ndim,
        reshape=lambda tensor, shape: array(tensor).reshape(*array(shape)),
        shape=lambda input: np.array(array(input).shape, np.int32),
        size=lambda input: np.int32(array(input).size),
        squeeze=lambda input, axis=None: np.squeeze(array(input), axis),
        stack=lambda values, axis=0: np.stack([*map(array, values)], axis),
    )
    dispatch.register(StringTensor, _call)


def serves(function: Any) -> bool:
    """Return whether a function of numbers serves strings as well, by another one."""
    return getattr(function, "__name__", "") in _OPS


def _filled(value: Any, dtype: Any, shape: Any) -> StringTensor:
    tensor = text_tensor(value, dtype)
    return tensor if shape is None else tensor.filled(tuple(shape))


def _call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    name = function.__name__
    if name not in _OPS:
        raise TypeError(
            f"tf.{name} does not take strings. Received: "
            f"{next(x for x in (*args, *kwargs.values()) if is_text(x))!r}. "
            "Functions that do are in tf.strings."
        )
    kwargs.pop("name", None)
    made = _OPS[name](*args, **kwargs)
    return StringTensor(made) if is_text(made) else _core.Tensor(made)
