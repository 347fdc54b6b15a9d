# SPDX-License-Identifier: MIT
"""Seeds of what is random in data sets; they follow ``tf.random.set_seed``."""

from __future__ import annotations

from ipu._device import seed

_shuffles = seed.Draws("shuffles")
_maps = seed.Draws("maps")


def _drawn(draws: seed.Draws, stride: int) -> int:
    # Any odd stride keeps the draws apart; the core's generator does the mixing.
    return (int(seed.current()[0]) + (draws.next() + 1) * stride) & 0xFFFFFFFFFFFFFFFF


def for_shuffle() -> int:
    """Return the seed of the next shuffle that was given none."""
    return _drawn(_shuffles, 0x9E3779B97F4A7C15)


def for_map() -> int:
    """Return the seed of the random ops of the next function that is mapped."""
    return _drawn(_maps, 0xD1B54A32D192ED03)
