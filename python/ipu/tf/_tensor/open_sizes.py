# SPDX-License-Identifier: MIT
"""Sizes that depend on values, for graphs of TensorFlow 1 on the host.

A function that is compiled has shapes that are known, and says so where they are not. A
session can run such calls on the host one by one, and sizes are known there. When the
graph is put together nothing is, so each such size is guessed, twice: what differs
between the two results is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ipu import _core
from ipu._core import Tensor
from ipu._device.thread_state import here

E = TypeVar("E", bound=Exception)

_MARK = "_ipu_is_about_values"


class Guess:
    """The values that sizes are taken to have where they depend on values.

    Attributes:
        size: The number.
        was_used: Whether there was such a size.
    """

    def __init__(self) -> None:
        self.size = 0
        self.was_used = False


@contextmanager
def guessing() -> Iterator[Guess]:
    """Open a context in which such sizes are guessed."""
    guess = Guess()
    with here.setting(size_guess=guess):
        yield guess


def take() -> int | None:
    """Return the guess for a size that depends on values; None: that is an error."""
    guess = here.size_guess
    if guess is None or _core.open_trace() is None:
        return None
    guess.was_used = True
    return guess.size


def set_size(size: int) -> None:
    """Choose the number, if sizes are guessed."""
    if here.size_guess is not None:
        here.size_guess.size = size


def about_values(error: E) -> E:
    """Mark an error that would not be one where values are known."""
    setattr(error, _MARK, True)
    return error


def is_about_values(error: BaseException | None) -> bool:
    """Return whether values would have helped."""
    while error is not None:
        if getattr(error, _MARK, False):
            return True
        error = error.__cause__
    return False


def stand_in(dtype: Any, shape: Sequence[int]) -> Tensor:
    """Return a tensor in the place of a result that only values can give."""
    trace = _core.open_trace()
    assert trace is not None
    name: str = getattr(dtype, "name", dtype)
    return trace.parameter((name, tuple(shape)))


def is_guess(*sizes: int) -> bool:
    """Return whether one of these is a size that was guessed."""
    guess = here.size_guess
    return guess is not None and guess.was_used and guess.size in sizes


def guessed(*results: tuple[Any, Sequence[int | None]]) -> Any:
    """Return tensors in the place of results whose sizes are guessed.

    Args:
        *results: For each its dtype and its shape, with None for such a size.
    """
    guess = take()
    assert guess is not None
    made = tuple(
        stand_in(dtype, [guess if size is None else size for size in shape])
        for dtype, shape in results
    )
    return made[0] if len(made) == 1 else made


def guessed_or(error: Exception, *results: tuple[Any, Sequence[int | None]]) -> Any:
    """Return the same, or raise an error, marked, where sizes are not guessed."""
    if take() is None:
        raise about_values(error)
    return guessed(*results)
