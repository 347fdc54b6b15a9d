"""Builds and runs the C unit tests under sanitizers (`-m builds`); in the slow tier
without, too, since all that Python calls is optimised code."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from core_builds import COMPILER, CORE, ROOT, build_core, libraries, run

pytestmark = pytest.mark.compiles
PROGRAMS = sorted((ROOT / "tests" / "c").glob("test_*.c"))
FLAVOURS = {
    "plain": ["-O2", "-g1"],
    "sanitized": [
        "-O1",
        "-g1",
        "-fsanitize=address,undefined",
        "-fno-omit-frame-pointer",
    ],
    "threads": ["-O1", "-g1", "-fsanitize=thread"],
}
_built: dict[str, list[str]] = {}


def _core(flavour: str, factory: pytest.TempPathFactory) -> list[str]:
    if flavour not in _built:
        _built[flavour] = build_core(factory.mktemp(flavour), FLAVOURS[flavour])
    return _built[flavour]


@pytest.mark.parametrize(
    "flavour",
    [
        pytest.param("sanitized", marks=pytest.mark.builds),
        pytest.param("plain", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_c_unit(
    program: Path, flavour: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_unit(program, flavour, tmp_path_factory)


def run_unit(
    program: Path, flavour: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Build a program with the core, once for each flavour, and run it."""
    objects = _core(flavour, tmp_path_factory)
    binary = tmp_path_factory.mktemp("bin") / program.stem
    run(
        [
            *COMPILER,
            "-std=c11",
            "-Wall",
            "-Wextra",
            *FLAVOURS[flavour],
            f"-I{CORE}",
            f"-I{ROOT / 'tests' / 'c'}",
            str(program),
            *objects,
            *libraries(),
            "-o",
            str(binary),
        ]
    )
    env = {
        **os.environ,
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "TSAN_OPTIONS": "halt_on_error=1",
    }
    run([str(binary)], env=env, timeout=900)
