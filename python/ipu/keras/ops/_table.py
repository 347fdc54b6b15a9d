# SPDX-License-Identifier: MIT
"""The rows of the tables of ``keras.ops``: a function, its text, its example.

Arguments become tensors in the way of Keras 3: numbers, lists and arrays of 64 bits
have 32; a number beside a tensor takes its dtype, or float32 where that cannot hold it;
of two dtypes the result has the one that holds both, and a float is never made wider by
an integer.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ipu import tf
from ipu._text.missing import PACKAGE
from ipu._text.tracebacks import boundary
from ipu.keras._backend_state import state
from ipu.tf._tensor.dispatch import composite

Function = Callable[..., Any]
_PLAIN = (bool, int, float, str, np.ndarray, np.generic)
_PROMPT = ">>>"
# what Python and NumPy say of arguments inside of the package, not to its users
_TERSE = re.compile(
    "object (is not|has no|cannot be)|unsupported operand|out of range|valid indices"
)
_INSIDE = (PACKAGE, os.path.dirname(np.__file__))


def op(function: Function, text: str, example: str, package: str = "ops") -> Function:
    """Make a row: a public function with its documentation.

    Args:
        function: Its arguments are those of Keras 3.
        text: Its description.
        example: ``name(arguments) -> the tensor as a list``, or ``=> what is printed``.
        package: The package of Keras that has it.
    """
    code, is_printed, result = example.partition(" => ")
    shown = ""
    if not is_printed:
        code, _, result = example.partition(" -> ")
        shown = ".numpy().tolist()"
    path = code.partition("(")[0]
    name = path.rpartition(".")[2]
    module = f"ipu.keras.{package}.{path}".rpartition(".")[0]
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = (
        f"{text}.\n\n    Source: ``keras.{package}.{path}`` of Keras 3, with its "
        "arguments, defaults and dtypes.\n\n    Example:\n"
        f"        {_PROMPT} keras.{package}.{code}{shown}\n        {result}\n    "
    )
    return composite(boundary(_explained(function, f"keras.{package}.{path}")))


def _explained(function: Function, path: str) -> Function:
    """Put what Python and NumPy say of arguments in the terms of the call.

    An error of this package, or of a function of the user's, stays as it is.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (AttributeError, IndexError, TypeError) as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = "" if trace is None else trace.tb_frame.f_code.co_filename
            if not (place.startswith(_INSIDE) and _TERSE.search(str(error))):
                raise
            given = [f"{one!r:.60}" for one in args]
            given += [f"{key}={one!r:.60}" for key, one in kwargs.items()]
            names = ", ".join(inspect.signature(function).parameters)
            raise TypeError(
                f"The values given to {path}({names}) do not fit. Received: "
                f"{', '.join(given)}."
            ) from error

    return call


# --- arguments


def tensor(x: Any, dtype: Any = None) -> tf.Tensor:
    """Convert to a tensor; numbers, lists and arrays of 64 bits have 32."""
    if type(x) is tf.Tensor and dtype is None:
        return x
    if isinstance(x, (list, tuple)):
        if not all(isinstance(one, _PLAIN) for one in tf.nest.flatten(x)):
            return tf.stack([tensor(one, dtype) for one in x])
    elif not isinstance(x, _PLAIN):
        found = tf.convert_to_tensor(x)
        return found if dtype is None else tf.cast(found, dtype)
    array = np.asarray(x)
    if dtype is not None:
        return tf.convert_to_tensor(array.astype(tf.as_dtype(dtype).as_numpy_dtype))
    narrow = {"float64": state.floatx, "int64": "int32", "uint64": "uint32"}
    return tf.convert_to_tensor(array, narrow.get(array.dtype.name))


def floats(x: Any) -> tf.Tensor:
    """Convert to a tensor of a floating-point dtype."""
    found = tensor(x)
    return found if found.dtype.is_floating else tf.cast(found, state.floatx)


