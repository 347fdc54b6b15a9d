"""Builds the extension ``ipu._core`` from ``ipu_core/`` with plain setuptools.

Environment
    IPU_BLIS_ROOT   where BLIS is, in place of the usual places: a folder that has
                    ``libblis.a`` and ``blis.h``, itself or in ``lib`` and ``include``.
    IPU_LAPACK_ROOT where LAPACK is: a folder that has ``liblapack.a``, itself or in
                    ``lib``.
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
from typing import NamedTuple

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CORE = Path("ipu_core")
SANITIZERS = ("address", "undefined", "thread")
NO_BLIS = """
BLIS was not found{where}. On Debian or Ubuntu install it with

    apt-get install libblis-serial-dev

or set IPU_BLIS_ROOT to a folder that holds libblis.a and blis.h.
{refused}"""
NO_LAPACK = """
LAPACK was not found{where}. On Debian or Ubuntu install it with

    apt-get install liblapack-dev

or set IPU_LAPACK_ROOT to a folder that holds liblapack.a.
{refused}"""
NO_COMPILER = """
The C compiler {compiler!r} was not found. On Debian or Ubuntu install one with

    apt-get install build-essential python3-dev

or set CC to the one to use.
"""
BLIS_PROBE = r"""
#include <stdio.h>
#include "blis.h"
int main(void)
{
    float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4] = {0}, one = 1, zero = 0;
    bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, 2, 2, 2, &one, a, 2, 1, b, 2, 1,
              &zero, c, 2, 1);
    const void *context = IPU_BLIS_LOOKUP(BLIS_ARCH_GENERIC);
    (void)context;
    printf("%s", bli_info_get_version_str());
    return !(c[0] == 19 && c[1] == 22 && c[2] == 43 && c[3] == 50);
}
"""
LAPACK_PROBE = r"""
#include <math.h>
#include "kernels/linear/lapack.h"
int main(void)
{
    double a[4] = {2, 1, 1, 2}, values[2], work[64];
    int n = 2, room = 64, integers[64], info;
    dsyevd_("V", "U", &n, a, &n, values, work, &room, integers, &room, &info, 1, 1);
    return !(fabs(values[0] - 1) + fabs(values[1] - 3) < 1e-9);
}
"""
# what gives the context of an architecture: up to BLIS 1, and from BLIS 2 on
LOOKUPS = ("bli_gks_lookup_nat_cntx", "bli_gks_lookup_id")


class DoesNotBuild(RuntimeError):
    """A program with this library and lookup cannot be made."""


class Blis(NamedTuple):
    library: Path
    include: Path
    lookup: str


def compiler() -> list[str]:
    return os.environ.get("CC", "cc").split()


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(NO_COMPILER.format(compiler=command[0])) from None


def blis_candidates() -> list[tuple[Path, Path]]:
    """(library, include folder) pairs to try, best first."""
    pairs: list[tuple[Path, Path]] = []
    root = os.environ.get("IPU_BLIS_ROOT")
    if root:
        base = Path(root)
        for library in (base / "libblis.a", base / "lib" / "libblis.a"):
            for include in (base, base / "include", base / "include" / "blis"):
                pairs.append((library, include))
    triplet = run([*compiler(), "-print-multiarch"]).stdout.strip()
    for prefix in () if root else (Path("/usr"), Path("/usr/local")):
        for folder in ("blis-serial", "blis"):
            pairs.append(
                (
                    prefix / "lib" / triplet / folder / "libblis.a",
                    prefix / "include" / triplet / folder,
                )
            )
        pairs.append((prefix / "lib" / "libblis.a", prefix / "include" / "blis"))
    return [p for p in pairs if p[0].is_file() and (p[1] / "blis.h").is_file()]


def probe(text: str, arguments: list[str], wrong: str) -> str:
    """What a program prints that is built from its text and some libraries.

    Raises:
        DoesNotBuild: It does not build.
        RuntimeError: It computes something else, which `wrong` says.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(text)
        strict = "-Werror=implicit-function-declaration"
        command = [*compiler(), strict, str(source), *arguments]
        built = run([*command, "-lm", "-lpthread", "-o", str(program)])
        if built.returncode != 0:
            lines = [line for line in built.stderr.splitlines() if "error:" in line]
            lines += built.stderr.splitlines()[-1:]
            raise DoesNotBuild(f"a program with it does not build: {lines[0]}")
        ran = run([str(program)])
        if ran.returncode != 0:
            raise RuntimeError(wrong)
        return ran.stdout


def find_blis() -> Blis:
    """The first BLIS that links and multiplies correctly."""
    refused = []
    for library, include in blis_candidates():
        reason = ""
        for lookup in LOOKUPS:
            asked = [f"-DIPU_BLIS_LOOKUP={lookup}", f"-I{include}", str(library)]
            try:
                version = probe(
                    BLIS_PROBE, asked, "it does not multiply two matrices correctly"
                )
            except DoesNotBuild as error:
                reason = reason or str(error)
            except RuntimeError as error:
                reason = str(error)
                break
            else:
                print(f"BLIS {version} at {library}")
                return Blis(library, include, lookup)
        refused.append(f"{library} is there, but {reason}\n")
    root = os.environ.get("IPU_BLIS_ROOT")
    where = f" in IPU_BLIS_ROOT={root}" if root else ""
    raise SystemExit(NO_BLIS.format(where=where, refused="".join(refused)))


