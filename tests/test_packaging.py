"""Building and packing: BLIS found or not, rebuilds, archives and wheels.

The build is tried on a tree of two small C files with the real ``setup.py``; what takes
a whole build is in the slow tier.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import ipu

ROOT = Path(__file__).resolve().parent.parent


def load_setup() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ipu_setup", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


setup = load_setup()


def run(
    command: list[str], cwd: Path, **settings: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )


# --- BLIS and LAPACK ------------------------------------------------------------------

FAKE_HEADER = """
#define BLIS_NO_TRANSPOSE 0
#define BLIS_ARCH_GENERIC 0
void bli_sgemm(int, int, long, long, long, float *, float *, long, long, float *, long,
               long, float *, float *, long, long);
const char *bli_info_get_version_str(void);
const void *{lookup}(int id);
"""
FAKE_LIBRARY = """
#include "blis.h"
void bli_sgemm(int ta, int tb, long m, long n, long k, float *alpha, float *a, long ra,
               long ca, float *b, long rb, long cb, float *beta, float *c, long rc,
               long cc)
{{
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++)
            for (long p = c[i * rc + j * cc] = 0; p < k; p++)
                c[i * rc + j * cc] +=
                    {factor} * a[i * ra + p * ca] * b[p * rb + j * cb];
}}
const char *bli_info_get_version_str(void) {{ return "2.0-fake"; }}
const void *{lookup}(int id) {{ return 0; }}
"""


def fake_blis(folder: Path, lookup: str, factor: int = 1) -> Path:
    (folder / "include").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "include" / "blis.h").write_text(FAKE_HEADER.format(lookup=lookup))
    source = folder / "fake.c"
    source.write_text(FAKE_LIBRARY.format(lookup=lookup, factor=factor))
    for command in (
        [*setup.compiler(), "-Iinclude", "-c", "fake.c", "-o", "fake.o"],
        ["ar", "rcs", "lib/libblis.a", "fake.o"],
    ):
        done = run(command, folder)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.compiles
@pytest.mark.parametrize("lookup", setup.LOOKUPS)
def test_the_build_learns_which_lookup_blis_has(
    lookup: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fake_blis(tmp_path / "blis", lookup)
    monkeypatch.setenv("IPU_BLIS_ROOT", str(root))
    found = setup.find_blis()
    assert found == (root / "lib" / "libblis.a", root / "include", lookup)


@pytest.mark.compiles
def test_a_missing_blis_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a folder that the user names stands in place of the usual ones
    monkeypatch.setenv("IPU_BLIS_ROOT", str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        setup.find_blis()
    text = str(stop.value)
    assert f"BLIS was not found in IPU_BLIS_ROOT={tmp_path}" in text
    assert "apt-get install libblis-serial-dev" in text
    monkeypatch.delenv("IPU_BLIS_ROOT")
    monkeypatch.setattr(setup, "blis_candidates", lambda: [])
    with pytest.raises(SystemExit, match=r"BLIS was not found\. On Debian or Ubuntu"):
        setup.find_blis()


@pytest.mark.compiles
def test_a_blis_that_computes_nonsense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = fake_blis(tmp_path / "blis", setup.LOOKUPS[0], factor=2)
    monkeypatch.setenv("IPU_BLIS_ROOT", str(root))
    with pytest.raises(SystemExit, match="is there, but it does not multiply two"):
        setup.find_blis()
    (root / "lib" / "libblis.a").write_bytes(b"no archive")
    with pytest.raises(SystemExit, match="is there, but a program with it does not"):
        setup.find_blis()


@pytest.mark.compiles
def test_lapack_is_looked_for_as_blis_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    blis = setup.find_blis()
    usual = setup.find_lapack(blis)
    monkeypatch.setenv("IPU_LAPACK_ROOT", str(usual.parent))
    assert setup.find_lapack(blis) == usual
    monkeypatch.setenv("IPU_LAPACK_ROOT", str(tmp_path))
    with pytest.raises(SystemExit) as stop:
        setup.find_lapack(blis)
    text = str(stop.value)
    assert f"LAPACK was not found in IPU_LAPACK_ROOT={tmp_path}" in text
    assert "apt-get install liblapack-dev" in text
    (tmp_path / "liblapack.a").write_bytes(b"no archive")
    with pytest.raises(SystemExit, match="is there, but a program with it does not"):
        setup.find_lapack(blis)


def test_wrong_settings_of_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPU_SANITIZE", "adress")
    with pytest.raises(SystemExit, match="IPU_SANITIZE=adress: expected one of addr"):
        setup.sanitizers()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SystemExit) as stop:
        setup.find_blis()
    assert "'no-such-compiler' was not found" in str(stop.value)
    assert "apt-get install build-essential" in str(stop.value)


# --- compiling ------------------------------------------------------------------------

ONE = """
#include "room/shared.h"
#include <Python.h>
PyMODINIT_FUNC __attribute__((visibility("default"))) PyInit__core(void)
{ return PyLong_FromLong(SHARED); }
"""


@pytest.fixture
def small_tree(tmp_path: Path) -> Path:
    """A project of two C files, one of which includes a header."""
    tree = tmp_path / "tree"
    (tree / "ipu_core" / "room").mkdir(parents=True)
    (tree / "ipu_core" / "kernels" / "linear").mkdir(parents=True)
    linear = Path("ipu_core", "kernels", "linear")
    for name in ("lapack.h", "lapack.c"):  # the build tries them with LAPACK
        shutil.copy(ROOT / linear / name, tree / linear)
    (tree / "python" / "ipu").mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copy(ROOT / "python" / "ipu" / "_version.py", tree / "python" / "ipu")
    (tree / "ipu_core" / "room" / "shared.h").write_text("#define SHARED 1\n")
    (tree / "ipu_core" / "room" / "one.c").write_text(ONE)
    (tree / "ipu_core" / "room" / "two.c").write_text("int two(void);\n")
    return tree


def build(tree: Path, **settings: str) -> dict[str, int]:
    """Build in place; when each object file was made."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = run(command, tree, **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    return {
        path.stem: path.stat().st_mtime_ns for path in tree.glob("build/**/room/*.o")
    }


