"""Builds the extension ``ipu._core`` from ``ipu_core/`` with plain setuptools.

Environment
    IPU_BLIS_ROOT   where BLIS is, before the usual places: a folder with ``libblis.a`` and
                    ``blis.h`` in it or in its ``lib`` and ``include``.
    IPU_SANITIZE    ``address``, ``undefined``, ``thread``, or several with commas.
    IPU_DEBUG       ``1``: asserts on, no optimisation.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = Path("ipu_core")
SANITIZERS = ("address", "undefined", "thread")
NO_BLIS = """
BLIS was not found. On Debian or Ubuntu install it with

    apt-get install libblis-serial-dev

or set IPU_BLIS_ROOT to a folder that holds libblis.a and blis.h.
"""
PROBE = r"""
#include <stdio.h>
#include "blis.h"
int main(void)
{
    float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4] = {0}, one = 1, zero = 0;
    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, 2, 2, 2, &one, a, 2, 1, b, 2, 1,
              &zero, c, 2, 1);
    printf("%s", bli_info_get_version_str());
    return !(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
}
"""


def compiler() -> list[str]:
    return os.environ.get("CC", "cc").split()


def blis_candidates() -> list[tuple[Path, Path]]:
    """(library, include folder) pairs to try, best first."""
    pairs: list[tuple[Path, Path]] = []
    root = os.environ.get("IPU_BLIS_ROOT")
    if root:
        base = Path(root)
        for library in (base / "libblis.a", base / "lib" / "libblis.a"):
            for include in (base, base / "include", base / "include" / "blis"):
                pairs.append((library, include))
    triplet = subprocess.run(
        [*compiler(), "-print-multiarch"], capture_output=True, text=True, check=False
    ).stdout.strip()
    for prefix in (Path("/usr"), Path("/usr/local")):
        for folder in ("blis-serial", "blis"):
            pairs.append(
                (
                    prefix / "lib" / triplet / folder / "libblis.a",
                    prefix / "include" / triplet / folder,
                )
            )
        pairs.append((prefix / "lib" / "libblis.a", prefix / "include" / "blis"))
    return [p for p in pairs if p[0].is_file() and (p[1] / "blis.h").is_file()]


def find_blis() -> tuple[Path, Path]:
    """The first BLIS that links and multiplies correctly."""
    for library, include in blis_candidates():
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            program = Path(folder, "probe")
            source.write_text(PROBE)
            command = [
                *compiler(),
                str(source),
                f"-I{include}",
                str(library),
                "-lm",
                "-lpthread",
                "-o",
                str(program),
            ]
            built = subprocess.run(command, capture_output=True, check=False)
            if built.returncode != 0:
                continue
            ran = subprocess.run(
                [str(program)], capture_output=True, text=True, check=False
            )
            if ran.returncode == 0:
                print(f"BLIS {ran.stdout} at {library}")
                return library, include
    raise SystemExit(NO_BLIS)


def sanitizers() -> list[str]:
    asked = [s for s in os.environ.get("IPU_SANITIZE", "").split(",") if s]
    for name in asked:
        if name not in SANITIZERS:
            raise SystemExit(
                f"IPU_SANITIZE={name}: expected one of {', '.join(SANITIZERS)}"
            )
    return [f"-fsanitize={','.join(asked)}"] if asked else []


def flags() -> list[str]:
    debug = os.environ.get("IPU_DEBUG") == "1"
    return [
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-fvisibility=hidden",
        "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION",
        "-DPY_ARRAY_UNIQUE_SYMBOL=ipu_ARRAY_API",
        # every fused form equals the unfused one to the bit
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
        *(["-O0", "-g3"] if debug else ["-O3", "-DNDEBUG", "-g1"]),
        *(["-fno-omit-frame-pointer", *sanitizers()] if sanitizers() else []),
    ]


class BuildExt(build_ext):
    """Compiles sources in parallel; the compiler's own dependency files say what a
    changed
    header rebuilds."""

    def build_extension(self, ext: Extension) -> None:
        import numpy

        library, blis_include = find_blis()
        ext.include_dirs = [str(CORE), numpy.get_include()]
        # a system folder: warnings in BLIS's header are not ours
        ext.extra_compile_args = [*flags(), "-isystem", str(blis_include)]
        ext.extra_objects = [str(library)]
        ext.extra_link_args = ["-Wl,--exclude-libs,ALL", *sanitizers()]
        ext.libraries = ["m", "pthread"]
        temporary = Path(self.build_temp)
        stamp = " ".join([*compiler(), *ext.extra_compile_args, *ext.include_dirs])

        def build(source: str) -> str:
            target = temporary / (source[:-2] + ".o")
            command = temporary / (source[:-2] + ".cmd")
            rules = temporary / (source[:-2] + ".d")
            if not stale(target, rules) and read(command) == stamp:
                return str(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            self.compiler.compile(
                [source],
                output_dir=str(temporary),
                include_dirs=ext.include_dirs,
                extra_postargs=[*ext.extra_compile_args, "-MMD", "-MF", str(rules)],
            )
            command.write_text(stamp)
            return str(target)

        # the include folders of Python itself
        ext.include_dirs += self.compiler.include_dirs
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(build, sorted(ext.sources)))
        path = self.get_ext_fullpath(ext.name)
        self.compiler.link_shared_object(
            objects + ext.extra_objects,
            path,
            libraries=ext.libraries,
            extra_postargs=ext.extra_link_args,
            build_temp=self.build_temp,
            target_lang="c",
        )


def read(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def stale(target: Path, rules: Path) -> bool:
    if not target.is_file() or not rules.is_file():
        return True
    built = target.stat().st_mtime
    needed = rules.read_text().replace("\\\n", " ").split(":", 1)[1].split()
    return any(not Path(n).is_file() or Path(n).stat().st_mtime > built for n in needed)


def version() -> str:
    text = Path("python/ipu/_version.py").read_text()
    found = re.search(r'__version__ = "(.+)"', text)
    if found is None:
        raise SystemExit("python/ipu/_version.py has no __version__")
    return found.group(1)


os.chdir(Path(__file__).resolve().parent)
if sys.maxsize < 2**32:
    raise SystemExit("ipu needs a 64-bit Python")
setup(
    version=version(),
    ext_modules=[
        Extension(
            "ipu._core",
            sources=sorted(map(str, CORE.glob("**/*.c"))),
            # named so that a source archive has them
            depends=sorted(
                str(path)
                for pattern in ("**/*.h", "**/*.def", "**/*.md")
                for path in CORE.glob(pattern)
            ),
        )
    ],
    cmdclass={"build_ext": BuildExt},
)
