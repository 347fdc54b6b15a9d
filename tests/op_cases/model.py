# SPDX-License-Identifier: MIT
"""What a case is: an op, inputs, and an oracle in NumPy; and graphs as text."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Maker = Callable[[np.random.Generator, Shape, np.dtype[Any]], Array]

FLOATS = ("float32", "float16", "float64")
SIGNED = ("int32", "int8", "int64", "int16")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS
ALL = (*NUMBERS, "bool")
DEVICE = ("float32", "float16", "int32", "int8", "uint8", "bool")
# the order of the core's enumeration, which micro-programs spell as numbers
DTYPE_NUMBERS = (*DEVICE, "float64", "int64", "int16", "uint16", "uint32", "uint64")

SMALL = 5000  # elements; larger cases are there for threads and caches

Type = tuple[str, Shape]


def type_text(kind: Type) -> str:
    return f"{kind[0]}[{','.join(map(str, kind[1]))}]"


def is_float(dtype: str) -> bool:
    return dtype in FLOATS


@dataclass(frozen=True)
class In:
    """One input: its type, and how its values are made."""

    shape: Shape
    dtype: str
    make: Maker

    @property
    def type(self) -> Type:
        return (self.dtype, self.shape)


@dataclass(frozen=True)
class Case:
    """An op at given inputs.

    The oracle gets the inputs, floats as float64, and gives one array for each output:
    float64 where the output is floating-point, else an array of the output's dtype.
    """

    op: str
    label: str
    inputs: tuple[In, ...]
    oracle: Callable[..., Any]
    attrs: str = ""
    float_dtype: str = ""  # of float outputs; default: that of the first float input
    float_dtypes: tuple[str, ...] = ()  # of each output, where they differ
    exact: bool = False  # equals the rounded oracle to the bit, in every kernel
    ulps: float = 4.0
    bound: Callable[..., Any] | None = None  # errors scale with this, not the result
    smooth: bool = False  # the gradient of the oracle exists at these inputs
    twice: bool = False  # and so does the second one
    kept: tuple[int, ...] = ()  # outputs for the op's own gradient, which have none
    random: bool = False  # the oracle takes the keyword `step`
    slow: bool = False

    @cached_property
    def id(self) -> str:
        dtypes = "-".join(dict.fromkeys(i.dtype for i in self.inputs))
        return "-".join(filter(None, (self.op, dtypes or self.float_dtype, self.label)))

    @cached_property
    def host(self) -> bool:
        types = [i.dtype for i in self.inputs] + [t[0] for t in self.output_types()]
        return any(t not in DEVICE for t in types)

    def values(self) -> list[Array]:
        return self._small_values or self._made()

    def _made(self) -> list[Array]:
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        made = []
        for one in self.inputs:
            dtype = np.dtype(one.dtype)
            value = np.asarray(one.make(rng, one.shape, dtype)).astype(dtype)
            assert value.shape == one.shape, (self.id, value.shape, one.shape)
            value.flags.writeable = False
            made.append(value)
        return made

    @cached_property
    def _small_values(self) -> list[Array]:
        sizes = [int(np.prod(one.shape)) for one in self.inputs]
        return self._made() if sum(sizes) <= SMALL else []

    @cached_property
    def _expected(self) -> list[Array]:
        return self._results(self._small_values, 0)

    def expect(self, values: Sequence[Array], step: int = 0) -> list[Array]:
        if step == 0 and values is self._small_values:
            return self._expected
        return self._results(values, step)

    def _results(self, values: Sequence[Array], step: int) -> list[Array]:
        wide = [v.astype(np.float64) if v.dtype.kind == "f" else v for v in values]
        with np.errstate(all="ignore"):
            more = {"step": step} if self.random else {}
            out = self.oracle(*wide, **more)
        return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]

    def out_float(self) -> str:
        if self.float_dtype:
            return self.float_dtype
        return next((i.dtype for i in self.inputs if is_float(i.dtype)), "float32")

    def output_types(self) -> list[Type]:
        return self._output_types

    @cached_property
    def _output_types(self) -> list[Type]:
        outputs = self.expect(self.values())
        floats = self.float_dtypes or (self.out_float(),) * len(outputs)
        return [
            (float_dtype if o.dtype.kind == "f" else o.dtype.name, o.shape)
            for o, float_dtype in zip(outputs, floats, strict=True)
        ]


# --- graphs as text -------------------------------------------------------------------


class Graph:
    """Writes the text form of a graph, node by node."""

    def __init__(self, host: bool = False, resources: Sequence[str] = ()) -> None:
        self.head = ["host graph" if host else "device graph", *resources]
        self.count = 0
        self.block_count = 0
        self.lines: list[str] = []
        self.params: list[str] = []
        self._outer: list[tuple[list[str], list[str], int]] = []
        self._open()

    def _open(self) -> None:
        self.lines, self.params = [], []
        self.block = self.block_count
        self.block_count += 1

    def _name(self) -> str:
        self.count += 1
        return f"%{self.count - 1}"

    def param(self, kind: Type) -> str:
        name = self._name()
        self.params.append(f"{name}: {type_text(kind)}")
        return name

    def node(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: str,
        types: Sequence[Type],
        stage: int | None = None,
    ) -> list[str]:
        names = [self._name() for _ in types]
        left = ", ".join(names) + " = " if names else ""
        right = " : " + ", ".join(map(type_text, types)) if types else ""
        braces = f" {{{attrs}}}" if attrs else ""
        place = "" if stage is None else f" @(stage={stage})"
        self.lines.append(f"{left}{op}({', '.join(inputs)}){braces}{place}{right}")
        return names

    def one(self, op: str, inputs: Sequence[str], kind: Type, attrs: str = "") -> str:
        return self.node(op, inputs, attrs, [kind])[0]

    def open_block(self) -> int:
        self._outer.append((self.lines, self.params, self.block))
        self._open()
        return self.block

    def _close(self, results: Sequence[str]) -> list[str]:
        head = f"block b{self.block}({', '.join(self.params)}) {{"
        return [head, *self.lines, f"}} -> ({', '.join(results)})"]

    def close_block(self, results: Sequence[str]) -> None:
        text = self._close(results)
        self.lines, self.params, self.block = self._outer.pop()
        self.lines.extend(text)

    def finish(self, results: Sequence[str]) -> str:
        return "\n".join(self.head + self._close(results)) + "\n"


# --- makers of values -----------------------------------------------------------------


def between(low: float, high: float) -> Maker:
    """Uniform numbers; integers include both ends."""

    def make(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
        if dtype.kind in "iu":
            floor = max(int(low), np.iinfo(dtype).min)
            return rng.integers(floor, int(high), shape, endpoint=True)
        if dtype.kind == "b":
            return rng.random(shape) < 0.5
        return rng.uniform(low, high, shape)

    return make


def off_zero(high: float, gap: float = 0.1) -> Maker:
    """Both signs, at least `gap` away from 0 and from any kink there."""

    def make(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
        size = rng.uniform(gap, high, shape)
        if dtype.kind in "iu":
            size = rng.integers(1, int(high), shape, endpoint=True)
        sign = rng.choice([-1, 1], shape) if dtype.kind != "u" else 1
        return size * sign

    return make


def distinct(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Numbers that all differ, by more than a difference quotient moves them."""
    count = int(np.prod(shape))
    order = rng.permutation(count).reshape(shape)
    if dtype.kind == "f":
        return (order - count / 2) / max(8.0, count / 16)
    return order % (int(np.iinfo(dtype).max) + 1)


