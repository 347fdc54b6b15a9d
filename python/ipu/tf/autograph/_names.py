# SPDX-License-Identifier: MIT
"""What statements read and write: names, and paths such as ``self.total``.

A symbol is the text of a name, of an attribute of a symbol, or of an item of a symbol
under a constant key.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def symbol(node: ast.expr) -> str | None:
    """Return the symbol that an expression is, or None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = symbol(node.value)
        return None if base is None else f"{base}.{node.attr}"
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        base = symbol(node.value)
        return None if base is None else f"{base}[{node.slice.value!r}]"
    return None


def root(text: str) -> str:
    """Return the name that a symbol starts with."""
    for i, character in enumerate(text):
        if character in ".[":
            return text[:i]
    return text


def expression_of(text: str) -> ast.expr:
    """Return a symbol as an expression that loads it."""
    return ast.parse(text, mode="eval").body


class Access:
    """What some statements or expressions read and write.

    Attributes:
        writes: Symbols; a write of ``a`` is one of ``a.b`` too.
        functions: For each local function, what calling it reads and writes.
        declared: Names that are declared ``global`` or ``nonlocal``.
        global_names: Those that are declared ``global``.
    """

    def __init__(self, functions: dict[str, Access] | None = None) -> None:
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.functions = {} if functions is None else functions
        self.declared: set[str] = set()
        self.global_names: set[str] = set()

    def visit(self, node: ast.AST | None) -> None:
        """Take in a node and all below it that runs with it."""
        if node is None:
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            self._visit_function(node)
        elif isinstance(node, _COMPREHENSIONS):
            self._visit_comprehension(node)
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            self._visit_symbol(node)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.declared.update(node.names)
            if isinstance(node, ast.Global):
                self.global_names.update(node.names)
        elif isinstance(node, ast.ClassDef):
            self._visit_class(node)
        elif isinstance(node, ast.AugAssign):
            self._read_target(node.target)
            self._visit_children(node)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                self.writes.add((alias.asname or alias.name).split(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
            if node.name:
                self.writes.add(node.name)
            self._visit_children(node)
        else:
            self._visit_children(node)

    def _visit_children(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            self.visit(child)

    def _visit_symbol(self, node: ast.Name | ast.Attribute | ast.Subscript) -> None:
        text = symbol(node)
        if not isinstance(node.ctx, ast.Load):
            if text is not None:
                self.writes.add(text)
        elif text is not None:
            self.reads.add(text)
            called = self.functions.get(text)
            if called is not None:
                self.reads |= called.reads
                self.writes |= called.writes
        if not isinstance(node, ast.Name):
            self._visit_children(node)

    def _read_target(self, target: ast.expr) -> None:
        text = symbol(target)
        if text is not None:
            self.reads.add(text)

    def _visit_function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    ) -> None:
        args = node.args
        for default in (*args.defaults, *args.kw_defaults):
            self.visit(default)
        inner = Access(self.functions)
        body: list[ast.AST] = (
            list(node.body) if isinstance(node.body, list) else [node.body]
        )
        for part in body:
            inner.visit(part)
        own = local_names(body, inner) | _argument_names(args)
        called = Access(self.functions)
        called.reads = {s for s in inner.reads if root(s) not in own}
        called.writes = {s for s in inner.writes if s in inner.declared}
        if isinstance(node, ast.Lambda):
            self.reads |= called.reads
            return
        for decorator in node.decorator_list:
            self.visit(decorator)
        self.writes.add(node.name)
        self.functions[node.name] = called
        # it may be called by whoever else it was given to
        self.reads |= called.reads

    def _visit_comprehension(self, node: ast.AST) -> None:
        inner = Access(self.functions)
        inner._visit_children(node)
        targets = Access(self.functions)
        for generator in getattr(node, "generators", []):
            targets.visit(generator.target)
        self.reads |= {s for s in inner.reads if root(s) not in targets.writes}
        self.writes |= inner.writes - targets.writes

    def _visit_class(self, node: ast.ClassDef) -> None:
        inner = Access(self.functions)
        for part in node.body:
            inner.visit(part)
        self.reads |= inner.reads
        for outer in (*node.bases, *node.decorator_list):
            self.visit(outer)
        self.writes.add(node.name)


def _argument_names(args: ast.arguments) -> set[str]:
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {a.arg for a in every if a is not None}


def local_names(body: Iterable[ast.AST], known: Access | None = None) -> set[str]:
    """The names that a function's body makes local to it, without its parameters."""
    if known is None:
        known = access(body)
    return {s for s in known.writes if root(s) == s} - known.declared


def access(
    nodes: Iterable[ast.AST | None], functions: dict[str, Access] | None = None
) -> Access:
    """Return what some nodes read and write."""
    found = Access(functions)
    for node in nodes:
        found.visit(node)
    return found
