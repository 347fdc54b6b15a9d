# SPDX-License-Identifier: MIT
"""Whether a program expects an import to fail: ``try: ... except ImportError: ...``.

The source says so; ``linecache`` finds that of files and of notebook cells. Without a
source, as for text given to ``exec``, an import is taken to be guarded: it fails
plainly.
"""

from __future__ import annotations

import ast
import functools
import importlib
import linecache
import types

IMPORT_ERRORS = frozenset(
    {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}
)
ATTRIBUTE_ERRORS = frozenset({"AttributeError", "Exception", "BaseException"})
_IMPORTING = ("<frozen importlib", importlib.__file__)


def _names(expression: ast.expr | None) -> set[str]:
    """Return the last parts of the names in an expression: of ``(a.B, C)`` B and C."""
    each = expression.elts if isinstance(expression, ast.Tuple) else [expression]
    names = set()
    for one in each:
        if isinstance(one, ast.Name):
            names.add(one.id)
        elif isinstance(one, ast.Attribute):
            names.add(one.attr)
    return names


def catches(statement: ast.stmt, errors: frozenset[str]) -> bool:
    """Return whether errors in the body of a statement are caught."""
    if isinstance(statement, ast.Try):
        return any(
            handler.type is None or _names(handler.type) & errors
            for handler in statement.handlers
        )
    if isinstance(statement, ast.With):
        return any(
            isinstance(item.context_expr, ast.Call)
            and any(_names(argument) & errors for argument in item.context_expr.args)
            for item in statement.items
        )
    return False


class GuardVisitor(ast.NodeVisitor):
    """Walks a program, and knows whether errors are caught where it is.

    Args:
        errors: The names under which they are caught.
    """

    def __init__(self, errors: frozenset[str]) -> None:
        self._errors = errors
        self._depth = 0

    @property
    def is_guarded(self) -> bool:
        """Whether a statement around catches one of the errors."""
        return self._depth > 0

    def visit_body(self, statement: ast.Try | ast.With | ast.AsyncWith) -> None:
        """Walk the statements whose errors a statement may catch."""
        guards = catches(statement, self._errors)
        self._depth += guards
        for one in statement.body:
            self.visit(one)
        self._depth -= guards

    def visit_Try(self, node: ast.Try) -> None:
        self.visit_body(node)
        for other in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(other)


@functools.lru_cache(maxsize=16)
def _guarded_lines(source: str) -> list[range]:
    """Return the lines of a program on which an ImportError is caught."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        # of a notebook cell with magic commands, for instance
        return []
    return [
        range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Try, ast.With)) and catches(node, IMPORT_ERRORS)
    ]


def expects_import_error(frame: types.FrameType | None) -> bool:
    """Return whether an ImportError at a frame's line is caught there.

    A module that fails to import fails the import statement that asked for it, so the
    lines of these count as well.
    """
    while frame is not None:
        code = frame.f_code
        source = "".join(linecache.getlines(code.co_filename, frame.f_globals))
        if not source:
            return True
        if any(frame.f_lineno in lines for lines in _guarded_lines(source)):
            return True
        caller = frame.f_back
        if code.co_name != "<module>" or not _is_importing(caller):
            return False
        while _is_importing(caller):
            caller = caller.f_back if caller else None
        frame = caller
    return False


def _is_importing(frame: types.FrameType | None) -> bool:
    return frame is not None and frame.f_code.co_filename.startswith(_IMPORTING)
