# SPDX-License-Identifier: MIT
"""Results of steps while the device is still busy with later ones."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ipu._device.locks import Event
from ipu.keras._types import Nest

_POLL_S = 0.05


class Arrivals:
    """A thread that takes results as they arrive; a context around a run.

    What ``on_part`` raises is raised at the end of the run.

    Args:
        wait: Waits so many seconds for a result; gives the number of those there are.
        take: Takes them.
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
                    self._ended.wait(_POLL_S / 10)
        except BaseException as error:
            self._error = error
