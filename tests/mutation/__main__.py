# SPDX-License-Identifier: MIT
"""Tries the mutants of some files: in `tests/`, `python -m mutation passes/prune.c`.

Files of Python are named from the top, with tests: `python -m mutation --tests
tests/test_keras_callbacks.py python/ipu/keras/callbacks/stopping.py`. Without files
it prints the figures of all that were tried.
"""

from __future__ import annotations

import argparse
from collections import Counter

from .build import build
from .c_programs import Programs
from .client import Mutants, equivalents, keep, mutants, mutants_of_python, results


def _figures(files: list[str]) -> None:
    known = equivalents()
    counts: dict[str, Counter[str]] = {}
    for name, one in results().items():
        file = name.split(" ")[0]
        how = "killed" if "killer" in one else "survives"
        if how == "survives" and not one["reached"]:
            how = "not reached"
        how = "equivalent" if name in known and how != "killed" else how
        counts.setdefault(file, Counter()).update([how, "tried"])
        if file in files and how in ("survives", "not reached"):
            print(f"{how}: {name}")
    hows = ["tried", "killed", "equivalent", "survives", "not reached"]
    print(f"{'file':36}" + "".join(f"{how:>12}" for how in hows))
    total: Counter[str] = Counter()
    for file, count in [*sorted(counts.items()), ("all", total)]:
        total.update(count if file != "all" else {})
        print(f"{file:36}" + "".join(f"{count[how]:12,}" for how in hows))


def main() -> None:
    """Try what has not been tried."""
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--tests", action="append", help="a file, for files of Python")
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests, each")
    parser.add_argument("--again", action="store_true", help="those that survived")
    parser.add_argument(
        "--programs",
        action="store_true",
        help="by the C programs alone, which begins at once",
    )
    parser.add_argument(
        "--sanitized", action="store_true", help="the same under sanitizers"
    )
    options = parser.parse_args()
    by_programs = options.programs or options.sanitized
    if options.files:
        done = results()
        tried: Programs | Mutants
        if by_programs:
            tried = Programs(build(options.sanitized), options.sanitized)
        elif options.tests:
            tried = mutants_of_python(options.files, options.tests)
        else:
            tried = mutants()
        wanted = {file: place for place, file in enumerate(options.files)}
        names = [n for n in tried.names if n.split(" ")[0] in wanted]
        for name in sorted(names, key=lambda name: wanted[name.split(" ")[0]]):
            if name in done and ("killer" in done[name] or not options.again):
                continue
            if options.again and (name not in done or name in equivalents()):
                continue
            told = tried.attempt(name, options.seconds)
            if told["ran"] or not by_programs:
                keep(told)
    _figures(options.files)


if __name__ == "__main__":
    main()
