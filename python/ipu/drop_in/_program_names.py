# SPDX-License-Identifier: MIT
"""The names of TensorFlow's tree that a program's text uses."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import NamedTuple

from ipu.drop_in import _facade, _guards, _table

__all__ = ["Finder", "Found", "Place", "place", "star"]

_ROOTS = frozenset(
    {"ipu", "tensorflow", "tensorflow_core", "keras", "ipu_tensorflow_addons"}
)
_GUARDS = _guards.IMPORT_ERRORS | _guards.ATTRIBUTE_ERRORS


class Place(NamedTuple):
    """A line of a cell of a notebook."""

    cell: int
    line: int

    def __str__(self) -> str:
        return f"{self.line} of cell {self.cell}"


def place(line: int, cell: int | None) -> int | Place:
    """Return a line of a file, or of a notebook's cell."""
    return line if cell is None else Place(cell, line)


@dataclass
class Found:
    """One use of a name.

    Attributes:
        line: Where it is.
        guarded: Whether it is in a ``try`` that expects it to fail.
        imports: Whether an import statement asks for it.
    """

    line: int | Place
    guarded: bool
    imports: bool = False


class Finder(_guards.GuardVisitor):
    """Walks a program; `scopes` says what names stand for, innermost last.

    A name that stands for nothing of TensorFlow's in a scope is None there.
    """

    def __init__(self) -> None:
        super().__init__(_GUARDS)
        self.scopes: list[dict[str, str | None]] = [{}]
        self.found: dict[str, list[Found]] = {}
        self.cell: int | None = None  # the number of the cell that is read

    # --- what names stand for

    def _bind(self, name: str, target: str | None) -> None:
        self.scopes[-1][name] = target

    def _meaning(self, node: ast.AST) -> str | None:
        """Return the full name that an expression of names and attributes stands
        for."""
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

    def _found(self, node: ast.AST, imports: bool = False) -> Found:
        line = place(getattr(node, "lineno", 0), self.cell)
        return Found(line, self.is_guarded, imports)

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
                for name in star(module):
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

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            self.visit(item)
        self.visit_body(node)

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


def star(module: str) -> list[str]:
    """Return what ``from module import *`` binds."""
    entry = _table.entry_of(module)
    return [] if entry is None else _facade.Facade(module, entry).__all__
