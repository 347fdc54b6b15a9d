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
from .py_mutants import mutate

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
    """Mutants, by number, and the process that tries them.

    Args:
        names: The names of the mutants, the first of which is none.
        folder: Where the server keeps what it knows.
        tree: What is tested.
        words: More arguments of pytest.
        variables: The environment of the server, beside what there is.
    """

    def __init__(
        self,
        names: list[str],
        folder: Path,
        tree: Path,
        words: list[str],
        variables: dict[str, str],
    ) -> None:
        self.names = names
        asked, self._ask = os.pipe()
        hear, answers = os.pipe()
        os.set_inheritable(asked, True)
        os.set_inheritable(answers, True)
        paths = [str(tree / "python"), str(tree / "tests")]
        command = [sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider"]
        log = (folder / "server.log").open("w")
        self._server = subprocess.Popen(
            [*command, "-p", "no:xdist", *words, "-p", "mutation.server", "-m", _TIERS],
            cwd=tree,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "IPU_MUTATION_FOLDER": str(folder),
                "IPU_MUTATION_PIPES": f"{asked},{answers}",
                **variables,
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
        """Try one with so many seconds of tests; return what became of it."""
        question = {"mutant": self.names.index(name), "seconds": seconds}
        os.write(self._ask, json.dumps(question).encode() + b"\n")
        told: dict[str, Any] = json.loads(self._answers.readline())
        return told

    def wait(self) -> None:
        """Wait until it is known which mutants each test reaches."""
        assert self._answers.readline() == "ready\n", "the server has ended"


@cache
def mutants() -> Mutants:
    """Return the one server of this process for C, which is ready."""
    ignored = [f"--ignore=tests/test_{name}.py" for name in _LEFT_OUT]
    made = Mutants(build(), FOLDER, TREE, [*_TESTS, *ignored], {})
    made.wait()
    return made


def mutants_of_python(files: list[str], tests: list[str]) -> Mutants:
    """Return a server for files of Python, and of the tests of some files."""
    names, first = [""], {}
    for file in files:
        path = ROOT / file
        first[str(path)] = len(names)
        names += mutate(path.read_text(), file, len(names))[1]
    folder = FOLDER / "python"
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "names.json"
    if kept.exists() and json.loads(kept.read_text()) != names:
        (folder / "reach.npz").unlink(missing_ok=True)
    kept.write_text(json.dumps(names))
    variables = {"IPU_MUTATED": json.dumps(first)}
    made = Mutants(names, folder, ROOT, ["-p", "mutation.python", *tests], variables)
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
