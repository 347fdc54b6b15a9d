"""Every C file is clean under gcc and clang with the pedantic warnings on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from test_packaging import setup

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "ipu_core").glob("**/*.c"))
# CPython's type slots hold functions as void *, as POSIX allows and ISO C does not
SLOTS = re.compile(
    r"ipu_core/bind/.*(forbids initialization between function pointer and|"
    r"converts between void pointer and function pointer)"
)


def warnings_of(compiler: str, source: Path, include: Path) -> list[str]:
    done = subprocess.run(
        [
            *(compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic"),
            *("-O2", "-ffp-contract=off", "-c", str(source), "-o", os.devnull),
            *(f"-I{ROOT / 'ipu_core'}", "-isystem", str(include)),
            *("-isystem", sysconfig.get_path("include")),
            *("-isystem", np.get_include()),
            "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION",
            "-DPY_ARRAY_UNIQUE_SYMBOL=ipu_ARRAY_API",
        ],
        capture_output=True,
        text=True,
    )
    found = re.findall(r"^.*\b(?:warning|error): .*$", done.stderr, re.MULTILINE)
    assert found or done.returncode == 0, done.stderr
    return [line for line in found if not SLOTS.search(line)]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_no_warnings(compiler: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    include = setup.find_blis().include
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda s: warnings_of(compiler, s, include), SOURCES))
    assert [line for lines in found for line in lines] == []