@pytest.mark.builds
@pytest.mark.compiles
def test_a_changed_header_rebuilds_what_includes_it(small_tree: Path) -> None:
    first = build(small_tree)
    assert set(first) == {"one", "two"}
    assert build(small_tree) == first
    header = small_tree / "ipu_core" / "room" / "shared.h"
    header.write_text("#define SHARED 2\n")
    second = build(small_tree)
    assert second["one"] > first["one"] and second["two"] == first["two"]
    # other flags rebuild everything
    third = build(small_tree, IPU_DEBUG="1")
    assert third["one"] > second["one"] and third["two"] > second["two"]


@pytest.mark.builds
@pytest.mark.compiles
def test_a_numpy_that_lies_elsewhere_rebuilds_nothing(small_tree: Path) -> None:
    first = build(small_tree)
    elsewhere = small_tree / "elsewhere"  # as in the folder that pip builds in
    elsewhere.mkdir()
    for found in Path(np.__file__).parents[1].glob("numpy*"):
        (elsewhere / found.name).symlink_to(found)
    assert build(small_tree, PYTHONPATH=str(elsewhere)) == first


@pytest.mark.builds
@pytest.mark.compiles
def test_a_function_that_nothing_declares_does_not_build(small_tree: Path) -> None:
    two = small_tree / "ipu_core" / "room" / "two.c"
    two.write_text("int two(void);\nint two(void) { return PyOfAnotherVersion(); }\n")
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = run(command, small_tree)
    assert done.returncode != 0 and "PyOfAnotherVersion" in done.stderr


MEETING = """#!/bin/sh
# each of two compilers waits until the other one has started
case " $* " in *" -c "*)
    touch "{folder}/$$"
    for i in $(seq 200); do
        [ "$(ls "{folder}" | wc -l)" -ge 2 ] && exec cc "$@"
        sleep 0.05
    done
    echo "compiled alone" >&2
    exit 1
esac
exec cc "$@"
"""


@pytest.mark.builds
@pytest.mark.compiles
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core compiles one by one")
def test_sources_compile_in_parallel(small_tree: Path, tmp_path: Path) -> None:
    (tmp_path / "met").mkdir()
    script = tmp_path / "cc"
    script.write_text(MEETING.format(folder=tmp_path / "met"))
    script.chmod(0o755)
    assert set(build(small_tree, CC=str(script))) == {"one", "two"}


