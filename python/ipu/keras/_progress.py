# SPDX-License-Identifier: MIT
"""``keras.utils.Progbar``: a bar for loops of a program's own."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any


class Progbar:
    """Shows how far a loop is, and averages of what it reports.

    Args:
        target: The number of steps; None where it is not known.
        width: The width of the bar in characters.
        verbose: 0 shows nothing, 1 a bar, 2 one line at the end.
        interval: Ignored: every update is shown.
        stateful_metrics: Names whose last value is shown instead of an average.
        unit_name: The name of a step.

    Example:
        >>> bar = Progbar(2, verbose=0)
        >>> for step in range(2):
        ...     bar.update(step + 1, [("loss", 0.5)])
        ...
    """

    def __init__(
        self,
        target: int | None,
        width: int = 30,
        verbose: int = 1,
        interval: float = 0.05,
        stateful_metrics: Iterable[str] | None = None,
        unit_name: str = "step",
    ) -> None:
        del interval
        self.target = target
        self.width = width
        self.verbose = verbose
        self.stateful_metrics = set(stateful_metrics or ())
        self.unit_name = unit_name
        self._sums: dict[str, tuple[float, int]] = {}
        self._seen = 0

    def update(
        self,
        current: int,
        values: Iterable[tuple[str, Any]] | None = None,
        finalize: bool | None = None,
    ) -> None:
        """Show the state.

        Args:
            current: How many steps are done.
            values: Pairs of a name and a value.
            finalize: Whether this is the last update; None: where ``target`` is
                reached.
        """
        steps = max(current - self._seen, 1)
        self._seen = current
        for name, value in values or ():
            total, count = self._sums.get(name, (0.0, 0))
            if name in self.stateful_metrics:
                self._sums[name] = (float(value), 1)
            else:
                self._sums[name] = (total + float(value) * steps, count + steps)
        is_last = current == self.target if finalize is None else finalize
        if self.verbose == 0 or (self.verbose == 2 and not is_last):
            return
        means = "".join(f" - {n}: {s / c:.4f}" for n, (s, c) in self._sums.items())
        steps_done = f"{current}/{self.target or 'Unknown'}"
        bar = ""
        if self.verbose == 1 and self.target:
            done = min(self.width, self.width * current // self.target)
            bar = f" [{'=' * done}{'.' * (self.width - done)}]"
        start = "\r" if self.verbose == 1 else ""
        sys.stdout.write(f"{start}{steps_done}{bar}{means}" + ("\n" if is_last else ""))
        sys.stdout.flush()

    def add(self, n: int, values: Iterable[tuple[str, Any]] | None = None) -> None:
        """Show that ``n`` more steps are done."""
        self.update(self._seen + n, values)
