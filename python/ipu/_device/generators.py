# SPDX-License-Identifier: MIT
"""Host random generators that follow ``tf.random.set_seed``."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ipu._device import seed as _seed
from ipu._device.thread_state import entered, here

_draws = _seed.Draws("generators")
_MASK = 0xFFFFFFFFFFFFFFFF


def generator(seed: int | None) -> np.random.Generator:
    """Return a generator for one draw.

    Args:
        seed: An integer for the same values at every call, or None.

    Returns:
        A PCG64 generator. Without ``seed`` its stream is a function of the global seed
        and of the number of draws since that was set.
    """
    if seed is not None:
        return _of([1, int(seed) & _MASK])
    if here.seed_keys:
        key, counts = here.seed_keys[-1]
        return _of([3, *key, next(counts)])
    return _of([0, int(_seed.current()[0]) & _MASK, _draws.next()])


@contextmanager
def keyed(*key: int) -> Iterator[None]:
    """Open a context in which generators without a seed are functions of a key, and of
    how many of them there were."""
    with entered(here.seed_keys, ([one & _MASK for one in key], itertools.count())):
        yield


def generator_of_pass(seed: int, number: int) -> np.random.Generator:
    """Return the generator for one pass over data.

    Args:
        seed: The seed of all passes.
        number: Which of them, from 0.
    """
    return _of([2, seed & _MASK, number])


class _Streams:
    """Random numbers of NumPy's and Python's kinds under one global seed."""

    def __init__(self) -> None:
        seed, self.generation = _seed.current()
        self.numpy = np.random.RandomState(seed & 0xFFFFFFFF)
        self.python = random.Random(seed)


_streams = _Streams()


def _current_streams() -> _Streams:
    global _streams
    if _streams.generation != _seed.current()[1]:
        _streams = _Streams()
    return _streams


def numpy_stream() -> Any:
    """Return what gives random numbers where Keras takes them from ``np.random``.

    That, as long as no global seed was set; then a ``RandomState`` of that seed, which
    gives what ``np.random.seed`` of it would.
    """
    return _current_streams().numpy if _seed.current()[1] else np.random


def python_stream() -> Any:
    """Return the same for Python's ``random``."""
    return _current_streams().python if _seed.current()[1] else random


def _of(entropy: list[int]) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
