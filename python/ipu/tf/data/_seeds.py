# SPDX-License-Identifier: MIT
"""Seeds of what is random in data sets; they follow ``tf.random.set_seed``."""

from __future__ import annotations

import itertools
from typing import Any

from ipu import _seed

__all__ = ["for_map", "for_shuffle"]


class _Draws:
    """How many seeds there were under the global seed seen last."""

    def __init__(self, stride: int) -> None:
        self.stride = stride
        self.seen: Any = None
        self.numbers = itertools.count(1)

    def next(self) -> int:
        state = _seed.current()
        if state != self.seen:
            self.seen = state
            self.numbers = itertools.count(1)
        # Any odd stride keeps the draws apart; the core's generator does the mixing.
        return (int(state[0]) + next(self.numbers) * self.stride) & 0xFFFFFFFFFFFFFFFF


_shuffles = _Draws(0x9E3779B97F4A7C15)
_maps = _Draws(0xD1B54A32D192ED03)


def for_shuffle() -> int:
    """The seed of the next shuffle that was given none."""
    return _shuffles.next()


def for_map() -> int:
    """The seed of the random ops of the next function that is mapped."""
    return _maps.next()
