# SPDX-License-Identifier: MIT
"""Element-wise and random ops give the same bits on every class of processor, for all
dtypes, in the body of a loop and in its tail; in place, and with broadcast operands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from grouped import in_groups
from op_cases.coverage import FLAGS, RULES, TABLE, serves
from op_cases.harness import same_bits
from op_cases.model import ALL, FLOATS, INTS, NUMBERS, SPECIAL, Array, Graph

from ipu import _core

CLASSES = ("generic", "avx2", "avx512")
LENGTHS = (1, 7, 15, 16, 17, 33, 1031)
# integers divide by zero, or have negative powers, in these values
FAULTY = ("floor_div", "floor_mod", "pow")


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    before = os.environ.get("IPU_CPU_CLASS")
    yield
    os.environ.pop("IPU_CPU_CLASS", None)
    if before is not None:
        os.environ["IPU_CPU_CLASS"] = before


def values(dtype: str, count: int, seed: int) -> Array:
    """Any bits, everyday numbers, and for floats all kinds of special ones."""
    random = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.asarray(random.random(count) < 0.5)
    width = f"u{kind.itemsize}"
    top = np.iinfo(width).max
    bits = random.integers(0, top, count, width, endpoint=True).view(kind)
    if kind.kind in "iu":
        small = random.integers(0, 9, count).astype(kind)
        return np.asarray(np.where(random.random(count) < 0.3, small, bits))
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL).astype(kind)
        everyday = (3.0 * random.standard_normal(count)).astype(kind)
    picked = np.where(random.random(count) < 0.5, everyday, bits)
    places = random.random(count) < 0.2
    picked[places] = random.choice(special, int(places.sum()))
    return picked


def on_each_class(text: str, inputs: list[Array]) -> dict[str, list[Array]]:
    results = {}
    for name in CLASSES:
        os.environ["IPU_CPU_CLASS"] = name
        if _core.cpu_class() == name:
            program = _core.graph_compile(text)
            results[name] = [np.asarray(t.numpy()) for t in program.run(inputs)]
    return results


def all_the_same(text: str, inputs: list[Array], what: str) -> list[Array]:
    results = on_each_class(text, inputs)
    for name, got in results.items():
        same_bits(got, results["generic"], f"{what}: {name} and generic")
    return results["generic"]


def graph_of(op: str, dtypes: list[str], result: str, count: int, attrs: str) -> str:
    graph = Graph(host=True)
    names = [graph.param((dtype, (count,))) for dtype in dtypes]
    return graph.finish([graph.one(op, names, (result, (count,)), attrs)])


def cases() -> Iterator[Any]:
    element_wise = {op for op, flags in TABLE.items() if flags & FLAGS["elementwise"]}
    for op in sorted(element_wise - {"select", "cast", "fused_elementwise"}):
        operands, letter = RULES[op].split(":")
        for dtype in serves(op):
            if not (op in FAULTY and dtype in INTS):
                result = "bool" if letter == "b" else dtype
                inputs = [dtype] * len(operands)
                yield op, inputs, result, ""
    for dtype in ALL:
        inputs = ["bool", dtype, dtype]
        yield "select", inputs, dtype, ""
        for target in ALL:
            yield "cast", [dtype], target, f"dtype={target}"


@in_groups(cases(), group=lambda case: case[0])
def test_all_classes_give_the_same_bits(case: Any) -> None:
    op, dtypes, result, attrs = case
    for count in LENGTHS:
        inputs = [values(d, count, seed) for seed, d in enumerate(dtypes)]
        text = graph_of(op, dtypes, result, count, attrs)
        whole = all_the_same(text, inputs, f"{count} elements")
    # an element's result does not depend on where it stands
    text = graph_of(op, dtypes, result, count - 3, attrs)
    later = on_each_class(text, [x[3:] for x in inputs])
    for name, got in later.items():
        same_bits(got, [whole[0][3:]], f"{name}, three elements further on")


@pytest.mark.parametrize("whole", [(19, 37), (700, 5), (3, 4500)])
@pytest.mark.parametrize("op", ["add", "sub", "mul", "maximum", "less", "left_shift"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_broadcast_operands(op: str, dtype: str, whole: tuple[int, int]) -> None:
    """Of a row, a column and one number."""
    if dtype in FLOATS and op == "left_shift":
        pytest.skip("of integers")
    graph = Graph(host=True)
    shapes = [whole, whole[1:], (whole[0], 1), ()]
    names = [graph.param((dtype, shape)) for shape in shapes]
    result = ("bool" if op == "less" else dtype, shapes[0])
    graph_text = graph.finish([graph.one(op, [names[0], n], result) for n in names])
    inputs = [
        values(dtype, int(np.prod(s)), k).reshape(s) for k, s in enumerate(shapes)
    ]
    got = all_the_same(graph_text, inputs, op)
    count = int(np.prod(shapes[0]))
    plain = graph_of(op, [dtype] * 2, result[0], count, "")
    for k, other in enumerate(inputs):
        wide = np.ascontiguousarray(np.broadcast_to(other, shapes[0])).reshape(-1)
        want = all_the_same(plain, [inputs[0].reshape(-1), wide], op)
        same_bits([got[k].reshape(-1)], want, f"operand {k} broadcast")


@pytest.mark.parametrize("dtype", NUMBERS)
def test_columns_of_chains(dtype: str) -> None:
    """Of two columns, the second is a left operand, too."""
    shape = (157, 43)
    graph = Graph(host=True)
    kind = (dtype, shape)
    x = graph.param(kind)
    one, two = graph.param((dtype, (157, 1))), graph.param((dtype, (157, 1)))
    y = graph.one("sub", [x, one], kind)
    y = graph.one("mul", [graph.one("mul", [y, one], kind), x], kind)
    text = graph.finish(
        [graph.one("sub", [two, graph.one("sub", [y, two], kind)], kind)]
    )
    assert "fused_elementwise." in _core.graph_compile(text).text
    inputs = [
        values(dtype, int(np.prod(s)), k).reshape(s)
        for k, s in enumerate((shape, (157, 1), (157, 1)))
    ]
    got = all_the_same(text, inputs, "a chain")
    plain = _core.graph_compile(text, fuse=False).run(inputs)
    same_bits(got, [np.asarray(t.numpy()) for t in plain], "fused and not")


@pytest.mark.parametrize("dtype", ALL)
def test_in_place(dtype: str) -> None:
    """A loop's carried value is overwritten by what is made of it."""
    op = "logical_not" if dtype == "bool" else "square"
    count = 1031
    graph = Graph(host=True)
    start = graph.param((dtype, (count,)))
    trips = graph.param(("int32", ()))
    body = graph.open_block()
    carried = graph.param((dtype, (count,)))
    graph.close_block([graph.one(op, [carried], (dtype, (count,)))])
    text = graph.finish(
        graph.node("repeat", [trips, start], f"body=b{body}", [(dtype, (count,))])
    )
    value = values(dtype, count, 3)
    got = all_the_same(text, [value, np.array(3, np.int32)], "in a loop")
    plain = graph_of(op, [dtype], dtype, count, "")
    for _ in range(3):
        value = all_the_same(plain, [value], "one by one")[0]
    same_bits(got, [value], "in place and not")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("op", "oracle"), [("floor_mod", np.mod), ("floor_div", None)])
