# SPDX-License-Identifier: MIT
"""Asks the server of mutants, and keeps what it says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from core_builds import ROOT

from .build import FOLDER, TREE, build

RESULTS = FOLDER / "results.jsonl"
_EQUIVALENT = Path(__file__).with_name("equivalent.txt")
# what mostly starts processes, or tries the tests themselves, takes minutes
_LEFT_OUT = """
    absent_names benchmarks campaign check data_fork data_limits differential
    distributed distributed_batch_norm docstrings doctor drop_in editors
    example_notebooks examples image_models interleavings interrupts kept_programs lint
    mnist_command mutation notebook notebook_programs packaging pipeline_interrupts
    readme resuming rules run_command sanitizers serving tracebacks two_spellings
""".split()
# the first pattern is what pytest looks for anyway
_TESTS = ["-o", "python_files=test_*.py c_programs.py", "tests"]
_TIERS = "not slow and not builds and not compiles"


class Mutants:
    """The mutants of the core, and the process that tries them."""

    def __init__(self) -> None:
        self.names = build()
        asked, self._ask = os.pipe()
        hear, answers = os.pipe()
        os.set_inheritable(asked, True)
        os.set_inheritable(answers, True)
        paths = [str(TREE / "python"), str(TREE / "tests")]
        command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"]
        log = (FOLDER / "server.log").open("w")
        self._server = subprocess.Popen(
            [
                *command,
                "-p",
                "no:xdist",
                "-p",
                "mutation.server",
                "-m",
                _TIERS,
                *_TESTS,
                *(f"--ignore=tests/test_{name}.py" for name in _LEFT_OUT),
            ],
            cwd=TREE,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "IPU_MUTATION_FOLDER": str(FOLDER),
                "IPU_MUTATION_PIPES": f"{asked},{answers}",
            },
            pass_fds=(asked, answers),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        log.close()
        os.close(asked)
        os.close(answers)
        self._answers = os.fdopen(hear)

    def attempt(self, name: str, seconds: float) -> dict[str, Any]:
        """Try one with so many seconds of tests; keep and return what became of it."""
        question = {"mutant": self.names.index(name), "seconds": seconds}
        os.write(self._ask, json.dumps(question).encode() + b"\n")
        told: dict[str, Any] = json.loads(self._answers.readline())
        keep(told)
        return told

    def wait(self) -> None:
        """Wait until it is known which mutants each test reaches."""
        assert self._answers.readline() == "ready\n", "the server has ended"


@cache
def mutants() -> Mutants:
    """Return the one server of this process, which is ready."""
    made = Mutants()
    made.wait()
    return made


def keep(told: dict[str, Any]) -> None:
    """Note what became of a mutant."""
    with RESULTS.open("a") as kept:
        kept.write(json.dumps(told) + "\n")


def equivalents() -> dict[str, str]:
    """Return the mutants that change nothing, and why."""
    lines = [line for line in _EQUIVALENT.read_text().splitlines() if line]
    pairs = (line.rsplit(" | ", 1) for line in lines if not line.startswith("#"))
    return {name: reason for name, reason in pairs}


def results() -> dict[str, dict[str, Any]]:
    """Return what is known of each mutant that was tried."""
    if not RESULTS.exists():
        return {}
    told = map(json.loads, RESULTS.read_text().splitlines())
    return {one["name"]: one for one in told}


def by_change(names: list[str]) -> list[str]:
    """Return the mutants, those of the files that changed most before the others."""
    log = ["git", "log", "--numstat", "--format=", "--", "ipu_core"]
    told = subprocess.run(log, cwd=ROOT, capture_output=True, text=True, check=True)
    changed: dict[str, int] = {}
    for line in told.stdout.splitlines():
        more, less, path = line.split("\t")
        file = path.removeprefix("ipu_core/")
        changed[file] = changed.get(file, 0) + int(more) + int(less)
    found = [name for name in names if name]
    return sorted(found, key=lambda name: -changed.get(name.split(" ")[0], 0))
