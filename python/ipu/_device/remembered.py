# SPDX-License-Identifier: MIT
"""Accounts that were made, so that a program that is asked for again costs nothing."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipu._reports.machine_account import Account

_MOST = 8


class Remembered:
    """The accounts that were asked for last, by what they were made for."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Account] = {}  # the oldest first

    def ask(
        self,
        key: Callable[[], Hashable],
        make: Callable[[], Account],
        find_fixes: Callable[[Account], list[Any]] | None = None,
    ) -> Account:
        """Return an account of the key, whose lists nobody else has.

        Args:
            key: Gives what it is made for; this may change while it is made.
            make: Makes it.
            find_fixes: What it is to find fixes by: it is not kept, since it may hold
                what the account is remembered by.
        """
        now = key()
        made = self._made.pop(now, None)
        if made is None:
            made = make()
            made._find_fixes = None
            now = key()
        self._made[now] = made
        while len(self._made) > _MOST:
            self._made.pop(next(iter(self._made)), None)
        given = copy.copy(made)
        given.steps, given.memories = list(made.steps), list(made.memories)
        given.pipelines = list(made.pipelines)
        given._find_fixes = find_fixes
        return given
