# SPDX-License-Identifier: MIT
"""Host random generators that follow ``tf.random.set_seed``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import _seed

__all__ = ["generator"]


class _State:
    """Which global seed was seen last, and how many draws there were under it."""

    def __init__(self) -> None:
        self.seen: Any = None
        self.draws = 0


_state = _State()


def generator(seed: int | None) -> np.random.Generator:
    """Give a generator for one draw.

    Args:
        seed: An integer for the same values at every call, or None.

    Returns:
        A PCG64 generator. Without ``seed`` its stream is a function of the global seed
        and of the number of draws since that was set.
    """
    if seed is not None:
        entropy = [1, int(seed) & 0xFFFFFFFFFFFFFFFF]
    else:
        current = _seed.current()
        if current != _state.seen:
            _state.seen = current
            _state.draws = 0
        entropy = [0, int(current[0]) & 0xFFFFFFFFFFFFFFFF, _state.draws]
        _state.draws += 1
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
