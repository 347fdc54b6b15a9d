# SPDX-License-Identifier: MIT
"""Threads that watch an execution, and what callbacks are told of its steps."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

from ipu import tf
from ipu._device.locks import Condition, Event
from ipu.keras._types import Nest
from ipu.keras.callbacks.callback import CallbackList

_POLL_S = 0.05
_REST_S = 0.005  # between two looks where waiting is no rest
_REFRESH_S = 0.1


class Loop:
    """The loop that runs the steps of a run, one execution after the other."""

    def start(self) -> None:
        """Start to read the data."""
        raise NotImplementedError

    def rewind(self) -> None:
        """Go on with the first batch, where data do not start again by themselves."""

    def has_more(self) -> bool:
        """Return whether there is another batch, as far as that is known."""
        return True

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
        raise NotImplementedError

    def stop(self) -> None:
        """Stop reading; it may be called after an error, too."""
        raise NotImplementedError

    def steps_done(self, timeout_s: float) -> int:
        """Wait till the execution ends or time is over; give the steps done so far."""
        raise NotImplementedError


class Arrivals:
    """A thread that takes results as they arrive; a context around a run.

    What ``on_part`` raises is raised at the end of the run.

    Args:
        wait: Waits so many seconds for a result; gives the number of those there are.
        on_part: Called with them in the thread.
    """

    def __init__(
        self,
        wait: Callable[[float], int],
        take: Callable[[], Nest],
        on_part: Callable[[Nest], None],
    ) -> None:
        self._wait = wait
        self._take = take
        self._on_part = on_part
        self._ended = Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._watch, name="ipu-results", daemon=True
        )

    def __enter__(self) -> Arrivals:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None and self._error is not None:
            raise self._error

    def _watch(self) -> None:
        try:
            is_last = False
            while not is_last:
                # what has arrived when a run has ended is all that there will be
                is_last = self._ended.is_set()
                if self._wait(0.0 if is_last else _POLL_S):
                    self._on_part(self._take())
                elif not is_last:
                    self._ended.wait(_REST_S)
        except BaseException as error:
            self._error = error


class StepWatcher:
    """Tells callbacks of executed steps while the device is busy.

    Args:
        watchers: Objects with ``_on_steps_executed(done)``, called from a thread.
    """

    def __init__(self, watchers: Sequence[Any]) -> None:
        self._watchers = list(watchers)
        self._changed = Condition()
        self._loop: Loop | None = None
        self._ended = False
        self._thread: threading.Thread | None = None

    def begin(self, loop: Loop, first_step: int, count: int) -> None:
        """Begin an execution of ``count`` steps, which starts with this step of the
        epoch."""
        if not self._watchers or count < 2:
            return
        with self._changed:
            self._loop = loop
            self._first_step = first_step
            self._count = count
            self._execution = object()  # tells executions apart
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="ipu-progress", daemon=True
                )
                self._thread.start()
            self._changed.notify_all()

    def pause(self) -> None:
        """End the execution; its results may be taken."""
        with self._changed:
            self._loop = None

    def close(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _is_at(self, execution: object) -> bool:
        return self._loop is not None and self._execution is execution

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


class StepCalls:
    """Calls the hooks of a batch for each step, as its results arrive.

    Args:
        callbacks: What is called.
        hook: The name of the hooks, without ``_begin`` and ``_end``.
        step: The number of the first step.
        replicas: How many results a step has. In prediction they follow one another;
            else each leaf of a part is (steps, replicas, ...) if there are several.
    """

    def __init__(
        self, callbacks: CallbackList, hook: str, step: int, replicas: int
    ) -> None:
        self._callbacks = callbacks
        self._hook = hook
        self._first = step
        self._replicas = replicas
        self._done = 0  # results

    def __call__(self, part: Nest) -> None:
        if self._hook == "on_predict_batch":
            for i in range(len(tf.nest.flatten(part)[0])):
                rows = tf.nest.map_structure(operator.itemgetter(i), part)
                self._call({"outputs": rows})
            return
        if self._replicas > 1:  # the results of all of them, step by step
            logs = part["logs"].items()
            part = {"logs": {n: v.reshape(-1, *v.shape[2:]) for n, v in logs}}
        for i in range(len(tf.nest.flatten(part["logs"])[0])):
            self._call(logs_at(part, i))

    def _call(self, logs: dict[str, Any]) -> None:
        step = self._first + self._done // self._replicas
        self._done += 1
        self._callbacks.call(f"{self._hook}_begin", step, {})
        self._callbacks.call(f"{self._hook}_end", step, logs)


def logs_at(part: Nest, index: int) -> dict[str, Any]:
    """Return the logs of one of the steps whose results are in a part."""
    found = {name: values[index] for name, values in part["logs"].items()}
    return {k: v if v.ndim else v.item() for k, v in found.items()}
