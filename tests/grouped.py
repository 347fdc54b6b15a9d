# SPDX-License-Identifier: MIT
"""Checks of many small cases: a test for each group of them.

Ten thousand tests more would have to be collected by each process and reported, which
takes longer than they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

C = TypeVar("C")
SIZE = 40  # cases of a group that nobody named


def in_groups(
    cases: Iterable[C],
    name: Callable[[C], str] = str,
    group: Callable[[C], str] | None = None,
    is_slow: Callable[[C], bool] = lambda case: False,
    before: Callable[[], Any] = lambda: None,
) -> Callable[[Callable[[C], None]], Any]:
    """Make a check of one case a test of each group of cases, all of which it tries.

    Args:
        cases: The cases.
        name: How a case is called.
        group: The name of its group; None for groups of those that come one after the
            other.
        is_slow: Whether it is of the slow tier; those are groups of their own.
        before: Called before each case.
    """
    groups: dict[tuple[str, bool], list[C]] = {}
    for number, case in enumerate(cases):
        key = str(number // SIZE) if group is None else group(case)
        groups.setdefault((key, is_slow(case)), []).append(case)
    slow = pytest.mark.slow
    params = [
        pytest.param(members, id=key + "-large" * large, marks=[slow] * large)
        for (key, large), members in groups.items()
    ]

    def decorate(check: Callable[[C], None]) -> Any:
        def test(members: list[C]) -> None:
            failed: dict[str, Exception] = {}
            for case in members:
                before()
                try:
                    check(case)
                except Exception as error:
                    failed[name(case)] = error
            if failed:
                told = "\n".join(f"{key}: {failed[key]}" for key in failed)
                raise AssertionError(told) from next(iter(failed.values()))

        test.__name__, test.__doc__ = check.__name__, check.__doc__
        return pytest.mark.parametrize("members", params)(test)

    return decorate