def test_near_quotients(op: str, oracle: Any, dtype: str) -> None:
    """A block whose quotients are all small takes another way: here they are whole, or
    the smallest step beside it, of all sizes and signs."""
    random = np.random.default_rng(2)
    count = 4096
    divisor = random.standard_normal(count) * 2.0 ** random.integers(-20, 20, count)
    whole = random.integers(1, 1 << 20, count)
    value = (divisor * whole).astype(dtype)
    divisor = divisor.astype(dtype) * random.choice([-1, 1], count).astype(dtype)
    steps = random.choice([-np.inf, 0.0, np.inf], count).astype(dtype)
    value = np.where(steps == 0, value, np.nextafter(value, steps))
    text = graph_of(op, [dtype, dtype], dtype, count, "")
    got = all_the_same(text, [value, divisor], op)
    reference = _core.graph_compile(text, reference=True).run([value, divisor])
    same_bits(got, [np.asarray(t.numpy()) for t in reference], "reference kernel")
    if oracle is not None:
        same_bits(got, [oracle(value, divisor)], "NumPy")


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("op", ["floor_mod", "floor_div"])
@pytest.mark.parametrize("bits", [20, 52, 53, 63])
def test_near_whole_quotients(op: str, dtype: str, bits: int) -> None:
    """Blocks of numbers below 2^52 are divided as float64: whole quotients, and those
    one below."""
    random = np.random.default_rng(bits)
    count = 4096
    value = random.integers(0, 1 << bits, count, np.uint64)
    divisor = random.integers(1, 1 << 63, count, np.uint64)
    divisor = np.maximum(divisor >> random.integers(0, 63, count, np.uint64), 1)
    value = value // divisor * divisor
    value -= np.minimum(value, random.integers(0, 2, count, np.uint64))
    value, divisor = value.astype(dtype), divisor.astype(dtype)
    if dtype == "int64":
        value *= random.choice([-1, 1], count)
        divisor *= random.choice([-1, 1], count)
    text = graph_of(op, [dtype, dtype], dtype, count, "")
    got = all_the_same(text, [value, divisor], op)
    oracle = np.mod if op == "floor_mod" else np.floor_divide
    same_bits(got, [oracle(value, divisor)], "NumPy")


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("op", "nothing"), [("sum", 0), ("prod", 1), ("max", -np.inf), ("min", np.inf)]
)
def test_short_rows(op: str, nothing: float, dtype: str) -> None:
    """Short rows that follow each other are reduced side by side, by the tree of one
    row: here one joined with a row that changes nothing."""
    for length in (1, 2, 3, 7, 16, 17):
        for rows in (1, 64, 65):
            value = values(dtype, rows * length, length).reshape(rows, length)
            graph = Graph(host=True)
            x = graph.param((dtype, (rows, length)))
            alone = graph.one(op, [x], (dtype, (rows,)), "axes=[1]")
            y = graph.param((dtype, (2, rows, length)))
            joined = graph.one(op, [y], (dtype, (rows,)), "axes=[0, 2]")
            text = graph.finish([alone, joined])
            both = np.stack([value, np.full_like(value, nothing)])
            got = all_the_same(text, [value, both], op)
            same_bits([got[0]], [got[1]], f"{rows} rows of {length}")


