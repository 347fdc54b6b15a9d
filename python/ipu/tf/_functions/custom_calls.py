# SPDX-License-Identifier: MIT
"""Calls of functions with gradients of their own: there autodiff ends.

In a trace the core calls it, when its walk comes to the function's results. In the
record of an eager tape, where gradient functions want numbers, the tape cuts its walk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ipu import _core
from ipu._core import Tensor
from ipu.tf._ops import creation


class CustomCall:
    """A call of a function with a gradient of its own.

    Args:
        begin: The first node of its record that passes its results on.
        end: The node after the last one.
        inputs: The tensors that it was given.
        variables: The variables that it read, beside them.
        outputs: Its results.
        gradient: ``gradient(grads, wanted)`` gives one for each input, then one for
            each variable; None where there is none.
        takes_absent: Whether it takes None for a result that nothing uses, in place
            of zeros.
    """

    def __init__(
        self,
        begin: int,
        end: int,
        inputs: Sequence[Tensor],
        variables: Sequence[Any],
        outputs: Sequence[Tensor],
        gradient: Callable[[Sequence[Any], Sequence[bool] | None], Sequence[Any]],
        takes_absent: bool = False,
    ) -> None:
        self.begin, self.end = begin, end
        self.inputs = list(inputs)
        self.variables = list(variables)
        self.outputs = list(outputs)
        self._gradient = gradient
        self._takes_absent = takes_absent

    def outside(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return spans without the call's nodes."""
        parts = []
        for begin, end in spans:
            parts.append((begin, min(end, self.begin)))
            parts.append((max(begin, self.end), end))
        return [(begin, end) for begin, end in parts if begin < end]

    def backward(
        self, grads: Sequence[Tensor | None], wanted: Sequence[bool] | None = None
    ) -> Sequence[Tensor | None]:
        """Return the gradients of the inputs, then of the variables.

        Args:
            grads: Those of the results.
            wanted: Which of the gradients are used; None: perhaps all.
        """
        filled = [
            creation.zeros_like(output)
            if grad is None and not self._takes_absent
            else grad
            for output, grad in zip(self.outputs, grads, strict=True)
        ]
        return self._gradient(filled, wanted)


def custom_calls_of(record: _core.Trace | _core.Recorder) -> list[CustomCall]:
    """Return the calls of a record, in program order."""
    return record.custom_calls or []


def forget_custom_calls(record: _core.Trace) -> None:
    """Drop the calls of a trace that has ended: their tensors hold it."""
    record.custom_calls = None


def add_custom_call(record: _core.Trace | _core.Recorder, call: CustomCall) -> None:
    """Note a call, after those that the record has."""
    if record.custom_calls is None:
        record.custom_calls = []
    record.custom_calls.append(call)
