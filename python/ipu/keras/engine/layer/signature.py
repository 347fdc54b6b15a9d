# SPDX-License-Identifier: MIT
"""Whether a function takes ``training`` or ``mask``, and where."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


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


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}


def takes_mask(function: Callable[..., Any]) -> bool:
    """Tell whether ``mask`` is a parameter of a function."""
    return "mask" in _parameters(function)


def training_parameter(function: Callable[..., Any]) -> TrainingParameter:
    """Look for ``training`` among the parameters of a function; none where it has no
    signature."""
    parameters = _parameters(function)
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    found = parameters.get("training")
    if found is None:
        return TrainingParameter(False, None, None, takes_any)
    is_keyword = found.kind is found.KEYWORD_ONLY
    position = None if is_keyword else list(parameters).index("training")
    default = None if found.default is found.empty else found.default
    return TrainingParameter(True, position, default, takes_any)
