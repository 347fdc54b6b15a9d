# SPDX-License-Identifier: MIT
"""What editors see: names for completion, and types for mypy and pyright."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import re
import subprocess
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

import ipu

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "typed_program.py"
# modules of others that are offered as TensorFlow does
OTHERS = {"ipu.tf.test.mock"}
# not for completion: IPython calls them, other modules of the package take them
INNER = {
    "ipu": {"load_ipython_extension", "unload_ipython_extension"},
    "ipu.keras.metrics": {"find", "resolve"},
    "ipu.tf.ragged": {"stacked"},
}


def public_modules() -> list[types.ModuleType]:
    """All modules that can be reached from ``ipu`` by names that are listed."""
    found: dict[str, types.ModuleType] = {"ipu": ipu}
    waiting: list[types.ModuleType] = [ipu]
    while waiting:
        module = waiting.pop()
        for name in module.__all__:
            value = getattr(module, name)
            is_module = isinstance(value, types.ModuleType)
            if is_module and f"{module.__name__}.{name}" not in OTHERS:
                assert value.__name__.startswith("ipu."), f"{module.__name__}.{name}"
                if value.__name__ not in found:
                    found[value.__name__] = value
                    waiting.append(value)
    return [found[name] for name in sorted(found)]


def defined(module: types.ModuleType) -> Iterator[str]:
    """The functions and classes that a module's file defines for others."""
    for name, value in vars(module).items():
        is_ours = inspect.isclass(value) or inspect.isfunction(value)
        is_shown = is_ours and not name.startswith("_")
        if is_shown and value.__module__ == module.__name__:
            yield name


def test_dir_has_what_a_module_offers_and_nothing_else() -> None:
    modules = public_modules()
    assert len(modules) > 80
    for module in modules:
        names = dir(module)
        # modules of TensorFlow 1 have what those of TensorFlow 2 have besides
        is_old = module.__name__.startswith("ipu.tf.compat.v1")
        assert set(names) >= {*module.__all__}, module.__name__
        told = f"{module.__name__} needs the line that ipu._text.exports shows"
        assert is_old or set(names) == {*module.__all__}, told
        assert names == sorted(set(names)), module.__name__
        inner = INNER.get(module.__name__, set())
        assert set(defined(module)) - inner <= set(names), module.__name__
        for name in names:
            value = getattr(module, name)
            full = f"{module.__name__}.{name}"
            assert not name.startswith("_") or name == "__version__", full
            home = getattr(value, "__module__", None) or "ipu"
            assert home.split(".")[0] not in ("__future__", "typing", "collections")


def test_type_checkers_know_what_is_gathered() -> None:
    """What is offered without a list is imported as itself, or defined."""
    for module in public_modules():
        text = Path(str(module.__file__)).read_text()
        if re.search("^__all__ = ", text, re.MULTILINE):
            continue
        seen = set(defined(module))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                seen |= {a.name for a in node.names if a.name == a.asname}
                if node.names[0].name == "*":
                    seen |= {*importlib.import_module(str(node.module)).__all__}
            if isinstance(node, ast.Assign):
                seen |= {t.id for t in node.targets if isinstance(t, ast.Name)}
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                seen.add(node.target.id)
        assert set(module.__all__) <= seen, module.__name__


def test_type_checkers_do_not_see_what_finds_names_when_they_are_used() -> None:
    for path in (ROOT / "python").glob("**/*.py"):
        for node in ast.parse(path.read_text()).body:
            name = getattr(node, "name", None)
            assert name not in ("__getattr__", "__dir__"), f"{path} line {node.lineno}"


def test_completion_shows_public_names_alone() -> None:
    completer = pytest.importorskip("IPython.core.completer")
    shown = completer.IPCompleter(namespace={"keras": ipu.keras, "tf": ipu.tf})
    shown.use_jedi = False
    for text, module in (("keras.", ipu.keras), ("tf.data.", ipu.tf.data)):
        found = {one.rpartition(".")[2] for one in shown.attr_matches(text)}
        names = {one for one in found if not one.startswith("__")}
        assert names == {*module.__all__} - {"__version__"}


# --- types


def wrong_lines() -> set[int]:
    lines = PROGRAM.read_text().splitlines()
    return {i for i, line in enumerate(lines, 1) if line.endswith("# wrong")}


def checked(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.builds
def test_mypy_finds_the_wrong_lines_of_a_program_and_none_of_ours() -> None:
    pytest.importorskip("mypy", reason="needs pip install '.[test]'")
    text = checked("mypy", "--strict", "python", str(PROGRAM))
    found = re.findall(r"^(.+\.py):(\d+): error", text, re.MULTILINE)
    path = str(PROGRAM.relative_to(ROOT))
    assert {(file, int(line)) for file, line in found} == {
        (path, line) for line in wrong_lines()
    }, text


@pytest.mark.builds
def test_pyright_finds_the_wrong_lines_of_a_program(tmp_path: Path) -> None:
    if importlib.util.find_spec("basedpyright") is None:
        pytest.skip("needs pip install '.[test]'")
    settings = {
        "include": [str(PROGRAM)],
        # an interpreter that is asked for its folders may answer too late
        "extraPaths": [str(ROOT / "python"), sysconfig.get_path("purelib")],
        "typeCheckingMode": "standard",
    }
    file = tmp_path / "pyrightconfig.json"
    file.write_text(json.dumps(settings))
    text = checked("basedpyright", "--outputjson", "--project", str(file))
    found = [
        one
        for one in json.loads(text)["generalDiagnostics"]
        if one["severity"] == "error"
    ]
    lines = {one["range"]["start"]["line"] + 1 for one in found}
    assert lines == wrong_lines(), "\n".join(
        f"{one['range']['start']['line'] + 1}: {one['message']}" for one in found
    )
