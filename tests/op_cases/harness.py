# SPDX-License-Identifier: MIT
"""Runs cases through graphs of many forms and compares what comes out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ipu import _core

from .model import Array, Case, Graph, Type, is_float


def run(
    text: str, inputs: Sequence[Any], device: Any = None, **options: bool
) -> list[Array]:
    return results(_core.graph_compile(text, device=device, **options), inputs)


def results(program: Any, inputs: Sequence[Any]) -> list[Array]:
    return [np.asarray(t.numpy()) for t in program.run(list(inputs))]


def verified(text: str, **options: Any) -> Any:
    """The program, whose instructions are the same without the verifier."""
    program = _core.graph_compile(text, **options)
    assert _core.graph_compile(text, verify=False, **options).text == program.text
    return program


# --- graphs around one op -------------------------------------------------------------


def start(case: Case) -> tuple[Graph, list[str]]:
    graph = Graph(case.host)
    return graph, [graph.param(i.type) for i in case.inputs]


def plain(case: Case) -> str:
    graph, names = start(case)
    return graph.finish(graph.node(case.op, names, case.attrs, case.output_types()))


def lowest(dtype: str) -> Array:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.array(-np.inf, dtype)
    return np.array(False) if kind == "b" else np.array(np.iinfo(dtype).min, dtype)


def neutral(dtype: str, before: bool) -> str:
    if dtype == "bool":
        return "logical_or"
    if before:
        return "maximum"
    return "sub" if is_float(dtype) else "add"


def chained(case: Case, held: Collection[int]) -> tuple[str, list[Array]]:
    """The op between element-wise ops that change no value, which fusing may join.

    Held: these inputs of the op are used after it as well, so that nothing may
    overwrite them.
    """
    graph, names = start(case)
    more: list[Array] = []
    wrapped = []
    for name, one in zip(names, case.inputs, strict=True):
        low = graph.param((one.dtype, ()))
        more.append(lowest(one.dtype))
        op = neutral(one.dtype, before=True)
        wrapped.append(graph.one(op, [name, low], one.type))
    zeros = []
    types = case.output_types()
    for kind in types:
        zeros.append(graph.param((kind[0], ())))
        more.append(np.zeros((), kind[0]))
    outputs = graph.node(case.op, wrapped, case.attrs, types)
    results = [
        graph.one(neutral(kind[0], before=False), [name, zero], kind)
        for name, zero, kind in zip(outputs, zeros, types, strict=True)
    ]
    for k in held:
        one = case.inputs[k]
        low = graph.param((one.dtype, ()))
        more.append(np.zeros((), one.dtype))
        op = neutral(one.dtype, before=False)
        results.append(graph.one(op, [wrapped[k], low], one.type))
    return graph.finish(results), more


def looped(case: Case) -> tuple[str, list[Array]]:
    """The op in a loop that carries its inputs and its outputs around."""
    graph, names = start(case)
    types = [i.type for i in case.inputs] + case.output_types()
    trips = graph.param(("int32", ()))
    zeros = [graph.param(kind) for kind in case.output_types()]
    body = graph.open_block()
    carried = [graph.param(kind) for kind in types][: len(names)]
    outputs = graph.node(case.op, carried, case.attrs, case.output_types())
    graph.close_block(carried + outputs)
    results = graph.node("repeat", [trips, *names, *zeros], f"body=b{body}", types)
    return graph.finish(results), [np.zeros(s, t) for t, s in case.output_types()]


MICRO_BATCHES = 4


def pipelined(case: Case) -> tuple[str, list[Array]]:
    """The op in the first of two stages, each on an IPU of its own.

    Both carry its outputs: the first as they are, the second behind an element-wise op
    that changes no value.
    """
    graph, names = start(case)
    types = case.output_types()
    zeros = [graph.param((kind[0], ())) for kind in types]
    initial = [graph.param(kind) for kind in types]
    value = MICRO_BATCHES.to_bytes(4, "little").hex()
    attrs = f"dtype=int32, shape=[], value=0x{value}"
    batches = graph.one("constant", [], ("int32", ()), attrs)
    body = graph.open_block()
    for kind in types * 2:
        graph.param(kind)
    outputs = graph.node(case.op, names, case.attrs, types, stage=0)
    passed = [
        graph.node(neutral(kind[0], before=False), [name, zero], "", [kind], stage=1)[0]
        for name, zero, kind in zip(outputs, zeros, types, strict=True)
    ]
    graph.close_block(outputs + passed)
    attrs = f'body=b{body}, schedule="Grouped", devices=[0,1]'
    results = graph.node("pipeline", [batches, *initial, *initial], attrs, types * 2)
    more = [np.zeros((), t) for t, _ in types] + [np.zeros(s, t) for t, s in types]
    return graph.finish(results), more


def graded(case: Case) -> list[int]:
    """The outputs that have a gradient."""
    types = enumerate(case.output_types())
    return [k for k, kind in types if is_float(kind[0]) and k not in case.kept]


def weighted(case: Case) -> tuple[str, list[Array]]:
    """A scalar: the sum of the outputs that have a gradient, each times a weight."""
    graph, names = start(case)
    types = case.output_types()
    weights = [(graph.param(types[k]), types[k]) for k in graded(case)]
    outputs = graph.node(case.op, names, case.attrs, types)
    floats = [outputs[k] for k in graded(case)]
    scalar: Type = (case.out_float(), ())
    total = ""
    for name, (weight, kind) in zip(floats, weights, strict=True):
        product = graph.one("mul", [name, weight], kind)
        axes = ",".join(str(i) for i in range(len(kind[1])))
        part = graph.one("sum", [product], (kind[0], ()), f"axes=[{axes}]")
        if kind[0] != scalar[0]:
            part = graph.one("cast", [part], scalar, f"dtype={scalar[0]}")
        total = graph.one("add", [total, part], scalar) if total else part
    rng = np.random.default_rng(11)
    values = [
        np.asarray(rng.choice([-1.0, -0.5, 0.5, 1.0], s), t) for _, (t, s) in weights
    ]
    return graph.finish([total]), values


# --- comparing ------------------------------------------------------------------------


def bits_of(x: Array) -> Array:
    """The bits, with one pattern for all NaN."""
    if x.dtype.kind != "f":
        return x
    clean = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
    return clean.view(f"u{x.dtype.itemsize}")


def same_bits(got: Sequence[Array], want: Sequence[Array], what: str) -> None:
    assert len(got) == len(want), what
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), what
        if a.tobytes() == b.tobytes():
            continue
        differ = np.argwhere(bits_of(a) != bits_of(b))
        if len(differ):
            at = tuple(differ[0])
            raise AssertionError(
                f"{what}: output {k} differs in {len(differ)} of {a.size} elements, "
                f"first at {at}: {a[at]!r} and {b[at]!r}"
            )


def close(case: Case, got: Sequence[Array], want: Sequence[Array], what: str) -> None:
    """Within the case's tolerance of the oracle; exact ones to the bit."""
    types = case.output_types()
    assert [(g.dtype.name, g.shape) for g in got] == types, what
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        with np.errstate(all="ignore"):
            rounded = b.astype(a.dtype)
        if case.exact or a.dtype.kind != "f":
            same_bits([a], [rounded], f"{what}, output {k}")
            continue
        info = np.finfo(a.dtype)
        size = np.abs(b)
        if case.bound is not None:
            size = np.maximum(size, case.bound(*map(np.abs, floats_of(case))))
        with np.errstate(all="ignore"):
            wide = a.astype(np.float64)
            room = case.ulps * (float(info.eps) * size + float(info.smallest_subnormal))
            wrong = ~(np.abs(wide - b) <= room)
            if case.bound is None:  # then also the sign of a zero counts
                wrong |= (a == 0) & (rounded == 0) & (np.signbit(a) != np.signbit(b))
            wrong &= bits_of(a) != bits_of(rounded)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            raise AssertionError(
                f"{what}: output {k} is wrong in {wrong.sum()} of {a.size} elements, "
                f"first at {at}: {a[at]!r}, but the oracle has {b[at]!r}"
            )


