# SPDX-License-Identifier: MIT
"""Threads take turns as a seed says, under `tests/interleave/`'s scheduler.

A seed of the campaign is a scenario and so many schedules of it. It replays, in a
debugger too: ``build/interleave/interleave SCENARIO SEED 1``.
"""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest
from core_builds import CORE, ROOT, build_core, libraries, run

SCHEDULES = 200
_SOURCES = ROOT / "tests" / "interleave"
# atomics call functions of the scheduler's; nothing else is instrumented
_INSTRUMENTED = [
    "-fsanitize=thread",
    *("-mllvm", "-tsan-instrument-memory-accesses=0"),
    *("-mllvm", "-tsan-instrument-func-entry-exit=0"),
    *("-mllvm", "-tsan-instrument-memintrinsics=0"),
]
_WRAPPED = """
    pthread_mutex_lock pthread_mutex_trylock pthread_mutex_unlock pthread_mutex_destroy
    pthread_cond_wait pthread_cond_timedwait pthread_cond_signal pthread_cond_broadcast
    pthread_cond_destroy pthread_create pthread_join pthread_key_create
    pthread_setspecific pthread_getspecific sched_yield clock_gettime nanosleep usleep
""".split()


@cache
def program(folder: Path = ROOT / "build" / "interleave") -> str:
    """Build the scenarios, where something has changed, and return the program."""
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    flags = ["-O1", "-g1", *_INSTRUMENTED]
    objects = build_core(folder / "core", flags, ["clang"])
    search = [f"-I{CORE}", f"-I{ROOT / 'tests' / 'c'}"]
    common = ["clang", "-std=c11", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", *search]
    mine = []
    for name, more in {"interleave": [], "scenarios": _INSTRUMENTED}.items():
        mine.append(str(folder / f"{name}.o"))
        run([*common, *more, "-c", str(_SOURCES / f"{name}.c"), "-o", mine[-1]])
    binary = str(folder / "interleave")
    wrapped = [f"-Wl,--wrap={name}" for name in _WRAPPED]
    run(["clang", "-rdynamic", *mine, *objects, *libraries(), *wrapped, "-o", binary])
    return binary


@cache
def scenarios() -> list[str]:
    """Return the names of all scenarios."""
    return run([program()]).split()


def check(seed: int) -> int:
    """Try the next schedules of a scenario."""
    turn, which = divmod(seed, len(scenarios()))
    first = 1 + turn * SCHEDULES
    run([program(), scenarios()[which], str(first), str(SCHEDULES)])
    return SCHEDULES
