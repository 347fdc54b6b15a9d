# SPDX-License-Identifier: MIT
"""The device program of ``fit``, ``evaluate`` and ``predict``: a loop of steps.

One program is ``loops.repeat`` over ``steps_per_execution`` steps. Each takes an
element from the infeed and hands its results to the outfeed; Python is back only at the
end. The program is traced once and serves all executions and epochs of a run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ipu import loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue, IPUIterator
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.keras._types import Nest
from ipu.keras.engine.logits import forget_logits
from ipu.keras.engine.masks import forget_masks
from ipu.tf import _function

__all__ = ["DeviceLoop", "FunctionLoop", "StepWatcher"]

_REFRESH_S = 0.1


class DeviceLoop:
    """A loop of steps, its queues, and the thread that watches it.

    Args:
        step: Takes an element of the data set, gives a nest for the outfeed; traced.
        dataset: What is fed; all sizes known.
        per_execution: Steps of one execution.
        infeed_options: Keyword arguments for ``IPUInfeedQueue``.
        outfeed_options: Keyword arguments for ``IPUOutfeedQueue``.
    """

    def __init__(
        self,
        step: Callable[[Nest], Nest],
        dataset: Any,
        per_execution: int,
        infeed_options: Mapping[str, Any] | None = None,
        outfeed_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.per_execution = per_execution
        self._spec = dataset.element_spec
        self._step = step
        self._infeed = IPUInfeedQueue(dataset, **(infeed_options or {}))
        self._outfeed = IPUOutfeedQueue(**(outfeed_options or {}))
        self._function: Any = _function.DeviceFunction(self._program)
        self._started = False

    def _program(self) -> None:
        try:
            loops.repeat(self.per_execution, self._body, [], self._infeed)
        finally:
            forget_logits()
            forget_masks()

    def _body(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            element: Any = (
                (kwargs,) if isinstance(self._spec, (tuple, list)) else kwargs
            )
        elif isinstance(self._spec, (tuple, list)):
            element = args
        else:
            element = args[0]
        self._outfeed.enqueue(self._step(element))

    def start(self) -> None:
        """Start to feed."""
        _ = self._infeed.initializer
        self._started = True

    def run(self) -> Nest:
        """Execute once.

        Returns:
            The outfeed's nest, each leaf an array with a first axis of steps.
        """
        self._function()
        return tf.nest.map_structure(lambda leaf: leaf.numpy(), self._outfeed.dequeue())

    def stop(self) -> None:
        """Stop to feed and let go of the queues, also after an error."""
        if self._started:
            self._started = False
            _ = self._infeed.deleter
        _ = self._outfeed.deleter
        # the function holds this loop: without the cycle its memory goes at once
        self._function = None

    def steps_done(self, timeout_s: float) -> int:
        """Wait for the end of an execution; give the steps done so far."""
        return self._outfeed._wait(self.per_execution, timeout_s)


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
        self.per_execution = per_execution
        self._function = function
        self._iterator = IPUIterator(dataset, **(infeed_options or {}))
        self._started = False
        self._ended = threading.Event()

    def start(self) -> None:
        """Start to feed."""
        _ = self._iterator.initializer
        self._started = True

    def run(self) -> Nest:
        """Execute once.

        Returns:
            ``{"logs": ...}``, each leaf an array with a first axis of one.
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
        return {"logs": values}

    def stop(self) -> None:
        """Stop to feed, also after an error."""
        if self._started:
            self._started = False
            _ = self._iterator.deleter

    def steps_done(self, timeout_s: float) -> int:
        """Wait for the end of an execution; what is done before is not known."""
        return self.per_execution if self._ended.wait(timeout_s) else 0


class StepWatcher:
    """Tells callbacks of executed steps while the device is busy.

    Args:
        watchers: Objects with ``_on_steps_executed(done)``, called from a thread.
    """

    def __init__(self, watchers: Sequence[Any]) -> None:
        self._watchers = list(watchers)
        self._changed = threading.Condition()
        self._loop: DeviceLoop | FunctionLoop | None = None
        self._first_step = 0
        self._execution = 0  # tells executions apart
        self._ended = False
        self._thread: threading.Thread | None = None

    def begin(self, loop: DeviceLoop | FunctionLoop, first_step: int) -> None:
        """An execution starts with this step of the epoch."""
        if not self._watchers or loop.per_execution < 2:
            return
        with self._changed:
            self._loop = loop
            self._first_step = first_step
            self._execution += 1
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="ipu-progress", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def pause(self) -> None:
        """The execution has ended; its results may be taken."""
        with self._changed:
            self._loop = None
            self._changed.notify()

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._loop = None
            self._ended = True
            self._changed.notify()
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
            assert loop is not None
            done = loop.steps_done(_REFRESH_S)
            with self._changed:
                if not self._is_at(now):
                    continue
                if done > 0:
                    for watcher in self._watchers:
                        watcher._on_steps_executed(first + done)
                if done >= loop.per_execution:
                    # nothing more comes: sleep until the next execution
                    while not self._ended and self._is_at(now):
                        self._changed.wait()
