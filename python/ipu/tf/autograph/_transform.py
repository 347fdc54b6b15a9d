# SPDX-License-Identifier: MIT
"""Rewrites a function so that its control flow goes through ``_runtime``.

Branches and bodies of loops become local functions that share the variables of the
function around them (``nonlocal``); beside them stand one that reads the values which
enter and leave, and one that sets them. Run by plain Python values the result does what
the original does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ipu.tf.autograph._build import (
    RUNTIME,
    expression,
    runtime,
    statements,
)
from ipu.tf.autograph._jumps import lower
from ipu.tf.autograph._names import (
    Access,
    Live,
    access,
    analyse,
    expression_of,
    local_names,
    root,
    symbol,
)

# they look at the frame that calls them
_UNTOUCHED = "breakpoint dir eval exec globals locals super vars".split()
_KEEPS_PYTHON = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)
_COMPARISONS = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}


def _thunk(node: ast.expr) -> ast.Lambda:
    arguments = ast.arguments(
        posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    return ast.copy_location(ast.Lambda(args=arguments, body=node), node)


def _texts(items: Iterable[str], at: ast.AST) -> ast.expr:
    names = [ast.copy_location(ast.Constant(item), at) for item in items]
    return ast.copy_location(ast.Tuple(elts=list(names), ctx=ast.Load()), at)


def is_generator(node: ast.AST) -> bool:
    """Return whether a function is a generator or coroutine, which stay Python."""
    if isinstance(node, ast.AsyncFunctionDef):
        return True
    body = node.body if isinstance(node, ast.FunctionDef) else []
    pending: list[ast.AST] = list(body)
    while pending:
        part = pending.pop()
        if isinstance(part, (ast.Yield, ast.YieldFrom, ast.Await)):
            return True
        if not isinstance(part, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(part))
    return False


class _Function(ast.NodeTransformer):
    """Rewrites the body of one function; nested functions get one of their own."""

    def __init__(self, first_parameter: str | None) -> None:
        self.first_parameter = first_parameter
        self.live: dict[ast.stmt, Live] = {}
        self.known = Access()
        self.count = 0

    def body(self, body: list[ast.stmt], at: ast.AST) -> list[ast.stmt]:
        body = lower(body, at)
        self.known = known = access(body)
        self.live = analyse(body, known)
        docstring = body[:1] if _is_docstring(body[0]) else []
        lines = []
        outer = sorted(known.declared - known.global_names)
        if known.global_names:
            lines.append(f"global {', '.join(sorted(known.global_names))}")
        if outer:
            lines.append(f"nonlocal {', '.join(outer)}")
        names = sorted(local_names(body, known))
        if names:
            # Makes every variable one of this function, also where only the functions
            # that are made of its blocks assign it.
            lines.append(f"if False:\n    {' = '.join(names)} = None")
        start = statements("\n".join(lines), at)
        return [*docstring, *start, *self._visit_all(body[len(docstring) :])]

    def _visit_all(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for node in body:
            visited = self.visit(node)
            out += visited if isinstance(visited, list) else [visited]
        return out

    def _access(self, nodes: Iterable[ast.AST | None]) -> Access:
        return access(nodes, self.known.functions)

    # --- statements ------------------------------------------------------------------

    def _names(self, kind: str) -> str:
        self.count += 1
        return f"{RUNTIME}_{kind}_{self.count}"

    def _declare(self, blocks: Iterable[ast.AST]) -> str:
        """Return ``nonlocal`` and ``global`` for what a block assigns."""
        names = {root(s) for s in self._access(blocks).writes if root(s) == s}
        own = sorted(names - self.known.global_names)
        outer = sorted(names & self.known.global_names)
        text = f"nonlocal {', '.join(own)}\n    " if own else ""
        return text + (f"global {', '.join(outer)}\n    " if outer else "")

    def _state(
        self, node: ast.stmt, blocks: Iterable[ast.AST], at_entry: set[str]
    ) -> tuple[list[str], list[str]]:
        """Return what enters or leaves: symbols that are read later, then the
        others."""
        live = self.live[node]
        writes = self._access(blocks).writes
        after: list[str] = []
        before: list[str] = []
        for text in sorted(writes):
            if root(text) != text:
                outer = any(text != w and text.startswith((f"{w}.", f"{w}["))
                            for w in writes)  # fmt: skip
                if not outer:
                    after.append(text)
            elif text in live.after:
                after.append(text)
            elif text in at_entry:
                before.append(text)
        return after, before

    def _access_functions(
        self, symbols: list[str], at: ast.AST
    ) -> tuple[str, list[ast.stmt]]:
        """Return the text of a statement's ``Variables``, and what goes before it."""
        get, put = self._names("get"), self._names("set")
        reads = [
            expression(f"{RUNTIME}.value(lambda: read_)", at, read_=expression_of(s))
            for s in symbols
        ]
        made = statements(
            f"def {get}():\n    return values_",
            at,
            values_=ast.Tuple(elts=reads, ctx=ast.Load()),
        )
        targets = [ast.parse(f"{s} = 0").body[0] for s in symbols]
        names = [s for s in symbols if root(s) == s]
        own = [s for s in names if s not in self.known.global_names]
        outer = [s for s in names if s in self.known.global_names]
        lines = [f"def {put}({RUNTIME}_v):"]
        lines += [f"    nonlocal {', '.join(own)}"] if own else []
        lines += [f"    global {', '.join(outer)}"] if outer else []
        lines += [f"    {s} = {RUNTIME}_v[{i}]" for i, s in enumerate(symbols)]
        lines += ["    pass"] if not targets else []
        made += statements("\n".join(lines), at)
        return f"{RUNTIME}.Variables({get}, {put}, names_)", made

    def _block_function(
        self, kind: str, body: list[ast.stmt], at: ast.AST, argument: str = ""
    ) -> tuple[str, list[ast.stmt]]:
        name = self._names(kind)
        declare = self._declare(body)
        inner = self._visit_all(body)
        text = f"def {name}({argument}):\n    {declare}body_"
        return name, statements(text, at, body_=inner or statements("pass", at))

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        live = self.live[node]
        after, before = self._state(node, [*node.body, *node.orelse], live.before)
        symbols = after + before
        variables, made = self._access_functions(symbols, node)
        test = self.visit(node.test)
        body, body_def = self._block_function("body", node.body, node)
        orelse, else_def = self._block_function("else", node.orelse, node)
        call = f"{RUNTIME}.if_stmt(test_, {body}, {orelse}, {variables}, {len(after)})"
        names = _texts(symbols, node)
        return [
            *made,
            *body_def,
            *else_def,
            *statements(call, node, test_=test, names_=names),
        ]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        options, node.body = _options(node.body)
        live = self.live[node]
        entry = live.before | self._access([node.test]).reads
        after, before = self._state(node, node.body, entry)
        symbols = after + before
        variables, made = self._access_functions(symbols, node)
        test = _thunk(self.visit(node.test))
        body, body_def = self._block_function("body", node.body, node)
        call = f"{RUNTIME}.while_stmt(test_, {body}, {variables}, options_)"
        return [
            *made,
            *body_def,
            *statements(
                call,
                node,
                test_=test,
                names_=_texts(symbols, node),
                options_=self._options(options, node),
            ),
        ]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        options, node.body = _options(node.body)
        live = self.live[node]
        extra: ast.expr | None = getattr(node, "extra_test", None)
        item = f"{RUNTIME}_item"
        target = ast.Assign(
            targets=[node.target],
            value=ast.copy_location(ast.Name(id=item, ctx=ast.Load()), node),
        )
        whole: list[ast.stmt] = [ast.copy_location(target, node), *node.body]
        head = live.before | self._access([extra]).reads
        after, before = self._state(node, whole, head)
        symbols = after + before
        variables, made = self._access_functions(symbols, node)
        iterated = self._iterated(node.iter)
        test = (
            _thunk(self.visit(extra))
            if extra is not None
            else ast.copy_location(ast.Constant(None), node)
        )
        body, body_def = self._block_function("body", whole, node, argument=item)
        call = f"{RUNTIME}.for_stmt(iter_, test_, {body}, {variables}, options_)"
        return [
            *made,
            *body_def,
            *statements(
                call,
                node,
                iter_=iterated,
                test_=test,
                names_=_texts(symbols, node),
                options_=self._options(options, node),
            ),
        ]

    def _iterated(self, node: ast.expr) -> ast.expr:
        """Return what a ``for`` runs over: a range of tensors need not be made."""
        made: ast.expr = self.visit(node)
        if isinstance(node, ast.Call) and isinstance(made, ast.Call):
            func = made.func
            if isinstance(func, ast.Call) and isinstance(func.func, ast.Attribute):
                func.func.attr = "call_iterated"
        return made

    def _options(self, options: ast.expr | None, at: ast.AST) -> ast.expr:
        if options is None:
            return ast.copy_location(ast.Constant(None), at)
        visited: ast.expr = self.visit(options)
        return visited

    def visit_Global(self, node: ast.Global) -> list[ast.stmt]:
        return []  # declared at the start

    def visit_Nonlocal(self, node: ast.Nonlocal) -> list[ast.stmt]:
        return []

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        message = node.msg or ast.copy_location(ast.Constant(None), node)
        call = runtime(
            "assert_stmt", node, self.visit(node.test), _thunk(self.visit(message))
        )
        return ast.copy_location(ast.Expr(call), node)

    def _storing(self, targets: Iterable[ast.expr], at: ast.stmt) -> list[ast.stmt]:
        """Return the calls that tell of the attributes which a statement assigns."""
        made: list[ast.stmt] = []
        for target in targets:
            if isinstance(target, (ast.Tuple, ast.List)):
                made += self._storing(target.elts, at)
            elif isinstance(target, ast.Attribute) and symbol(target.value):
                call = f"{RUNTIME}.storing(owner_, {target.attr!r})"
                owner = ast.parse(ast.unparse(target.value), mode="eval").body
                made += statements(call, at, owner_=owner)
        return made

    def visit_Assign(self, node: ast.Assign) -> list[ast.stmt]:
        before = self._storing(node.targets, node)
        self.generic_visit(node)
        return [*before, node]

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        target = node.target
        node.value = self.visit(node.value)
        outside = isinstance(target, ast.Attribute) or (
            isinstance(target, ast.Name) and target.id in self.known.declared
        )
        if not outside:
            return node
        text = ast.unparse(target)
        before = self._storing([target], node)
        note = statements(f"{RUNTIME}.note_update({text!r}, {text})", node)
        return [*before, node, *note]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    # --- functions in it --------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        for i, default in enumerate(node.args.defaults):
            node.args.defaults[i] = self.visit(default)
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        if is_generator(node):
            return node
        convert_body(node)
        mark = expression(f"{RUNTIME}.converted", node)
        node.decorator_list.append(mark)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        if any(isinstance(part, _KEEPS_PYTHON) for part in ast.walk(node)):
            return node
        node.body = self.visit(node.body)
        return runtime("converted", node, node)

    # --- expressions ------------------------------------------------------------------

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in _UNTOUCHED:
            if node.func.id == "super" and not node.args and self.first_parameter:
                node.args = [
                    expression("__class__", node),
                    expression(self.first_parameter, node),
                ]
            return node
        self.generic_visit(node)
        node.func = runtime("call", node.func, node.func)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        if _keeps_python(node):
            return node
        self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return runtime(name, node, *[_thunk(value) for value in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return runtime("not_", node, node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        if _keeps_python(node):
            return node
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        names = _texts([_COMPARISONS[type(op)] for op in node.ops], node)
        rest = [_thunk(value) for value in node.comparators]
        return runtime("compare", node, node.left, names, *rest)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        if _keeps_python(node):
            return node
        self.generic_visit(node)
        return runtime(
            "if_exp", node, node.test, _thunk(node.body), _thunk(node.orelse)
        )


def _keeps_python(node: ast.AST) -> bool:
    return any(isinstance(part, _KEEPS_PYTHON) for part in ast.walk(node))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _options(body: list[ast.stmt]) -> tuple[ast.expr | None, list[ast.stmt]]:
    """Take ``set_loop_options(...)`` off the start of a loop's body."""
    first = body[0]
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Call)
        and ast.unparse(first.value.func).endswith("set_loop_options")
    ):
        return first.value, body[1:] or statements("pass", first)
    return None, body


def convert_body(node: ast.FunctionDef) -> None:
    """Rewrite the body of a function in place."""
    positional = [*node.args.posonlyargs, *node.args.args]
    first = positional[0].arg if positional else None
    node.body = _Function(first).body(node.body, node)


def transform(node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef | ast.Lambda:
    """Rewrite a function or lambda in place; its decorators are left alone."""
    if isinstance(node, ast.Lambda):
        if not _keeps_python(node):
            node.body = _Function(None).visit(node.body)
        return node
    convert_body(node)
    return node
