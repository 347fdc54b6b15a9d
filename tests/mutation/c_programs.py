# SPDX-License-Identifier: MIT
"""The C programs of `tests/c` on the core with mutants, as tests of the server's.

`python -m mutation.c_programs`, in the `tests` of the copied tree, builds them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from core_builds import COMPILER, CORE, ROOT, build_core, libraries, run

from .build import FOLDER, SWITCH

_PROGRAMS = sorted((ROOT / "tests" / "c").glob("test_*.c"))


def build() -> None:
    """Compile the core, and each program with it."""
    folder = FOLDER / "c"
    objects = build_core(folder, ["-O1", "-w", "-DNDEBUG"])
    newest = max(Path(one).stat().st_mtime for one in objects)
    for program in _PROGRAMS:
        built = folder / program.stem
        changed = max(newest, program.stat().st_mtime)
        if built.exists() and built.stat().st_mtime > changed:
            continue
        search = [f"-I{CORE}", f"-I{program.parent}"]
        command = [*COMPILER, "-std=c11", "-O1", "-w", *search, str(program), *objects]
        run([*command, *SWITCH, *libraries(), "-o", str(built)])


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda program: program.stem)
def test_program(program: Path) -> None:
    run([str(FOLDER / "c" / program.stem)])


if __name__ == "__main__":
    build()
