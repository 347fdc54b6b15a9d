# SPDX-License-Identifier: MIT
"""Tries the mutants of some files: in `tests/`, `python -m mutation passes/prune.c`.

Without files it prints the figures of all that were tried.
"""

from __future__ import annotations

import argparse
from collections import Counter

from .build import build
from .c_programs import Programs
from .client import equivalents, keep, mutants, results


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
    parser.add_argument("--seconds", type=float, default=20.0, help="of tests, each")
    parser.add_argument("--again", action="store_true", help="those that survived")
    parser.add_argument(
        "--programs",
        action="store_true",
        help="by the C programs alone, which begins at once",
    )
    options = parser.parse_args()
    if options.files:
        done = results()
        programs = Programs(build()) if options.programs else None
        wanted = {file: place for place, file in enumerate(options.files)}
        all_names = programs.names if programs else mutants().names
        names = [n for n in all_names if n.split(" ")[0] in wanted]
        for name in sorted(names, key=lambda name: wanted[name.split(" ")[0]]):
            if name in done and ("killer" in done[name] or not options.again):
                continue
            if options.again and (name not in done or name in equivalents()):
                continue
            if programs is None:
                mutants().attempt(name, options.seconds)
            elif (told := programs.attempt(name, options.seconds))["ran"]:
                keep(told)
    _figures(options.files)


if __name__ == "__main__":
    main()