# --- archives -------------------------------------------------------------------------


def tracked() -> set[str]:
    """The files of the project."""
    listed = run(["git", "ls-files"], ROOT)
    if listed.returncode != 0:
        pytest.skip("this tree is not a git checkout")
    return set(listed.stdout.splitlines())


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source archive of what is tracked."""
    files = tracked()
    for name in ("build", "setuptools"):
        try:
            if name == "setuptools" and int(version(name).split(".")[0]) < 68:
                pytest.skip(f"setuptools {version(name)} is older than 68")
        except PackageNotFoundError:
            pytest.skip(f"{name} is not installed; it is in the extra 'test'")
    folder = tmp_path_factory.mktemp("sdist")
    for name in files:
        (folder / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, folder / "tree" / name)
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "-o"]
    done = run([*command, str(folder / "dist")], folder / "tree")
    assert done.returncode == 0, done.stdout + done.stderr
    return next((folder / "dist").glob("*.tar.gz"))


@pytest.mark.slow
def test_a_source_archive_holds_the_whole_project(archive: Path) -> None:
    with tarfile.open(archive) as opened:
        files = {m.name.split("/", 1)[1] for m in opened if m.isfile()}
    assert {"README.md", "LICENSE", "ipu_core/ops.def"} <= files
    assert tracked() - files <= {".clang-format", ".gitignore", ".ci/run", ".ci/wheels"}
    made = {"PKG-INFO", "setup.cfg"}
    extra = {f for f in files - tracked() if ".egg-info/" not in f}
    assert extra == made


@pytest.mark.compiles
@pytest.mark.slow
def test_a_source_archive_builds_installs_and_trains(
    archive: Path, tmp_path: Path
) -> None:
    options = ["--no-build-isolation", "--no-deps", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip"]
    done = run([*pip, "wheel", *options, "-w", "wheel", str(archive)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = next((tmp_path / "wheel").glob("ipu-*.whl"))
    inside = {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    package = {n.removeprefix("python/") for n in tracked() if n.startswith("python/")}
    assert inside == package | {f"ipu/_core{suffix}"}

    fresh = tmp_path / "fresh"
    done = run([sys.executable, "-m", "venv", str(fresh)], tmp_path)
    assert done.returncode == 0, done.stderr
    python = str(fresh / "bin" / "python")
    done = run([python, "-m", "pip", "install", *options, str(wheel)], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    # NumPy and the other dependencies come from the environment of the tests
    site = next((fresh / "lib").glob("python*")) / "site-packages"
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    code = (
        "import ipu, numpy as np; from ipu import keras; print(ipu.__file__);"
        "m = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))]);"
        "m.compile('sgd', 'mse');"
        "m.fit(np.ones((8, 2), 'f4'), np.ones((8, 1), 'f4'), batch_size=4, verbose=0)"
    )
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ran = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=clean, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(fresh))


def test_the_package_is_its_own_through_a_link(tmp_path):
    """AutoGraph converts the user's functions, not those it is made of."""
    link = tmp_path / "python"
    link.symlink_to(Path(ipu.__file__).parents[1])
    code = f"""
import sys
sys.path.insert(0, {str(link)!r})
from ipu import keras, tf
keras.layers.Dense(2)(tf.ones((1, 3)))
"""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(link)!r}); {code}",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr


# --- what is installed ----------------------------------------------------------------

WITHOUT_EXTRAS = """
import importlib, pkgutil, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {extras!r}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Absent())
import ipu
for module in pkgutil.walk_packages(ipu.__path__, "ipu."):
    try:
        module.name.endswith("__main__") or importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        if error.name not in {stand_ins!r}:
            raise
"""


def test_every_module_can_be_imported_without_an_extra(tmp_path: Path) -> None:
    """Whoever installs `ipu` alone gets no error from what he does not use."""
    extras = (
        "google google_crc32c h5py matplotlib pandas PIL sklearn tensorboard".split()
    )
    text = WITHOUT_EXTRAS.format(extras=extras, stand_ins=["absl", "absl.testing"])
    done = run([sys.executable, "-W", "ignore", "-c", text], tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
