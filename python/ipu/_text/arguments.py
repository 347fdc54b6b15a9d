# SPDX-License-Identifier: MIT
"""Checks of arguments that many functions share, with errors in the user's terms."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any


def _error(name: str, what: str, value: Any) -> TypeError:
    text = repr(value)
    shown = text if len(text) <= 80 else text[:77] + "..."
    return TypeError(f"`{name}` must be {what}. Received: {shown}.")


def as_int(value: Any) -> Any:
    """An integer as an int, whatever holds it; anything else as it is.

    A NumPy integer, an integer tensor or array without axes, and every other object
    with ``__index__`` count as the integer that they hold.

    Example:
        >>> import numpy as np
        >>> as_int(np.int64(3)), as_int(np.array(3)), as_int(2.0), as_int(None)
        (3, 3, 2.0, None)
    """
    kind = type(value)
    if kind is int or kind is bool or not hasattr(kind, "__index__"):
        return value
    if getattr(value, "ndim", 0) or str(getattr(value, "dtype", "")).endswith("bool"):
        return value
    try:
        return operator.index(value)
    except Exception:  # it is not an integer, or its value is not known yet
        return value


def as_ints(value: Any) -> Any:
    """:func:`as_int` of a value, or of those in its lists and tuples.

    Example:
        >>> import numpy as np
        >>> as_ints((np.int64(3), [np.int8(2), "same"]))
        (3, [2, 'same'])
    """
    if type(value) in (list, tuple):
        made = [as_ints(one) for one in value]
        changed = any(a is not b for a, b in zip(made, value, strict=True))
        return type(value)(made) if changed else value
    return as_int(value)


def checked_list(name: str, value: Any) -> Any:
    """An argument that is a list, a tuple, or something else with items.

    Raises:
        TypeError: It is none.

    Example:
        >>> checked_list("sizes", [1, 2])
        [1, 2]
    """
    if isinstance(value, (list, tuple)):
        return value
    is_text = isinstance(value, (str, bytes))
    if is_text or isinstance(value, type) or not isinstance(value, Iterable):
        raise _error(name, "a list or a tuple", value)
    return value


def checked_text(name: str, value: Any) -> str:
    """An argument that is a string.

    Raises:
        TypeError: It is none.

    Example:
        >>> checked_text("equation", "ij->ji")
        'ij->ji'
    """
    if not isinstance(value, str):
        raise _error(name, "a string", value)
    return value


def checked_function(name: str, value: Any) -> Any:
    """An argument that can be called.

    Raises:
        TypeError: It cannot.

    Example:
        >>> checked_function("func", len)([3])
        1
    """
    if not callable(value):
        raise _error(name, "a function", value)
    return value


def checked_tensor(name: str, value: Any) -> Any:
    """An argument with a shape and a dtype: a tensor, a variable or an array.

    Raises:
        TypeError: It has none.

    Example:
        >>> from ipu import tf
        >>> checked_tensor("x", tf.zeros((2, 3))).shape
        (2, 3)
    """
    if isinstance(value, type) or not (
        hasattr(value, "shape") and hasattr(value, "dtype")
    ):
        raise _error(name, "a tensor", value)
    return value


def checked_variable(name: str, value: Any) -> Any:
    """An argument that can be assigned to.

    Raises:
        TypeError: It cannot.

    Example:
        >>> from ipu import tf
        >>> float(checked_variable("x", tf.Variable(1.0)).assign(2.0))
        2.0
    """
    if isinstance(value, type) or not hasattr(value, "assign"):
        raise _error(name, "a variable", value)
    return value
