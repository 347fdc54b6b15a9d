# SPDX-License-Identifier: MIT
"""The names of a program and all that each is bound to, whatever the order.

A scope is a module, a class or a function. What is assigned to a name anywhere in its
scope may be its value; so a name has several bindings, and one that nobody can follow
(a parameter, the target of a loop) makes the name unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ipu.drop_in import _guards

_GUARDS = (
    _guards.IMPORT_ERRORS
    | _guards.ATTRIBUTE_ERRORS
    | {"NotImplementedError", "TypeError", "UnimplementedError", "ValueError"}
)
_PROBES = ("hasattr", "getattr", "setattr", "delattr")

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Binding(NamedTuple):
    """One thing that a name may stand for.

    Attributes:
        kind: "value" of an expression, what a "with" gives for it, an "import" by its
            full name, a "scope" (function or class), "self" of a class, or "unknown".
        what: The expression, the name or the scope.
        scope: Where an expression is evaluated.
    """

    kind: str
    what: Any = None
    scope: Any = None


UNKNOWN = Binding("unknown")


@dataclass(eq=False)
class Scope:
    """Names of a module, a class or a function.

    Attributes:
        node: What opens it; None for the module.
        parent: The scope around it.
        names: What each name is bound to.
        attributes: Of a class: what methods assign to attributes of ``self``.
        returns: Of a function: the expressions that it returns.
        is_generator: Whether a function yields.
    """

    node: ast.ClassDef | FunctionNode | None = None
    parent: Scope | None = None
    names: dict[str, list[Binding]] = field(default_factory=dict)
    attributes: dict[str, list[Binding]] = field(default_factory=dict)
    returns: list[ast.expr] = field(default_factory=list)
    is_generator: bool = False

    @property
    def is_class(self) -> bool:
        """Whether it is the body of a class."""
        return isinstance(self.node, ast.ClassDef)

    def bindings(self, name: str) -> list[Binding]:
        """Return what a name stands for here; empty where the program does not bind
        it."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not scope.is_class
            if visible and name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return []


class Touch(NamedTuple):
    """An attribute that is read or assigned, or something that is called.

    Attributes:
        node: The attribute, or the call.
        scope: Where.
        guarded: Whether a ``try`` expects it to fail.
        value: What is assigned, where that is one expression.
        part: The cell of a notebook.
    """

    node: ast.Attribute | ast.Call
    scope: Scope
    guarded: bool
    value: ast.expr | None
    part: int | None


