# SPDX-License-Identifier: MIT
"""Checks of arguments that many functions share, with errors in the user's terms."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any


def _error(
    name: str, what: str, value: Any, kind: type[Exception] = TypeError
) -> Exception:
    text = repr(value)
    shown = text if len(text) <= 80 else text[:77] + "..."
    return kind(f"`{name}` must be {what}. Received: {shown}.")


def as_int(value: Any) -> Any:
    """Return an integer as an int, whatever holds it; anything else as it is.

    A NumPy integer, an integer tensor or array without axes, and every other object
    with ``__index__`` count as the integer that they hold.

    Example:
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
    """Apply :func:`as_int` to a value, or to those in its lists and tuples.

    Example:
        >>> as_ints((np.int64(3), [np.int8(2), "same"]))
        (3, [2, 'same'])
    """
    if type(value) in (list, tuple):
        made = [as_ints(one) for one in value]
        changed = any(a is not b for a, b in zip(made, value, strict=True))
        return type(value)(made) if changed else value
    return as_int(value)


def _checker(what: str, is_right: Callable[[Any], bool]) -> Callable[[str, Any], Any]:
    """Make a function that returns an argument of some kind, and raises ``TypeError``
    for others."""

    def checked(name: str, value: Any) -> Any:
        if not is_right(value):
            raise _error(name, what, value)
        return value

    return checked


def checked_int(name: str, value: Any, least: int | None = None) -> int:
    """Return an argument that is an integer, of ``least`` or more, as Python's.

    Raises:
        ValueError: It is not one.
    """
    number = as_int(value)
    if type(number) is not int or (least is not None and number < least):
        bound = "" if least is None else f" of {least} or more"
        what = "a positive integer" if least == 1 else f"an integer{bound}"
        raise _error(name, what, value, ValueError)
    return number


def checked_number(
    name: str,
    value: Any,
    what: str = "a number",
    is_right: Callable[[float], bool] = lambda number: True,
) -> float:
    """Return an argument that is a real number, as a Python one.

    Args:
        name: The argument.
        value: The value that was given.
        what: The kind that it has to be, for the message.
        is_right: Whether a number, which is not NaN, is one of these.

    Raises:
        ValueError: It is not.
    """
    is_array = getattr(value, "ndim", None) == 0 and hasattr(value, "item")
    number = value.item() if is_array else value
    right = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not right or number != number or not is_right(number):
        raise _error(name, what, value, ValueError)
    found: float = number
    return found


def checked_axes(name: str, value: Any) -> Any:
    """Return an argument that is an axis, or a list or tuple of axes, of Python's
    integers.

    Raises:
        ValueError: It is not one.
    """
    axes = as_ints(value)
    several = axes if isinstance(axes, (list, tuple)) else (axes,)
    if not all(type(axis) is int for axis in several):
        raise _error(
            name, "an integer, or a list or a tuple of them", value, ValueError
        )
    return axes


def checked_list(name: str, value: Any) -> Any:
    """Return an argument that is a list, a tuple, or something else with items."""
    if isinstance(value, (list, tuple)):
        return value
    is_text = isinstance(value, (str, bytes))
    if is_text or isinstance(value, type) or not isinstance(value, Iterable):
        raise _error(name, "a list or a tuple", value)
    return value


def _has(value: Any, *names: str) -> bool:
    return not isinstance(value, type) and all(hasattr(value, one) for one in names)


checked_text = _checker("a string", lambda value: isinstance(value, str))
checked_function = _checker("a function", callable)
checked_tensor = _checker("a tensor", lambda value: _has(value, "shape", "dtype"))
checked_variable = _checker("a variable", lambda value: _has(value, "assign"))
