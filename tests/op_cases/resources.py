# SPDX-License-Identifier: MIT
"""Scenarios of the ops that change a device or move data in and out of it, in loops.

Each runs its body a number of trips and states what every variable and every result is
afterwards, in NumPy. Variables follow their formulas in the dtype of the variable, one
rounded operation after another, so that results are equal to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ipu import _core

from .elementwise import THREADED
from .model import Array, Graph, Shape, shape_label, type_text

Body = Callable[[Graph, list[str]], None]
Numbers = list[Array]


@dataclass(frozen=True)
class Scenario:
    """A loop whose body is made of one resource op and what it needs.

    `body` writes nodes, given the names of `inputs`; `oracle` gives the variables and
    the elements out after the trips, from (variables, inputs, elements in, trips).
    """

    op: str
    label: str
    variables: tuple[Array, ...]
    inputs: tuple[Array, ...]
    body: Body
    oracle: Callable[[Numbers, Numbers, Numbers, int], tuple[Numbers, Numbers]]
    infeed: tuple[Array, ...] = ()
    outfeed: tuple[tuple[str, Shape], ...] = ()
    covers: tuple[str, ...] = field(default=())

    @property
    def id(self) -> str:
        return f"{self.op}-{self.label}"


@dataclass
class Outcome:
    variables: Numbers
    elements: Numbers


def play(scenario: Scenario, trips: int, **options: bool) -> Outcome:
    device = _core.Device()
    resources = []
    types = [(v.dtype.name, v.shape) for v in scenario.variables]
    ids = []
    for value, kind in zip(scenario.variables, types, strict=True):
        ids.append(device.variable_add(*kind))
        device.variable_write(ids[-1], kind, value)
        number = len(resources)
        resources.append(
            f'resource r{number} variable id={ids[-1]} "v{number}" {type_text(kind)}'
        )
    infeed = outfeed = feeder = None
    if scenario.infeed:
        parts = [(a.dtype.name, a.shape[1:]) for a in scenario.infeed]
        infeed = _core.Infeed(device, parts)
        data = _core.Dataset.slices(tuple(_core.Tensor(a) for a in scenario.infeed))
        feeder = _core.Feeder(data, infeed)
        text = ", ".join(map(type_text, parts))
        resources.append(
            f'resource r{len(resources)} infeed id={infeed.id} "in" {text}'
        )
    if scenario.outfeed:
        outfeed = _core.Outfeed(device, scenario.outfeed)
        text = ", ".join(map(type_text, scenario.outfeed))
        resources.append(
            f'resource r{len(resources)} outfeed id={outfeed.id} "out" {text}'
        )
    graph = Graph(resources=resources)
    names = [graph.param((a.dtype.name, a.shape)) for a in scenario.inputs]
    count = graph.param(("int32", ()))
    block = graph.open_block()
    scenario.body(graph, names)
    graph.close_block([])
    graph.node("repeat", [count], f"body=b{block}", [])
    program = _core.graph_compile(graph.finish([]), device=device, **options)
    program.run([*scenario.inputs, np.array(trips, np.int32)])
    found = [
        np.asarray(device.variable_read(i, kind).numpy())
        for i, kind in zip(ids, types, strict=True)
    ]
    elements = []
    if outfeed is not None:
        assert outfeed.wait(trips, 5.0) == trips
        elements = [np.asarray(t.numpy()) for t in outfeed.take()]
    if feeder is not None:
        feeder.stop()
    return Outcome(found, elements)


# --- variables ------------------------------------------------------------------------


def numbers(shape: Shape, dtype: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.uniform(-2, 2, shape).astype(dtype)
    return np.asarray(rng.integers(0, 2 if dtype == "bool" else 100, shape)).astype(
        dtype
    )


def one_write(op: str) -> Body:
    def body(graph: Graph, names: list[str]) -> None:
        graph.node(op, names[:1], "resource=0", [])

    return body


def assign_oracle(
    v: Numbers, x: Numbers, _: Numbers, n: int
) -> tuple[Numbers, Numbers]:
    return ([x[0]] if n else v), []


def add_oracle(v: Numbers, x: Numbers, _: Numbers, n: int) -> tuple[Numbers, Numbers]:
    total = v[0]
    for _trip in range(n):
        total = np.asarray(total + x[0]).astype(total.dtype)
    return [total], []


SHAPES: tuple[Shape, ...] = ((), (1,), (0,), (5, 3), THREADED)


def plain_writes() -> Iterator[Scenario]:
    dtypes = ("float32", "float16", "int32", "int8", "uint8", "bool")
    for dtype in dtypes:
        for shape in SHAPES:
            label = f"{dtype}_{shape_label(shape)}"
            v, x = (numbers(shape, dtype, seed) for seed in (1, 2))
            body = one_write("variable_assign")
            yield Scenario("variable_assign", label, (v,), (x,), body, assign_oracle)
            if dtype != "bool":
                body = one_write("variable_add")
                yield Scenario("variable_add", label, (v,), (x,), body, add_oracle)

            def read(graph: Graph, names: list[str], v: Array = v) -> None:
                kind = (v.dtype.name, v.shape)
                value = graph.one("variable_read", [], kind, "resource=0")
                graph.node("variable_assign", names[:1], "resource=0", [])
                # what was read stays what it was, though the variable has changed
                graph.node("variable_assign", [value], "resource=1", [])

            def oracle(
                v: Numbers, x: Numbers, _: Numbers, n: int
            ) -> tuple[Numbers, Numbers]:
                return (v if n == 0 else [x[0], v[0] if n == 1 else x[0]]), []

            other = np.zeros_like(v)
            yield Scenario("variable_read", label, (v, other), (x,), read, oracle)


# --- optimizers -----------------------------------------------------------------------


def optimizer_inputs(shape: Shape, dtype: str) -> tuple[Array, Array]:
    return numbers(shape, dtype, 4), np.array(0.05, np.float32)


def sgd(dtype: str, shape: Shape, momentum: float, nesterov: bool) -> Scenario:
    gradient, rate = optimizer_inputs(shape, dtype)
    start = [numbers(shape, dtype, 3)] + [np.zeros(shape, dtype)] * (momentum > 0)
    attrs = f"resource=0, momentum={momentum!r}, nesterov={str(nesterov).lower()}"
    attrs += ", slots=[1]" if momentum else ""

    def body(graph: Graph, names: list[str]) -> None:
        graph.node("sgd_update", names, attrs, [])

    def oracle(v: Numbers, x: Numbers, _: Numbers, n: int) -> tuple[Numbers, Numbers]:
        t = np.dtype(dtype).type
        v = list(v)
        step = x[0] * t(rate)
        for _trip in range(n):
            if momentum:
                v[1] = np.asarray(t(momentum) * v[1] - step)
                v[0] = v[0] + (t(momentum) * v[1] - step if nesterov else v[1])
            else:
                v[0] = np.asarray(v[0] - step)
        return [np.asarray(w, dtype) for w in v], []

    kind = ("nesterov" if nesterov else "momentum") if momentum else "plain"
    label = f"{dtype}_{kind}_{shape_label(shape)}"
    return Scenario("sgd_update", label, tuple(start), (gradient, rate), body, oracle)


Product = tuple[int, int, int]
PRODUCTS: tuple[Product, ...] = (
    (1, 1, 1),
    (5, 3, 2),
    (784, 256, 32),  # weight gradients of the tutorial's model
    (64, 10, 32),
    (50, 33, 600),
    (67, 40, 1100),  # a sum too long to stay in registers
    (3, 0, 4),
    (4, 3, 0),
)


def product_update(
    dtype: str, product: Product, transpose: tuple[bool, bool], joined: bool
) -> Scenario:
    """An update by a product of small integers, which is exact in any order.

    `joined`: as the one op; otherwise as two, which the fuse pass joins.
    """
    m, n, k = product
    rng = np.random.default_rng(6)
    a = rng.integers(-3, 4, (k, m) if transpose[0] else (m, k)).astype(dtype)
    b = rng.integers(-3, 4, (n, k) if transpose[1] else (k, n)).astype(dtype)
    rate = np.array(0.05, np.float32)
    start = (numbers((m, n), dtype, 3), np.zeros((m, n), dtype))
    turned = ", ".join(
        f"transpose_{side}={str(turn).lower()}"
        for side, turn in zip("ab", transpose, strict=True)
    )
    attrs = "resource=0, momentum=0.9, nesterov=false, slots=[1]"

    def body(graph: Graph, names: list[str]) -> None:
        if joined:
            graph.node("matmul_sgd_update", names, f"{turned}, {attrs}", [])
            return
        gradient = graph.one("matmul", names[:2], (dtype, (m, n)), turned)
        graph.node("sgd_update", [gradient, names[2]], attrs, [])

    def oracle(v: Numbers, x: Numbers, _: Numbers, n: int) -> tuple[Numbers, Numbers]:
        t = np.dtype(dtype).type
        left = x[0].T if transpose[0] else x[0]
        right = x[1].T if transpose[1] else x[1]
        exact = left.astype(np.float64) @ right.astype(np.float64)
        step = exact.astype(dtype) * t(rate)
        w, velocity = v
        for _trip in range(n):
            velocity = t(0.9) * velocity - step
            w = w + velocity
        return [np.asarray(w, dtype), np.asarray(velocity, dtype)], []

    turns = "".join("t" if turn else "n" for turn in transpose)
    label = f"{dtype}_{m}x{n}x{k}_{turns}_{'one' if joined else 'two'}"
    return Scenario("matmul_sgd_update", label, start, (a, b, rate), body, oracle)


def product_updates() -> Iterator[Scenario]:
    for product in PRODUCTS:
        for transpose in ((True, False), (False, False), (True, True)):
            yield product_update("float32", product, transpose, joined=False)
        yield product_update("float32", product, (False, True), joined=True)


def row_update(
    dtype: str,
    shape: Shape,
    picked: Sequence[int],
    momentum: float = 0.0,
    nesterov: bool = False,
    rate: float = 0.05,
    joined: bool = True,
) -> Scenario:
    """An update by the gradient of a gather of rows.

    `joined`: as the one op; otherwise as two, which the fuse pass joins.
    """
    start = [numbers(shape, dtype, 3)] + [np.zeros(shape, dtype)] * (momentum > 0)
    start[0][shape[0] // 2 :: 3] = -0.0
    indices = np.array(picked, np.int32)
    rows = numbers((*indices.shape, *shape[1:]), dtype, 5)
    speed = np.array(rate, np.float32)
    attrs = f"resource=0, momentum={momentum!r}, nesterov={str(nesterov).lower()}"
    attrs += ", slots=[1]" if momentum else ""
    whole = f"shape=[{','.join(map(str, shape))}]"

    def body(graph: Graph, names: list[str]) -> None:
        if joined:
            graph.node("gather_sgd_update", names, f"{whole}, {attrs}", [])
            return
        gradient = graph.one("gather_grad", names[:2], (dtype, shape), whole)
        graph.node("sgd_update", [gradient, names[2]], attrs, [])

    def oracle(v: Numbers, x: Numbers, _: Numbers, n: int) -> tuple[Numbers, Numbers]:
        t = np.dtype(dtype).type
        total = np.zeros(shape, np.float32)  # in the order of the indices
        np.add.at(total, x[0], x[1].astype(np.float32))
        with np.errstate(all="ignore"):
            step = total.astype(dtype) * t(x[2])
            v = list(v)
            for _trip in range(n):
                if momentum:
                    v[1] = np.asarray(t(momentum) * v[1] - step)
                    v[0] = v[0] + (t(momentum) * v[1] - step if nesterov else v[1])
                else:
                    v[0] = np.asarray(v[0] - step)
        return [np.asarray(w, dtype) for w in v], []

    kind = ("nesterov" if nesterov else "momentum") if momentum else "plain"
    form = "one" if joined else "two"
    label = f"{dtype}_{kind}_{shape_label(shape)}_{len(picked)}_{rate}_{form}"
    inputs = (indices, rows, speed)
    return Scenario("gather_sgd_update", label, tuple(start), inputs, body, oracle)


def row_updates() -> Iterator[Scenario]:
    many = np.random.default_rng(7).integers(0, 40, 300).tolist()
    for dtype in ("float32", "float16"):
        for joined in (False, True):
            more: dict[str, Any] = {"joined": joined}
            for picked in ([], [3], [4, 0, 4, 4, 1], many):
                yield row_update(dtype, (40, 7), picked, **more)
                yield row_update(dtype, (40, 7), picked, 0.9, **more)
            yield row_update(dtype, (40, 7), many, 0.9, True, **more)
            yield row_update(dtype, (1, 3), [0, 0], **more)
            yield row_update(dtype, (50,), many, **more)
            yield row_update(dtype, (5, 2, 300), [1, 2, 1], **more)
        # rates at which a gradient of zero changes something
        for rate in (-0.05, -0.0, float("inf"), float("nan")):
            yield row_update(dtype, (40, 7), [3, 1, 3], rate=rate)
    yield row_update("float32", (3000, 65), many)
    yield row_update("float32", (3000, 65), many, 0.9)


def adam(dtype: str, shape: Shape) -> Scenario:
    gradient, rate = optimizer_inputs(shape, dtype)
    zero = np.zeros(shape, dtype)
    start = (numbers(shape, dtype, 3), zero, zero, np.array(0, np.int32))
    epsilon = 1e-3 if dtype == "float16" else 1e-7
    attrs = f"resource=0, slots=[1,2], beta_1=0.9, beta_2=0.999, epsilon={epsilon!r}"

    def body(graph: Graph, names: list[str]) -> None:
        graph.node("variable_add", names[2:], "resource=3", [])
        step = graph.one("variable_read", [], ("int32", ()), "resource=3")
        graph.node("adam_update", [*names[:2], step], attrs, [])

    def oracle(v: Numbers, x: Numbers, _: Numbers, n: int) -> tuple[Numbers, Numbers]:
        t = np.dtype(dtype).type
        w, m, s = v[:3]
        g = x[0]
        for k in range(1, n + 1):
            alpha = float(rate) * np.sqrt(1 - 0.999**k) / (1 - 0.9**k)
            m = m + (g - m) * t(1 - 0.9)
            s = s + (g * g - s) * t(1 - 0.999)
            w = w - t(alpha) * m / (np.sqrt(s) + t(epsilon))
        values = [np.asarray(a, dtype) for a in (w, m, s)]
        return [*values, np.array(n, np.int32)], []

    one = np.array(1, np.int32)
    label = f"{dtype}_{shape_label(shape)}"
    return Scenario("adam_update", label, start, (gradient, rate, one), body, oracle)


def optimizers() -> Iterator[Scenario]:
    for dtype in ("float32", "float16"):
        for shape in SHAPES:
            yield sgd(dtype, shape, 0.0, False)
            yield sgd(dtype, shape, 0.9, False)
            yield sgd(dtype, shape, 0.9, True)
            yield adam(dtype, shape)


# --- queues and loops -----------------------------------------------------------------


def queues() -> Iterator[Scenario]:
    for dtype in ("float32", "float16", "int32", "int8", "uint8", "bool"):
        for shape in ((), (1,), (0,), (5, 3), (301, 21)):
            elements = (numbers((7, *shape), dtype, 8), numbers((7,), "int32", 9))
            kinds = ((dtype, shape), ("int32", ()))

            def body(graph: Graph, names: list[str], kinds: Any = kinds) -> None:
                got = graph.node("infeed_dequeue", [], "resource=0", kinds)
                twice = graph.one("add", [got[1], got[1]], kinds[1])
                graph.node("outfeed_enqueue", [got[0], twice], "resource=1", [])

            def oracle(
                v: Numbers, x: Numbers, fed: Numbers, n: int
            ) -> tuple[Numbers, Numbers]:
                return [], [fed[0][:n], 2 * fed[1][:n]]

            label = f"{dtype}_{shape_label(shape)}"
            yield Scenario(
                "infeed_dequeue",
                label,
                (),
                (),
                body,
                oracle,
                infeed=elements,
                outfeed=kinds,
                covers=("outfeed_enqueue",),
            )


def nested(graph: Graph, names: list[str]) -> None:
    inner = graph.open_block()
    graph.node("variable_add", names[:1], "resource=0", [])
    graph.close_block([])
    graph.node("repeat", [names[1]], f"body=b{inner}", [])


def nested_oracle(
    v: Numbers, x: Numbers, _: Numbers, n: int
) -> tuple[Numbers, Numbers]:
    total = v[0]
    for _trip in range(n * int(x[1])):
        total = total + x[0]
    return [total], []


def number(graph: Graph, value: int) -> str:
    bits = np.array(value, np.int32).tobytes().hex()
    attrs = f"dtype=int32, shape=[], value=0x{bits}"
    return graph.one("constant", [], ("int32", ()), attrs)


def counted_while(graph: Graph, names: list[str]) -> None:
    """Adds while a counter is below the second input, ten times at most."""
    zero, one = number(graph, 0), number(graph, 1)
    test = graph.open_block()
    i = graph.param(("int32", ()))
    graph.close_block([graph.one("less", [i, names[1]], ("bool", ()))])
    inner = graph.open_block()
    i = graph.param(("int32", ()))
    graph.node("variable_add", names[:1], "resource=0", [])
    graph.close_block([graph.one("add", [i, one], ("int32", ()))])
    attrs = f"condition=b{test}, body=b{inner}, maximum_iterations=10"
    graph.node("while", [zero], attrs, [("int32", ())])


def while_oracle(v: Numbers, x: Numbers, _: Numbers, n: int) -> tuple[Numbers, Numbers]:
    return nested_oracle(v, [x[0], np.minimum(x[1], 10)], _, n)


def chosen(graph: Graph, names: list[str]) -> None:
    """Adds, assigns or does nothing, by the second input."""
    blocks = []
    for op in ("variable_add", "variable_assign", ""):
        blocks.append(f"b{graph.open_block()}")
        if op:
            graph.node(op, names[:1], "resource=0", [])
        graph.close_block([])
    graph.node("switch", [names[1]], f"branches=[{','.join(blocks)}]", [])


def chosen_oracle(
    v: Numbers, x: Numbers, _: Numbers, n: int
) -> tuple[Numbers, Numbers]:
    value = v[0]
    for _trip in range(n):
        value = {0: value + x[0], 1: x[0]}.get(int(x[1]), value)
    return [value], []


def branches() -> Iterator[Scenario]:
    v, x = numbers((5, 3), "float32", 1), numbers((5, 3), "float32", 2)
    for count in (-1, 0, 3, 12):
        more = (x, np.array(count, np.int32))
        label = f"counted_{count}"
        yield Scenario("while", label, (v,), more, counted_while, while_oracle)
    for which in (-1, 0, 1, 2, 3):
        more = (x, np.array(which, np.int32))
        yield Scenario("switch", f"branch_{which}", (v,), more, chosen, chosen_oracle)


def loops() -> Iterator[Scenario]:
    for inner in (0, 1, 4):
        v, x = numbers((5, 3), "float32", 1), numbers((5, 3), "float32", 2)
        more: Sequence[Array] = (x, np.array(inner, np.int32))
        label = f"nested_{inner}"
        yield Scenario("repeat", label, (v,), tuple(more), nested, nested_oracle)


def scenarios() -> tuple[Scenario, ...]:
    return (
        *plain_writes(),
        *optimizers(),
        *product_updates(),
        *row_updates(),
        *queues(),
        *loops(),
        *branches(),
    )
