# SPDX-License-Identifier: MIT
"""Element types with TensorFlow's names."""

from __future__ import annotations

from typing import Any

import numpy as np

_Bool = bool  # the builtin: `bool` is a dtype below

__all__ = ["DType", "as_dtype"]


class DType:
    """An element type, such as ``tf.float32``. Compares equal to its name and to
    NumPy's type.

    Attributes:
        name: NumPy's name of the type.

    Example:
        >>> tf.float32 == "float32", tf.int32.is_integer
        (True, True)
    """

    __slots__ = ("_numpy", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        # strings have no size: NumPy holds them as objects
        self._numpy = np.dtype("object" if name == "string" else name)

    @property
    def as_numpy_dtype(self) -> type[Any]:
        """NumPy's scalar type."""
        return self._numpy.type

    @property
    def is_floating(self) -> _Bool:
        """Whether it is a floating-point type."""
        return self._numpy.kind == "f"

    @property
    def is_integer(self) -> _Bool:
        """Whether it is an integer type; bool is not."""
        return self._numpy.kind in "iu"

    @property
    def is_bool(self) -> _Bool:
        """Whether it is bool."""
        return self._numpy.kind == "b"

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self._numpy.itemsize

    @property
    def min(self) -> Any:
        """The least finite value."""
        info = np.finfo(self._numpy) if self.is_floating else np.iinfo(self._numpy)
        return info.min

    @property
    def max(self) -> Any:
        """The largest finite value."""
        info = np.finfo(self._numpy) if self.is_floating else np.iinfo(self._numpy)
        return info.max

    @property
    def base_dtype(self) -> DType:
        """The type itself; there are no reference types."""
        return self

    def __eq__(self, other: object) -> _Bool:
        if isinstance(other, DType):
            return self.name == other.name
        if self.name == "string":
            return other in ("string", str, bytes)
        try:
            return _Bool(self._numpy == np.dtype(other))  # type: ignore[call-overload]
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


float16 = DType("float16")
float32 = DType("float32")
float64 = DType("float64")
int8 = DType("int8")
int16 = DType("int16")
int32 = DType("int32")
int64 = DType("int64")
uint8 = DType("uint8")
uint16 = DType("uint16")
uint32 = DType("uint32")
uint64 = DType("uint64")
string = DType("string")
half = float16
double = float64

_ALL = {
    t.name: t
    for t in (
        float16,
        float32,
        float64,
        int8,
        int16,
        int32,
        int64,
        uint8,
        uint16,
        uint32,
        uint64,
        string,
    )
}
# `bool` is the attribute that the core looks up; the builtin is not used below
bool = DType("bool")
_ALL["bool"] = bool

# names of the types that tensors on a device can have
DEVICE_DTYPES = ("float32", "float16", "int32", "int8", "uint8", "bool")
# and what stands for wider ones there
NARROW = {"int64": "int32", "float64": "float32"}


def as_dtype(value: Any) -> DType:
    """Return the ``DType`` for a name, a NumPy type, a Python type or a ``DType``.

    Args:
        value: What names the type: "float32", ``np.float32``, ``tf.float32``, ``float``
            (float32) or ``int`` (int32).

    Returns:
        The type.

    Raises:
        TypeError: There is no such type.

    Example:
        >>> tf.as_dtype("int32")
        tf.int32
    """
    if isinstance(value, DType):
        return value
    if value is float:
        return float32
    if value is int:
        return int32
    if value is str or value is bytes or getattr(value, "kind", "") in ("O", "S", "U"):
        return string
    if isinstance(value, str):
        name = {"half": "float16", "double": "float64", "float": "float32"}.get(
            value, value
        )
    else:
        try:
            name = np.dtype(value).name
        except TypeError:
            name = str(value)
    if name not in _ALL:
        raise TypeError(
            f"Cannot convert {value!r} to a dtype. Known are {', '.join(sorted(_ALL))}."
        )
    return _ALL[name]