def whole_range(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Integers up to both ends of the dtype, so that arithmetic wraps."""
    info = np.iinfo(dtype)
    value = np.asarray(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
    if value.size > 3:
        value.reshape(-1)[:4] = [info.min, info.max, 0, 1]
    return value


def given(*items: Any) -> Maker:
    """These values, in the input's shape."""

    def make(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
        with np.errstate(all="ignore"):
            return np.array(items).astype(dtype).reshape(shape)

    return make


def of_kind(low: float = -2.0, high: float = 2.0) -> Callable[[str], Maker]:
    """Floats in a range, integers up to the ends of their dtype."""

    def choose(dtype: str) -> Maker:
        return between(low, high) if np.dtype(dtype).kind in "fb" else whole_range

    return choose


# zeros, ordinary, huge, tiny, infinite and no numbers; for float16 some become others
SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.75, -3.75, 1e-3),
    *(6e4, -6e4, 1e30, -1e30, 1e-40, -1e-40, 1.2e-38, np.inf, -np.inf, np.nan),
)


def case(op: str, label: str, inputs: Sequence[In], oracle: Any, **more: Any) -> Case:
    return Case(op, label, tuple(inputs), oracle, **more)


def shape_label(*shapes: Shape) -> str:
    return "_".join("x".join(map(str, s)) or "scalar" for s in shapes)


def ints(values: Sequence[int]) -> str:
    return f"[{','.join(map(str, values))}]"
