# SPDX-License-Identifier: MIT
"""Values into tensors, and arguments into what the core takes.

Helpers for the functions of this package: ``apply`` makes one node (or runs one
kernel), ``Tensor`` converts. Sizes, axes and shapes are plain numbers: they are known
when a function is traced.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._device import strategy_state
from ipu._text.arguments import as_int, checked_list
from ipu.tf._string_ops import tensors
from ipu.tf._tensor import open_sizes
from ipu.tf._tensor.dispatch import graph_op, op
from ipu.tf.dtypes import NARROW, DType, as_dtype

Tensor = _core.Tensor
apply = _core.apply


@graph_op
def convert_to_tensor(
    value: Any,
    dtype: Any = None,
    dtype_hint: Any = None,
    name: str | None = None,
) -> Tensor:
    """Return ``value`` as a tensor.

    Args:
        value: A tensor, variable, array, number, or nested list of them.
        dtype: The element type, or None: Python ints become int32, floats float32,
            arrays keep theirs.
        dtype_hint: Used for values that have no dtype of their own.

    Raises:
        TypeError: ``value`` cannot be converted, or it is a tensor of another dtype.

    Example:
        >>> tf.convert_to_tensor([1, 2]).dtype
        tf.int32
    """
    if not isinstance(value, Tensor):
        value = tensors.plain(value)
        if tensors.is_text(value):
            return tensors.text_tensor(value, dtype)  # type: ignore[return-value]
    if dtype is None and dtype_hint is not None and not hasattr(value, "dtype"):
        dtype = dtype_hint
    if dtype is None:
        return Tensor(value)
    kind = as_dtype(dtype)
    if not isinstance(value, Tensor) and not hasattr(value, "__ipu_tensor__"):
        return Tensor(value, kind.name)
    tensor = Tensor(value)
    if tensor.dtype != kind:
        raise TypeError(
            f"Tensor conversion requested dtype {kind.name} for a tensor of "
            f"dtype {tensor.dtype.name}. Use tf.cast."
        )
    return tensor


@graph_op
def constant(
    value: Any, dtype: Any = None, shape: Sequence[int] | None = None, name: str = ""
) -> Tensor:
    """Return a tensor of known values.

    Args:
        value: Number, array or nested list.
        dtype: Its element type, or None for that of the value.
        shape: The result's shape; one value fills it, else the counts must agree.

    Example:
        >>> tf.constant(0.5, shape=(2,)).numpy().tolist()
        [0.5, 0.5]
    """
    tensor = convert_to_tensor(value, dtype)
    if isinstance(tensor, tensors.StringTensor):
        return tensor if shape is None else tensor.filled(tuple(shape))
    if shape is None or tuple(shape) == tensor.shape:
        return tensor
    sizes = sizes_of(shape)
    if int(np.prod(tensor.shape, dtype=np.int64)) == 1:
        scalar = apply("reshape", (tensor,), {"shape": ()})
        return apply("broadcast", (scalar,), {"shape": sizes})
    return apply("reshape", (tensor,), {"shape": sizes})


@op
def cast(x: Any, dtype: Any, name: str | None = None) -> Tensor:
    """Convert the elements of ``x``; floats to ints cut off, numbers to bool compare
    with 0.

    Args:
        x: Anything that converts to a tensor.
        dtype: The wanted element type. In a function for a device int64 gives int32,
            and outside of a strategy float64 gives float32.

    Example:
        >>> tf.cast([1.7, -1.7], tf.int32).numpy().tolist()
        [1, -1]
    """
    tensor = Tensor(x)
    if tensor.dtype == dtype:
        return tensor
    name = as_dtype(dtype).name
    if name in NARROW and on_device():
        # a device has no wider integers; of wider floats a strategy says so
        if name == "int64" or not strategy_state.has_strategy():
            name = NARROW[name]
        if tensor.dtype_name == name:
            return tensor
    return apply("cast", (tensor,), {"dtype": name})


# --- for the functions of this package ------------------------------------------------


def dtype_of(value: Any) -> DType:
    """Return the dtype that ``value`` has as a tensor."""
    return as_dtype(value.dtype) if hasattr(value, "dtype") else Tensor(value).dtype


def is_plain(value: Any) -> bool:
    """Return whether ``value`` takes the dtype of what stands beside it: numbers and
    lists."""
    if isinstance(value, np.generic):
        return True
    return not hasattr(value, "dtype") and not hasattr(value, "__ipu_tensor__")


def like(value: Any, tensor: Tensor) -> Tensor:
    """Return ``value`` as a tensor; numbers, lists and arrays get the dtype of
    ``tensor``.

    An array keeps its own dtype where its kind of number does not fit: floats beside
    integers, numbers beside bools.
    """
    if is_plain(value) or _fits(value, tensor):
        return Tensor(value, tensor.dtype_name)
    return Tensor(value)


def _fits(value: Any, tensor: Tensor) -> bool:
    if not isinstance(value, np.ndarray):
        return False
    target = tensor.dtype
    if value.dtype.kind in "iu":
        return not target.is_bool
    return bool(value.dtype.kind == ("f" if target.is_floating else "b"))


def pair(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Return two operands as tensors; what is none takes the dtype of the other
    operand."""
    if not isinstance(x, Tensor) and isinstance(y, Tensor):
        return like(x, y), y
    if is_plain(x) and not is_plain(y):
        second = Tensor(y)
        return like(x, second), second
    first = Tensor(x)
    return first, like(y, first)


