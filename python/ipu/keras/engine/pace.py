# SPDX-License-Identifier: MIT
"""How many steps an execution has where the user did not say: ``"auto"``.

Results do not depend on it. Many steps at once cost no time between them; few let
Ctrl-C, the bar and callbacks come soon. A tenth of a second is both.
"""

from __future__ import annotations

__all__ = ["Pace"]

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
