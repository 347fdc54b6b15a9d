# SPDX-License-Identifier: MIT
"""Which TensorFlow, IPU and Keras names a program uses, found without running it.

The imports say which names of the program stand for modules of TensorFlow's tree, also
through plain assignments (``layers = tf.keras.layers``). Every chain of attributes that
starts at one of them is a use; it is there when the drop-in modules can resolve it.
What an object does once it has been made is not followed.
"""

from __future__ import annotations

import ast
import os
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ipu import _later, drop_in
from ipu._missing import MissingModuleError
from ipu.drop_in import _check_calls, _facade, _guards, _notebooks, _table

__all__ = ["Report", "Use", "check_file", "check_source", "program_files"]

_ROOTS = frozenset({"tensorflow", "tensorflow_core", "keras", "ipu_tensorflow_addons"})
_SKIPPED = frozenset({"__pycache__", "node_modules", "build", "dist"})
_GUARDS = _guards.IMPORT_ERRORS | _guards.ATTRIBUTE_ERRORS


@dataclass
class Use:
    """One name, or one argument of a call that cannot work.

    Attributes:
        name: The full TensorFlow name; of an argument ``name(argument=)``.
        there: Whether ``ipu`` has it.
        guarded: Whether every use is in a ``try`` that expects it to fail.
        unused: Whether a stand-in will do, since the program imports it and no more.
        lines: Where it is used: lines of the file, or of a notebook's cells.
        instead: Why it is missing or refused and what to use, or "".
        refused: Whether it is an argument that the call refuses.
    """

    name: str
    there: bool
    guarded: bool = True
    unused: bool = True
    lines: list[Any] = field(default_factory=list)
    instead: str = ""
    refused: bool = False

    @property
    def state(self) -> str:
        """One word: "ok", "guarded", "unused", "missing" or "refused"."""
        if self.refused:
            return "guarded" if self.guarded else "refused"
        if self.there:
            return "ok"
        if self.guarded:
            return "guarded"
        return "unused" if self.unused else "missing"


@dataclass
class Report:
    """What a file uses.

    Attributes:
        path: The file.
        uses: Its names, those that are missing first.
    """

    path: str
    uses: list[Use]

    def text(self, missing_only: bool = False) -> str:
        """The report for people: one line for each name, then a count.

        Args:
            missing_only: Leave out the names that are there.
        """
        missing = [use for use in self.uses if not use.there]
        shown = missing if missing_only else self.uses
        width = max((len(use.name) for use in shown), default=0)
        lines = [f"{self.path}:"]
        for use in shown:
            where = ", ".join(map(str, use.lines))
            line = f"  {use.state:<8}{use.name:<{width}}  line {where}"
            lines.append(f"{line}  {use.instead}".rstrip())
        refused = [use for use in self.uses if use.refused]
        absent = len(missing) - len(refused)
        count = f"  {len(self.uses) - len(refused)} names, {absent} missing"
        lines.append(count + f", {len(refused)} refused" * bool(refused))
        return "\n".join(lines)


def program_files(paths: Iterable[str]) -> Iterator[str]:
    """The programs that paths name: files as they are, folders with all below.

    Raises:
        FileNotFoundError: A path does not exist.
    """
    for path in paths:
        if not os.path.isdir(path):
            if not os.path.exists(path):
                raise FileNotFoundError(f"there is no file {path!r}")
            yield path
            continue
        for folder, names, files in os.walk(path):
            names[:] = sorted(
                n for n in names if n not in _SKIPPED and not n.startswith(".")
            )
            yield from (
                os.path.join(folder, one)
                for one in sorted(files)
                if one.endswith((".py", _notebooks.SUFFIX))
            )


