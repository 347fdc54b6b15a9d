# SPDX-License-Identifier: MIT
"""Loops whose iterations are micro-batches, because an optimizer in them accumulates.

An optimizer that accumulates says so where its gradients are applied, in the body of a
loop. When the body is traced, ``repeat(trips) { body }`` becomes
``repeat(trips / n) { n micro-batches of body; update }``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ipu import _core, tf
from ipu._core import Tensor
from ipu._device.thread_state import entered, here
from ipu._loops.accumulation import MicroBatches, Pairs, accumulator_dtype
from ipu._text.errors import FailedPreconditionError
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.tf._functions.blocks import add_results, as_tuple, block, is_known, loop_attrs
from ipu.tf._functions.tracing import current_build


class Update(NamedTuple):
    """An update of weights once in several iterations.

    Attributes:
        iterations: How many iterations it sums up.
        pairs: A gradient of each iteration and its variable.
        method: How the gradients of the iterations become one.
        dtype: Of the accumulators, as ``accumulation.accumulate`` takes it.
        apply: Called with the accumulated pairs where the update is.
    """

    iterations: int
    pairs: Pairs
    method: Method
    dtype: Any
    apply: Callable[[Pairs], Any]


class TrainingLoop:
    """A loop that is being traced.

    Args:
        trace: The open trace.
        trips: How many iterations it has: what the loop was given.
    """

    def __init__(self, trace: _core.Trace, trips: Any) -> None:
        self._trace = trace
        self._trips = trips
        self._update: Update | None = None
        self._micro_batches: MicroBatches | None = None
        self._sums: list[tuple[int, Any]] = []

    @property
    def accumulates(self) -> bool:
        """Whether its iterations are micro-batches."""
        return self._update is not None

    def request(self, update: Update) -> None:
        """Have the loop's iterations be micro-batches of this update."""
        if self._update is not None:
            raise FailedPreconditionError(
                "Detected multiple resource update instructions inside of a training "
                "loop - only one resource update is allowed. Apply all gradients by "
                "one call of one optimizer."
            )
        self._update = update

    def close(self, body: int) -> None:
        """Accumulate after the body's results, in its open block."""
        update = self._update
        if update is None:
            return
        self._micro_batches = MicroBatches(self._trace, update.iterations)
        self._micro_batches.adopt(body)
        for gradient, variable in update.pairs:
            if gradient is None:
                continue
            if not self._trace.sees(Tensor(gradient)):
                raise _outside(update.iterations)
            dtype = accumulator_dtype(update.dtype, variable)
            number = self._micro_batches.add(Tensor(gradient), update.method, dtype)
            self._sums.append((number, variable))
        self._micro_batches.add_results()

    def add(
        self,
        count: Tensor,
        start: Sequence[Tensor],
        body: int,
        is_counted: bool = False,
    ) -> tuple[Any, ...]:
        """Add the loop.

        Args:
            count: How many iterations, an int32 scalar.
            start: The values that the first iteration gets.
            body: The closed block.
            is_counted: Whether it carries the iteration's number, too, after them.

        Returns:
            The last values of what ``start`` began, and more where it is counted.
        """
        trace, update = self._trace, self._update
        iteration = [tf.constant(0, "int32")] if is_counted else []
        if update is None or self._micro_batches is None:
            attrs = loop_attrs(body=body)
            inputs = [count, *start, *iteration]
            return as_tuple(trace.node("repeat", inputs, attrs, ()))
        updates = self._updates(update.iterations)
        carried = len(start)
        with block(trace) as outer:
            values = [trace.parameter((t.dtype.name, t.shape), outer) for t in start]
            given = [*values, *iteration]  # counted anew for each update
            results = self._micro_batches.finish({"training": True}, given)
            sums = results[len(given) :]
            update.apply([(sums[i], variable) for i, variable in self._sums])
            add_results(trace, outer, results[:carried])
        inputs = [tf.constant(updates, "int32"), *start]
        return as_tuple(trace.node("repeat", inputs, loop_attrs(body=outer), ()))

    def _updates(self, count: int) -> int:
        if not is_known(self._trips):
            raise FailedPreconditionError(
                f"Detected a gradient accumulation operation with {count} number of "
                "mini batches inside a loop whose number of iterations is not known "
                "when the program is compiled. Give it as a Python int."
            )
        trips = max(int(self._trips), 0)
        if trips % count != 0:
            raise FailedPreconditionError(
                f"Detected a gradient accumulation operation with {count} number of "
                f"mini batches inside a loop with {trips} iterations. Choose a number "
                "of iterations that the number of mini batches evenly divides, such as "
                f"{(trips // count + 1) * count}."
            )
        return trips // count


@contextmanager
def training_loop(trace: _core.Trace, trips: Any) -> Iterator[TrainingLoop]:
    """Return the innermost loop while its body is traced."""
    loop = TrainingLoop(trace, trips)
    with entered(here.loops, loop):
        yield loop


def _outside(count: int) -> FailedPreconditionError:
    if "pipeline" in current_build().notes:
        advice = (
            "A pipeline accumulates by itself: give its OptimizerFunctionOutput the "
            "optimizer that the accumulating one wraps."
        )
    else:
        advice = (
            "Apply the gradients in the body of ipu.loops.repeat, not in a branch or "
            "in a loop that may end early."
        )
    return FailedPreconditionError(
        f"Detected a gradient accumulation operation with {count} number of mini "
        f"batches which is not inside a training loop. {advice}"
    )


def accumulate_here(update: Update) -> None:
    """Say, in a loop's body, that its iterations are micro-batches of an update."""
    if not here.loops:
        raise _outside(update.iterations)
    here.loops[-1].request(update)