def result_type(*values: Any) -> str:
    """Find the dtype that holds all of some values, by the rules above."""
    known = [one.dtype for one in map(_strong, values) if one is not None]
    kind = np.dtype(known[0].as_numpy_dtype) if known else np.dtype(bool)
    for dtype in known[1:]:
        kind = _joined(kind, np.dtype(dtype.as_numpy_dtype))
    for value in values:
        if isinstance(value, float) and kind.kind != "f":
            kind = np.dtype(state.floatx)
        elif isinstance(value, int) and type(value) is not bool and kind.kind == "b":
            kind = np.dtype(np.int32)
    return str(kind.name)


def _strong(value: Any) -> tf.Tensor | None:
    return None if isinstance(value, (bool, int, float)) else tensor(value)


def _joined(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    if (a.kind == "f") != (b.kind == "f"):
        return a if a.kind == "f" else b
    joined = np.promote_types(a, b)
    return np.dtype(state.floatx) if joined.kind == "f" != a.kind else joined


def pair(*values: Any) -> Any:
    """Convert to tensors of one dtype."""
    first, last = values[0], values[-1]
    if type(first) is tf.Tensor and len(values) == 2:
        if type(last) is tf.Tensor and first.dtype == last.dtype:
            return values
        if type(last) is float and first.dtype.is_floating:
            return first, tensor(last, first.dtype)
    kind = result_type(*values)
    return [tensor(value, kind) for value in values]


def float_pair(*values: Any) -> Any:
    """Convert to tensors of one floating-point dtype."""
    found = pair(*values)
    return found if found[0].dtype.is_floating else [floats(x) for x in found]


def on_pair(function: Function, x1: Any, x2: Any, *more: Any, kind: Any = pair) -> Any:
    """Call a function on two tensors of one dtype."""
    a, b = kind(x1, x2)
    return function(a, b, *more)


def sums(x: Any) -> tf.Tensor:
    """Convert to a tensor in whose dtype sums and products are."""
    found = tensor(x)
    is_small = found.dtype.name in ("bool", "int8", "int16", "uint8", "uint16")
    return tf.cast(found, "int32") if is_small else found


def dtype_of(dtype: Any) -> Any:
    """Return a dtype; None is that of ``keras.config.floatx()``."""
    return tf.as_dtype(state.floatx if dtype is None else dtype)


# --- families of rows


def unary(function: Function, text: str, example: str, kind: Any = tensor) -> Function:
    """Make a row for a function of one tensor."""
    return op(lambda x: function(kind(x)), f"{text} of each element", example)


def floating(function: Function, text: str, example: str) -> Function:
    """Make a row for a function of one tensor whose results are floats."""
    return unary(function, text, example, floats)


def binary(function: Function, text: str, example: str, kind: Any = pair) -> Function:
    """Make a row for a function of two tensors, which are broadcast."""

    def call(x1: Any, x2: Any) -> Any:
        return on_pair(function, x1, x2, kind=kind)

    return op(call, f"{text}, element by element with broadcasting", example)


def arithmetic(function: Function, text: str, example: str) -> Function:
    """Make a row for a function of two tensors that has no form for truth values."""

    def call(a: Any, b: Any) -> Any:
        if not a.dtype.is_bool:
            return function(a, b)
        return tf.cast(function(tf.cast(a, "int32"), tf.cast(b, "int32")), "bool")

    return binary(call, text, example)


def reduction(
    function: Function, text: str, example: str, kind: Any = tensor
) -> Function:
    """Make a row for a function over axes; None is all of them."""

    def call(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        return function(kind(x), axis, keepdims)

    return op(call, f"{text} along axes; None is all of them", example)


def truth(x: Any) -> tf.Tensor:
    """Convert to truth values: what is not 0."""
    return tensor(x, "bool")


def truths(*values: Any) -> Any:
    """Convert each to truth values."""
    return [truth(x) for x in values]
