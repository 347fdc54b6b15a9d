# SPDX-License-Identifier: MIT
"""Which of two values of a monitored quantity is better."""

from __future__ import annotations

import math

from ipu._text.arguments import checked_text
from ipu._text.user_warnings import warn_user

__all__ = ["Monitor"]


class Monitor:
    """Compares the values of a quantity from the logs.

    Args:
        name: Its key in the logs.
        mode: ``"min"``, ``"max"``, or ``"auto"``: max for accuracies, else min.
        min_delta: By how much a value must be better to count.
    """

    def __init__(self, name: str, mode: str, min_delta: float = 0.0) -> None:
        if mode not in ("auto", "min", "max"):
            warn_user(f"mode {mode!r} is unknown, falling back to 'auto'.")
            mode = "auto"
        if mode == "auto":
            is_high = "acc" in checked_text("monitor", name) or name.endswith("auc")
            mode = "max" if is_high or name.startswith("fmeasure") else "min"
        self.name = name
        self.sign = 1.0 if mode == "max" else -1.0
        self.min_delta = abs(min_delta)

    @property
    def worst(self) -> float:
        """A value that any other is better than."""
        return -self.sign * math.inf

    def is_better(self, value: float, than: float) -> bool:
        """Return whether ``value`` is better by ``min_delta``; never for NaN."""
        # not as a difference: that of two infinities is NaN
        return self.sign * value - self.min_delta > self.sign * than
