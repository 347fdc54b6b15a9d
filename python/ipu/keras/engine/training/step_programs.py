# SPDX-License-Identifier: MIT
"""Programs of steps with their queues, which several runs of a model use in turn.

Between two runs they hold neither the model nor data: what is traced asks for the steps
of the run that it is traced in.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ipu import tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.keras._types import Nest
from ipu.keras.engine.training.device_steps import Steps
from ipu.keras.engine.training.pace import Pace
from ipu.tf._functions import function

Array = np.ndarray[Any, Any]

_TAILS = 4  # sizes of a last batch that are kept


class StepProgram:
    """Steps over elements of an infeed.

    Args:
        infeed: Gives the elements.
        count: The usual number of steps; None where there is none.
        rows: Rows of an element that count; 0 for all.
        outfeed_options: Keyword arguments for ``IPUOutfeedQueue``.
        name: For profiles.
    """

    def __init__(
        self,
        infeed: IPUInfeedQueue,
        count: int | None,
        rows: int,
        outfeed_options: Mapping[str, Any],
        name: str,
    ) -> None:
        self._infeed = infeed
        self._count = count
        self._rows = rows
        self.outfeed = IPUOutfeedQueue(**outfeed_options)
        self.records = False  # whether it notes when actions of a pipeline run
        self._steps: Steps | None = None
        self._steps_per_result = 1
        self._arrange: Callable[[Nest], Nest] | None = None
        self._over_replicas: Callable[[Array], Array] | None = None
        # the functions do not hold their owner, so that its memory goes at once
        this = weakref.ref(self)

        def usual() -> None:
            _trace(this, count)

        def of_any_count(count: Any) -> None:
            _trace(this, count)

        self._usual: Any = function.DeviceFunction(usual, name=name)
        self._any: Any = function.DeviceFunction(of_any_count, name=name)

    def use(self, steps: Steps, over_replicas: Callable[[Array], Array]) -> None:
        """Begin a run.

        Args:
            steps: What is done with the elements: what was traced, if it was.
            over_replicas: Makes of a result of all replicas one for the user.
        """
        self._steps = steps
        self._steps_per_result = steps.steps_of(1)
        self._over_replicas = over_replicas

    def rest(self) -> None:
        """Let go of what belongs to the run, and of memory that is quickly had."""
        self._steps = self._over_replicas = None
        if self.records:
            self.records = self._usual.traced().program.records = False
        self.outfeed._drop_results()
        self._usual.rest()
        self._any.rest()

    def run(self, count: int) -> None:
        """Run so many steps."""
        if self.records:
            self._usual.traced().program.records = True
        if count == self._count:
            self._usual()
        else:
            self._any(np.int32(count))

    def trace(self, count: Any) -> None:
        """Trace so many steps."""
        assert self._steps is not None
        self._steps.build(count, self._infeed, self.outfeed, self._rows)
        self._arrange = self._steps.arrangement()

    def recorded(self) -> list[Any]:
        """When the actions of the last run of a pipeline ran."""
        actions: list[Any] = self._usual.traced().program.recorded
        return actions

    def streams(self) -> list[dict[str, int]]:
        """What the streams of the program take."""
        streams: list[dict[str, int]] = self._usual.traced().program.streams
        return streams

    def take(self) -> Nest:
        """The results that have arrived, each leaf with a first axis of them."""
        assert self._arrange is not None and self._over_replicas is not None
        over_replicas = self._over_replicas
        results = self.outfeed.dequeue()
        return self._arrange(
            tf.nest.map_structure(lambda leaf: over_replicas(leaf.numpy()), results)
        )

    def wait(self, steps: int, timeout_s: float) -> int:
        """Wait for the results of so many steps; how many there are by then."""
        entries = -(-steps // self._steps_per_result)
        return self._steps_per_result * self.outfeed._wait(entries, timeout_s)


def _trace(program: weakref.ref[StepProgram], count: Any) -> None:
    found = program()
    assert found is not None
    found.trace(count)


class StepPrograms:
    """The programs of one mode of a model for elements of one kind.

    Args:
        dataset: What is fed first; all sizes known.
        per_execution: Steps of one execution; None where they vary.
        infeed_options: Keyword arguments for ``IPUInfeedQueue``.
        outfeed_options: Keyword arguments for ``IPUOutfeedQueue``.
        name: For profiles.

    Attributes:
        infeed: Gives the elements.
        full: The program of full batches.
        pace: How many steps an execution has where that varies.
    """

    def __init__(
        self,
        dataset: Any,
        per_execution: int | None,
        infeed_options: Mapping[str, Any],
        outfeed_options: Mapping[str, Any],
        name: str,
    ) -> None:
        self.infeed = IPUInfeedQueue(dataset, **infeed_options)
        self._rest = (outfeed_options, name)
        self.full = StepProgram(self.infeed, per_execution, 0, *self._rest)
        self._tails: dict[int, StepProgram] = {}
        self._run: Any = None
        self.pace = Pace()

    def of_rows(self, rows: int) -> StepProgram:
        """The program of a last batch of which so many rows count."""
        program = self._tails.pop(rows, None)
        if program is None:
            if len(self._tails) == _TAILS:
                self._tails.pop(next(iter(self._tails)))
            program = StepProgram(self.infeed, 1, rows, *self._rest)
        program.use(*self._run)
        self._tails[rows] = program  # as the youngest
        return program

    def use(
        self, steps: Steps, dataset: Any, over_replicas: Callable[[Array], Array]
    ) -> None:
        """Begin a run; arguments as for ``StepProgram.use``."""
        self._run = (steps, over_replicas)
        self.infeed._dataset = dataset
        self.full.use(*self._run)

    def rest(self) -> None:
        """Let go of what belongs to the run."""
        self._run = self.infeed._dataset = None
        for program in (self.full, *self._tails.values()):
            program.rest()
