# SPDX-License-Identifier: MIT
"""How many steps an execution has where the user did not say: ``"auto"``.

Results do not depend on it. Many steps at once cost no time between them; few let
Ctrl-C, the bar and callbacks come soon. A tenth of a second is both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu._text.arguments import as_int

_EXECUTION_S = 0.1
_GROWTH = 8  # the first measured executions are slow: they make programs


class Pace:
    """Settles the length of the next execution by what the last ones took.

    Example:
        >>> pace = Pace()
        >>> pace.count
        1
        >>> pace.took(1, 0.001)
        >>> pace.count
        8
        >>> pace.took(8, 0.008)
        >>> pace.took(64, 0.064)
        >>> pace.count
        100
    """

    def __init__(self) -> None:
        self.count = 1

    def took(self, steps: int, seconds: float) -> None:
        """Take in how long an execution of so many steps took."""
        in_time = int(_EXECUTION_S * steps / max(seconds, 1e-9))
        self.count = max(min(in_time, max(self.count, _GROWTH * steps)), 1)


def checked_execution(given: Any, in_strategy: bool) -> int | None:
    """Check what ``compile`` was told of ``steps_per_execution``.

    Args:
        given: A number of steps, ``"auto"`` or None.
        in_strategy: Whether the model was made in the scope of a strategy.

    Returns:
        The number; None for None and ``"auto"``.
    """
    if given is None:
        return None
    if isinstance(given, str) and given == "auto":
        if not in_strategy:
            return None
        raise ValueError(
            "steps_per_execution='auto' is for models outside of a strategy: in its "
            "scope an execution has as many steps as you say. Give a number that "
            "divides the steps of an epoch."
        )
    given = as_int(given)
    is_number = isinstance(given, (int, float, np.number))
    if isinstance(given, bool) or not is_number or int(given) != given or given < 1:
        raise ValueError(
            "`steps_per_execution` must be a positive integer. "
            f"Received: steps_per_execution={given!r}."
        )
    return int(given)


def whole_number(given: Any, argument: str) -> int:
    """Check an argument that counts.

    Args:
        given: What the user gave.
        argument: The name of the user's argument.
    """
    given = as_int(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    way = ""
    if isinstance(given, (float, np.floating)) and given == int(given):
        way = f" Write {argument}={int(given)}."
    raise TypeError(f"`{argument}` must be an integer. Received: {given!r}.{way}")
