# SPDX-License-Identifier: MIT
"""Elements of several iterators by turns, or of one after the other.

Whatever makes elements in Python is an iterator that goes on after an error (`map`,
`filter`, a class with its state), never a generator, which would end with the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


class ByTurns(Iterator[Any]):
    """Blocks of elements of several sources by turns. A source that ends leaves its
    place to the next one, which is opened when the turn comes to it.

    Args:
        cycle: How many are read at a time.
        block: Elements of one before it is the next one's turn.
    """

    def __init__(self, sources: Iterator[Any], cycle: int, block: int) -> None:
        self._sources, self._cycle, self._block = sources, cycle, block
        self._places: list[Any] = []  # grows with the sources there are, up to `cycle`
        self._open = 0  # places with a source
        self._more = True
        self._at = self._given = 0  # whose turn it is, and what it has given in it

    def __next__(self) -> Any:
        while self._more or self._open:
            source = self._source()
            if source is not None:
                element = next(source, None)
                if element is not None:
                    self._given += 1
                    if self._given == self._block:
                        self._pass_on()
                    return element
                self._places[self._at] = None
                self._open -= 1
            self._pass_on()
        raise StopIteration

    def _source(self) -> Any:
        """Return the source whose turn it is; None where there is none for the
        place."""
        if self._at == len(self._places):
            self._places.append(None)
        if self._places[self._at] is None and self._more:
            source = next(self._sources, None)
            self._more = source is not None
            self._open += self._more
            self._places[self._at] = source
        return self._places[self._at]

    def _pass_on(self) -> None:
        self._given = 0
        self._at += 1
        if self._at == self._cycle or (
            self._at == len(self._places) and not self._more
        ):
            self._at = 0
