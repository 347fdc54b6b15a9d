"""Programs in C of the core and of tests, built without Python."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

COMPILER = os.environ.get("CC", "cc").split()
ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "ipu_core"
BLIS_PLACES = [
    Path("/usr/lib") / triplet / "blis-serial" / "libblis.a"
    for triplet in ("x86_64-linux-gnu", "aarch64-linux-gnu")
]
# of which the other compiler knows nothing; loops that a sanitizer keeps scalar
_FALSE_ALARMS = [
    "-Wno-maybe-uninitialized",
    "-Wno-unknown-warning-option",
    "-Wno-pass-failed",
]
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", *_FALSE_ALARMS]
ARITHMETIC = ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]


def blis() -> tuple[Path, Path]:
    """Return the library and the folder of its header."""
    root = os.environ.get("IPU_BLIS_ROOT")
    places = [Path(root, "libblis.a"), Path(root, "lib", "libblis.a")] if root else []
    for library in [*places, *BLIS_PLACES]:
        if library.is_file():
            include = Path(str(library.parent).replace("/lib/", "/include/", 1))
            return library, include
    pytest.skip("BLIS is not where Debian has it, and IPU_BLIS_ROOT is not set")


def libraries() -> list[str]:
    """Return what programs of the core link, LAPACK before the BLAS that it calls."""
    library, _ = blis()
    root = os.environ.get("IPU_LAPACK_ROOT")
    usual = library.parent.parent / "lapack" / "liblapack.a"
    places = (
        [Path(root, "liblapack.a"), Path(root, "lib", "liblapack.a")] if root else []
    )
    for lapack in [*places, usual]:
        if lapack.is_file():
            return [str(lapack), str(library), "-lm", "-lpthread"]
    pytest.skip("LAPACK is not where Debian has it, and IPU_LAPACK_ROOT is not set")


def run(command: Sequence[str], **kwargs: Any) -> str:
    """Run a command that must succeed; return what it prints."""
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, (
        f"{' '.join(command[:3])} ...\n{done.stdout}{done.stderr}"
    )
    return done.stdout


def build_core(
    folder: Path,
    flags: list[str],
    compiler: list[str] = COMPILER,
    kernel_flags: list[str] | None = None,
) -> list[str]:
    """Compile all of the core but its door to Python; return the objects.

    What stands in the folder and is newer than its source, and than all headers, stays.
    Kernels may have flags of their own: instrumented, some compile for minutes.
    """
    if kernel_flags is None:
        kernel_flags = flags
    _, include = blis()
    folder.mkdir(parents=True, exist_ok=True)
    headers = [*CORE.glob("**/*.h"), CORE / "ops.def"]
    newest = max(header.stat().st_mtime for header in headers)
    sources = [p for p in CORE.glob("**/*.c") if p.parent.name != "bind"]

    def compile_one(source: Path) -> str:
        target = folder / ("_".join(source.relative_to(CORE).parts)[:-2] + ".o")
        changed = max(newest, source.stat().st_mtime)
        if not target.exists() or target.stat().st_mtime <= changed:
            search = [f"-I{CORE}", "-isystem", str(include)]
            own = kernel_flags if CORE / "kernels" in source.parents else flags
            options = ["-std=c11", *WARNINGS, *ARITHMETIC, *own, *search]
            run([*compiler, *options, "-c", str(source), "-o", str(target)])
        return str(target)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(compile_one, sources))
