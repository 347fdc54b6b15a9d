# SPDX-License-Identifier: MIT
"""What writes statements: names, choices, values at hand, ops."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from .ops import Operand, makers
from .program import Block, Shape, Statement

INPUT_SHAPES: list[Shape] = [(), (2,), (3,), (2, 3), (3, 2), (1, 3), (2, 2), (2, 1, 3)]
MOST_DEPTH = 3
# methods of the classes that follow; twice: twice as often
CONTROLS = """
while_loop counted_loop python_while repeat scan map_rows fold cond python_if
switch_case array_rows array_rows array_write recompute custom_taped custom_known
state_read state_write made_variable index index
"""


@dataclass
class Scope:
    """What a statement may use."""

    values: list[Operand]
    counters: list[tuple[str, int]] = field(default_factory=list)  # name, bound
    depth: int = 0
    is_function: bool = False  # of a custom gradient: no variables, no tf.gradients

    def inner(self) -> Scope:
        return Scope(
            list(self.values), list(self.counters), self.depth + 1, self.is_function
        )

    def closed(self, params: list[Operand]) -> Scope:
        """A function's, which captures nothing."""
        return Scope(list(params), [], self.depth + 1, True)


class Writer:
    """Writes one program.

    Args:
        seed: The same seed gives the same program.
        avoid: Names of constructions that shall not occur.
    """

    def __init__(self, seed: int, avoid: Collection[str] = ()) -> None:
        self.dice = random.Random(seed)
        self.avoid = set(avoid)
        self.count = 0
        self.traced_only = False
        self.also_summed: list[Operand] = []
        self.states: dict[str, list[object]] = {}
        self.shapes: dict[str, Shape] = {}
        self.ops = [m for m in makers() if m[0] not in self.avoid]
        self.controls: list[tuple[str, Callable[[Scope], list[Statement]]]] = [
            (name, getattr(self, name))
            for name in CONTROLS.split()
            if name not in self.avoid
        ]

    # --- names and choices ------------------------------------------------------------

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def value(self, shape: Shape) -> Operand:
        made = Operand(self.name(), shape)
        self.shapes[made.name] = shape
        return made

    def number(self) -> float:
        return round(self.dice.uniform(-1.5, 1.5), 2)

    def array(self, shape: Shape) -> list[object]:
        """Nested lists of numbers; now and then a zero, or nothing but zeros."""
        zero = self.dice.choice([0.0, 0.0, 0.1, 1.0 if self.dice.random() < 0.2 else 0])

        def fill(left: Shape) -> object:
            if not left:
                return 0.0 if self.dice.random() < zero else self.number()
            return [fill(left[1:]) for _ in range(left[0])]

        return fill(shape)  # type: ignore[return-value]

    def pick(self, scope: Scope) -> Operand:
        """Mostly one of the newer values."""
        if self.dice.random() < 0.6:
            return self.dice.choice(scope.values[-4:])
        return self.dice.choice(scope.values)

    def bounded(self, expression: str) -> str:
        """The same, often made small, so that loops do not run away."""
        return self.dice.choice(
            ["{}", "0.5 * ({})", "tf.tanh({})", "tf.sin({})"]
        ).format(expression)

    def turns(self) -> str:
        """How often a loop runs."""
        fewest = 1 if "zero_turns" in self.avoid else 0
        return str(self.dice.choice([fewest, 1, 2, 2, 3]))

    # --- statements -------------------------------------------------------------------

    def statements(self, scope: Scope, count: int) -> list[Statement]:
        made: list[Statement] = []
        while count > 0:
            control = 0.3 if scope.depth < MOST_DEPTH else 0.0
            if self.dice.random() < control and self.controls:
                found = self.dice.choice(self.controls)[1](scope)
            else:
                found = self.op(scope)
            made += found
            count -= 1
        return made

    def op(self, scope: Scope) -> list[Statement]:
        for _ in range(20):
            kind, maker = self.dice.choice(self.ops)
            operand = self.pick(scope)
            made = maker(self.dice, operand, scope.values, scope.counters)
            if made is None or math.prod(made[1]) > 24 or len(made[1]) > 4:
                continue
            return [self.let(scope, kind, made[0], made[1])]
        return []

    def let(self, scope: Scope, kind: str, text: str, shape: Shape) -> Statement:
        out = self.value(shape)
        scope.values.append(out)
        return Statement(kind, [f"{out.name} = {text}"], {out.name: shape})

    def of_shape(self, scope: Scope, shape: Shape) -> str:
        """A value of this shape: one of the newer ones where there is one."""
        fitting = [v.name for v in scope.values if v.shape == shape]
        if fitting and self.dice.random() < 0.9:
            return self.dice.choice(fitting[-3:])
        return f"tf.fill({list(shape)}, tf.constant({self.number()}, tf.float64))"

    def body(self, scope: Scope, shapes: list[Shape], most: int) -> tuple[Block, str]:
        """Statements, and values of these shapes from them."""
        statements = self.statements(
            scope, self.dice.randint(0 if most > 1 else 1, most)
        )
        results = [self.bounded(self.of_shape(scope, shape)) for shape in shapes]
        return Block(statements, ""), ", ".join(results)

    def carried(self, scope: Scope) -> list[Operand]:
        return [self.pick(scope) for _ in range(self.dice.randint(1, 2))]

    def predicate(self, scope: Scope) -> str:
        if scope.counters and self.dice.random() < 0.5:
            return f"{self.dice.choice(scope.counters)[0]} < 1"
        value = self.pick(scope).name
        return f"tf.reduce_sum({value}) > {self.number()}"
