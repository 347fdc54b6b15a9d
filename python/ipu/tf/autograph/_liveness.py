# SPDX-License-Identifier: MIT
"""Which symbols are still to be read: the backward walk over structured code.

Jumps are lowered before (``_jumps.py``), so that what is left is sequences, branches
and loops. The result is kept for each ``if``, ``while`` and ``for``, for the conversion
of control flow to tell which values enter and leave it.
"""

from __future__ import annotations

import ast

from ipu.tf.autograph._names import Access, access, root


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