def floats_of(case: Case) -> list[Array]:
    return [v.astype(np.float64) for v in case.values() if v.dtype.kind in "fiu"]


# --- gradients ------------------------------------------------------------------------


def differences(
    f: Callable[[list[Array]], float], values: Sequence[Array], rng: np.random.Generator
) -> list[tuple[list[Array], float]]:
    """(direction, derivative along it) pairs by central differences.

    One direction for each element where there are few, else a handful of random ones.
    """
    step = 1e-5
    count = sum(v.size for v in values)
    directions = []
    if count <= 40:
        for k, v in enumerate(values):
            for i in range(v.size):
                way = [np.zeros(w.shape) for w in values]
                way[k].reshape(-1)[i] = 1.0
                directions.append(way)
    else:
        for _ in range(4):
            ways = [rng.choice([-1.0, 1.0], w.shape) for w in values]
            directions.append([np.asarray(w) for w in ways])
    found = []
    for way in directions:
        up = f([v + step * d for v, d in zip(values, way, strict=True)])
        down = f([v - step * d for v, d in zip(values, way, strict=True)])
        found.append((way, (up - down) / (2 * step)))
    return found


TOLERANCE = {"float64": 2e-7, "float32": 2e-5, "float16": 1e-2}


def check_gradient(
    gradients: Sequence[Array],
    found: Sequence[tuple[list[Array], float]],
    dtype: str,
    what: str,
) -> None:
    """Fails where a derivative along a direction is not what the differences say."""
    for way, slope in found:
        products = [
            g.astype(np.float64) * d for g, d in zip(gradients, way, strict=True)
        ]
        mine = sum(float(p.sum()) for p in products)
        size = 1.0 + abs(slope) + sum(float(np.abs(p).sum()) for p in products)
        if not abs(mine - slope) <= TOLERANCE[dtype] * size:
            where = [tuple(np.argwhere(d)[0]) if d.any() else () for d in way]
            raise AssertionError(
                f"{what}: the gradient along {where} is {mine!r}, but central "
                f"differences give {slope!r}"
            )


def numeric_gradient(
    case: Case, values: Sequence[Array], weights: Sequence[Array]
) -> list[tuple[list[Array], float]]:
    """Central differences of the oracle, with respect to the float inputs."""
    places = [k for k, v in enumerate(values) if v.dtype.kind == "f"]

    def loss(xs: list[Array]) -> float:
        args = list(values)
        for k, x in zip(places, xs, strict=True):
            args[k] = x
        expected = case.expect(args)
        pairs = zip([expected[k] for k in graded(case)], weights, strict=True)
        return float(sum((o * w.astype(np.float64)).sum() for o, w in pairs))

    wide = [values[k].astype(np.float64) for k in places]
    return differences(loss, wide, np.random.default_rng(5))


@lru_cache(maxsize=64)
def gradient_graph(text: str) -> str:
    return _core.graph_gradients(text)


def only_result(text: str, k: int) -> str:
    """The graph with its k-th result alone."""
    results = re.findall(r"-> \((.*)\)\s*$", text)[-1].split(", ")
    return re.sub(r"-> \([^)]*\)\s*$", f"-> ({results[k]})\n", text)