@pytest.mark.parametrize("op", ["sum", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8"])
def test_a_row_is_folded_alone(op: str, dtype: str) -> None:
    """Kernels may read what comes after a row: it changes nothing."""
    for length in (31, 33, 131):
        value = values(dtype, 3 * length, length).reshape(3, length)
        found = []
        for rows in (3, 1):
            graph = Graph(host=True)
            x = graph.param((dtype, (rows, length)))
            result = graph.one(op, [x], (dtype, (rows,)), "axes=[1]")
            text = graph.finish([result])
            for part in np.split(value, 3 // rows):
                found.append(all_the_same(text, [part], op)[0])
        same_bits([found[0]], [np.concatenate(found[1:])], f"rows of {length}")


DRAWN = ("random_uniform", "random_normal", "truncated_normal")


def random_graph(op: str, dtype: str, count: int) -> tuple[str, list[Array]]:
    graph = Graph(host=True)
    kind = (dtype, (count,))
    attrs = f"dtype={dtype}, shape=[{count}], ordinal=3"
    if op == "random_integer":
        ends = [graph.param((dtype, ())) for _ in range(2)]
        drawn = graph.node(op, ends, f"shape=[{count}], ordinal=3", [kind])
        return graph.finish(drawn), [np.array(n, dtype) for n in (3, 101)]
    if op == "dropout":
        x = graph.param(kind)
        attrs = "rate=0.3, ordinal=3"
        drawn = graph.node(op, [x], attrs, [kind, ("bool", (count,))])
        return graph.finish(drawn), [values(dtype, count, 5)]
    return graph.finish(graph.node(op, [], attrs, [kind])), []


@pytest.mark.parametrize("count", [1, 3, 30, 513, 70_001])
@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *((op, dtype) for op in (*DRAWN, "dropout") for dtype in FLOATS),
        *(("random_integer", dtype) for dtype in INTS),
    ],
)
def test_random_numbers(op: str, dtype: str, count: int) -> None:
    """Equal on all classes, and to the reference kernels."""
    text, inputs = random_graph(op, dtype, count)
    got = all_the_same(text, inputs, op)
    reference = _core.graph_compile(text, reference=True).run(inputs)
    same_bits(got, [np.asarray(t.numpy()) for t in reference], "reference kernel")
