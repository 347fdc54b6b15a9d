# SPDX-License-Identifier: MIT
"""Writes all mutants of a C file into one source, each behind a switch.

Clang's syntax tree says where expressions and statements begin and end, and of what
type they are. `a < b` becomes a statement expression that asks `ipu_mutant(17)` which
of `<`, `<=` and `>=` it is, so that the operands stand there once, mutants of their own
in them. What stands in the body of a macro is left alone, its arguments are not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

Node = dict[str, Any]

_COMPARISONS = {
    "<": ("<=", ">="),
    "<=": ("<", ">"),
    ">": (">=", "<="),
    ">=": (">", "<"),
    "==": ("!=",),
    "!=": ("==",),
}
_ARITHMETIC = {
    "+": ("-",),
    "-": ("+",),
    "*": ("+",),
    "/": ("*",),
    "%": ("/",),
    "&": ("|",),
    "|": ("&",),
    "^": ("&",),
    "<<": (">>",),
    ">>": ("<<",),
}
_LOGICAL = ("&&", "||")
_LOOPS = ("ForStmt", "WhileStmt", "DoStmt")
# constants of declarations, and what no program evaluates
_LEFT_ALONE = """
    StaticAssertDecl EnumDecl RecordDecl TypedefDecl ConstantExpr OffsetOfExpr
    UnaryExprOrTypeTraitExpr
