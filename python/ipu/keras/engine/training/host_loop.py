# SPDX-License-Identifier: MIT
"""Steps over batches that are read on the host, one by one: shapes may vary.

It serves data whose shapes, or whose number, show only when they are read. Each step is
a call of a program; there is one program for each shape.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ipu import tf
from ipu._device.locks import Event
from ipu.keras._types import Nest
from ipu.keras.engine.training.host_sources import HostSource, Pass
from ipu.keras.engine.training.shaped_programs import ShapedPrograms


class HostLoop:
    """Runs a step for each batch of a source.

    Args:
        source: The batches, of dtypes that a device has.
    """

    def __init__(self, source: HostSource) -> None:
        self._source = source
        self._iterator: Pass | None = None
        self._held: list[Nest] = []  # a batch that was looked at and not yet run
        self._is_fresh = False  # whether nothing has been run since the last rewind
        self._function: Any = None
        self._programs: ShapedPrograms | None = None
        self._done = 0
        self._idle = Event()
        self._idle.set()

    def first_spec(self) -> Nest | None:
        """Give the specs of the first batch, None where there is none."""
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
        self, step: Callable[[Nest], Nest], programs: ShapedPrograms | None = None
    ) -> None:
        """Settle what is run for each batch.

        Args:
            step: Takes a batch, gives results.
            programs: What runs it; None: it is called as it is, op by op.
        """
        self._programs = programs
        if programs is not None:
            programs.use(step)
            self._function = programs
            return
        self._function = step

    def start(self) -> None:
        """Start to read."""
        if self._iterator is None:
            self._iterator = self._source.read()
            self._is_fresh = True

    def rewind(self) -> None:
        """Go on with the first batch, where the source starts again."""
        if self._source.starts_again and not self._is_fresh:
            self._close()
            self.start()

    def has_more(self) -> bool:
        """Whether there is another batch, which is read to find out."""
        self.start()
        assert self._iterator is not None
        if not self._held:
            self._held.extend(itertools.islice(self._iterator, 1))
        return bool(self._held)

    def run(
        self, count: int, on_part: Callable[[Nest], None] | None = None
    ) -> tuple[list[Nest], int]:
        """Execute at most ``count`` steps.

        Args:
            count: How many.
            on_part: Called with the results of each step.

        Returns:
            The results of each step, each leaf with a first axis of one; and how many
            steps there were.
        """
        self._done = 0
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
        """Stop reading."""
        self._close()
        self._function = None
        if self._programs is not None:
            self._programs.rest()

    def _close(self) -> None:
        if self._iterator is not None:
            self._iterator.close()
        self._iterator = None
        self._held = []

    def steps_done(self, timeout_s: float) -> int:
        """Wait for the end of an execution; give the steps done so far."""
        self._idle.wait(timeout_s)
        return self._done
