"""Rules of the code base as tests: layers, exports, names, what lies where."""

from __future__ import annotations

import ast
import graphlib
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from grouped import in_groups

import ipu._core
from ipu import keras, tf
from ipu.keras import layers

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "ipu_core"
ROOMS = (
    "base kernels graph trace autodiff passes pipeline memory program machine peers "
    "run data profile bind"
).split()
# of kernels/, likewise
KERNELS = (
    "core math random element pool conv gemm reduce move recurrent attention linear "
    "reference"
).split()
C_FILES = sorted([*CORE.glob("**/*.c"), *CORE.glob("**/*.h")])


@in_groups(C_FILES)
def test_a_room_includes_only_rooms_above_it(path: Path) -> None:
    room = path.relative_to(CORE).parts[0]
    for name in re.findall(r'#include "([^"]+)"', path.read_text()):
        if name in ("ops.def", "blis.h"):
            continue
        target = name.split("/")[0]
        assert target in ROOMS, f"{path}: {name} is in no room"
        assert ROOMS.index(target) <= ROOMS.index(room), f"{path} includes {name}"
        if name.endswith("_impl.h"):
            assert target == room, f"{path} includes the private {name}"
        if target == room == "kernels":
            inside = KERNELS.index(name.split("/")[1])
            assert inside <= KERNELS.index(path.parent.name), f"{path} includes {name}"


def test_blis_and_python_have_one_door_each() -> None:
    for path in C_FILES:
        text = path.read_text()
        if "blis.h" in re.findall(r'#include ["<]([^">]+)', text):
            assert path.name == "blis.c"
        if "Python.h" in re.findall(r"#include <([^>]+)", text):
            assert path.parent.name == "bind"


def test_file_names_are_unique() -> None:
    names = [p.name for p in C_FILES]
    assert sorted(set(names)) == sorted(names)


