"""Builds and runs the C unit tests under sanitizers (`-m builds`); in the slow tier
without, too, since all that Python calls is optimised code."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.compiles
COMPILER = os.environ.get("CC", "cc").split()
ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "ipu_core"
PROGRAMS = sorted((ROOT / "tests" / "c").glob("test_*.c"))
BLIS_PLACES = [
    Path("/usr/lib") / triplet / "blis-serial" / "libblis.a"
    for triplet in ("x86_64-linux-gnu", "aarch64-linux-gnu")
]


def _blis() -> tuple[Path, Path]:
    root = os.environ.get("IPU_BLIS_ROOT")
    places = [Path(root, "libblis.a"), Path(root, "lib", "libblis.a")] if root else []
    for library in [*places, *BLIS_PLACES]:
        if library.is_file():
            include = Path(str(library.parent).replace("/lib/", "/include/", 1))
            return library, include
    pytest.skip("BLIS is not where Debian has it, and IPU_BLIS_ROOT is not set")


def _libraries() -> list[str]:
    """What programs of the core link, LAPACK before the BLAS that it calls."""
    blis, _ = _blis()
    root = os.environ.get("IPU_LAPACK_ROOT")
    usual = blis.parent.parent / "lapack" / "liblapack.a"
    places = (
        [Path(root, "liblapack.a"), Path(root, "lib", "liblapack.a")] if root else []
    )
    for library in [*places, usual]:
        if library.is_file():
            return [str(library), str(blis)]
    pytest.skip("LAPACK is not where Debian has it, and IPU_LAPACK_ROOT is not set")


def _run(command: list[str], **kwargs: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    assert done.returncode == 0, (
        f"{' '.join(command[:3])} ...\n{done.stdout}{done.stderr}"
    )


def _build_core(folder: Path, flags: list[str]) -> list[str]:
    _, include = _blis()
    sources = [p for p in CORE.glob("**/*.c") if p.parent.name != "bind"]

    def compile_one(source: Path) -> str:
        target = folder / f"{source.stem}.o"
        _run(
            [
                *COMPILER,
                "-std=c11",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-Wno-maybe-uninitialized",
                "-ffp-contract=off",
                "-fno-math-errno",
                "-fno-trapping-math",
                *flags,
                f"-I{CORE}",
                "-isystem",
                str(include),
                "-c",
                str(source),
                "-o",
                str(target),
            ]
        )
        return str(target)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return list(pool.map(compile_one, sources))


FLAVOURS = {
    "plain": ["-O2", "-g1"],
    "sanitized": [
        "-O1",
        "-g1",
        "-fsanitize=address,undefined",
        "-fno-omit-frame-pointer",
    ],
    "threads": ["-O1", "-g1", "-fsanitize=thread"],
}
_built: dict[str, list[str]] = {}


def _core(flavour: str, factory: pytest.TempPathFactory) -> list[str]:
    if flavour not in _built:
        _built[flavour] = _build_core(factory.mktemp(flavour), FLAVOURS[flavour])
    return _built[flavour]


@pytest.mark.parametrize(
    "flavour",
    [
        pytest.param("sanitized", marks=pytest.mark.builds),
        pytest.param("plain", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_c_unit(
    program: Path, flavour: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    run_unit(program, flavour, tmp_path_factory)


def run_unit(
    program: Path, flavour: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Build a program with the core, once for each flavour, and run it."""
    objects = _core(flavour, tmp_path_factory)
    binary = tmp_path_factory.mktemp("bin") / program.stem
    _run(
        [
            *COMPILER,
            "-std=c11",
            "-Wall",
            "-Wextra",
            *FLAVOURS[flavour],
            f"-I{CORE}",
            f"-I{ROOT / 'tests' / 'c'}",
            str(program),
            *objects,
            *_libraries(),
            "-lm",
            "-lpthread",
            "-o",
            str(binary),
        ]
    )
    env = {
        **os.environ,
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "TSAN_OPTIONS": "halt_on_error=1",
    }
    _run([str(binary)], env=env, timeout=900)
