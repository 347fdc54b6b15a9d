# SPDX-License-Identifier: MIT
"""A program as a tree of statements, which prints as Python.

Names are unique in a whole program, so that replacing a name needs no scopes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

Shape = tuple[int, ...]
INDENT = "    "


@dataclass
class Block:
    """Indented statements, and the line that ends them."""

    statements: list[Statement]
    end: str

    def lines(self) -> Iterator[str]:
        for statement in self.statements:
            yield from statement.lines()
        yield self.end


@dataclass
class Statement:
    """Lines and blocks; `outputs` are the names that what follows may use."""

    kind: str
    parts: list[str | Block]
    outputs: dict[str, Shape]

    def lines(self) -> Iterator[str]:
        for part in self.parts:
            if isinstance(part, str):
                yield part
            else:
                yield from (INDENT + line for line in part.lines())

    def blocks(self) -> list[Block]:
        return [part for part in self.parts if isinstance(part, Block)]


@dataclass
class Program:
    """`loss(*inputs)`: statements, then the sum of some terms.

    Attributes:
        inputs: Name and value of each, float64.
        states: Initial values of variables, float32, by name.
        traced_only: Whether it holds what exists in functions alone.
    """

    inputs: dict[str, list[object]]
    states: dict[str, list[object]]
    statements: list[Statement]
    terms: list[str]
    shapes: dict[str, Shape] = field(default_factory=dict)
    traced_only: bool = False

    def kinds(self) -> set[str]:
        """The constructions that occur in it."""
        found: set[str] = set()

        def visit(statements: Sequence[Statement]) -> None:
            for statement in statements:
                found.add(statement.kind)
                for block in statement.blocks():
                    visit(block.statements)

        visit(self.statements)
        return found

    def source(self) -> str:
        """The function, and the variables that it uses, as Python."""
        lines = [
            "import numpy as np",
            "",
            "from ipu import loops, tf",
            "",
            "made = {}",
        ]
        for name, value in self.states.items():
            lines.append(f"{name} = tf.Variable(np.array({value}, np.float32))")
        lines += ["", "", f"def loss({', '.join(self.inputs)}):"]
        body = [line for s in self.statements for line in s.lines()]
        lines += [INDENT + line for line in body]
        lines.append(f"{INDENT}return {' + '.join(self.terms)}")
        return "\n".join(lines) + "\n"

    def text(self, seed: object, complaint: str) -> str:
        """A file that fails as the program does; `tests/` must be importable."""
        inputs = ", ".join(f"{k}={v}" for k, v in self.inputs.items())
        note = "\n".join(f"# {line}".rstrip() for line in complaint.splitlines())
        only = f", traced_only={self.traced_only}" if self.traced_only else ""
        return (
            f"# seed {seed}\n{note}\n{self.source()}\n\n"
            "from fuzz.check import check_function\n\n"
            f"check_function(loss, dict({inputs}), globals(){only})\n"
        )

    def replace(self, change: Callable[[str], str]) -> None:
        """Change every line."""

        def visit(statements: Sequence[Statement]) -> None:
            for statement in statements:
                for k, part in enumerate(statement.parts):
                    if isinstance(part, str):
                        statement.parts[k] = change(part)
                    else:
                        visit(part.statements)
                        part.end = change(part.end)

        visit(self.statements)
        self.terms = [change(term) for term in self.terms]


def renamer(names: dict[str, str]) -> Callable[[str], str]:
    """Replaces whole words."""
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    return lambda text: pattern.sub(lambda match: names[match[1]], text)
