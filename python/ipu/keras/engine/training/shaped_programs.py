# SPDX-License-Identifier: MIT
"""A step of a model as a function of a batch, with a program for each shape."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ipu.keras._types import Nest
from ipu.tf._functions import function
from ipu.tf._functions.parts import part_of_step

_MOST_SHAPES = 32  # that are kept from one run to the next


class ShapedPrograms:
    """Programs of one step for batches of any shape.

    Between two runs they hold neither the model nor data.

    Args:
        name: For errors and profiles; None: that of the first step.
    """

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._step: Callable[[Nest], Nest] | None = None
        self._function: Any = None

    def use(self, step: Callable[[Nest], Nest]) -> None:
        """Begin a run.

        Args:
            step: Takes a batch, gives results: what was traced, if it was.
        """
        self._step = step
        if self._function is None:
            # the function does not hold its owner, so that its memory goes at once
            this = weakref.ref(self)

            def program(element: Nest) -> Nest:
                return _trace(this, element)

            name = self._name or step.__name__
            self._function = function.DeviceFunction(program, name=name)

    def __call__(self, element: Nest) -> Nest:
        """Run the step on a batch."""
        return self._function(element)

    def trace(self, element: Nest) -> Nest:
        """Trace the step."""
        assert self._step is not None
        with part_of_step():
            return self._step(element)

    def let_go(self) -> None:
        """Let go of the step, and of the programs where there are many shapes."""
        self._step = None
        if self._function.experimental_get_tracing_count() > _MOST_SHAPES:
            self._function = None

    def rest(self) -> None:
        """Let go of what belongs to a run, and of memory that is quickly had."""
        self.let_go()
        if self._function is not None:
            self._function.rest()


def _trace(programs: weakref.ref[ShapedPrograms], element: Nest) -> Nest:
    found = programs()
    assert found is not None
    return found.trace(element)