def lapack_candidates() -> list[Path]:
    """Libraries to try, best first."""
    root = os.environ.get("IPU_LAPACK_ROOT")
    triplet = run([*compiler(), "-print-multiarch"]).stdout.strip()
    usual = [Path("/usr/lib", triplet, "lapack"), Path("/usr/lib", triplet)]
    usual += [Path("/usr/lib64"), Path("/usr/lib"), Path("/usr/local/lib")]
    folders = [Path(root), Path(root, "lib")] if root else usual
    return [f / "liblapack.a" for f in folders if (f / "liblapack.a").is_file()]


def find_lapack(blis: Blis) -> Path:
    """The first LAPACK that links with this BLIS and finds two eigenvalues."""
    refused = []
    support = [f"-I{CORE}", str(CORE / "kernels" / "linear" / "lapack.c")]
    for library in lapack_candidates():
        asked = [*support, str(library), str(blis.library)]
        try:
            probe(LAPACK_PROBE, asked, "it does not find two eigenvalues correctly")
        except RuntimeError as error:
            refused.append(f"{library} is there, but {error}\n")
        else:
            print(f"LAPACK at {library}")
            return library
    root = os.environ.get("IPU_LAPACK_ROOT")
    where = f" in IPU_LAPACK_ROOT={root}" if root else ""
    raise SystemExit(NO_LAPACK.format(where=where, refused="".join(refused)))


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
        "-Wpedantic",
        # a function that this Python does not have is found here, not at the import
        "-Werror=implicit-function-declaration",
        "-fvisibility=hidden",
        "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION",
        "-DPY_ARRAY_UNIQUE_SYMBOL=ipu_ARRAY_API",
        # every fused form equals the unfused one to the bit
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
        # a loop of few instructions may take twice the time across such a border
        "-falign-loops=32",
        *(["-O0", "-g3"] if debug else ["-O3", "-DNDEBUG", "-g1"]),
        *(["-fno-omit-frame-pointer", *sanitizers()] if sanitizers() else []),
    ]


class BuildExt(build_ext):
    """Compiles sources in parallel.

    The compiler's own dependency files say what a changed header rebuilds.
    """

    def build_extension(self, ext: Extension) -> None:
        import numpy

        blis = find_blis()
        ext.include_dirs = [str(CORE)]
        ext.extra_compile_args = flags()
        # system folders: warnings in these headers are not ours
        for folder in (numpy.get_include(), str(blis.include)):
            ext.extra_compile_args += ["-isystem", folder]
        if blis.lookup != LOOKUPS[0]:
            ext.extra_compile_args.append(f"-DIPU_BLIS_LOOKUP={blis.lookup}")
        ext.extra_objects = [str(find_lapack(blis)), str(blis.library)]
        temporary = Path(self.build_temp)
        temporary.mkdir(parents=True, exist_ok=True)
        exports = temporary / "exports.map"
        exports.write_text("{ global: PyInit__core; local: *; };\n")
        # -gz: lines for backtraces, compressed
        ext.extra_link_args = [f"-Wl,--version-script={exports}", "-gz", *sanitizers()]
        ext.libraries = ["m", "pthread"]
        stamp = " ".join([*compiler(), *ext.extra_compile_args, *ext.include_dirs])
        # pip builds with a NumPy that lies in another temporary folder each time
        stamp = stamp.replace(numpy.get_include(), f"numpy-{numpy.__version__}")

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


def named_for_archives() -> list[str]:
    """What a source archive holds beside the sources of the extension."""
    patterns = {
        "ipu_core": ("**/*.h", "**/*.def", "**/*.md"),
        "tests": ("**/*.py", "**/*.c", "**/*.h", "**/*.json", "**/*.txt"),
        "docs": ("**/*.md", "**/*.svg", "**/*.py", "**/*.ipynb"),
        "benchmarks": ("**/*.py", "**/*.c", "**/*.md"),
    }
    return sorted(
        str(path)
        for folder, inside in patterns.items()
        for pattern in inside
        for path in Path(folder).glob(pattern)
    )


def main() -> None:
    os.chdir(Path(__file__).resolve().parent)
    if sys.maxsize < 2**32:
        raise SystemExit("ipu needs a 64-bit Python")
    setup(
        version=version(),
        ext_modules=[
            Extension(
                "ipu._core",
                sources=sorted(map(str, CORE.glob("**/*.c"))),
                depends=named_for_archives(),
            )
        ],
        cmdclass={"build_ext": BuildExt},
    )


if __name__ == "__main__":
    main()