def check_file(path: str) -> Report:
    """Read a file, or a notebook, and list what it uses.

    Raises:
        OSError: It cannot be read.
        SyntaxError: It is not Python.
        ValueError: It is called a notebook and is none.
    """
    if path.endswith(_notebooks.SUFFIX):
        cells = _notebooks.cells_of(path)
        parts = [(cell.number, cell.source, cell.name) for cell in cells]
        return Report(path, _uses_in(parts))
    with open(path, "rb") as file:
        return Report(path, check_source(file.read(), path))


def check_source(source: str | bytes, path: str = "<source>") -> list[Use]:
    """List the TensorFlow names that a program's text uses.

    Args:
        source: The text.
        path: What to call it in a SyntaxError.

    Returns:
        One :class:`Use` for each name, those that are missing first, then by name.

    Example:
        >>> [use.there for use in check_source("import tensorflow as tf\\ntf.zeros(3)")]
        [True, True]
    """
    return _uses_in([(None, source, path)])


class Place(NamedTuple):
    """A line of a cell of a notebook."""

    cell: int
    line: int

    def __str__(self) -> str:
        return f"{self.line} of cell {self.cell}"


def _uses_in(parts: Iterable[tuple[int | None, str | bytes, str]]) -> list[Use]:
    """The names of a program in parts: the number of the cell, the text, its name."""
    finder = _Finder()
    for cell, source, path in parts:
        finder.cell = cell
        finder.visit(ast.parse(source, path))
    was_installed = drop_in.installed()
    drop_in.install()
    try:
        uses: dict[str, Use] = {}
        for name, found in finder.found.items():
            known, missing = _resolve(name)
            use = uses.setdefault(known, Use(known, not missing))
            use.lines = sorted({*use.lines, *(one.line for one in found)})
            use.guarded &= all(one.guarded for one in found)
            if missing:
                use.unused &= known == name and all(one.imports for one in found)
                use.unused &= _facade.stands_in(known)
                later = _later.lookup(known)
                use.instead = f"{later.topic} {later.instead}".strip()
        for call in finder.calls:
            for use in _refused(call):
                known_use = uses.setdefault(use.name, use)
                known_use.lines = sorted({*known_use.lines, *use.lines})
                known_use.guarded &= use.guarded
    finally:
        if not was_installed:
            drop_in.uninstall()
    return sorted(uses.values(), key=lambda use: (use.there, use.name))


def _refused(call: _Call) -> Iterator[Use]:
    """The arguments that a call refuses, as uses that are not there."""
    function = None if call.name is None else _object(call.name)
    if call.name is not None and function is None:
        return
    name = call.name or f"...{call.method}"
    for argument, why in _check_calls.faults(function, call.method, call.node):
        full = f"{name}({argument}=)"
        lines = [call.found.line]
        yield Use(full, False, call.found.guarded, False, lines, why, refused=True)


def _object(name: str) -> Any:
    """What a chain of names stands for, all of it; None where it is not known."""
    import importlib

    known, missing = _resolve(name)
    if missing or known != name:
        return None
    value: Any = importlib.import_module(name.partition(".")[0])
    for part in name.split(".")[1:]:
        value = getattr(value, part, None)
    return value


def _resolve(name: str) -> tuple[str, bool]:
    """(the part of a chain that names something fixed, whether it is missing)."""
    import importlib

    parts = name.split(".")
    try:
        value: object = importlib.import_module(parts[0])
    except MissingModuleError:
        return parts[0], True
    for n in range(1, len(parts)):
        path = ".".join(parts[: n + 1])
        # of a function or an object only running the program could tell more
        if not isinstance(value, (types.ModuleType, type)):
            return ".".join(parts[:n]), False
        try:
            value = getattr(value, parts[n])
        except AttributeError:
            if not isinstance(value, types.ModuleType):
                return path, True
            try:
                value = importlib.import_module(path)
            except ImportError:
                return path, True
    return name, False


@dataclass
class _Found:
    line: int | Place
    guarded: bool
    imports: bool = False


