# SPDX-License-Identifier: MIT
"""Lines and branches of the core that the C programs of `tests/c` reach.

In `tests/`, `python -m mutation.coverage --run`. With files it prints the functions
and lines in them that are never reached.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import defaultdict
from typing import NamedTuple

from core_builds import COMPILER, CORE, ROOT, build_core, libraries, run

FOLDER = ROOT / "build" / "coverage"
_COUNTS = ["-O1", "-g1", "--coverage", "-fprofile-update=prefer-atomic"]


class File(NamedTuple):
    """How often each line, branch of a line, and function has run."""

    lines: dict[int, int]
    branches: dict[tuple[int, int], int]
    functions: dict[str, int]


def run_programs() -> None:
    """Build and run the C programs of `tests/c`."""
    folder = FOLDER / "c"
    objects = build_core(folder, _COUNTS, kernel_flags=["-O2", "-g1"])
    for program in sorted((ROOT / "tests" / "c").glob("test_*.c")):
        binary = str(folder / program.stem)
        search = [f"-I{CORE}", f"-I{program.parent}"]
        command = [*COMPILER, "-std=c11", "-O1", "--coverage", *search, str(program)]
        run([*command, *objects, *libraries(), "-o", binary])
        run([binary], timeout=900)


def counted() -> dict[str, File]:
    """Add up the counts of all programs, by file."""
    files: dict[str, File] = defaultdict(lambda: File({}, {}, {}))
    for data in FOLDER.glob("**/*.gcda"):
        told = run(
            ["gcov", "--json-format", "--stdout", "--branch-probabilities", str(data)],
            cwd=data.parent,
        )
        for one in json.loads(told)["files"]:
            found = re.search(r"ipu_core/((?!kernels|bind).+\.c)$", one["file"])
            if found is None:
                continue
            file = files[found[1]]
            for line in one["lines"]:
                number = line["line_number"]
                file.lines[number] = file.lines.get(number, 0) + line["count"]
                for place, branch in enumerate(line["branches"]):
                    key = (number, place)
                    before = file.branches.get(key, 0)
                    file.branches[key] = before + branch["count"]
            for function in one["functions"]:
                name = function["name"]
                ran = function["execution_count"]
                file.functions[name] = file.functions.get(name, 0) + ran
    return files


def report(files: dict[str, File], shown: list[str]) -> None:
    """Print the figures of each room."""
    rooms: dict[str, list[int]] = defaultdict(lambda: [0] * 6)
    for name, file in sorted(files.items()):
        for room in name.split("/")[0], "all":
            for place, part in enumerate((file.lines, file.branches, file.functions)):
                counts: list[int] = list(part.values())  # type: ignore[attr-defined]
                rooms[room][2 * place] += sum(count > 0 for count in counts)
                rooms[room][2 * place + 1] += len(counts)
        if name in shown:
            for function, ran in file.functions.items():
                if not ran:
                    print(f"{name}: {function} is never called")
            missed = [line for line, ran in sorted(file.lines.items()) if not ran]
            print(f"{name}: lines {missed}")
    print(f"{'room':10} {'lines':>15} {'branches':>15} {'functions':>15}")
    rooms["all"] = rooms.pop("all")
    for room, sums in rooms.items():
        pairs = zip(sums[::2], sums[1::2], strict=True)
        told = [f"{ran:,} {ran / most:6.1%}" for ran, most in pairs if most]
        print(f"{room:10} " + " ".join(f"{one:>15}" for one in told))


def main() -> None:
    """Run the programs where that is asked for, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m mutation.coverage")
    parser.add_argument("files", nargs="*", help="whose missing lines are printed")
    parser.add_argument("--run", action="store_true", help="build and run them first")
    options = parser.parse_args()
    if options.run:
        run_programs()
    report(counted(), options.files)


if __name__ == "__main__":
    main()
