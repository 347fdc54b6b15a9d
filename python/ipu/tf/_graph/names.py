# SPDX-License-Identifier: MIT
"""Names of operations and variables: unique in a graph, with scopes in front."""

from __future__ import annotations

import re
from typing import NamedTuple

_LEGAL = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


class _Mark(NamedTuple):
    """A moment: how many changes there had been, and the scope in force."""

    changes: int
    scope: str


class Names:
    """The names that a graph has given, and the scope that is in force.

    Attributes:
        scope: What new names begin with: empty, or ``"outer/inner"``.
    """

    def __init__(self) -> None:
        self.scope = ""
        self._counts: dict[str, int] = {}
        self._opened: dict[str, int] = {}  # how often variable scopes were
        # what was there before each change: a mark is a number of changes
        self._changes: list[tuple[dict[str, int], str, int]] = []

    def copy(self) -> Names:
        """Return the names given up to now."""
        return self.as_at(self.mark())

    def mark(self) -> _Mark:
        """This moment, for :meth:`as_at`."""
        return _Mark(len(self._changes), self.scope)

    def as_at(self, mark: _Mark) -> Names:
        """Return the names given up to a moment before."""
        made = Names()
        made.scope = mark.scope
        made._counts = dict(self._counts)
        made._opened = dict(self._opened)
        for changed, key, before in reversed(self._changes[mark.changes :]):
            counts = made._counts if changed is self._counts else made._opened
            counts[key] = before
            if not before:
                del counts[key]
        return made

    def full(self, name: str) -> str:
        """Return a name with the scope in front, as it is."""
        if name.endswith("/"):
            return name[:-1]
        return f"{self.scope}/{name}" if self.scope else name

    def unique(self, name: str) -> str:
        """Return a name that was not given before: ``add``, ``add_1``, ``add_2``, ...

        Raises:
            ValueError: It is not a name of a graph.
        """
        if not name or not _LEGAL.fullmatch(name):
            raise ValueError(
                f"'{name}' is not a valid scope name. Names have letters, digits and "
                "_ . / - in them, and begin with a letter, a digit or a point."
            )
        full = self.full(name)
        count = self._counts.get(full, 0)
        self._set(self._counts, full, count + 1)
        if count == 0:
            return full
        return self._unique_of(full, count)

    def _unique_of(self, full: str, count: int) -> str:
        """Return the first of ``full_1``, ``full_2``, ... that was not given."""
        while f"{full}_{count}" in self._counts:
            count += 1
        self._set(self._counts, f"{full}_{count}", 1)
        return f"{full}_{count}"

    def opened(self, scope: str) -> int:
        """How often a variable scope was opened, by its full name."""
        return self._opened.get(scope, 0)

    def note_opened(self, scope: str) -> None:
        """A variable scope was opened."""
        self._set(self._opened, scope, self.opened(scope) + 1)

    def _set(self, counts: dict[str, int], key: str, count: int) -> None:
        self._changes.append((counts, key, counts.get(key, 0)))
        counts[key] = count
