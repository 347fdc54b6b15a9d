# SPDX-License-Identifier: MIT
"""Lowers ``break``, ``continue`` and early ``return`` to branches and flags.

What follows an ``if`` that jumps in one branch moves into the other one, which needs no
flag; what follows anything else that may jump is guarded by the flags of its jumps. A
loop that may be left early gets them in its test: a ``for`` as the attribute
``extra_test`` of its node.
"""

from __future__ import annotations

import ast

from ipu.tf.autograph._build import and_not, expression, statements

RETURNED = "ag__returned"
VALUE = "ag__value"

_FLAGS = ("ag__break_", "ag__continue_")

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.While)


def is_jump_flag(name: str) -> bool:
    """Return whether a variable says that a loop is left or its turn ended."""
    return name.startswith(_FLAGS)


def _blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    """Return the blocks of statements that a compound statement holds."""
    if isinstance(node, _FUNCTIONS):
        return []
    found = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
    found += [handler.body for handler in getattr(node, "handlers", [])]
    found += [case.body for case in getattr(node, "cases", [])]
    return [block for block in found if block]


def _jumps(node: ast.stmt) -> set[str]:
    """Return the kinds of jump by which control may leave a statement."""
    if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
        return {type(node).__name__}
    found: set[str] = set()
    for block in _blocks(node):
        for statement in block:
            found |= _jumps(statement)
    if isinstance(node, _LOOPS):
        inner = {kind for s in node.orelse for kind in _jumps(s)}
        found = (found & {"Return"}) | inner
    return found


def _breaks(node: ast.For | ast.While) -> bool:
    return any("Break" in _jumps(s) for s in node.body)


def never_ends(block: list[ast.stmt]) -> bool:
    """Return whether control never reaches the end of a block."""
    for node in block:
        if isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return True
        if isinstance(node, ast.If) and never_ends(node.body):
            if never_ends(node.orelse):
                return True
        elif isinstance(node, ast.While):
            forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
            if forever and not _breaks(node):
                return True
        elif isinstance(node, ast.Try):
            if never_ends(node.finalbody):
                return True
            main = never_ends(node.body) or never_ends(node.orelse)
            if main and all(never_ends(h.body) for h in node.handlers):
                return True
    return False


class _Lowering:
    def __init__(self) -> None:
        self.count = 0
        self.loops: list[tuple[str, str]] = []  # flags of the open loops

    def _flags(self, kinds: set[str]) -> list[str]:
        flags = [RETURNED] if "Return" in kinds else []
        if "Break" in kinds:
            flags.append(self.loops[-1][0])
        if "Continue" in kinds:
            flags.append(self.loops[-1][1])
        return flags

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for i, node in enumerate(body):
            if isinstance(node, ast.Return):
                value = node.value or ast.copy_location(ast.Constant(None), node)
                return out + statements(
                    f"{RETURNED} = True\n{VALUE} = value_", node, value_=value
                )
            if isinstance(node, (ast.Break, ast.Continue)):
                (flag,) = self._flags({type(node).__name__})
                return out + statements(f"{flag} = True", node)
            kinds = _jumps(node)
            rest = body[i + 1 :]
            if kinds and rest and isinstance(node, ast.If):
                if never_ends(node.body):
                    node.orelse, rest = node.orelse + rest, []
                elif never_ends(node.orelse):
                    node.body, rest = node.body + rest, []
            out += self.statement(node)
            if kinds and not rest:
                return out
            if kinds:
                guarded = self.block(rest)
                test = and_not(self._flags(kinds), rest[0])
                guard = ast.If(test=test, body=guarded, orelse=[])
                return [*out, ast.copy_location(guard, rest[0])]
        return out

    def statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, _LOOPS):
            return self._loop(node)
        if isinstance(node, _FUNCTIONS):
            return [node]
        if isinstance(node, ast.Try):
            kinds = {kind for s in node.body for kind in _jumps(s)}
            if node.orelse and kinds:
                test = and_not(self._flags(kinds), node.orelse[0])
                guard = ast.If(test=test, body=node.orelse, orelse=[])
                node.orelse = [ast.copy_location(guard, node.orelse[0])]
        for name in ("body", "orelse", "finalbody"):
            if getattr(node, name, None):
                setattr(node, name, self.block(getattr(node, name)))
        for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            part.body = self.block(part.body)
        return [node]

    def _loop(self, node: ast.For | ast.While) -> list[ast.stmt]:
        kinds: set[str] = set()
        for s in node.body:
            kinds |= _jumps(s)
        self.count += 1
        flags = (f"{_FLAGS[0]}{self.count}", f"{_FLAGS[1]}{self.count}")
        leaving = [RETURNED] if "Return" in kinds else []
        before: list[ast.stmt] = []
        if "Break" in kinds:
            leaving.append(flags[0])
            before = statements(f"{flags[0]} = False", node)
        self.loops.append(flags)
        body = self.block(node.body)
        if "Continue" in kinds:
            body = statements(f"{flags[1]} = False", node) + body
        self.loops.pop()
        node.body = body
        if leaving and isinstance(node, ast.While):
            forever = isinstance(node.test, ast.Constant) and node.test.value is True
            rest = [] if forever else [node.test]
            node.test = and_not(leaving, node, *rest)
        elif leaving:
            node.extra_test = and_not(leaving, node)  # type: ignore[union-attr]
        after = self.block(node.orelse)
        node.orelse = []
        if after and leaving:
            guard = ast.If(test=and_not(leaving, node), body=after, orelse=[])
            after = [ast.copy_location(guard, after[0])]
        return [*before, node, *after]


def lower(body: list[ast.stmt], at: ast.AST) -> list[ast.stmt]:
    """Lower the jumps of a function's body, which is changed in place.

    Returns:
        The new body. Where there was an early ``return``, it ends with the only one.
    """
    early = any(
        not isinstance(node, ast.Return) and "Return" in _jumps(node) for node in body
    )
    lowering = _Lowering()
    if not early:
        out: list[ast.stmt] = []
        for node in body:
            out += lowering.statement(node) if _blocks(node) else [node]
        return out
    reached = not never_ends(body)
    start = statements(f"{RETURNED} = False\n{VALUE} = ag__.no_value", at)
    end = ast.Return(
        value=expression(
            f"ag__.returned({VALUE}, {RETURNED})"
            if reached
            else f"ag__.returned({VALUE})",
            at,
        )
    )
    return [*start, *lowering.block(body), ast.copy_location(end, at)]
