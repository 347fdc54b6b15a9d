# SPDX-License-Identifier: MIT
"""Each data set knows which call has made it: what its fingerprint is taken from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

RECORD = "_made_by"  # the attribute


def note(
    made: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> None:
    """Let a data set know what has made it, unless what was called inside knows."""
    if hasattr(made, "_impl") and RECORD not in vars(made):
        vars(made)[RECORD] = (function, args, kwargs)


def note_source(made: Any, name: str, held: Any) -> None:
    """Let a data set know what it holds."""
    vars(made)[RECORD] = (name, held, None)


def noted(function: F) -> F:
    """Apply :func:`note` to what a function makes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        note(made, function, args, kwargs)
        return made

    return call  # type: ignore[return-value]