def _holds_symbolic(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_symbolic, value))
    return isinstance(value, Tensor) and value.is_symbolic


def known_value(value: Any, what: str) -> Any:
    """Return the NumPy value of an argument that has to be known when a function is
    traced.

    Raises:
        TypeError: It is computed by the function that is being traced.
    """
    if isinstance(value, (list, tuple)) and _holds_symbolic(value):
        return np.asarray([known_value(one, what) for one in value])
    symbolic = isinstance(value, Tensor) and value.is_symbolic
    trace = _core.open_trace() if symbolic else None
    if trace is not None:
        try:  # arithmetic on sizes, such as tf.shape(x)[0] * 2, has a value already
            value = trace.evaluate(value, None)
        except Exception as error:
            guess = open_sizes.take()
            if guess is not None:
                return np.full(value.shape, guess, value.dtype.as_numpy_dtype)
            refusal = TypeError(
                f"{what} must be known when the function is traced, but it is computed "
                "in it. Shapes on the device are static: pass a Python number or a "
                "constant."
            )
            raise open_sizes.about_values(refusal) from error
    return np.asarray(value)


def known_count(value: Any, what: str) -> int:
    """Return a whole number that has to be known when a function is traced.

    Raises:
        TypeError: It is not a whole number, or the function being traced computes it.
    """
    number = known_value(value if isinstance(value, Tensor) else as_int(value), what)
    is_number = number.size == 1 and number.dtype.kind in "iubf"
    if not is_number or not float(number.item()).is_integer():
        raise TypeError(f"{what} must be an integer. Received: {value!r}.")
    return int(number.item())


def on_device() -> bool:
    """Return whether a function is traced for a device, where 64-bit types do not
    exist."""
    trace = _core.open_trace()
    return trace is not None and not trace.host


def sizes_of(shape: Any) -> list[int]:
    """Return a shape as ints: from a sequence, a tensor of known value, or one
    number."""
    if not isinstance(shape, Tensor):
        shape = as_int(shape)
    if isinstance(shape, int) or getattr(shape, "shape", None) == ():
        return [known_count(shape, "A size")]
    if isinstance(shape, Tensor):
        return [int(size) for size in known_value(shape, "A shape")]
    return [
        size if isinstance(size, int) else known_count(size, "A size")
        for size in checked_list("shape", shape)
    ]


def axis_of(axis: Any, rank: int) -> int:
    """Return an axis counted from the front.

    Raises:
        ValueError: There is no such axis.
    """
    index = int(axis)
    if not -rank <= index < rank:
        raise ValueError(f"axis {index} is out of bounds for {rank} dimensions")
    return index % rank


def axes_of(axis: Any, rank: int) -> list[int]:
    """Return axes in order, counted from the front: of None all, of an int or a list
    those.

    Raises:
        ValueError: There is no such axis, or one is named twice.
    """
    if axis is None:
        return list(builtins.range(rank))
    axis = axis if isinstance(axis, Tensor) else as_int(axis)
    if isinstance(axis, int):
        return [axis_of(axis, rank)]
    items = np.atleast_1d(known_value(axis, "axis")).tolist()
    axes = [axis_of(item, rank) for item in items]
    if len(set(axes)) != len(axes):
        raise ValueError(f"axis {axis} names an axis twice")
    return sorted(axes)
