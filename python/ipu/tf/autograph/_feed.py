# SPDX-License-Identifier: MIT
"""A data set that a traced function iterates over: from the start in each run."""

from __future__ import annotations

from typing import Any

from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf._functions.tracing import Build


class RestartedFeed:
    """An infeed that is started before each run and stopped after it.

    Raises:
        NotImplementedError: The function is not run by itself.
    """

    def __init__(self, dataset: Any, build: Build) -> None:
        if not build.runs:
            raise NotImplementedError(
                "A data set cannot be iterated over in a function that runs as part of "
                f"a data set or of another program: {build.name}."
            )
        self._queue = IPUInfeedQueue(dataset)
        self._is_started = False
        build.before.append(self._start)
        build.after.append(self._stop)

    def _start(self) -> None:
        _ = self._queue.initializer
        self._is_started = True

    def _stop(self) -> None:
        if self._is_started:
            self._is_started = False
            _ = self._queue.deleter

    def next(self) -> Any:
        """Return the next element, in the program."""
        return self._queue._dequeue()
