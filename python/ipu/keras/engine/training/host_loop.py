# SPDX-License-Identifier: MIT
"""Steps that the host runs, where no ``Program`` does.

A :class:`HostLoop` serves data whose shapes, or whose number, show only when they are
read: each step is a call of a program, traced for each shape. A :class:`FunctionLoop`
serves a function that the user overrides.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ipu import tf
from ipu._device.locks import Event
from ipu.ipu_infeed_queue import IPUIterator
from ipu.keras._types import Nest
from ipu.keras.engine.training.host_sources import HostSource, Pass
from ipu.keras.engine.training.program import BatchProgram
from ipu.keras.engine.training.watching import Loop


class HostLoop(Loop):
    """Runs a step for each batch of a source, of dtypes that a device has."""

    def __init__(self, source: HostSource) -> None:
        self._source = source
        self._iterator: Pass | None = None
        self._held: list[Nest] = []  # a batch that was looked at and not yet run
        self._function: Any = None
        self._program: BatchProgram | None = None
        self._done = 0
        self._idle = Event()
        self._idle.set()

    def first_spec(self) -> Nest | None:
        """Return the specs of the first batch, None where there is none."""
        if not self.has_more():
            return None
        return tf.nest.map_structure(tf.TensorSpec.from_tensor, self._held[0])

    def pass_over(self, count: int) -> None:
        """Read so many batches and drop them; before anything else is done."""
        self.start()
        assert self._iterator is not None
        for _ in itertools.islice(self._iterator, count):
            pass

    def set_step(
        self, step: Callable[[Nest], Nest], program: BatchProgram | None = None
    ) -> None:
        """Settle what is run for each batch.

        Args:
            step: Takes a batch, gives results.
            program: What runs it; None: it is called as it is, op by op.
        """
        self._program = program
        if program is not None:
            program.begin(step)
        self._function = program or step

    def start(self) -> None:
        if self._iterator is None:
            self._iterator = self._source.read()
            self._is_fresh = True  # whether nothing has been run since the last rewind

    def rewind(self) -> None:
        if self._source.starts_again and not self._is_fresh:
            self._close()

    def has_more(self) -> bool:
        self.start()
        assert self._iterator is not None
        if not self._held:
            self._held.extend(itertools.islice(self._iterator, 1))
        return bool(self._held)

    def run(
        self, count: int, on_part: Callable[[Nest], None] | None = None
    ) -> tuple[list[Nest], int]:
        self._idle.clear()
        parts: list[Nest] = []
        try:
            while self._done < count and self.has_more():
                element = self._held.pop()
                self._is_fresh = False
                results = self._function(element)
                parts.append(
                    tf.nest.map_structure(lambda leaf: np.asarray(leaf)[None], results)
                )
                self._done += 1
                if on_part is not None:
                    on_part(parts[-1])
        finally:
            self._done = 0
            self._idle.set()
        return parts, len(parts)

    def stop(self) -> None:
        self._close()
        self._function = None
        if self._program is not None:
            self._program.rest()

    def _close(self) -> None:
        if self._iterator is not None:
            self._iterator.close()
        self._iterator = None
        self._held = []

    def steps_done(self, timeout_s: float) -> int:
        self._idle.wait(timeout_s)
        return self._done


class FunctionLoop(Loop):
    """The user's own function of an iterator in the place of the device's loop.

    Args:
        function: Takes an ``IPUIterator``, gives the logs of an execution.
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
        _ = self._iterator.initializer
        self._started = True

    def run(
        self, count: int, on_part: Callable[[Nest], None] | None = None
    ) -> tuple[list[Nest], int]:
        """Execute ``steps_per_execution`` steps, which ``count`` must be; gives one
        part."""
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
        if self._started:
            self._started = False
            _ = self._iterator.deleter

    def steps_done(self, timeout_s: float) -> int:
        """Wait for the end of an execution; what is done before is not known."""
        return self._per_execution if self._ended.wait(timeout_s) else 0
