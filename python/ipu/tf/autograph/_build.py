# SPDX-License-Identifier: MIT
"""Syntax trees from text with holes, at a line of the user's file."""

from __future__ import annotations

import ast
from collections.abc import Sequence

# the name under which converted code finds `_runtime`
RUNTIME = "ag__"


class _Fill(ast.NodeTransformer):
    def __init__(self, parts: dict[str, ast.expr | Sequence[ast.stmt]]) -> None:
        self.parts = parts

    def visit_Expr(self, node: ast.Expr) -> ast.stmt | list[ast.stmt]:
        if isinstance(node.value, ast.Name):
            part = self.parts.get(node.value.id)
            if part is not None and not isinstance(part, ast.expr):
                return list(part)
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        part = self.parts.get(node.id)
        return part if isinstance(part, ast.expr) else node


def _place(node: ast.AST, at: ast.AST) -> None:
    line = getattr(at, "lineno", 1)
    column = getattr(at, "col_offset", 0)
    for child in ast.walk(node):
        if isinstance(child, (ast.stmt, ast.expr, ast.arg)):
            # on one line: a call takes its line from the end of what it calls
            child.lineno = child.end_lineno = line
            child.col_offset = child.end_col_offset = column


def statements(
    text: str, at: ast.AST, **parts: ast.expr | Sequence[ast.stmt]
) -> list[ast.stmt]:
    """Parse statements; a name that ``parts`` has stands for an expression, or, as a
    statement of its own, for statements.

    Args:
        at: The node whose line the new ones get; the parts keep theirs.
    """
    made = ast.parse(text)
    _place(made, at)
    filled: list[ast.stmt] = _Fill(parts).visit(made).body
    return filled


def expression(text: str, at: ast.AST, **parts: ast.expr) -> ast.expr:
    """Parse an expression; as :func:`statements`."""
    made = ast.parse(text, mode="eval")
    _place(made, at)
    filled: ast.expr = _Fill(dict(parts)).visit(made).body
    return filled


def runtime(function: str, at: ast.AST, *args: ast.expr) -> ast.Call:
    """Return a call of a function of ``_runtime``."""
    call = ast.Call(
        func=expression(f"{RUNTIME}.{function}", at), args=list(args), keywords=[]
    )
    _place_alone(call, at)
    return call


def _place_alone(node: ast.expr, at: ast.AST) -> None:
    node.lineno = node.end_lineno = getattr(at, "lineno", 1)
    node.col_offset = node.end_col_offset = getattr(at, "col_offset", 0)


def and_not(flags: Sequence[str], at: ast.AST, *rest: ast.expr) -> ast.expr:
    """Return ``not a and not b and rest``."""
    terms = [expression(f"not {flag}", at) for flag in flags] + list(rest)
    if len(terms) == 1:
        return terms[0]
    return ast.copy_location(ast.BoolOp(op=ast.And(), values=terms), at)
