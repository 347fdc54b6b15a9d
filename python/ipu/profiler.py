# SPDX-License-Identifier: MIT
"""Where the time of programs goes: ``python -m ipu profile`` from Python.

>>> @tf.function
... def double(x):
...     return x + x
>>> with ipu.profiler.Profile() as profile:
...     _ = double(tf.ones([4, 4]))
>>> [program.name.split()[0] for program in profile.programs]
['double']
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

from ipu import _core
from ipu._reports.profile import (
    account,
    events as events_module,
    predicted,
    scaling,
    table,
    trace as trace_module,
)
from ipu._text.exports import export

__all__ = ["Profile"]

_EVENTS = 1 << 18
_NO_STEP = 2**63
_MOST_WORKERS = 256


class Profile:
    """Records what programs do while it is entered, and says where the time goes.

    Recording costs a few reads of the clock for each instruction; the tables say how
    much. One profile can be recorded at a time, in the whole process.

    Args:
        trace: A file for the trace, written at the end; None for none. Perfetto
            (https://ui.perfetto.dev) and Chrome open it. Compressed where the name
            ends in ``.gz``.
        steps: ``(first, after the last)`` of the steps to record, counted from 0 for
            each program; None for all.
        top: How many ops and lines ``str`` shows.
        events: The newest so many events of each thread are kept, 32 bytes each.
        scale: Numbers of workers, each from 2 to 256: what a step would take on so
            many. Programs are rehearsed then: they run on one thread, with their work
            cut as for the largest number, and each task is timed.

    Attributes:
        seconds: How long it took.

    Raises:
        ValueError: ``steps`` or ``events`` leave nothing to record, or ``scale`` has
            another number.
        FailedPreconditionError: Another profile is being recorded (when entered).

    Example:
        >>> model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
        >>> model.compile("sgd", "mse", steps_per_execution=4)
        >>> x, y = np.ones((32, 4), "float32"), np.ones((32, 2), "float32")
        >>> with ipu.profiler.Profile() as profile:
        ...     _ = model.fit(x, y, batch_size=8, verbose=0)
        >>> [fit] = [one for one in profile.programs if one.steps == 4]
        >>> [thread.total > 0 for thread in fit.threads][:1]
        [True]
    """

    def __init__(
        self,
        trace: str | os.PathLike[str] | None = None,
        *,
        steps: tuple[int, int] | None = None,
        top: int = 10,
        events: int = _EVENTS,
        scale: Sequence[int] = (),
    ) -> None:
        first, behind = (0, _NO_STEP) if steps is None else steps
        if not 0 <= first < behind:
            raise ValueError(
                "steps is (first, after the last), with 0 <= first < last. Received: "
                f"{steps!r}."
            )
        if events < 1:
            raise ValueError(f"events must be at least 1. Received: {events!r}.")
        if any(not 2 <= count <= _MOST_WORKERS for count in scale):
            raise ValueError(
                f"scale has numbers of workers from 2 to {_MOST_WORKERS}. Received: "
                f"{scale!r}."
            )
        self._scale = tuple(scale)
        self._trace = trace
        self._steps = (first, min(behind, _NO_STEP))
        self._top = top
        self._events = events
        self._recording: events_module.Recording | None = None
        self._programs: list[account.ProgramAccount] = []
        self._scaling: list[scaling.Scaling] = []
        self._start_ns = 0
        self._watch = predicted.Watch()
        self.seconds = 0.0

    def __enter__(self) -> Profile:
        self._recording = None
        self._start_ns = time.monotonic_ns()
        _core.profile_start(self._events, *self._steps)
        _core.rehearse_threads(max(self._scale, default=0))
        self._watch = predicted.Watch()
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        end_ns = time.monotonic_ns()
        self._watch.stop()
        _core.rehearse_threads(0)
        self.seconds = (end_ns - self._start_ns) / 1e9
        self._recording = events_module.read(
            _core.profile_stop(), self._start_ns, end_ns
        )
        self._programs = []
        ran: dict[int, float] = {}
        for number, program in self._recording.programs.items():
            one = account.account(program, self._recording)
            if one is None:
                continue
            ran[number] = one.run_ns
            made = self._watch.accounts.get(number)
            if made is not None:
                steps = one.steps_seen / max(one.runs, 1)
                one = one._replace(ipu=predicted.times(made, steps))
            self._programs.append(one)
        self._programs.sort(key=lambda one: -one.run_ns)
        longest_first = sorted(ran, key=lambda number: -ran[number])
        replayed = (
            scaling.replay(
                self._recording.programs[number], self._recording, self._scale
            )
            for number in longest_first
            if self._scale
        )
        self._scaling = [one for one in replayed if one is not None]
        if self._trace is not None:
            self.save_trace(self._trace)

    def _recorded(self) -> events_module.Recording:
        if self._recording is None:
            raise RuntimeError("The profile has not ended: leave its with block first.")
        return self._recording

    @property
    def programs(self) -> list[account.ProgramAccount]:
        """Where the time of each program goes, the longest first."""
        self._recorded()
        return self._programs

    @property
    def scaling(self) -> list[scaling.Scaling]:
        """What more threads would gain, for each program, where ``scale`` asks.

        Example:
            >>> @tf.function
            ... def square(x):
            ...     return x @ x
            >>> with ipu.profiler.Profile(scale=(2, 8)) as profile:
            ...     _ = square(tf.ones([256, 256]))
            >>> [row.workers for row in profile.scaling[0].scales]
            [2, 8]
        """
        self._recorded()
        return self._scaling

    @property
    def host_seconds(self) -> float:
        """The time in which the thread that runs most programs was in none of them."""
        inside = 0.0
        for track in self._recorded().tracks:
            runs = track.of("run")
            inside = max(inside, float((runs["end"] - runs["begin"]).sum()) / 1e9)
        return max(0.0, self.seconds - inside)

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace in Chrome's event format.

        It has a track for each thread (of the pool, that feeds, that drains), and one
        for each simulated IPU. Of programs that were compiled in the profile the first
        run is there a second time, by the clock of IPUs, with cycles.

        Args:
            path: The file; compressed where the name ends in ``.gz``.
        """
        trace_module.save(self._recorded(), path, self._watch.accounts)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain numbers, lists and dicts; times in ns."""
        return {
            "seconds": self.seconds,
            "host_seconds": self.host_seconds,
            "clock_ns": self._recorded().clock_ns,
            "programs": [
                {
                    **one._asdict(),
                    "threads": [thread._asdict() for thread in one.threads],
                    "ops": [line._asdict() for line in one.ops],
                    "lines": [line._asdict() for line in one.lines],
                    "ipu": None if one.ipu is None else one.ipu._asdict(),
                }
                for one in self.programs
            ],
            "scaling": [
                {**one._asdict(), "scales": [row._asdict() for row in one.scales]}
                for one in self.scaling
            ],
        }

    def print(self, top: int | None = None, peak: float | None = None) -> None:
        """Print the tables, in colour on a terminal.

        Args:
            top: How many ops and lines; None for the profile's own number.
            peak: GFLOP/s that a core can reach, where shares of it are wanted. A
                convolution counts a multiply-add for each element of a window; one that
                takes fewer can have a share above 1.
        """
        top = self._top if top is None else top
        table.write(self.programs, self.scaling, top, peak)

    def __str__(self) -> str:
        return table.text(self.programs, self.scaling, self._top, None)


export(__name__)
