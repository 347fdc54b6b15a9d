# SPDX-License-Identifier: MIT
"""What statements read and write: names, and paths such as ``self.total``.

A symbol is the text of a name, of an attribute of a symbol, or of an item of a symbol
under a constant key. Which of them are still to be read is found by a backward walk
over structured code: jumps are lowered before (``_jumps.py``), so that what is left is
sequences, branches and loops. It is kept for each ``if``, ``while`` and ``for``, for
the conversion of control flow to tell which values enter and leave it.
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
    """Return the names that a function's body makes local to it, without its
    parameters."""
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


class Live:
    """What is live around a control-flow statement: before it, after it."""

    def __init__(self, before: set[str], after: set[str]) -> None:
        self.before = before
        self.after = after


class _Walk:
    def __init__(self, functions: dict[str, Access], always: set[str]) -> None:
        self.functions = functions
        self.always = always  # outlive the function: global and nonlocal names
        self.found: dict[ast.stmt, Live] = {}

    def _access(self, *nodes: ast.AST | None) -> Access:
        return access(nodes, self.functions)

    def block(self, body: list[ast.stmt], after: set[str]) -> set[str]:
        live = after
        for statement in reversed(body):
            live = self.statement(statement, live)
        return live

    def _plain(self, node: ast.AST | None, after: set[str]) -> set[str]:
        found = self._access(node)
        killed = {w for w in found.writes if w not in self.always}
        kept = {s for s in after if s not in killed and root(s) not in killed}
        return kept | found.reads

    def statement(self, node: ast.stmt, after: set[str]) -> set[str]:
        if isinstance(node, ast.If):
            body = self.block(node.body, after) | self.block(node.orelse, after)
            before = self._plain(node.test, body)
        elif isinstance(node, ast.While):
            before = self._loop(node.body, node.test, None, after)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            extra = getattr(node, "extra_test", None)
            head = self._loop(node.body, extra, node.target, after)
            before = self._plain(node.iter, head)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            live = self.block(node.body, after)
            for item in reversed(node.items):
                if item.optional_vars is not None:
                    live = self._plain(item.optional_vars, live)
                live = self._plain(item.context_expr, live)
            before = live
        elif isinstance(node, ast.Try):
            before = self._try(node, after)
        elif isinstance(node, ast.Match):
            live = set(after)
            for case in node.cases:
                live |= self._plain(case.pattern, self.block(case.body, after))
                live |= self._access(case.guard).reads
            before = self._plain(node.subject, live)
        else:
            return self._plain(node, after)
        self.found[node] = Live(before, after)
        return before

    def _loop(
        self,
        body: list[ast.stmt],
        test: ast.expr | None,
        target: ast.expr | None,
        after: set[str],
    ) -> set[str]:
        head = set(after) | self._access(test).reads
        while True:
            start = self.block(body, head)
            if target is not None:
                start = self._plain(target, start)
            if start <= head:
                return head
            head |= start

    def _try(self, node: ast.Try, after: set[str]) -> set[str]:
        final = self.block(node.finalbody, after)
        handlers: set[str] = set(final)
        for handler in node.handlers:
            handlers |= self.block(handler.body, final)
            handlers |= self._access(handler.type).reads
        # an exception may come before anything in the body was assigned
        body = self.block(node.body, self.block(node.orelse, final) | handlers)
        return body | handlers


def analyse(body: list[ast.stmt], whole: Access) -> dict[ast.stmt, Live]:
    """Find what is live around each compound statement of a function's body."""
    walk = _Walk(whole.functions, whole.declared)
    walk.block(body, set(whole.declared))
    return walk.found
