# SPDX-License-Identifier: MIT
"""Checks of arguments that many functions share, with errors in the user's terms."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["checked_function", "checked_list", "checked_text"]


def _error(name: str, what: str, value: Any) -> TypeError:
    text = repr(value)
    shown = text if len(text) <= 80 else text[:77] + "..."
    return TypeError(f"`{name}` must be {what}. Received: {shown}.")


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