class Reader(_guards.GuardVisitor):
    """Walks the parts of a program and notes scopes, bindings and touches.

    Args:
        star: The names that ``from module import *`` gives, with their full names.

    Attributes:
        touches: The program's uses of objects.
        stored: Attributes that are assigned on anything but ``self``.
        probed: Attributes that are asked for by ``hasattr`` and its like, and words
            that are strings of the program.
        part: The cell that is read.
    """

    def __init__(self, star: Callable[[str], dict[str, str]]) -> None:
        super().__init__(_GUARDS)
        self.scope = Scope()
        self.touches: list[Touch] = []
        self.stored: set[str] = set()
        self.probed: set[str] = set()
        self.words: set[str] = set()
        self.defined: set[str] = set()  # what classes of the program have
        self.part: int | None = None
        self._star = star

    def _bind(self, name: str, binding: Binding) -> None:
        scope = self.scope
        scope.names.setdefault(name, []).append(binding)
        if scope.is_class:
            self.defined.add(name)

    def _touch(
        self, node: ast.Attribute | ast.Call, value: ast.expr | None = None
    ) -> None:
        self.touches.append(Touch(node, self.scope, self.is_guarded, value, self.part))

    # --- bindings

    def _assign(self, target: ast.expr, value: ast.expr | None) -> None:
        """Bind a target to an expression; None is a value that nobody can follow."""
        known = UNKNOWN if value is None else Binding("value", value, self.scope)
        if isinstance(target, ast.Name):
            self._bind(target.id, known)
        elif isinstance(target, ast.Attribute):
            self._assign_attribute(target, value, known)
        elif isinstance(target, (ast.Tuple, ast.List)):
            values: list[ast.expr | None] = [None] * len(target.elts)
            if isinstance(value, (ast.Tuple, ast.List)):
                starred = any(
                    isinstance(one, ast.Starred) for one in (*value.elts, *target.elts)
                )
                if not starred and len(value.elts) == len(values):
                    values = list(value.elts)
            for one, its in zip(target.elts, values, strict=True):
                self._assign(one, its)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, None)
        else:
            self.visit(target)

    def _assign_attribute(
        self, target: ast.Attribute, value: ast.expr | None, known: Binding
    ) -> None:
        self.visit(target.value)
        owner = self._class_of(target.value)
        if owner is None:
            self.stored.add(target.attr)
        else:
            self.defined.add(target.attr)
            owner.attributes.setdefault(target.attr, []).append(known)
        self._touch(target, value)

    def _class_of(self, node: ast.expr) -> Scope | None:
        """Return the class whose ``self`` an expression is, where it is one."""
        if isinstance(node, ast.Name):
            found = self.scope.bindings(node.id)
            if len(found) == 1 and found[0].kind == "self":
                owner: Scope = found[0].what
                return owner
        return None

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self._assign(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.visit(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self._assign(node.target, node.value)
        elif self.scope.is_class and isinstance(node.target, ast.Name):
            self._bind(node.target.id, UNKNOWN)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        self._assign(node.target, None)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._assign(node.target, node.value)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        self._assign(node.target, None)
        self.generic_visit(node)

    visit_For = _loop
    visit_AsyncFor = _loop
    visit_comprehension = _loop

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._bind(node.name, UNKNOWN)
        self.generic_visit(node)

    def _capture(self, node: ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self._bind(node.name, UNKNOWN)
        self.generic_visit(node)

    visit_MatchAs = _capture
    visit_MatchStar = _capture

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self._bind(node.rest, UNKNOWN)
        self.generic_visit(node)

    def _outer(self, node: ast.Global | ast.Nonlocal) -> None:
        """Give up names that a function binds outside of it: several bind them."""
        for name in node.names:
            scope: Scope | None = self.scope
            while scope is not None:
                scope.names.setdefault(name, []).append(UNKNOWN)
                scope = scope.parent

    visit_Global = _outer
    visit_Nonlocal = _outer

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            full = alias.name if alias.asname else root
            self._bind(alias.asname or root, Binding("import", full))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            if alias.name == "*":
                for name, full in self._star(module).items():
                    self._bind(name, Binding("import", full))
                continue
            full = f"{module}.{alias.name}"
            known = UNKNOWN if node.level else Binding("import", full)
            self._bind(alias.asname or alias.name, known)

    # --- scopes

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for expression in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(expression)
        inner = Scope(node, self.scope)
        self._bind(node.name, Binding("scope", inner))
        self.scope = inner
        for statement in node.body:
            self.visit(statement)
        self.scope = inner.parent or inner

    def _function(self, node: FunctionNode) -> None:
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None:
                self.visit(default)
        inner = Scope(node, self.scope)
        if not isinstance(node, ast.Lambda):
            for decorator in node.decorator_list:
                self.visit(decorator)
            self._bind(node.name, Binding("scope", inner))
        for one in _parameters(arguments):
            inner.names[one.arg] = [UNKNOWN]
        first = [*arguments.posonlyargs, *arguments.args][:1]
        if first and self.scope.is_class and not isinstance(node, ast.Lambda):
            names = {_last_name(one) for one in node.decorator_list}
            if not names & {"staticmethod", "classmethod"}:
                inner.names[first[0].arg] = [Binding("self", self.scope)]
        self.scope = inner
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        for statement in body:
            self.visit(statement)
        self.scope = inner.parent or inner

    visit_FunctionDef = _function
    visit_AsyncFunctionDef = _function
    visit_Lambda = _function

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.scope.returns.append(node.value)
        self.generic_visit(node)

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> None:
        self.scope.is_generator = True
        self.generic_visit(node)

    visit_Yield = _yield
    visit_YieldFrom = _yield

    # --- what is expected to fail

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            if isinstance(item.optional_vars, ast.Name):
                given = Binding("with", item.context_expr, self.scope)
                self._bind(item.optional_vars.id, given)
            elif item.optional_vars is not None:
                self._assign(item.optional_vars, None)
        self.visit_body(node)

    visit_AsyncWith = visit_With

    # --- touches

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        self._touch(node)

    def visit_Call(self, node: ast.Call) -> None:
        if _last_name(node.func) in _PROBES:
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    self.probed.add(str(argument.value))
        self.generic_visit(node)
        self._touch(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.isidentifier():
            self.words.add(node.value)


def _parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (one for one in (arguments.vararg, arguments.kwarg) if one is not None)


def _last_name(node: ast.expr) -> str:
    """Return the last part of a name: of ``a.b`` it is "b", of ``a.b()`` too."""
    if isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
