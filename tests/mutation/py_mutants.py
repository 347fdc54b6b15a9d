# SPDX-License-Identifier: MIT
"""Mutants of Python: each is one change in a function, behind a switch, in one tree.

`_mutant(n)`, a builtin of the process that runs it, notes that it was reached, and is
true where mutant `n` is on.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

_OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_TESTED = (ast.If, ast.While, ast.IfExp, ast.Assert)


class _Mutator(ast.NodeTransformer):
    """Puts the mutants of the functions of a file into its tree."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.names: list[str] = []
        self._scope: list[str] = []
        self._line = ""  # that a constant is in
        self._functions = 0

    def _switch(self, what: str) -> ast.Call:
        number = self.first + len(self.names)
        self.names.append(f"{'.'.join(self._scope)}: {what}")
        call = ast.parse(f"_mutant({number})", mode="eval").body
        assert isinstance(call, ast.Call)
        return call

    # what is no code of a function stays as it is

    def _visit_scope(self, node: Any) -> Any:
        is_function = not isinstance(node, ast.ClassDef)
        self._scope.append(node.name)
        self._functions += is_function
        node.body = [one for old in node.body for one in _listed(self.visit(old))]
        self._functions -= is_function
        self._scope.pop()
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _visit_scope

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        node.body = self.visit(node.body)
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = node.value and self.visit(node.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        """What `zip` is to check holds anyway."""
        return node if node.arg == "strict" else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        """What an error says is not changed, but whether there is one."""
        if not self._functions:
            return node
        return self._without(node, f"{ast.unparse(node)} left out")

    # expressions

    def visit(self, node: ast.AST) -> Any:
        old = copy.deepcopy(node)
        if isinstance(node, ast.stmt):
            self._line = ast.unparse(node).split("\n")[0]
        made = super().visit(node)
        if not self._functions or not isinstance(made, ast.expr):
            return made
        for what, changed in _changes(old):
            is_number = isinstance(old, ast.Constant)
            text = f"{ast.unparse(old)} {what}"
            text += f" in {self._line}" if is_number else ""
            made = ast.IfExp(self._switch(text), changed, made)
        return made

    def generic_visit(self, node: ast.AST) -> ast.AST:
        test = copy.deepcopy(getattr(node, "test", None))
        node = super().generic_visit(node)
        is_tested = isinstance(node, _TESTED) and not _is_opposite(test)
        if self._functions and is_tested:
            switch = self._switch(f"{ast.unparse(test)} negated")
            negated = ast.UnaryOp(ast.Not(), test)
            node.test = ast.IfExp(switch, negated, node.test)
        return node

    # statements

    def _without(self, node: Any, what: str) -> Any:
        switch = ast.UnaryOp(ast.Not(), self._switch(what))
        return ast.If(switch, [node], [])

    def visit_Expr(self, node: ast.Expr) -> Any:
        if isinstance(node.value, ast.Constant):
            return node
        text = ast.unparse(node)
        has_call = self._functions and isinstance(node.value, ast.Call)
        made = self.generic_visit(node)
        return self._without(made, f"{text} left out") if has_call else made

    def _visit_assign(self, node: Any) -> Any:
        text = ast.unparse(node)
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        made = self.generic_visit(node)
        is_name = isinstance(node, ast.Assign) and isinstance(targets[0], ast.Name)
        if not self._functions or is_name or isinstance(targets[0], ast.Tuple):
            return made
        return self._without(made, f"{text} left out")

    visit_Assign = visit_AugAssign = _visit_assign

    def visit_Return(self, node: ast.Return) -> ast.AST:
        text = node.value and ast.unparse(node)
        node = ast.Return(node.value and self.visit(node.value))
        if text and text != "return None":
            none = ast.Constant(None)
            node.value = ast.IfExp(self._switch(f"{text} as None"), none, node.value)
        return node

    def _visit_jump(self, node: Any) -> Any:
        return self._without(node, f"{ast.unparse(node)} left out")

    visit_Break = visit_Continue = _visit_jump


def _listed(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def _is_opposite(test: Any) -> bool:
    """Whether the mutant of a condition's operator is the negated condition."""
    if isinstance(test, ast.UnaryOp):
        return isinstance(test.op, ast.Not)
    is_compared = isinstance(test, ast.Compare) and len(test.ops) == 1
    return is_compared and isinstance(
        test.ops[0], (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    )


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The wrong forms of an expression."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        other = _OTHERS[type(node.ops[0])]
        yield (
            f"-> {other.__name__}",
            ast.Compare(node.left, [other()], node.comparators),
        )
    elif isinstance(node, ast.BinOp) and type(node.op) in _OTHERS:
        if not isinstance(getattr(node.left, "value", 0), str):
            other = _OTHERS[type(node.op)]
            yield f"-> {other.__name__}", ast.BinOp(node.left, other(), node.right)
    elif isinstance(node, ast.BoolOp):
        other = _OTHERS[type(node.op)]
        yield f"-> {other.__name__}", ast.BoolOp(other(), node.values)
        for place, value in enumerate(node.values):
            left = [*node.values[:place], *node.values[place + 1 :]]
            changed = left[0] if len(left) == 1 else ast.BoolOp(node.op, left)
            yield f"without {ast.unparse(value)}", changed
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "negated", node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        if isinstance(node.value, bool):
            yield "-> other", ast.Constant(not node.value)
        else:
            yield "+ 1", ast.Constant(node.value + 1)


def mutate(text: str, file: str, first: int) -> tuple[ast.Module, list[str]]:
    """Return the tree with all mutants, and their names; `first` is the first's number.

    A second change of one text in a function is `change #2`.
    """
    mutator = _Mutator(first)
    tree = ast.fix_missing_locations(mutator.visit(ast.parse(text)))
    seen: Counter[str] = Counter()
    names = []
    for name in mutator.names:
        seen[name] += 1
        place = f" #{seen[name]}" if seen[name] > 1 else ""
        names.append(f"{file} {name}{place}")
    return tree, names
