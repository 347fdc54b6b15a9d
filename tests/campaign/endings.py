# SPDX-License-Identifier: MIT
"""The interpreter ends while a small program is under way, or with all it has made.

A child of a Python that has imported everything runs one program, in its main thread
or in one beside it, and ends in one of the ways in which programs end. It does so in
time, with the status of that way, and says nothing but what Python itself says of it.
"""

from __future__ import annotations

import logging
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from forked import Programs

from . import programs
from .programs import PROGRAMS

TESTS = Path(__file__).parents[1]
STEPS = 1000  # more than are made
PATIENCE = 20.0
TEXT = f"""
import sys
sys.path.insert(0, {str(TESTS)!r})
from campaign.endings import run
run(*sys.argv[1:])
"""


class Boom(Exception):
    """What nobody catches."""


def _raises() -> None:
    raise Boom("boom")


# how a program ends: what is called, and the status
WAYS: dict[str, tuple[Callable[[], Any], int]] = {
    "exit": (lambda: sys.exit(3), 3),
    "at once": (lambda: os._exit(4), 4),
    "error": (_raises, 1),
    "end": (lambda: None, 0),
}


def run(name: str, way: str, place: str, number: str) -> None:
    """Run a program up to a moment, and end; the text of a child calls it.

    Args:
        name: Of the program.
        way: One of `WAYS`.
        place: "call", of the user's code in the program; "beside" a thread that
            runs it; "after" some steps of it.
        number: Of the call or of the steps; milliseconds, beside.
    """
    import h5py  # noqa: F401  (not while the interpreter ends: it crashes then)
    from simulated_ipus import attach

    act, _ = WAYS[way]
    logging.disable()
    if (made := PROGRAMS[name]()).ipus > 1:
        attach(made.ipus)
        made = PROGRAMS[name]()
    sys.modules["__main__"].made = made  # type: ignore[attr-defined]
    if place == "beside":
        threading.excepthook = lambda what: None  # it has lost what it works with
        thread = threading.Thread(target=made.run, args=(STEPS,), daemon=True)
        thread.start()
        time.sleep(int(number) / 1000)
    elif place == "after":
        made.run(int(number))
    else:
        left = iter(range(int(number)))
        programs._hook[:] = [lambda: next(left, None) is None and act()]
        made.run(STEPS)
        programs._hook.clear()  # there were fewer calls
    act()


@cache
def _children() -> Programs:
    made = Programs()
    weakref.finalize(programs.here, made.close)
    return made


def _ends(words: tuple[str, ...], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return _children().run(["-c", TEXT, *words], folder, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        _children.cache_clear()
        raise


def check(seed: int) -> None:
    """End one program at one moment."""
    rng = random.Random(seed)
    name = [*PROGRAMS][seed % len(PROGRAMS)]
    place = rng.choice(["call", "beside", "after"])
    ways = [way for way in WAYS if way != "end" or place != "call"]
    way = rng.choice(ways)
    most = {"call": 30, "beside": 400, "after": 3}[place]
    words = name, way, place, str(rng.randint(1, most))
    with tempfile.TemporaryDirectory() as folder:
        done = _ends(words, Path(folder))
    error = re.sub(r"(?s)Traceback .*\bBoom: .*\bboom\n", "", done.stderr)
    assert not error, f"{words}: {error}"
    assert done.returncode == WAYS[way][1], f"{words}: {done.returncode}"
