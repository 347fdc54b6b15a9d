# SPDX-License-Identifier: MIT
"""Texts that libFuzzer changes so that they reach more of the core's code.

Under the address and undefined-behaviour sanitizers. The corpus grows in
``build/guided/``; ``tests/guided/*.json`` are small ones that cover most.
"""

from __future__ import annotations

import json
import re
import shutil
from functools import cache

import pytest
from core_builds import CORE, ROOT, build_core, libraries, run

RUNS = {"graph_texts": 2_000, "schedule_texts": 20_000}  # of a seed
_SOURCES = ROOT / "tests" / "guided"
_FOLDER = ROOT / "build" / "guided"
_FLAGS = ["-O1", "-g1", "-fno-omit-frame-pointer"]
_SANITIZERS = "address,undefined"


@cache
def program(target: str) -> str:
    """Build a target, where something has changed, and return the program."""
    if shutil.which("clang") is None:
        pytest.skip("needs clang")
    flags = [*_FLAGS, f"-fsanitize=fuzzer-no-link,{_SANITIZERS}"]
    objects = build_core(_FOLDER / "core", flags, ["clang"], kernel_flags=_FLAGS)
    binary = str(_FOLDER / target)
    flags = [
        *_FLAGS,
        f"-fsanitize=fuzzer,{_SANITIZERS}",
        "-std=c11",
        "-Wall",
        "-Werror",
    ]
    source = str(_SOURCES / f"{target}.c")
    run(["clang", *flags, f"-I{CORE}", source, *objects, *libraries(), "-o", binary])
    return binary


def corpus(target: str) -> list[str]:
    """Return the small corpus, each byte a character."""
    texts: list[str] = json.loads((_SOURCES / f"{target}.json").read_text())
    return texts


@cache
def _words() -> str:
    """Write the words of graphs' texts, for libFuzzer; return the file."""
    ops = re.findall(r"^OP\w*\((\w+)", (CORE / "ops.def").read_text(), re.MULTILINE)
    texts = "".join(text for target in RUNS for text in corpus(target))
    words = {*map(str.lower, ops), *re.findall(r"[a-z_0-9]{2,}[=(]?", texts)}
    path = _FOLDER / "words"
    path.write_text("".join(f'"{word}"\n' for word in sorted(words)))
    return str(path)


def _check(target: str, seed: int) -> int:
    binary = program(target)
    grown = _FOLDER / f"{target}.corpus"
    grown.mkdir(exist_ok=True)
    for number, text in enumerate(corpus(target)):
        (grown / str(number)).write_bytes(text.encode("latin-1"))
    limits = ["-timeout=20", "-rss_limit_mb=4096", "-max_len=2048", "-verbosity=0"]
    options = [
        f"-seed={1 + seed}",
        f"-runs={RUNS[target]}",
        f"-dict={_words()}",
        *limits,
    ]
    prefix = f"-artifact_prefix={_FOLDER}/{target}-"
    run([binary, *options, prefix, str(grown)])
    return RUNS[target]


def check_graph_text(seed: int) -> int:
    """Try so many graphs' texts."""
    return _check("graph_texts", seed)


def check_schedule_text(seed: int) -> int:
    """Try so many schedules' texts."""
    return _check("schedule_texts", seed)
