# SPDX-License-Identifier: MIT
"""The syntax tree of a function: found in its file's, by line and by code.

The whole file is parsed, once, so that indentation, decorators and lambdas in the
middle of an expression need no special care, and every node has the line of the file.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterator
from typing import TypeAlias

__all__ = ["FunctionNode", "SourceError", "find"]

FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda


class SourceError(Exception):
    """The source of a function cannot be had, or cannot be converted."""


class _Files:
    """Parsed files; one is parsed again when its text has changed."""

    def __init__(self) -> None:
        self._trees: dict[str, tuple[str, ast.Module]] = {}

    def tree(self, filename: str, module_globals: dict[str, object]) -> ast.Module:
        text = "".join(linecache.getlines(filename, module_globals))
        if not text:
            raise SourceError(f"the source of {filename} is not available")
        known = self._trees.get(filename)
        if known is not None and known[0] == text:
            return known[1]
        try:
            tree = ast.parse(text, filename)
        except SyntaxError as error:
            raise SourceError(f"{filename} has changed: {error}") from None
        self._trees[filename] = (text, tree)
        return tree


_files = _Files()


def _first_line(node: FunctionNode) -> int:
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        return min(d.lineno for d in node.decorator_list)
    return node.lineno


def _candidates(tree: ast.Module, code: types.CodeType) -> Iterator[FunctionNode]:
    wanted = ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef
    for node in ast.walk(tree):
        if not isinstance(node, wanted) or not isinstance(node, FunctionNode):
            continue
        if isinstance(node, ast.FunctionDef) and node.name != code.co_name:
            continue
        if _first_line(node) != code.co_firstlineno:
            continue
        if _parameters(node.args) == _code_parameters(code):
            yield node


def _parameters(args: ast.arguments) -> tuple[str, ...]:
    """Parameter names in the order of ``co_varnames``."""
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    names += [a.arg for a in (args.vararg, args.kwarg) if a is not None]
    return tuple(names)


def _code_parameters(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return code.co_varnames[:count]


def _same_code(node: FunctionNode, code: types.CodeType) -> bool:
    """Whether a lambda's node compiles to this code (several stand on one line)."""
    if not isinstance(node, ast.Lambda):
        return False
    if hasattr(code, "co_positions"):
        columns = [c for _, _, c, _ in code.co_positions() if c is not None]
        ends = [e for _, _, _, e in code.co_positions() if e is not None]
        if columns and node.end_lineno == node.lineno:
            last = node.end_col_offset or 0
            return node.col_offset <= min(columns[-1:]) and max(ends[-1:]) <= last
    made = compile(ast.Expression(node), code.co_filename, "eval").co_consts[0]
    return bool(
        made.co_code == code.co_code
        and made.co_names == code.co_names
        and made.co_consts == code.co_consts
    )


def find(function: types.FunctionType) -> FunctionNode:
    """Give the node of a function or lambda, in the tree of its file.

    Raises:
        SourceError: There is no source, or it is not clear which node it is.
    """
    code = function.__code__
    tree = _files.tree(code.co_filename, function.__globals__)
    found = list(_candidates(tree, code))
    if len(found) > 1:
        found = [node for node in found if _same_code(node, code)] or found
    if not found:
        raise SourceError(
            f"{function.__qualname__} is not at line {code.co_firstlineno} of "
            f"{code.co_filename}; has the file changed since it was imported?"
        )
    if len(found) > 1 and len({ast.dump(node) for node in found}) > 1:
        raise SourceError(
            f"{len(found)} lambdas with the same arguments stand on line "
            f"{code.co_firstlineno} of {code.co_filename}; put each on a line of its "
            "own"
        )
    return found[0]
