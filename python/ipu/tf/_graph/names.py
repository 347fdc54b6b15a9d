# SPDX-License-Identifier: MIT
"""Names of operations and variables: unique in a graph, with scopes in front."""

from __future__ import annotations

import re

__all__ = ["Names"]

_LEGAL = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")


class Names:
    """The names that a graph has given, and the scope that is in force.

    Attributes:
        scope: What new names begin with: empty, or ``"outer/inner"``.
        opened: How often variable scopes were opened, by full name.
    """

    def __init__(self) -> None:
        self.scope = ""
        self.opened: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def copy(self) -> Names:
        """The names given up to now."""
        made = Names()
        made.scope = self.scope
        made.opened = dict(self.opened)
        made._counts = dict(self._counts)
        return made

    def full(self, name: str) -> str:
        """A name with the scope in front, as it is."""
        if name.endswith("/"):
            return name[:-1]
        return f"{self.scope}/{name}" if self.scope else name

    def unique(self, name: str) -> str:
        """A name that was not given before: ``add``, ``add_1``, ``add_2``, ...

        Raises:
            ValueError: It is no name of a graph.
        """
        if not name or not _LEGAL.fullmatch(name):
            raise ValueError(
                f"'{name}' is not a valid scope name. Names have letters, digits and "
                "_ . / - in them, and begin with a letter, a digit or a point."
            )
        full = self.full(name)
        count = self._counts.get(full, 0)
        self._counts[full] = count + 1
        if count == 0:
            return full
        return self.unique_of(full, count)

    def unique_of(self, full: str, count: int) -> str:
        """The first of ``full_1``, ``full_2``, ... that was not given."""
        while f"{full}_{count}" in self._counts:
            count += 1
        self._counts[f"{full}_{count}"] = 1
        return f"{full}_{count}"
