# SPDX-License-Identifier: MIT
"""The C programs of `tests/c` on the core with mutants, as tests of the server's.

`python -m mutation.c_programs`, in the `tests` of the copied tree, builds them, with
`--sanitized` under the address and undefined-behaviour sanitizers. They can try mutants
without the server, too, which takes much longer to begin.
"""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from core_builds import COMPILER, CORE, ROOT, build_core, libraries, run

from .build import FOLDER, SWITCH

_PROGRAMS = sorted((ROOT / "tests" / "c").glob("test_*.c"))
_MOST_SECONDS = {"test_processes": 10}


def _folder(is_sanitized: bool) -> Path:
    return FOLDER / ("c-sanitized" if is_sanitized else "c")


def build(is_sanitized: bool) -> None:
    """Compile the core, and each program with it."""
    folder = _folder(is_sanitized)
    plain = ["-O1", "-w", "-DNDEBUG"]
    sanitizers = ["-fsanitize=address,undefined"] if is_sanitized else []
    objects = build_core(folder, [*plain, *sanitizers], kernel_flags=plain)
    newest = max(Path(one).stat().st_mtime for one in objects)
    for program in _PROGRAMS:
        built = folder / program.stem
        changed = max(newest, program.stat().st_mtime)
        if built.exists() and built.stat().st_mtime > changed:
            continue
        search = [f"-I{CORE}", f"-I{program.parent}"]
        options = ["-std=c11", "-O1", "-w", "-DCHECK_STOPS", *sanitizers, *search]
        command = [*COMPILER, *options, str(program), *objects]
        run([*command, *SWITCH, *libraries(), "-o", str(built)])


@pytest.mark.parametrize("program", _PROGRAMS, ids=lambda program: program.stem)
def test_program(program: Path) -> None:
    run([str(FOLDER / "c" / program.stem)])


def _spent() -> float:
    """Return the processor time of all programs so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Programs:
    """Those of two seconds of processor time, as a rule, which try a mutant alone."""

    def __init__(self, names: list[str], is_sanitized: bool) -> None:
        self.names = names
        self.folder = _folder(is_sanitized)
        self.switch = self.folder / "switch"
        self.reached: dict[str, Any] = {}
        self.seconds: dict[str, float] = {}
        self.last: dict[str, list[str]] = {}  # killers by function and file
        for program in (path.stem for path in _PROGRAMS):
            self.switch.unlink(missing_ok=True)
            begin = _spent()
            most = _MOST_SECONDS.get(program, 2) * (3 if is_sanitized else 1)
            if self._ends(program, 0, 60.0, most) is None:
                self.seconds[program] = _spent() - begin
                page = np.fromfile(self.switch, np.uint8)
                self.reached[program] = page[4 : 4 + len(names)].copy()

    def _ends(
        self, program: str, mutant: int, patience: float, most: int = 60
    ) -> str | None:
        """Run one, for so many seconds of processor time; return how it failed."""
        with self.switch.open("r+b" if self.switch.exists() else "wb") as page:
            page.write(mutant.to_bytes(4, "little"))
        running = subprocess.Popen(
            [str(self.folder / program)],
            env={
                **os.environ,
                "IPU_SWITCH_FILE": str(self.switch),
                "UBSAN_OPTIONS": "halt_on_error=1",
            },
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (most, most)),
        )
        for _ in range(int(patience / 0.25)):  # what stops both hardly counts
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = running.wait(0.25)
                known = {0: None, 1: "failed"}
                return known.get(code, f"ended with {code}")
        running.kill()
        running.wait()
        return "hang"

    def attempt(self, name: str, seconds: float) -> dict[str, Any]:
        """Try one with those that reach it, first the quick and what found others."""
        mutant = self.names.index(name)
        begin = time.monotonic()
        found = [p for p, reached in self.reached.items() if reached[mutant]]
        found.sort(key=lambda program: self.seconds[program])
        scopes = name.split(":")[0], name.split(" ")[0]
        first = [p for scope in scopes for p in self.last.get(scope, [])[::-1]]
        quick = [p for p in found if self.seconds[p] < 0.1]
        order = [p for p in dict.fromkeys([*quick, *first, *found]) if p in found]
        told: dict[str, Any] = {"name": name, "reached": len(found), "ran": 0}
        spent = 0.0
        for program in order:
            if spent > seconds:
                break
            spent += self.seconds[program]
            told["ran"] += 1
            patience = 3 + min(4 * self.seconds[program], 30)
            how = self._ends(program, mutant, patience)
            if how is not None and self._ends(program, 0, 20) is None:
                told["killer"] = (
                    f"tests/mutation/c_programs.py::test_program[{program}]"
                )
                told["how"] = how
                for scope in scopes:
                    known = self.last.setdefault(scope, [])
                    if program in known:
                        known.remove(program)
                    known.append(program)
                break
        return {**told, "seconds": round(time.monotonic() - begin, 2)}


if __name__ == "__main__":
    build("--sanitized" in sys.argv)