class _Call(NamedTuple):
    """A call: of a name of TensorFlow's, or of a method of something."""

    name: str | None
    method: str
    node: ast.Call
    found: _Found


class _Finder(ast.NodeVisitor):
    """Walks a program; `scopes` says what names stand for, innermost last.

    A name that stands for nothing of TensorFlow's in a scope is None there.
    """

    def __init__(self) -> None:
        self.scopes: list[dict[str, str | None]] = [{}]
        self.found: dict[str, list[_Found]] = {}
        self.calls: list[_Call] = []
        self.cell: int | None = None  # the number of the cell that is read
        self._guards = 0

    # --- what names stand for

    def _bind(self, name: str, target: str | None) -> None:
        self.scopes[-1][name] = target

    def _meaning(self, node: ast.AST) -> str | None:
        """The full name that an expression of names and attributes stands for."""
        if isinstance(node, ast.Attribute):
            base = self._meaning(node.value)
            return None if base is None else f"{base}.{node.attr}"
        if isinstance(node, ast.Name):
            for scope in reversed(self.scopes):
                if node.id in scope:
                    return scope[node.id]
        return None

    def _use(self, name: str, node: ast.AST, imports: bool = False) -> None:
        self.found.setdefault(name, []).append(self._found(node, imports))

    def _found(self, node: ast.AST, imports: bool = False) -> _Found:
        number = getattr(node, "lineno", 0)
        line = number if self.cell is None else Place(self.cell, number)
        return _Found(line, self._guards > 0, imports)

    # --- imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            ours = root in _ROOTS
            if ours:
                self._use(alias.name, node)
            if alias.asname:
                self._bind(alias.asname, alias.name if ours else None)
            else:
                self._bind(root, root if ours else None)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        ours = node.level == 0 and module.partition(".")[0] in _ROOTS
        for alias in node.names:
            if ours and alias.name == "*":
                self._use(module, node)
                for name in _star(module):
                    self._bind(name, f"{module}.{name}")
                continue
            full = f"{module}.{alias.name}"
            if ours:
                self._use(full, node, imports=True)
            self._bind(alias.asname or alias.name, full if ours else None)

    # --- uses

    def visit_Name(self, node: ast.Name) -> None:
        full = self._meaning(node) if isinstance(node.ctx, ast.Load) else None
        imports = [one for one in self.found.get(full or "", []) if one.imports]
        # where no import was guarded; who guards an import asks for the name later
        if full and imports and not all(one.guarded for one in imports):
            self._use(full, node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self._meaning(node.func)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name is not None or method:
            self.calls.append(_Call(name, method, node, self._found(node)))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        full = self._meaning(node)
        if full is None:
            self.generic_visit(node)
        else:
            self._use(full, node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        meaning = self._meaning(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._bind(target.id, meaning)
            else:
                self.visit(target)

    def visit_Try(self, node: ast.Try) -> None:
        guards = _guards.catches(node, _GUARDS)
        self._guards += guards
        for statement in node.body:
            self.visit(statement)
        self._guards -= guards
        for other in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(other)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item)
        guards = _guards.catches(node, _GUARDS)
        self._guards += guards
        for statement in node.body:
            self.visit(statement)
        self._guards -= guards

    # --- scopes

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    ) -> None:
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        if not isinstance(node, ast.Lambda):
            self._bind(node.name, None)
            for expression in (*node.decorator_list, node.returns):
                if expression is not None:
                    self.visit(expression)
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        for one in every:
            if one.annotation is not None:
                self.visit(one.annotation)
        extra = (arguments.vararg, arguments.kwarg)
        self.scopes.append({one.arg: None for one in (*every, *extra) if one})
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        for statement in body:
            self.visit(statement)
        self.scopes.pop()

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function
    visit_Lambda = _function


def _star(module: str) -> list[str]:
    entry = _table.entry_of(module)
    return [] if entry is None else _facade.Facade(module, entry).__all__
