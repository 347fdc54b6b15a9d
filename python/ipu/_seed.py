# SPDX-License-Identifier: MIT
"""The global random seed: 0 until ``tf.random.set_seed``, so that runs repeat."""

from __future__ import annotations

__all__ = ["current", "set_current"]


class _State:
    def __init__(self) -> None:
        self.seed = 0
        self.generation = 0  # counts the calls of set_current


_state = _State()


def current() -> tuple[int, int]:
    """The seed, and how often one was set: a new pair starts all streams again."""
    return _state.seed, _state.generation


def set_current(seed: int) -> None:
    """Set the seed."""
    _state.seed = int(seed)
    _state.generation += 1
