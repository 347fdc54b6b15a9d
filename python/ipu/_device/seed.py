# SPDX-License-Identifier: MIT
"""The global random seed: 0 until ``tf.random.set_seed``, so that runs repeat.

Random ops of the host count their draws under that seed.
"""

from __future__ import annotations

from ipu._device.locks import Lock


class _State:
    def __init__(self) -> None:
        self.seed = 0
        self.generation = 0  # counts the calls of set_current


_state = _State()
_counters: dict[str, Draws] = {}


class Draws:
    """Counts draws; a new global seed starts at 0 again."""

    def __init__(self, name: str) -> None:
        self._lock = Lock()  # of both below
        self._generation = -1
        self._count = 0
        _counters[name] = self

    def next(self) -> int:
        """Return the number of this draw, from 0."""
        with self._lock:
            self._follow()
            self._count += 1
            return self._count - 1

    @property
    def count(self) -> int:
        """How many draws there were under the global seed."""
        with self._lock:
            self._follow()
            return self._count

    @count.setter
    def count(self, count: int) -> None:
        with self._lock:
            self._follow()
            self._count = count

    def _follow(self) -> None:
        if self._generation != _state.generation:
            self._generation = _state.generation
            self._count = 0


def current() -> tuple[int, int]:
    """Return the seed, and how often one was set: a new pair starts all streams
    again."""
    return _state.seed, _state.generation


def set_current(seed: int) -> None:
    _state.seed = int(seed)
    _state.generation += 1


def drawn() -> dict[str, int]:
    """Return how many draws of each kind there were under the global seed."""
    return {name: counter.count for name, counter in _counters.items()}


def set_drawn(counts: dict[str, int]) -> None:
    """Go on after so many draws of each kind; kinds that are not named stay."""
    for name, count in counts.items():
        if name in _counters:
            _counters[name].count = count
