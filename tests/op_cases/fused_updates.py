# SPDX-License-Identifier: MIT
"""Cases of what the fuse pass makes of updates."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .elementwise import instruction
from .model import DEVICE, Array, Case, Graph, In, Shape, case, given, ints, shape_label
from .resources import SHAPES, Numbers, Scenario, numbers


def rates() -> Iterator[Case]:
    for dtype in ("float32", "float16"):
        for step in (1, 2, 1000):

            def oracle(rate: Array, t: Array) -> Array:
                return rate * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)

            inputs = [In((), "float32", given(0.25)), In((), "int32", given(step))]
            attrs = f"dtype={dtype}, beta_1=0.9, beta_2=0.999"
            label = f"{dtype}_{step}"
            more = {"attrs": attrs, "float_dtype": dtype}
            yield case("adam_rate", label, inputs, oracle, **more)


def part(inputs: list[int], stored: list[int], *code: list[int]) -> list[int]:
    counts = [len(inputs), len(stored), len(code)]
    return [*counts, *inputs, *stored, *(word for words in code for word in words)]


def arithmetic(dtype: str, shape: Shape) -> Scenario:
    """Three parts: two variables that share a result; an input; one that was waiting.

    The first of the two is given what the second one held before.
    """
    kind = "logical_or" if dtype == "bool" else "add"
    other = "logical_and" if dtype == "bool" else "maximum"
    code = [
        *part(
            [0, 1],  # x, one element
            [6, 4],
            instruction(kind, dtype, 0, 3),
            instruction(other, dtype, 4, 1),
            instruction(other, dtype, 2, 5),
        ),
        *part([0], [0]),
        *part([1], [2], instruction(kind, dtype, 0, 1)),
    ]
    start = (
        *(numbers(shape, dtype, seed) for seed in (1, 2, 3)),
        numbers((), dtype, 4),
    )
    given_ = (numbers(shape, dtype, 5), numbers((1,), dtype, 6))

    def body(graph: Graph, names: list[str]) -> None:
        attrs = f"resource=0, slots=[1,2,3], code={ints(code)}"
        graph.node("fused_update", names[:2], attrs, [])

    def add(a: Array, b: Array) -> Array:
        return np.asarray(a | b if dtype == "bool" else a + b).astype(dtype)

    def larger(a: Array, b: Array) -> Array:
        return np.asarray(a & b if dtype == "bool" else np.maximum(a, b))

    def oracle(v: Numbers, x: Numbers, _: Numbers, n: int) -> tuple[Numbers, Numbers]:
        first, second, third, single = v
        for _trip in range(n):
            total = add(x[0], second)
            first, second = larger(first, larger(total, x[1])), total
            third, single = x[0], add(x[1][0], single)
        shaped = (first.reshape(shape), second, third, single)
        return [np.asarray(a, dtype) for a in shaped], []

    label = f"{dtype}_{shape_label(shape)}"
    return Scenario("fused_update", label, start, given_, body, oracle)


def of_rows(dtype: str, shape: Shape) -> Scenario:
    """A gradient of a gather, of indices of two axes, and single numbers beside it."""
    code = part(
        [-2, 0],  # rows of inputs 1 and 2, one element
        [4],
        instruction("mul", dtype, 0, 1),
        instruction("add", dtype, 2, 3),
    )
    places = np.array([[0, 4, 2], [4, 0, 4]], "int32")
    start = (numbers(shape, dtype, 1),)
    given_ = (
        numbers((), dtype, 2),
        places,
        numbers((*places.shape, *shape[1:]), dtype, 3),
    )

    def body(graph: Graph, names: list[str]) -> None:
        graph.node("fused_update", names[:3], f"resource=0, code={ints(code)}", [])

    def oracle(v: Numbers, x: Numbers, _: Numbers, n: int) -> tuple[Numbers, Numbers]:
        gradient = np.zeros(shape, dtype)
        np.add.at(gradient, x[1], x[2])
        table = v[0]
        for _trip in range(n):
            table = table + gradient * x[0]
        return [np.asarray(table, dtype)], []

    label = f"rows_{dtype}_{shape_label(shape)}"
    return Scenario("fused_update", label, start, given_, body, oracle)


def scenarios() -> Iterator[Scenario]:
    for dtype in DEVICE:
        for shape in SHAPES:
            yield arithmetic(dtype, shape)
    for shape in ((5,), (5, 3), (7, 2, 300), (5, 0)):
        yield of_rows("float32", shape)
