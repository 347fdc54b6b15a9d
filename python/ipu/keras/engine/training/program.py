# SPDX-License-Identifier: MIT
"""The device programs of ``fit``, ``evaluate`` and ``predict``, and who has them.

A :class:`Program` is ``loops.repeat`` over ``steps_per_execution`` steps. Each takes an
element from the infeed and hands its results to the outfeed; Python is back only at the
end. It is traced once and serves all executions and epochs of a run, and later runs.
Another trace serves shorter executions, and one more a last batch of fewer rows. A
:class:`BatchProgram` runs one step on a batch of any shape.

Between two runs they hold neither the model nor data: what is traced asks for the steps
of the run that it is traced in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from ipu import tf
from ipu._device.locks import Lock
from ipu._device.remembered import Remembered
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.keras._types import Nest
from ipu.keras.engine.trace_key import key_of_model
from ipu.keras.engine.training.device_steps import Steps
from ipu.keras.engine.training.step_plan import Pace
from ipu.keras.engine.training.watching import Arrivals, Loop
from ipu.tf._functions.blocks import part_of_step
from ipu.tf._functions.function import DeviceFunction
from ipu.tf._functions.tracing import current_build
from ipu.tf._tensor.methods import WeakMethod

Array = np.ndarray[Any, Any]

_MOST_PROGRAMS = 8  # that a model keeps
_MOST_TAILS = 4  # sizes of a last batch that a program keeps
_MOST_SHAPES = 32  # of batches that are kept from one run to the next


class ProgramCache:
    """Programs of a model that wait for their next run: those that were used last.

    A run takes its program out and gives it back: no two runs have the same one.

    Attributes:
        accounts: What programs would cost on IPUs.
    """

    def __init__(self) -> None:
        self.accounts = Remembered()
        self._waiting: dict[Hashable, Any] = {}  # the oldest first
        self._lock = Lock()

    def take(
        self, model: Any, mode: str, *kind: Hashable, make: Callable[[], Any]
    ) -> Any:
        """Take a program of an earlier run, or make one.

        Args:
            *kind: What else the program is traced for.
            make: Makes one; the model may be built for it.
        """
        key = key_of_model(model, mode, *kind)
        with self._lock:
            program = self._waiting.pop(key, None)
        if program is None:
            program = make()
            program.key = key_of_model(model, mode, *kind)
        return program

    def give_back(self, program: Any) -> None:
        """Keep a program, which holds nothing of its run, for the next one."""
        with self._lock:
            self._waiting.pop(program.key, None)
            self._waiting[program.key] = program
            while len(self._waiting) > _MOST_PROGRAMS:
                del self._waiting[next(iter(self._waiting))]


class BatchProgram:
    """A step of a model as a function of a batch, traced for each shape of it."""

    key: Hashable = None

    def __init__(self, name: str) -> None:
        self._name = name
        self._step: Callable[[Nest], Nest] | None = None
        self._function: Any = None

    def begin(self, step: Callable[[Nest], Nest]) -> None:
        """Begin a run of a step: the one that was traced, if any was."""
        self._step = step
        if self._function is None:
            # a weak method, so that memory goes at once
            method = WeakMethod(BatchProgram._trace, self)
            self._function = DeviceFunction(method, name=self._name)

    def __call__(self, element: Nest) -> Nest:
        return self._function(element)

    def _trace(self, element: Nest) -> Nest:
        assert self._step is not None
        with part_of_step():
            return self._step(element)

    def end(self) -> None:
        """Let go of the step, and of the traces where there are many shapes."""
        self._step = None
        if self._function.experimental_get_tracing_count() > _MOST_SHAPES:
            self._function = None

    def rest(self) -> None:
        """End a run, and free what the next one makes anew quickly."""
        if self._step is not None:
            self.end()
        if self._function is not None:
            self._function.rest()


class _Body:
    """Steps over elements of which so many rows count, and the queue of their results.

    Args:
        count: The usual number of steps; None where there is none.
        rows: Rows of an element that count; 0 for all.
    """

    def __init__(
        self,
        infeed: IPUInfeedQueue,
        outfeed_options: Mapping[str, Any],
        name: str,
        count: int | None,
        rows: int = 0,
    ) -> None:
        self._infeed = infeed
        self._count = count
        self._rows = rows
        self.outfeed = IPUOutfeedQueue(**outfeed_options)
        self._steps: Steps | None = None
        self._arrange: Callable[[Nest], Nest] | None = None
        self._form: Nest = None  # of a result: the number of each leaf
        self._over_replicas: Callable[[Array], Array] | None = None
        # a weak method, so that memory goes at once
        self._function: Any = DeviceFunction(WeakMethod(_Body._trace, self), name=name)
        self._runs: dict[bool, Callable[..., Any]] = {}  # of this run: is it usual?

    def begin(
        self, steps: Steps, over_replicas: Callable[[Array], Array] | None
    ) -> None:
        self._steps = steps
        self._steps_per_result = steps.steps_of(1)
        self._over_replicas = over_replicas

    def rest(self) -> None:
        self._steps = self._over_replicas = None
        self._runs.clear()
        self.outfeed._drop_results()
        self._function.rest()

    def _trace(self, count: Any) -> None:
        assert self._steps is not None
        self._steps.build(count, self._infeed, self.outfeed, self._rows)
        if self._steps.diagnose is not None:
            spec = self._infeed._structure
            current_build().diagnose = functools.partial(self._steps.diagnose, spec)
            current_build().account = functools.partial(self._steps.account, spec)
        self._arrange = self._steps.arrangement()
        structure = self.outfeed._structure
        places = list(range(len(tf.nest.flatten(structure))))
        self._form = tf.nest.pack_sequence_as(structure, places)

    def run(self, count: int) -> None:
        is_usual = count == self._count
        given = count if is_usual else np.int32(count)
        run = self._runs.get(is_usual)
        if run is None:
            run = self._runs[is_usual] = self._function.prepared(given)
        run(() if is_usual else (given,))

    def usual(self) -> Any:
        """Return the core's program of the usual number of steps."""
        return self._function.traced(self._count).program

    def take(self) -> Nest:
        """Return the results that have arrived, each leaf with a first axis of them."""
        assert self._arrange is not None
        leaves = [leaf.numpy() for leaf in self.outfeed._take()]
        if self._over_replicas is not None:
            leaves = [self._over_replicas(leaf) for leaf in leaves]
        return self._arrange(_filled(self._form, leaves))

    def wait(self, steps: int, timeout_s: float) -> int:
        """Wait for the results of so many steps; how many there are by then."""
        entries = -(-steps // self._steps_per_result)
        return self._steps_per_result * self.outfeed._wait(entries, timeout_s)


def _filled(form: Nest, leaves: list[Array]) -> Nest:
    """Put leaves in the places of their numbers; dicts, which most results are, without
    ``nest``."""
    if type(form) is dict:
        return {
            name: leaves[one] if type(one) is int else _filled(one, leaves)
            for name, one in form.items()
        }
    return tf.nest.map_structure(leaves.__getitem__, form)


class Program(Loop):
    """Steps of one mode of a model over elements of one kind; a ``Loop`` in a run.

    Args:
        dataset: What is fed first; all sizes known.
        per_execution: Steps of one execution; None where they vary.

    Attributes:
        key: What it was traced for.
        pace: How many steps an execution has where that varies.
    """

    key: Hashable = None

    def __init__(
        self,
        dataset: Any,
        per_execution: int | None,
        infeed_options: Mapping[str, Any],
        outfeed_options: Mapping[str, Any],
        name: str,
    ) -> None:
        self.pace = Pace()
        self._infeed = IPUInfeedQueue(dataset, **infeed_options)
        self._new_body = functools.partial(_Body, self._infeed, outfeed_options, name)
        self._full = self._new_body(per_execution)
        self._tails: dict[int, _Body] = {}  # by their rows, the oldest first
        self._started = self._records = False
        self._recorded: Any = None  # the core's program, once it notes its actions

    def begin(
        self,
        steps: Steps,
        dataset: Any,
        over_replicas: Callable[[Array], Array] | None = None,
        of_pass: int = 0,
        tail: int = 0,
        may_end: bool = False,
    ) -> None:
        """Begin a run.

        Args:
            steps: What is done with the elements: what was traced, if it was.
            dataset: What is fed.
            over_replicas: Makes of a result of all replicas, the steps first, one for
                the user.
            of_pass: Where the last batch of each pass is filled up: the batches of a
                pass.
            tail: Rows of that last batch which count; 0: all batches are full.
            may_end: Whether data that end are not an error, but the end of the run.
        """
        self._infeed._dataset = dataset
        self._may_end = may_end
        self._of_pass = of_pass if tail else 0
        self._full.begin(steps, over_replicas)
        self._tail = self._tail_of(tail) if tail else self._full
        self._tail.begin(steps, over_replicas)
        self._next = 0  # the batch that comes next, in its pass
        self._done = 0  # steps of this execution before `_running`
        self._running = (self._full, 0)
        self._ended = False

    def _tail_of(self, rows: int) -> _Body:
        body = self._tails.pop(rows, None) or self._new_body(1, rows)
        if len(self._tails) == _MOST_TAILS:
            self._tails.pop(next(iter(self._tails)))
        self._tails[rows] = body
        return body

    def record(self) -> None:
        """Note from here on when the actions of a pipeline run."""
        self._records = True

    def recorded(self) -> tuple[list[Any], list[dict[str, int]]]:
        """Return when the actions of the last run ran, and what its streams take."""
        return self._recorded.recorded, self._recorded.streams

    def start(self) -> None:
        _ = self._infeed.initializer
        self._started = True

    def has_more(self) -> bool:
        """Return whether the data have not been seen to end."""
        return not self._ended

    def run(
        self, count: int, on_part: Callable[[Nest], None] | None = None
    ) -> tuple[list[Nest], int]:
        parts: list[Nest] = []
        self._done = 0
        if self._records and self._recorded is None:
            self._recorded = self._full.usual()
            self._recorded.records = True

        def keep(part: Nest) -> None:
            parts.append(part)
            if on_part is not None:
                on_part(part)

        while self._done < count and not self._ended:
            run, body = count - self._done, self._full
            if self._of_pass:
                before_last = self._of_pass - 1 - self._next
                run = min(run, before_last) or 1
                body = self._full if before_last else self._tail
                self._next = (self._next + run) % self._of_pass
            self._running = (body, run)
            try:
                if on_part is None:
                    body.run(run)
                else:
                    with Arrivals(functools.partial(body.wait, 1), body.take, keep):
                        body.run(run)
            except tf.errors.OutOfRangeError:
                if not self._may_end:
                    raise
                self._ended = True
                run = body.wait(1, 0.0)
                if run == 0:
                    break
            if on_part is None:
                parts.append(body.take())
            self._done += run
        return parts, self._done

    def steps_done(self, timeout_s: float) -> int:
        done, (body, count) = self._done, self._running
        return done + body.wait(count, timeout_s)

    def stop(self) -> None:
        """Stop feeding, also after an error, and let go of what belongs to the run."""
        if self._started:
            self._started = False
            _ = self._infeed.deleter
        if self._recorded is not None:
            self._recorded.records = False
        self._recorded, self._records = None, False
        self._infeed._dataset = None
        for body in (self._full, *self._tails.values()):
            body.rest()
