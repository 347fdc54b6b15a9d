# SPDX-License-Identifier: MIT
"""Tries seeds by hand: `python -m fuzz SEED [COUNT]`, in `tests/`."""

from __future__ import annotations

import argparse
import collections
import faulthandler
import time

from .check import Failure, check_program
from .generate import generate
from .minimise import minimise


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--avoid", default="", help="constructions, with commas")
    parser.add_argument("--show", action="store_true", help="print the programs")
    parser.add_argument("--plain", action="store_true", help="do not minimise")
    parser.add_argument("--each", type=int, default=3, help="programs of one failure")
    options = parser.parse_args()
    avoid = [name for name in options.avoid.split(",") if name]
    faulthandler.enable()
    begin, compared = time.perf_counter(), 0
    failures: collections.Counter[str] = collections.Counter()
    for seed in range(options.seed, options.seed + options.count):
        program = generate(seed, avoid)
        if options.show:
            print(program.text(seed, ""))
        try:
            compared += check_program(program, str(seed))
        except Failure as failure:
            key = str(failure)[:60]
            failures[key] += 1
            if failures[key] <= options.each:
                if not options.plain:
                    program, failure = minimise(program, failure)
                print(program.text(seed, str(failure)), flush=True)
    seconds = time.perf_counter() - begin
    print(
        f"{options.count} programs, {compared} compared with differences, "
        f"{sum(failures.values())} failed, {seconds:.1f} s"
    )
    for key, count in failures.most_common():
        print(f"{count:6} {key}")


if __name__ == "__main__":
    main()
