# SPDX-License-Identifier: MIT
"""Names for the functions that models hold as layers, and functions for the names.

A model's configuration says ``"math.reduce_mean"`` or ``"operator.radd"`` where the
model was made with ``tf.reduce_mean(x)`` or ``1 + x``.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import Any

from ipu import tf

BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_COMPARISONS = ("lt", "le", "gt", "ge")
_LATE = ("keras.ops", "keras.ops.image", "keras.random")
_UNARY = ("neg", "abs", "getitem")


def _reverse(name: str) -> Callable[..., Any]:
    function = getattr(operator, name)

    def reversed_function(y: Any, x: Any) -> Any:
        return function(x, y)

    reversed_function.__name__ = f"r{name}"
    return reversed_function


_OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in (*BINARY, *_COMPARISONS, *_UNARY)},
    **{f"r{name}": _reverse(name) for name in BINARY},
}


def reversed_operator(name: str) -> Callable[..., Any]:
    """Return the function for an operator whose symbolic operand is on the right."""
    return _OPERATORS[f"r{name}"]


def _modules() -> dict[str, Any]:
    from ipu.keras import activations

    # functions of these are found where they are used: they are imported late
    late = {name: importlib.import_module(f"ipu.{name}") for name in _LATE}
    return {
        "": tf,
        "math": tf.math,
        "nn": tf.nn,
        "linalg": tf.linalg,
        "image": tf.image,
        "keras.activations": activations,
        **late,
    }


def name_of(function: Callable[..., Any], layer_name: str) -> str:
    """Return the name of a function for a configuration."""
    for name, known in _OPERATORS.items():
        if known is function:
            return f"operator.{name}"
    name = function.__name__
    for prefix, module in _modules().items():
        found = getattr(module, name, None)
        if function in (found, getattr(found, "__wrapped__", None)):
            return f"{prefix}.{name}".lstrip(".")
    raise ValueError(
        f"Layer {layer_name!r} of the model calls a function that has no public name, "
        f"{name!r}, so the model has no configuration. Put the computation in a "
        "subclass of keras.layers.Layer."
    )


def function_of(name: str) -> Callable[..., Any]:
    """Return the function that a configuration names."""
    prefix, _, last = name.rpartition(".")
    if prefix == "operator" and last in _OPERATORS:
        return _OPERATORS[last]
    found = getattr(_modules().get(prefix), last, None)
    if found is None:
        raise ValueError(f"The configuration of a model names no function: {name!r}.")
    plain: Callable[..., Any] = getattr(found, "__wrapped__", found)
    return plain
