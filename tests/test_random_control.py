# SPDX-License-Identifier: MIT
"""Random programs of loops, branches, windows and variables against an interpreter.

A program is written as text and, beside it, as steps for a few lines of NumPy. Integers
wrap around in both, so that results are equal to the bit. What is tried is all that
lowering decides: buffers that are shared, taken over, written in place, carried.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import Graph

from ipu import _core

VECTOR = ("int32", (4,))
SCALAR = ("int32", ())
BOOL = ("bool", ())
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
}
Step = Callable[[dict[str, Any], list[Any]], None]
DEVICE_TYPE = ("int32", (4,))


class Writer:
    """Writes one program; `steps` of a block run on (values by name, variables)."""

    def __init__(self, seed: int, device: Any) -> None:
        self.dice = random.Random(seed)
        self.ids = [device.variable_add(*DEVICE_TYPE) for _ in range(2)]
        resources = [
            f'resource r{i} variable id={number} "v{i}" int32[4]'
            for i, number in enumerate(self.ids)
        ]
        self.graph = Graph(resources=resources)
        self.vectors = [self.graph.param(VECTOR) for _ in range(3)]
        self.scalars = [self.graph.param(SCALAR) for _ in range(2)]
        self.inputs = [*self.vectors, *self.scalars]
        self.steps: list[Step] = []
        self.block(depth=0, nodes=self.dice.randint(3, 9))
        self.results = self.dice.sample(self.vectors, 3)
        self.text = self.graph.finish(self.results)

    def note(self, name: str, function: Callable[..., Any], *inputs: str) -> None:
        def step(values: dict[str, Any], _: list[Any]) -> None:
            values[name] = function(*(values[i] for i in inputs))

        self.steps.append(step)

    def number(self, value: int) -> str:
        bits = np.array(value, np.int32).tobytes().hex()
        attrs = f"dtype=int32, shape=[], value=0x{bits}"
        name = self.graph.one("constant", [], SCALAR, attrs)
        self.note(name, lambda: np.int32(value))
        return name

    def block(self, depth: int, nodes: int) -> None:
        for _ in range(nodes):
            makers = [self.arithmetic] * 4 + [self.window, self.read, self.write]
            if depth < 3:
                makers += [self.switch] * 2 + [self.repeat, self.counted]
            maker = self.dice.choice(makers)
            if maker in (self.switch, self.repeat, self.counted):
                maker(depth)  # type: ignore[operator]
            else:
                maker()  # type: ignore[operator]

    def arithmetic(self) -> None:
        op = self.dice.choice([*BINARY, "identity"])
        a, b = self.dice.choice(self.vectors), self.dice.choice(self.vectors)
        if op == "identity":
            name = self.graph.one(op, [a], VECTOR)
            self.note(name, lambda x: x, a)
        else:
            name = self.graph.one(op, [a, b], VECTOR)
            self.note(name, BINARY[op], a, b)
        self.vectors.append(name)

    def window(self) -> None:
        x, y = self.dice.choice(self.vectors), self.dice.choice(self.vectors)
        at = self.dice.choice(self.scalars)
        part = self.graph.one("dynamic_slice", [y, at], ("int32", (1,)), "size=[1]")
        self.note(part, lambda y, at: y[min(max(int(at), 0), 3)][None], y, at)
        op = self.dice.choice(["dynamic_update_slice", "dynamic_add_slice"])
        name = self.graph.one(op, [x, part, at], VECTOR)

        def change(x: Any, part: Any, at: Any, op: str = op) -> Any:
            x = x.copy()
            place = min(max(int(at), 0), 3)
            x[place] = part[0] if op == "dynamic_update_slice" else x[place] + part[0]
            return x

        self.note(name, change, x, part, at)
        self.vectors.append(name)

    def read(self) -> None:
        which = self.dice.randrange(2)
        name = self.graph.one("variable_read", [], VECTOR, f"resource={which}")

        def step(values: dict[str, Any], variables: list[Any]) -> None:
            values[name] = variables[which].copy()

        self.steps.append(step)
        self.vectors.append(name)

    def write(self) -> None:
        which, x = self.dice.randrange(2), self.dice.choice(self.vectors)
        op = self.dice.choice(["variable_assign", "variable_add"])
        self.graph.node(op, [x], f"resource={which}", [])

        def step(values: dict[str, Any], variables: list[Any]) -> None:
            before = variables[which] if op == "variable_add" else 0
            variables[which] = before + values[x]

        self.steps.append(step)

    def inside(self, depth: int, params: int, results: int, counts: bool) -> Any:
        """A block: its number, parameters, steps, results."""
        outer = (list(self.vectors), list(self.scalars), self.steps)
        self.steps = []
        number = self.graph.open_block()
        counter = [self.graph.param(SCALAR)] if counts else []
        names = [self.graph.param(VECTOR) for _ in range(params)]
        self.vectors += names
        self.scalars += counter
        self.block(depth + 1, self.dice.randint(0, 5))
        # mostly what is new, at times a parameter or a value from outside
        recent = self.vectors[-6:]
        chosen = [self.dice.choice(recent) for _ in range(results)]
        if counter:
            one = self.number(1)
            name = self.graph.one("add", [counter[0], one], SCALAR)
            self.note(name, np.add, counter[0], one)
            self.graph.close_block([name, *chosen])
            chosen = [name, *chosen]
        else:
            self.graph.close_block(chosen)
        steps = self.steps
        self.vectors, self.scalars, self.steps = outer
        return number, [*counter, *names], steps, chosen

    def switch(self, depth: int) -> None:
        count, outputs = self.dice.randint(1, 3), self.dice.randint(0, 3)
        index = self.dice.choice(self.scalars)
        branches = [self.inside(depth, 0, outputs, False) for _ in range(count)]
        attrs = f"branches=[{','.join(f'b{b[0]}' for b in branches)}]"
        names = self.graph.node("switch", [index], attrs, [VECTOR] * outputs)

        def step(values: dict[str, Any], variables: list[Any]) -> None:
            which = int(values[index])
            taken = branches[which if 0 <= which < count else -1]
            for one in taken[2]:
                one(values, variables)
            given = [values[r] for r in taken[3]]
            values.update(zip(names, given, strict=True))

        self.steps.append(step)
        self.vectors += names

    def repeat(self, depth: int) -> None:
        carried = self.dice.randint(0, 3)
        start = [self.dice.choice(self.vectors) for _ in range(carried)]
        trips = self.dice.choice(self.scalars)
        if self.dice.random() < 0.5:
            trips = self.number(self.dice.randint(0, 3))
        limit = self.dice.choice([-1, 0, 2, 3])
        number, params, steps, results = self.inside(depth, carried, carried, False)
        attrs = f"body=b{number}, maximum_iterations={max(limit, 0) or 3}"
        most = max(limit, 0) or 3
        names = self.graph.node("repeat", [trips, *start], attrs, [VECTOR] * carried)

        def step(values: dict[str, Any], variables: list[Any]) -> None:
            current = [values[s] for s in start]
            for _ in range(min(int(values[trips]), most)):
                values.update(zip(params, current, strict=True))
                for one in steps:
                    one(values, variables)
                current = [values[r] for r in results]
            values.update(zip(names, current, strict=True))

        self.steps.append(step)
        self.vectors += names

    def counted(self, depth: int) -> None:
        carried = self.dice.randint(0, 3)
        start = [self.dice.choice(self.vectors) for _ in range(carried)]
        zero, limit = self.number(0), self.dice.choice(self.scalars)
        outer = self.steps
        self.steps = []
        test = self.graph.open_block()
        seen = [self.graph.param(SCALAR)]
        seen += [self.graph.param(VECTOR) for _ in range(carried)]
        below = self.graph.one("less", [seen[0], limit], BOOL)
        self.note(below, np.less, seen[0], limit)
        if carried:  # something that would like to work in place
            part = self.graph.one("neg", [seen[1]], VECTOR)
            self.note(part, np.negative, seen[1])
            least = self.graph.one("min", [part], SCALAR, "axes=[0]")
            self.note(least, np.min, part)
            bound = self.number(1 << 30)
            more = self.graph.one("less", [least, bound], BOOL)
            self.note(more, np.less, least, bound)
            both = self.graph.one("logical_and", [below, more], BOOL)
            self.note(both, np.logical_and, below, more)
            below = both
        self.graph.close_block([below])
        tests, self.steps = self.steps, outer
        number, params, steps, results = self.inside(depth, carried, carried, True)
        attrs = f"condition=b{test}, body=b{number}, maximum_iterations=3"
        types = [SCALAR, *[VECTOR] * carried]
        names = self.graph.node("while", [zero, *start], attrs, types)

        def step(values: dict[str, Any], variables: list[Any]) -> None:
            current = [values[s] for s in (zero, *start)]
            for _ in range(3):
                values.update(zip(seen, current, strict=True))
                for one in tests:
                    one(values, variables)
                if not values[below]:
                    break
                values.update(zip(params, current, strict=True))
                for one in steps:
                    one(values, variables)
                current = [values[r] for r in results]
            values.update(zip(names, current, strict=True))

        self.steps.append(step)
        self.scalars.append(names[0])
        self.vectors += names[1:]


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_random_programs(first: int) -> None:
    with np.errstate(over="ignore"):
        for seed in range(first, first + 50):
            check_program(seed)


def check_program(seed: int) -> None:
    device = _core.Device()
    program = Writer(seed, device)
    made = np.random.default_rng(seed)
    inputs: list[Any] = [made.integers(-9, 9, 4).astype(np.int32) for _ in range(3)]
    inputs += [np.int32(made.integers(-1, 4)) for _ in range(2)]
    for fuse in (False, True):
        for number in program.ids:
            device.variable_write(number, DEVICE_TYPE, np.arange(4, dtype=np.int32))
        compiled = _core.graph_compile(program.text, device=device, fuse=fuse)
        harness.verified(program.text, device=device, fuse=fuse)
        for _ in range(2):  # the second run finds what the first one left
            variables = [
                np.asarray(device.variable_read(number, DEVICE_TYPE)).copy()
                for number in program.ids
            ]
            values = dict(zip(program.inputs, inputs, strict=True))
            for step in program.steps:
                step(values, variables)
            got = [np.asarray(t) for t in compiled.run(inputs)]
            for name, mine in zip(program.results, got, strict=True):
                np.testing.assert_array_equal(
                    mine, values[name], f"seed {seed}, fuse {fuse}\n{program.text}"
                )
            for number, want in zip(program.ids, variables, strict=True):
                mine = np.asarray(device.variable_read(number, DEVICE_TYPE))
                np.testing.assert_array_equal(mine, want, f"seed {seed}")
