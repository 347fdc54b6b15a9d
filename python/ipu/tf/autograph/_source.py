# SPDX-License-Identifier: MIT
"""The syntax tree of a function: found in its file's, by line and by code.

The whole file is parsed, once, so that indentation, decorators and lambdas in the
middle of an expression need no special care, and every node has the line of the file.
"""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Iterator
from typing import TypeAlias

FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda


class SourceError(Exception):
    """The source of a function cannot be had, or cannot be converted."""


class NothingToConvert(Exception):
    """Which node a function is does not matter: it works as it is."""


@functools.lru_cache(maxsize=64)  # a notebook has a file for every cell that ran
def _parsed(text: str, filename: str) -> ast.Module:
    return ast.parse(text, filename)


def _tree(filename: str, module_globals: dict[str, object]) -> ast.Module:
    text = "".join(linecache.getlines(filename, module_globals))
    if not text:
        raise SourceError(f"the source of {filename} is not available")
    try:
        return _parsed(text, filename)
    except SyntaxError as error:
        raise SourceError(f"{filename} has changed: {error}") from None


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
    """Return parameter names in the order of ``co_varnames``."""
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    names += [a.arg for a in (args.vararg, args.kwarg) if a is not None]
    return tuple(names)


def _code_parameters(code: types.CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return code.co_varnames[:count]


Place: TypeAlias = tuple[int, int]  # line and column


def _places(code: types.CodeType) -> list[tuple[Place, Place]]:
    """Return where the parts of the code begin and end, as far as it says so (3.11
    on)."""
    found: list[tuple[Place, Place]] = []
    positions = getattr(code, "co_positions", tuple)
    for line, last_line, column, last_column in positions():
        # what opens a function stands at the beginning of its line, of no width
        if None not in (line, last_line, column, last_column) and (
            (line, column) != (last_line, last_column)
        ):
            found.append(((line, column), (last_line, last_column)))
    return found


def _span(node: ast.expr) -> tuple[Place, Place]:
    last = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return (node.lineno, node.col_offset), last


def _by_place(found: list[FunctionNode], code: types.CodeType) -> list[FunctionNode]:
    """Return the lambda that the code's positions lie in: the innermost one of them."""
    places = _places(code)
    around = []
    for node in found:
        begin, end = _span(node.body) if isinstance(node, ast.Lambda) else ((0, 0),) * 2
        if places and all(begin <= a and b <= end for a, b in places):
            around.append((begin, node))
    return [max(around, key=lambda pair: pair[0])[1]] if around else found


def _content(code: types.CodeType) -> tuple[object, ...]:
    """Return names and constants; which names are free depends on what is around the
    code."""
    names = {*code.co_names, *code.co_freevars, *code.co_cellvars, *code.co_varnames}
    constants = [
        _content(c) if isinstance(c, types.CodeType) else (type(c), repr(c))
        for c in code.co_consts
        if not isinstance(c, str) or "<lambda>" not in c  # a qualified name
    ]
    return (frozenset(names), *constants)


def _by_content(found: list[FunctionNode], code: types.CodeType) -> list[FunctionNode]:
    """Return the lambdas that compile to the same names and constants."""
    same: list[FunctionNode] = []
    for node in found:
        if isinstance(node, ast.Lambda):
            made = compile(ast.Expression(node), code.co_filename, "eval").co_consts[0]
            if _content(made) == _content(code):
                same.append(node)
    return same or found


_CONTROL = (ast.IfExp, ast.BoolOp, ast.Compare, ast.Not, ast.Call, ast.comprehension)


def _has_control(node: FunctionNode) -> bool:
    """Return whether converting it makes a difference, by itself or by what it
    calls."""
    return any(isinstance(part, _CONTROL) for part in ast.walk(node))


def find(function: types.FunctionType) -> FunctionNode:
    """Return the node of a function or lambda, in the tree of its file.

    Raises:
        SourceError: There is no source, or it is not clear which node it is.
        NothingToConvert: It is not clear, but they are all plain.
    """
    code = function.__code__
    tree = _tree(code.co_filename, function.__globals__)
    found = list(_candidates(tree, code))
    if len(found) > 1:
        found = _by_place(found, code)
    if len(found) > 1:
        found = _by_content(found, code)
    if not found:
        raise SourceError(
            f"{function.__qualname__} is not at line {code.co_firstlineno} of "
            f"{code.co_filename}; has the file changed since it was imported?"
        )
    if len(found) > 1 and len({ast.dump(node) for node in found}) > 1:
        if not any(map(_has_control, found)):
            raise NothingToConvert
        raise SourceError(
            f"{len(found)} lambdas with the same arguments stand on line "
            f"{code.co_firstlineno} of {code.co_filename}; put each on a line of its "
            "own"
        )
    return found[0]
