# SPDX-License-Identifier: MIT
"""The device program of ``fit``, ``evaluate`` and ``predict``: a loop of steps.

One program is ``loops.repeat`` over ``steps_per_execution`` steps. Each takes an
element from the infeed and hands its results to the outfeed; Python is back only at the
end. The program is traced once and serves all executions and epochs of a run, and later
runs. A second one serves shorter executions, and a third a last batch of fewer rows.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ipu import tf
from ipu._device.locks import Condition, Event
from ipu.ipu_infeed_queue import IPUIterator
from ipu.keras._types import Nest
from ipu.keras.engine.training.arrivals import Arrivals
from ipu.keras.engine.training.device_steps import Steps
from ipu.keras.engine.training.step_programs import Array, StepProgram, StepPrograms

_REFRESH_S = 0.1


class Loop(Protocol):
    """What runs the steps of a run, one execution after the other."""

    def start(self) -> None:
        """Start to read the data."""

    def rewind(self) -> None:
        """Go on with the first batch; only where the data do not start again."""

    def has_more(self) -> bool:
        """Whether there is another batch, as far as that is known."""

    def run(
        self, count: int, on_part: Callable[[Nest], None] | None = None
    ) -> tuple[list[Nest], int]:
        """Execute at most ``count`` steps, fewer where the data end.

        Args:
            count: How many.
            on_part: Called with results as they arrive, perhaps in another thread.

        Returns:
            The results in parts, each a nest whose leaves have a first axis of steps;
            and how many steps there were.
        """

    def stop(self) -> None:
        """Stop reading; it may be called after an error, too."""

    def steps_done(self, timeout_s: float) -> int:
        """Wait till the execution ends or time is over; give the steps done so far."""


class DeviceLoop:
    """A loop of steps, its queues, and the thread that watches it.

    Args:
        steps: What is done with the elements of the data set.
        dataset: What is fed; all sizes known.
        per_execution: Steps of one execution; None where they vary.
        of_pass: Where the last batch of each pass is filled up: the batches of a pass.
        tail: Rows of that last batch which count; 0: all batches are full.
        infeed_options: Keyword arguments for ``IPUInfeedQueue``.
        outfeed_options: Keyword arguments for ``IPUOutfeedQueue``.
        may_end: Whether data that end are no error, but the end of the run.
        over_replicas: Makes of a result of all replicas, the steps first, one for the
            user.
        name: For profiles.
        programs: Those of an earlier run; None: new ones.
    """

    def __init__(
        self,
        steps: Steps,
        dataset: Any,
        per_execution: int | None,
        of_pass: int = 0,
        tail: int = 0,
        infeed_options: Mapping[str, Any] | None = None,
        outfeed_options: Mapping[str, Any] | None = None,
        may_end: bool = False,
        over_replicas: Callable[[Array], Array] = lambda leaf: leaf,
        name: str = "steps",
        programs: StepPrograms | None = None,
    ) -> None:
        if programs is None:
            options = dict(infeed_options or {}), dict(outfeed_options or {})
            programs = StepPrograms(dataset, per_execution, *options, name)
        self.programs = programs
        programs.use(steps, dataset, over_replicas)
        self._may_end = may_end
        self._of_pass = of_pass if tail else 0
        self._infeed = programs.infeed
        self._full = programs.full
        self._tail = programs.of_rows(tail) if tail else self._full
        self._next = 0  # the batch that comes next, in its pass
        self._done = 0  # steps of this execution before `_running`
        self._running: tuple[StepProgram, int] = (self._full, 0)
        self._started = False
        self._ended = False

    def record(self) -> None:
        """From here on note when the actions of a pipeline run."""
        self._full.records = True

    def recorded(self) -> list[Any]:
        """When the actions of the last run of a pipeline ran."""
        return self._full.recorded()

    def streams(self) -> list[dict[str, int]]:
        """What the streams of the program take."""
        return self._full.streams()

    def start(self) -> None:
        """Start to feed."""
        _ = self._infeed.initializer
        self._started = True

    def rewind(self) -> None:
        """Nothing: the data set starts again by itself where it is to."""

    def has_more(self) -> bool:
        """Whether the data have not been seen to end."""
        return not self._ended

    def run(
        self, count: int, on_part: Callable[[Nest], None] | None = None
    ) -> tuple[list[Nest], int]:
        """Execute at most ``count`` steps; see ``Loop``."""
        parts: list[Nest] = []
        self._done = 0

        def keep(part: Nest) -> None:
            parts.append(part)
            if on_part is not None:
                on_part(part)

        while self._done < count and not self._ended:
            run, program = count - self._done, self._full
            if self._of_pass:
                before_last = self._of_pass - 1 - self._next
                run = min(run, before_last) or 1
                program = self._full if before_last else self._tail
                self._next = (self._next + run) % self._of_pass
            self._running = (program, run)
            try:
                if on_part is None:
                    program.run(run)
                else:
                    wait = functools.partial(program.wait, 1)
                    with Arrivals(wait, program.take, keep):
                        program.run(run)
            except tf.errors.OutOfRangeError:
                if not self._may_end:
                    raise
                self._ended = True
                run = program.wait(1, 0.0)
                if run == 0:
                    break
            if on_part is None:
                keep(program.take())
            self._done += run
        return parts, self._done

    def stop(self) -> None:
        """Stop to feed and let go of the queues, also after an error."""
        if self._started:
            self._started = False
            _ = self._infeed.deleter
        self.programs.rest()

    def steps_done(self, timeout_s: float) -> int:
        """Wait for the end of an execution; give the steps done so far."""
        done, (program, count) = self._done, self._running
        return done + program.wait(count, timeout_s)


class FunctionLoop:
    """The user's own function of an iterator in the place of the device's loop.

    Args:
        function: Takes an ``IPUIterator``, gives the logs of an execution.
        dataset: What is fed.
        per_execution: Steps of one execution.
        infeed_options: Keyword arguments for ``IPUInfeedQueue``.
    """

    def __init__(
        self,
        function: Callable[[Any], Nest],
        dataset: Any,
        per_execution: int,
        infeed_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._per_execution = per_execution
        self._function = function
        self._iterator = IPUIterator(dataset, **(infeed_options or {}))
        self._started = False
        self._ended = Event()

    def start(self) -> None:
        """Start to feed."""
        _ = self._iterator.initializer
        self._started = True

    def rewind(self) -> None:
        """Nothing: the data set starts again by itself where it is to."""

    def has_more(self) -> bool:
        """What is not known: true."""
        return True

    def run(
        self, count: int, on_part: Callable[[Nest], None] | None = None
    ) -> tuple[list[Nest], int]:
        """Execute ``steps_per_execution`` steps, which ``count`` must be.

        Returns:
            One ``{"logs": ...}``, each leaf an array with a first axis of one; and
            ``count``.
        """
        self._ended.clear()
        try:
            logs = self._function(self._iterator)
        finally:
            self._ended.set()
        if not isinstance(logs, Mapping):
            raise TypeError(
                "The function that make_train_function or make_test_function gives "
                f"must return a dict of results by name. Received: {logs!r}."
            )
        values = {name: np.asarray(value)[None] for name, value in logs.items()}
        if on_part is not None:
            on_part({"logs": values})
        return [{"logs": values}], count

    def stop(self) -> None:
        """Stop to feed, also after an error."""
        if self._started:
            self._started = False
            _ = self._iterator.deleter

    def steps_done(self, timeout_s: float) -> int:
        """Wait for the end of an execution; what is done before is not known."""
        return self._per_execution if self._ended.wait(timeout_s) else 0


class StepWatcher:
    """Tells callbacks of executed steps while the device is busy.

    Args:
        watchers: Objects with ``_on_steps_executed(done)``, called from a thread.
    """

    def __init__(self, watchers: Sequence[Any]) -> None:
        self._watchers = list(watchers)
        self._changed = Condition()
        self._loop: Loop | None = None
        self._first_step = 0
        self._count = 0
        self._execution = 0  # tells executions apart
        self._ended = False
        self._thread: threading.Thread | None = None

    def begin(self, loop: Loop, first_step: int, count: int) -> None:
        """An execution of ``count`` steps starts with this step of the epoch."""
        if not self._watchers or count < 2:
            return
        with self._changed:
            self._loop = loop
            self._first_step = first_step
            self._count = count
            self._execution += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="ipu-progress", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def pause(self) -> None:
        """The execution has ended; its results may be taken."""
        with self._changed:
            self._loop = None
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._loop = None
            self._ended = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _is_at(self, execution: int) -> bool:
        return self._loop is not None and self._execution == execution

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._loop is not None or self._ended)
                if self._ended:
                    return
                loop, first, now = self._loop, self._first_step, self._execution
                count = self._count
            assert loop is not None
            done = loop.steps_done(_REFRESH_S)
            with self._changed:
                if not self._is_at(now):
                    continue
                if done > 0:
                    for watcher in self._watchers:
                        watcher._on_steps_executed(first + done)
                if done >= count:
                    # nothing more comes: sleep until the next execution
                    while not self._ended and self._is_at(now):
                        self._changed.wait()