@in_groups(C_FILES)
def test_c_file_has_a_licence_line_and_is_not_too_wide(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert "SPDX-License-Identifier: MIT" in lines[0]
    too_wide = [i for i, line in enumerate(lines, 1) if len(line) > 90]
    assert not too_wide, f"lines {too_wide[:5]}"


def test_comments_of_the_core_name_what_exists() -> None:
    """Comments and the tour are wrong once a file or function they name is gone."""
    texts = {path: path.read_text() for path in [*C_FILES, CORE / "ops.def"]}
    written = [*ROOT.glob("python/**/*.py"), *ROOT.glob("tests/*.py"), *texts]
    files = {"blis.h", "Python.h", *(path.name for path in written)}
    code = "".join(re.sub(r"/\*.*?\*/", "", t, flags=re.S) for t in texts.values())
    names = set(re.findall(r"\w+", code))
    tour = CORE / "README.md"
    comments = [
        (path.name, comment)
        for path, text in texts.items()
        for comment in re.findall(r"/\*.*?\*/", text, flags=re.S)
    ]
    for where, text in [*comments, (tour.name, tour.read_text())]:
        for file in re.findall(r"\b\w+\.(?:c|h|py)\b", text):
            assert file in files, f"{where} names {file}"
        for name in re.findall(r"\bipu__?[a-z]\w+\b(?![*<])", text):
            assert name in names or name.endswith("_"), f"{where} names {name}"


LOCKS = re.compile(
    r"\bthreading\.(Lock|RLock|Condition|Event|Semaphore|BoundedSemaphore|Barrier)\("
    r"|\bfrom threading import|\bqueue\.\w*Queue\(|\bcached_property\b"
)


def files_with(pattern: re.Pattern[str]) -> set[str]:
    """The files of the package with a line that matches, examples left out."""
    package = ROOT / "python" / "ipu"
    return {
        str(path.relative_to(package))
        for path in package.glob("**/*.py")
        if any(
            pattern.search(line) and ">>>" not in line
            for line in path.read_text().splitlines()
        )
    }


def test_locks_of_the_package_are_made_in_one_place() -> None:
    """There a forked child makes them anew."""
    assert files_with(LOCKS) == {"_device/locks.py"}


def test_all_state_of_a_thread_is_in_one_place() -> None:
    pattern = re.compile(r"threading\.local|\bContextVar\(")
    assert files_with(pattern) == {"_device/thread_state.py"}


def test_no_file_ends_the_process() -> None:
    for path in C_FILES:
        for word in re.findall(r"\b(abort|exit|longjmp|setjmp)\s*\(", path.read_text()):
            raise AssertionError(f"{path} calls {word}")


def test_no_file_holds_two_versions() -> None:
    """A merge that was left half done."""
    search = ["git", "grep", "-lE", "^(<{7}|>{7}) "]
    found = subprocess.run(search, cwd=ROOT, capture_output=True, text=True)
    assert found.stdout == ""


def test_the_root_holds_nothing_else() -> None:
    """A test or an example that writes where it stands leaves its files here."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git tree")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    names = {name.split("/")[0] for name in listed if (ROOT / name).exists()}
    known = set("LICENSE README.md pyproject.toml setup.py".split())
    known |= set("benchmarks docs ipu_core python tests".split())
    assert sorted(n for n in names - known if not n.startswith(".")) == []


def test_each_python_is_tested_on_something() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    named = re.findall(r"Programming Language :: Python :: ([\d.]+)", text)
    table = text.partition("[tool.ipu.tested]\n")[2].partition("\n\n")[0]
    assert re.findall(r'^"([\d.]+)" = "', table, re.MULTILINE) == named
    assert f'requires-python = ">={named[0]}"' in text


def test_only_the_init_function_is_exported() -> None:
    table = subprocess.run(
        ["nm", "-D", "--defined-only", ipu._core.__file__],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = {line.split()[-1] for line in table.splitlines() if line.split()}
    ours = {n for n in names if n.startswith(("ipu", "bli", "cblas", "PyInit"))}
    assert ours == {"PyInit__core"}


def test_every_core_function_has_a_docstring_and_a_stub() -> None:
    stub = ast.parse((ROOT / "python" / "ipu" / "_core.pyi").read_text())
    known = {
        n.name for n in stub.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))
    }
    for name in dir(ipu._core):
        if name.startswith("_"):
            continue
        assert getattr(ipu._core, name).__doc__, f"{name} has no docstring"
        assert name in known, f"{name} is not in _core.pyi"


FIRST = """
import importlib, os, sys
import numpy
for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        importlib.import_module(name)
        os._exit(0)
    if os.waitpid(child, 0)[1] != 0:
        sys.exit(f"import {name} fails")
"""

# The rooms of the package from the bottom up: what lies above imports what lies below.
# A module belongs to the row with the longest name that it begins with: `tf.*` is all
# of `tf` that has no other row, `.*` all else, `tf` and `ipu` the packages themselves.
PACKAGE_ROOMS = """
_text _device _config _files _version config
tf._tensor tf._ops tf._images tf._random tf._string_ops tf.dtypes tf.nest tf.errors \
    tf.tensor_shape tf.tensor_spec tf.ragged tf._functions.blocks tf._gradients.slices
tf.* eager tf._ops.ctc tf._ops.matrix_functions tf._ops.special tf._ops.spectral \
    tf._ops.systems tf._ops.tensor_array tf._ops.updates tf._images.boxes \
    tf._random.generator tf._random.experimental keras.initializers keras._arguments \
    keras._names keras._serialization keras._types
tf.data tf.io tf.lookup tf.summary tf.image tf._images.changes ipu_infeed_queue \
    ipu_outfeed_queue
tf tf.test tf._testing
_loops ops loops scopes sharding autoshard gradient_accumulation _reports profiler \
    machine cross_replica_ops ipu_compiler functional_ops pipelining_ops rnn_ops
keras.*
keras.engine keras.callbacks keras._files keras._functions serving
keras.layers
keras keras.models keras.extensions keras.utils keras.backend keras.preprocessing \
    keras.datasets keras.mixed_precision keras._enqueuers keras._splitting \
    keras.config keras.saving keras.ops keras.random
ipu .* _layers _reports.compare _loops.data_files tf.distribute
tf.compat drop_in ipu_estimator ipu_pipeline_estimator _loops.estimator_parts \
    ipu_session_run_hooks _commands __main__
"""
# the imports that go up all the same; this list may only become shorter
UPWARD = """
ipu -> ipu.drop_in
ipu.keras._files.keras2_config -> ipu.keras.layers
ipu.keras._functions -> ipu.keras
ipu.keras.activations -> ipu.keras.layers
ipu.keras.engine.files.saving -> ipu.keras.layers
ipu.keras.engine.training.data_adapter -> ipu.drop_in
ipu.keras.layers -> ipu.keras.models
ipu.tf._functions.function -> ipu.machine
ipu.tf._functions.tracing -> ipu._reports.doctor
ipu.tf._graph.plan -> ipu.scopes
ipu.tf._ops.ctc -> ipu.ops.nn_ops
ipu.tf._ops.normalizations -> ipu.ops.cross_replica_ops
ipu.tf._random.ops -> ipu.tf._graph.mode
ipu.tf._tensor.dispatch -> ipu.tf._graph.mode
ipu.tf.autograph._feed -> ipu.ipu_infeed_queue
ipu.tf.autograph._iterate -> ipu.ipu_infeed_queue
ipu.tf.autograph._iterate -> ipu.tf.data
ipu.tf.autograph._runtime -> ipu._loops.training_loop
"""


@cache
def imports(path: Path) -> tuple[set[str], set[str]]:
    """The modules of the package that a file imports, not for types: all of them, and
    without those that functions import when they are called."""
    tree = ast.parse(path.read_text())
    functions = []
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
        elif isinstance(node, ast.FunctionDef):
            functions.append(node)
    every = imported(tree)
    for function in functions:
        function.body = []
    return every, imported(tree)


def imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for name in (f"{node.module}.{alias.name}" for alias in node.names):
                place = ROOT / "python" / name.replace(".", "/")
                is_module = place.is_dir() or place.with_suffix(".py").exists()
                found.add(name if is_module else node.module)
    return {name for name in found if name.startswith("ipu.") and "_core" not in name}


def package_modules() -> Iterator[tuple[str, Path]]:
    """Each module of the package by its name, with its file."""
    for path in (ROOT / "python").glob("ipu/**/*.py"):
        parts = path.relative_to(ROOT / "python").with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path


def test_no_module_is_imported_in_a_circle() -> None:
    found = {name: imports(path)[1] for name, path in package_modules()}
    graphlib.TopologicalSorter(
        {name: others - {name} for name, others in found.items()}
    ).prepare()


def test_rooms_of_the_package_have_one_order() -> None:
    rows = PACKAGE_ROOMS.replace("\\\n", "").strip().splitlines()
    rank = {name: i for i, row in enumerate(rows) for name in row.split()}

    def room(module: str) -> int:
        name = module.removeprefix("ipu.")
        while name not in rank:
            name = name.rpartition(".")[0]
            if f"{name}.*" in rank:
                return rank[f"{name}.*"]
        return rank[name]

    upward = set()
    for module, path in package_modules():
        upward |= {
            f"{module} -> {other}"
            for other in imports(path)[0]
            if room(other) > room(module)
        }
    assert sorted(upward) == UPWARD.strip().splitlines()


def test_any_public_module_can_be_imported_first() -> None:
    """No module needs another one to be there before it."""
    modules = [name for _, name, _ in pkgutil.iter_modules(ipu.__path__)]
    names = [f"ipu.{name}" for name in modules if not name.startswith("_")]
    done = subprocess.run(
        [sys.executable, "-c", FIRST, *names, "ipu.ops.pipelining_ops"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


LIGHT = """
import sys
import numpy
before = set(sys.modules)
from ipu import keras, tf
keras.Sequential, keras.layers.Dense, tf.data.Dataset
print(*set(sys.modules) - before)
"""


def test_an_import_leaves_out_what_few_programs_need() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60
    )
    found = set(done.stdout.split())
    assert "ipu.keras.layers" in found, done.stderr
    slow = {"csv", "gzip", "html", "socket", "unittest", "urllib.parse"}
    slow |= {"ipu.keras._files.keras3", "ipu.keras.preprocessing", "ipu.keras.utils"}
    slow |= {f"ipu.keras.layers.{name}" for name in layers._LATER}
    slow |= {f"ipu.tf.{name}" for name in ("image", "io", "linalg", "sparse")}
    assert not found & slow


PACKAGES = [ipu, keras, layers, keras.callbacks, tf, tf.data]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_found(package: Any) -> None:
    assert all(hasattr(package, name) for name in package.__all__)


# --- examples

# that examples run is tested where their modules are
WITHOUT_EXAMPLE = ROOT / "tests" / "names_without_example.txt"
# not for users: parts that are imported from elsewhere, and what programs import of old
_INTERNAL = ("ipu.keras.engine", "ipu.drop_in.")
# packages that give out all names of their files
_PACKAGES = (
    "ipu.keras.callbacks",
    "ipu.keras.layers",
    "ipu.keras.metrics",
    "ipu.keras.optimizers",
)
_OWN = ("ipu.keras.layers.experimental", "ipu.keras.optimizers.schedules")


def is_public(module: str) -> bool:
    if any(part.startswith("_") for part in module.split(".")):
        return False
    if module.startswith(_INTERNAL):
        return False
    below = any(module.startswith(f"{package}.") for package in _PACKAGES)
    return not below or module.startswith(_OWN)


def public() -> Iterator[tuple[str, Any]]:
    """Functions and classes of ours under the first name that lists them."""
    seen: set[int] = set()
    walked = pkgutil.walk_packages(ipu.__path__, "ipu.")
    for module in ["ipu", *(info.name for info in walked)]:
        if not is_public(module):
            continue
        found = importlib.import_module(module)
        for name in getattr(found, "__all__", ()):
            value = getattr(found, name)
            own = str(getattr(value, "__module__", ""))
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            if own.startswith("ipu") and id(value) not in seen:
                seen.add(id(value))
                yield f"{module}.{name}", value


def has_example(value: Any) -> bool:
    if inspect.isclass(value) and issubclass(value, Exception):
        return True  # what raises it says when
    text = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    return ">>> " in (text or "")


def test_public_names_have_an_example() -> None:
    """The list of those that have none yet only becomes shorter."""
    names = dict(public())
    assert len(names) > 700 and "ipu.ops.internal_ops.remap" in names
    without = {name for name, value in names.items() if not has_example(value)}
    known = WITHOUT_EXAMPLE.read_text().split()
    assert known == sorted(known)
    assert not without - {*known}, "write an example of these"
    assert not {*known} - without, (
        f"these are no longer to be in {WITHOUT_EXAMPLE.name}"
    )
