# SPDX-License-Identifier: MIT
"""Whether a function takes ``training`` or ``mask``, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

_VAR_KEYWORDS = 0x08  # CO_VARKEYWORDS of a code object


class TrainingParameter(NamedTuple):
    """What a function does with ``training``.

    Attributes:
        exists: Whether it is a parameter.
        position: Its place among positional parameters; None where it is keyword-only.
        default: Its default, None where there is none.
        takes_any: Whether the function takes any keyword.
    """

    exists: bool
    position: int | None
    default: Any
    takes_any: bool


def takes_mask(function: Callable[..., Any]) -> bool:
    """Tell whether ``mask`` is a parameter of a function."""
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        import inspect

        try:
            return "mask" in inspect.signature(function).parameters
        except (TypeError, ValueError):
            return False
    return "mask" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def training_parameter(function: Callable[..., Any]) -> TrainingParameter:
    """Look for ``training`` among the parameters of a function.

    Args:
        function: Any callable. Functions of Python are looked at directly: ``inspect``
            is a slow import.

    Returns:
        What was found; for a callable without a signature, that there is none.
    """
    code = getattr(function, "__code__", None)
    if code is None or hasattr(function, "__wrapped__"):
        return _by_inspection(function)
    names = code.co_varnames
    positional = names[: code.co_argcount]
    keyword_only = names[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    takes_any = bool(code.co_flags & _VAR_KEYWORDS)
    if "training" in positional:
        position = positional.index("training")
        defaults = function.__defaults__ or ()
        from_end = position - len(positional)
        known = -len(defaults) <= from_end
        default = defaults[from_end] if known else None
        return TrainingParameter(True, position, default, takes_any)
    if "training" in keyword_only:
        keyword_defaults = getattr(function, "__kwdefaults__", None) or {}
        default = keyword_defaults.get("training")
        return TrainingParameter(True, None, default, takes_any)
    return TrainingParameter(False, None, None, takes_any)


def _by_inspection(function: Callable[..., Any]) -> TrainingParameter:
    import inspect

    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return TrainingParameter(False, None, None, False)
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    for index, parameter in enumerate(parameters):
        if parameter.name == "training":
            is_keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
            empty = parameter.default is inspect.Parameter.empty
            return TrainingParameter(
                True,
                None if is_keyword else index,
                None if empty else parameter.default,
                takes_any,
            )
    return TrainingParameter(False, None, None, takes_any)
