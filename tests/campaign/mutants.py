# SPDX-License-Identifier: MIT
"""A seed is a mutant of the core, those of the files that changed most first.

It holds if a test of the default tier fails, or if it is known to change nothing
(`mutation/equivalent.txt`). The first seed of a worker builds the core and runs the
tests once, to know which mutants each of them reaches.
"""

from __future__ import annotations

from functools import cache

from mutation.client import by_change, equivalents, keep, mutants

SECONDS = 20.0  # of tests for one mutant, the quickest of each file first


@cache
def _order() -> list[str]:
    return by_change(mutants().names)


def check(seed: int) -> None:
    """Try a mutant."""
    if seed >= len(_order()):
        return
    told = mutants().attempt(_order()[seed], SECONDS)
    keep(told)
    if "killer" not in told and told["name"] not in equivalents():
        ran = f"{told['ran']} of the {told['reached']} tests that reach it"
        raise AssertionError(f"{told['name']}: survives {ran}")