""".split()
_INTEGERS = re.compile(r"(enum |_Bool|unsigned|signed|char|short|int|long)")


class Mutant(NamedTuple):
    """One change: in which function, on which line, of what into what."""

    function: str
    line: int
    change: str


class Place(NamedTuple):
    """Where a token stands; `macro` is the start of the call that it is made by."""

    start: int
    end: int
    macro: int | None


class Edit(NamedTuple):
    """Text at a place; at one place what is closed stands before what is opened."""

    at: int
    rank: int  # 0 closes, 1 replaces up to `until`, 2 opens
    turn: int
    until: int
    text: str


@dataclass
class _Writer:
    """Collects the edits and the mutants of one file."""

    file: str
    text: str
    first: int  # number of the first mutant
    skipped: frozenset[int] = frozenset()  # numbers that do not compile
    mutants: list[Mutant] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    done: set[tuple[int, int, str]] = field(default_factory=set)
    function: str = ""
    body: tuple[int, int] = (0, 0)

    def place(self, location: Node) -> Place | None:
        """Where a location is in this file, if it is written there."""
        macro = None
        if "spellingLoc" in location:
            expansion = location["expansionLoc"]
            if expansion.get("isMacroArgExpansion"):
                location = location["spellingLoc"]
            else:
                location = expansion
                macro = location.get("offset")
        if location.get("file") != self.file:
            return None
        start = location["offset"]
        end = start + location["tokLen"]
        if macro is not None and (call := re.match(r"\s*\(", self.text[end:])):
            end = _closing(self.text, end + call.end())
        if not self.body[0] <= start < self.body[1]:
            return None
        return Place(start, end, macro)

    def span(self, node: Node, whole: bool = False) -> tuple[int, int] | None:
        """Where a node begins and ends; None within a macro, if it is not its whole."""
        begin = self.place(node["range"]["begin"])
        last = self.place(node["range"]["end"])
        if begin is None or last is None or begin.start >= last.end:
            return None
        if begin.macro == last.macro:
            return (
                None
                if begin.macro is not None and not whole
                else (begin.start, last.end)
            )
        # an argument that ends in another macro is placed where the first one is called
        for inside, other in ((begin, last), (last, begin)):
            if other.macro is not None and other.start <= inside.start < other.end:
                return None
        return begin.start, last.end

    def share_macro(self, node: Node, parent: Node) -> bool:
        """Whether the body of one macro makes both, or their beginnings."""
        ends = [parent["range"][end] for end in ("begin", "end")]
        own = self.place(node["range"]["begin"])
        around = [self.place(end) for end in ends]
        return own is None or any(p is None or p.macro == own.macro for p in around)

    def mutant(self, at: int, change: str) -> str:
        """Note one; return the call that asks for it, or 0 if it does not compile."""
        number = self.first + len(self.mutants)
        line = self.text.count("\n", 0, at) + 1
        change = re.sub(r"\s+", " ", change)
        self.mutants.append(Mutant(self.function, line, change))
        return "0" if number in self.skipped else f"ipu_mutant({number})"

    def said(self, span: tuple[int, int]) -> str:
        words = re.sub(r"\s+", " ", self.text[slice(*span)])
        return words if len(words) <= 60 else words[:40] + " ... " + words[-15:]

    def is_new(self, span: tuple[int, int], what: str) -> bool:
        """Whether it is the first of its kind there; macros may repeat arguments."""
        key = (*span, what)
        fresh = key not in self.done
        self.done.add(key)
        return fresh

    def open(self, at: int, text: str) -> None:
        self.edits.append(Edit(at, 2, len(self.edits), at, text))

    def close(self, at: int, text: str) -> None:
        self.edits.append(Edit(at, 0, len(self.edits), at, text))

    def replace(self, start: int, end: int, text: str) -> None:
        self.edits.append(Edit(start, 1, len(self.edits), end, text))

    # --- what becomes of each kind of node ------------------------------------------

    def visit(self, node: Node, above: list[Node]) -> None:
        kind = node.get("kind")
        if kind is None or kind in _LEFT_ALONE:
            return
        if kind == "VarDecl" and node.get("storageClass") == "static":
            return
        closing = self.wrap(node, above)
        above.append(node)
        for child in node.get("inner", []):
            self.visit(child, above)
        above.pop()
        for at, text in closing:
            self.close(at, text)

    def wrap(self, node: Node, above: list[Node]) -> list[tuple[int, str]]:
        """Open what a node becomes; return what closes it after its operands."""
        kind = node["kind"]
        parent = above[-1] if above else {}
        closing = []
        if _is_statement(node, parent):
            closing += self.statement(node, above)
        if _is_condition(node, parent) and not _is_logical(_bare(node)):
            closing += self.flip(node, "negated", parent)
        if kind == "BinaryOperator":
            closing += self.binary(node)
        elif kind in ("IntegerLiteral", "FloatingLiteral"):
            closing += self.constant(node, parent)
        elif kind == "UnaryOperator" and node["opcode"] == "!":
            closing += self.flip(node, "negated")
        elif kind == "CallExpr" and _is_integer(node) and not _is_truth(node, above):
            closing += self.zero(node, "call left out")
        elif kind == "ReturnStmt" and node.get("inner"):
            closing += self.returned(node["inner"][0], node)
        # the last one that was opened is closed first
        return closing[::-1]

    def statement(self, node: Node, above: list[Node]) -> list[tuple[int, str]]:
        kind = node["kind"]
        span = self.span(node)
        if span is None or not self.is_new(span, "statement"):
            return []
        start, end = span
        if kind in ("BreakStmt", "ContinueStmt"):
            semicolon = self.text.index(";", end)
            around = next(n["kind"] for n in above[::-1] if _holds(n, kind))
            other = "" if around == "SwitchStmt" else "continue;"
            other = "break;" if kind == "ContinueStmt" else other
            word = self.text[start:end]
            asked = self.mutant(start, f"{word} -> {other[:-1] or 'nothing'}")
            self.replace(
                start,
                semicolon + 1,
                f"{{ if ({asked}) {{ {other}}} else {{ {word}; }} }}",
            )
            return []
        asked = self.mutant(start, f"{self.said(span)} left out")
        self.open(start, f"({asked} ? (void)0 : (void)(")
        return [(end, "))")]

    def flip(
        self, node: Node, how: str, parent: Node | None = None
    ) -> list[tuple[int, str]]:
        span = self.span(node)
        if span is None and parent is not None and not self.share_macro(node, parent):
            span = self.span(node, whole=True)
        if span is None or not self.is_new(span, "flip"):
            return []
        asked = self.mutant(span[0], f"{self.said(span)} {how}")
        self.open(span[0], "(!!(")
        return [(span[1], f") != {asked})")]

    def zero(self, node: Node, how: str) -> list[tuple[int, str]]:
        span = self.span(node)
        if span is None or not self.is_new(span, "zero"):
            return []
        asked = self.mutant(span[0], f"{self.said(span)} {how}")
        self.open(span[0], f"({asked} ? 0 : (")
        return [(span[1], "))")]

    def returned(self, value: Node, parent: Node) -> list[tuple[int, str]]:
        bare = _bare(value)
        if _type(value) == "_Bool":
            return (
                []
                if _is_logical(bare)
                else self.flip(value, "returned negated", parent)
            )
        known = bare.get("referencedDecl", {}).get("name") == "IPU_OK"
        simple = ("DeclRefExpr", "MemberExpr", "ArraySubscriptExpr")
        if bare["kind"] not in simple or known or not _is_integer(value):
            return []
        return self.zero(value, "returned as 0")

    def constant(self, node: Node, parent: Node) -> list[tuple[int, str]]:
        span = self.span(node)
        if span is None or parent.get("castKind") == "NullToPointer":
            return []
        if not self.is_new(span, "constant"):
            return []
        word = self.text[slice(*span)]
        more = self.mutant(span[0], f"{word} + 1 in {self.around(span)}")
        if float(node["value"]) == 0:
            self.open(span[0], f"({more} ? 1 : ")
        else:
            none = self.mutant(span[0], f"{word} -> 0 in {self.around(span)}")
            self.open(span[0], f"({more} ? {word} + 1 : {none} ? 0 : ")
        return [(span[1], ")")]

    def around(self, span: tuple[int, int]) -> str:
        """Return the line that a constant is on."""
        start = self.text.rfind("\n", 0, span[0]) + 1
        return self.text[start : self.text.index("\n", span[1])].strip()

    def binary(self, node: Node) -> list[tuple[int, str]]:
        operator = node["opcode"]
        left, right = node["inner"]
        span, before, after = (
            self.span(node),
            self.span(left, whole=True),
            self.span(right, whole=True),
        )
        others = {**_COMPARISONS, **_ARITHMETIC}.get(operator, ())
        pointers = ["*" in _type(side) for side in (left, right)]
        if operator in "+-" and (all(pointers) or pointers[1]):
            others = ()
        if span is None or before is None or after is None:
            return []
        at = self.operator(operator, before[1], after[0])
        if not (others or operator in _LOGICAL) or at is None:
            return []
        if not self.is_new(span, operator):
            return []
        said = self.said(span)
        if operator in _LOGICAL:
            other = _LOGICAL[operator == "&&"]
            swap, first, second = (
                self.mutant(at, f"{said}: {how}")
                for how in (
                    f"{operator} -> {other}",
                    f"{self.said(before)} left out",
                    f"{self.said(after)} left out",
                )
            )
            skipped = int(operator == "&&")
            self.open(before[0], f"({{ int ipu_l = {first} ? {skipped} : !!(")
            done = f"{swap}" if operator == "&&" else f"!{swap}"
            self.replace(
                at,
                at + 2,
                f"); (ipu_l == {done}) ? ipu_l : {second} ? {skipped} : !!(",
            )
            return [(span[1], "); })")]
        choices = "".join(
            f"{self.mutant(at, f'{said}: {operator} -> {other}')}"
            f" ? ipu_l {other} ipu_r : "
            for other in others
        )
        sides = ["+ 0" if _is_bits(side) else "" for side in (left, right)]
        self.open(before[0], "({ __auto_type ipu_l = (")
        self.replace(at, at + len(operator), f") {sides[0]}; __auto_type ipu_r = (")
        return [(span[1], f") {sides[1]}; {choices}ipu_l {operator} ipu_r; }})")]

    def operator(self, operator: str, start: int, end: int) -> int | None:
        """Where an operator stands between its operands."""
        between = re.sub(
            r"/\*.*?\*/",
            lambda comment: " " * len(comment[0]),
            self.text[start:end],
            flags=re.DOTALL,
        )
        parts = re.fullmatch(rf"[\s)]*({re.escape(operator)})[\s(]*", between)
        return None if parts is None else start + parts.start(1)

    def written(self) -> str:
        """Return the text with all edits."""
        out = []
        at = 0
        for edit in sorted(self.edits):
            out += [self.text[at : edit.at], edit.text]
            at = edit.until
        return "".join([*out, self.text[at:]])


def _closing(text: str, at: int) -> int:
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def _type(node: Node) -> str:
    told = node.get("type", {})
    known: str = told.get("desugaredQualType", told.get("qualType", ""))
    return re.sub(r"^(const|volatile) ", "", known)


def _is_integer(node: Node) -> bool:
    return "*" not in _type(node) and bool(_INTEGERS.match(_type(node)))


def _bare(node: Node) -> Node:
    while node["kind"] in ("ImplicitCastExpr", "ParenExpr", "CStyleCastExpr"):
        node = node["inner"][-1]
    return node


def _is_bits(node: Node) -> bool:
    return bool(_bare(node).get("objectKind") == "bitfield")


def _is_logical(node: Node) -> bool:
    """Whether its operator is changed, so that to negate it is no other mutant."""
    binary = node.get("opcode") in (*_COMPARISONS, *_LOGICAL)
    return binary or (node["kind"] == "UnaryOperator" and node["opcode"] == "!")


def _is_condition(node: Node, parent: Node) -> bool:
    inner = parent.get("inner", [])
    places = {"IfStmt": 0, "WhileStmt": 0, "DoStmt": 1, "ForStmt": 2}
    place = {**places, "ConditionalOperator": 0}.get(parent.get("kind", ""))
    return place is not None and inner[place] is node


def _is_truth(node: Node, above: list[Node]) -> bool:
    """Whether what an expression is asked for is mutated where it is asked."""
    for parent in reversed(above):
        if parent["kind"] not in ("ImplicitCastExpr", "ParenExpr"):
            break
        node = parent
    if parent["kind"] == "ReturnStmt":
        return _type(node) == "_Bool"
    asked = parent.get("opcode") in ("!", *_LOGICAL)
    return asked or _is_condition(node, parent)


def _is_statement(node: Node, parent: Node) -> bool:
    kind = parent.get("kind")
    inner = parent.get("inner", [])
    bodies = {
        "CompoundStmt": inner,
        "IfStmt": inner[1:],
        "ForStmt": inner[4:],
        "WhileStmt": inner[1:],
        "DoStmt": inner[:1],
        "CaseStmt": inner[-1:],
        "DefaultStmt": inner[-1:],
    }
    if kind not in bodies or not any(node is one for one in bodies[kind]):
        return False
    if node["kind"] == "CStyleCastExpr" and node.get("castKind") == "ToVoid":
        return bool(_bare(node)["kind"] == "CallExpr")
    kinds = ("CallExpr", "CompoundAssignOperator", "BreakStmt", "ContinueStmt")
    return node["kind"] in kinds or node.get("opcode") in ("=", "++", "--")


def _holds(node: Node, kind: str) -> bool:
    kinds = _LOOPS if kind == "ContinueStmt" else (*_LOOPS, "SwitchStmt")
    return node["kind"] in kinds


def _complete(part: Any, file: str) -> str:
    """Give each location its file, which is told where it changes; return the last."""
    if isinstance(part, list):
        for one in part:
            file = _complete(one, file)
    elif isinstance(part, dict):
        if "offset" in part:
            file = part.setdefault("file", file)
        for one in part.values():
            if isinstance(one, (dict, list)):
                file = _complete(one, file)
    return file


def functions(source: Path, flags: list[str]) -> Iterator[Node]:
    """Give the functions that a file defines, as Clang reads them."""
    command = ["clang", *flags, "-fsyntax-only", "-Xclang", "-ast-dump=json"]
    done = subprocess.run(
        [*command, str(source)],
        capture_output=True,
        check=True,
        env={**os.environ, "CCACHE_DISABLE": "1"},  # which writes paths anew
    )
    tree = json.loads(done.stdout)
    _complete(tree, "")
    for node in tree["inner"]:
        if node["kind"] != "FunctionDecl" or node["loc"].get("file") != str(source):
            continue
        if any(part["kind"] == "CompoundStmt" for part in node.get("inner", [])):
            yield node


def _write(
    file: str, text: str, nodes: list[Node], first: int, skipped: frozenset[int]
) -> tuple[str, list[Mutant]]:
    writer = _Writer(file, text, first, skipped)
    for node in nodes:
        begin, end = node["range"]["begin"], node["range"]["end"]
        if "offset" not in begin or "offset" not in end:
            continue
        writer.function = node["name"]
        writer.body = (begin["offset"], end["offset"] + 1)
        writer.visit(node["inner"][-1], [node])
    return writer.written(), writer.mutants


def mutate(
    source: Path, flags: list[str], compiler: list[str], target: Path, first: int
) -> list[Mutant]:
    """Write all mutants of a file, the first with this number; return them.

    Those that do not compile are off, and have no change.
    """
    text = source.read_text("latin-1")  # Clang counts bytes
    nodes = list(functions(source, flags))
    skipped: frozenset[int] = frozenset()
    head = f'#include "{Path(__file__).parent / "switch.h"}"\n#line 1 "{source}"\n'
    target.parent.mkdir(parents=True, exist_ok=True)
    while True:
        written, mutants = _write(str(source), text, nodes, first, skipped)
        if not target.exists() or target.read_text("latin-1") != head + written:
            target.write_text(head + written, "latin-1")
        search = f"-I{source.parent}"
        command = [*compiler, *flags, search, "-w", "-fsyntax-only", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        # the error itself, or the macro that it comes from
        wrong = {int(n) for n in re.findall(rf"{source}:(\d+):\d+: ", done.stderr)}
        lines = written.split("\n")
        numbers = {
            int(number)
            for line in wrong
            for number in re.findall(r"ipu_mutant\((\d+)\)", lines[line - 1])
        }
        assert numbers, done.stderr[:2000]
        skipped |= numbers
    return [
        mutant._replace(change="") if first + place in skipped else mutant
        for place, mutant in enumerate(mutants)
    ]


def named(file: str, mutants: list[Mutant]) -> list[str]:
    """Give each mutant a name that stays when lines above it change; else none."""
    names = []
    seen: Counter[str] = Counter()
    for mutant in mutants:
        name = f"{file} {mutant.function}: {mutant.change}" if mutant.change else ""
        seen[name] += 1
        names.append(name if seen[name] == 1 or not name else f"{name} #{seen[name]}")
    return names
