# SPDX-License-Identifier: MIT
"""The rows of `benchmarks.ops`: an op as `ipu`, NumPy and PyTorch have it.

A row makes its inputs for a number of bytes, which is what its first input takes (of
random numbers, the result). NumPy and PyTorch write into arrays that are there where
they can (`out=`); `ipu` does in a loop on the device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.op_inputs import (
    CLASSES,
    Array,
    chosen,
    false,
    labels,
    like,
    near_one,
    scattered,
    signed,
    some,
    true,
    with_row,
    with_rows,
)

# (inputs, the result so far or None) -> the result
Peer = Callable[..., Any]
TOP = 8  # of top_k
RATE = 0.5  # of dropout


@dataclasses.dataclass(frozen=True)
class Row:
    """One op.

    Attributes:
        name: Of the row.
        group: "element-wise", "reduction", "movement" or "random".
        make: Gives the inputs for a number of bytes.
        ipu: The op in terms of `ipu.tf`, called as `ipu(tf, *inputs)` while a loop's
            body is traced.
        numpy: Called as `numpy(out, *inputs)`, where `out` is what the last call gave
            (None in the first one). None: NumPy has nothing like it.
        torch: The same as `torch(torch, out, *inputs)`.
    """

    name: str
    group: str
    make: Callable[[int], list[Array]]
    ipu: Callable[..., Any]
    numpy: Peer | None
    torch: Peer | None


# --- rows -----------------------------------------------------------------------------


def both(name: str) -> tuple[Peer, Peer]:
    """The function of this name in NumPy and in PyTorch."""

    def numpy(out: Any, *xs: Any) -> Any:
        return getattr(np, name)(*xs, out=out)

    def torch(torch: Any, out: Any, *xs: Any) -> Any:
        return getattr(torch, name)(*xs, out=out)

    return numpy, torch


def with_out(numpy: str | None, torch: str | None) -> tuple[Peer | None, Peer | None]:
    """Functions that take `out`, by their names; None: there is none."""
    return (
        None if numpy is None else both(numpy)[0],
        None if torch is None else both(torch)[1],
    )


def elementwise() -> list[Row]:
    def row(name: str, make: Any, ipu: Any, peers: Any) -> Row:
        return Row(name, "element-wise", make, ipu, *peers)

    def numpy_relu(out: Any, x: Any) -> Any:
        return np.maximum(x, 0.0, out=out)

    def torch_relu(torch: Any, out: Any, x: Any) -> Any:
        return torch.clamp_min(x, 0.0, out=out)

    def numpy_rsqrt(out: Any, x: Any) -> Any:
        out = np.sqrt(x, out=out)
        return np.divide(1.0, out, out=out)

    def numpy_select(out: Any, c: Any, a: Any, b: Any) -> Any:
        return np.where(c, a, b)

    rows = [
        row("add", some(2), lambda tf, a, b: a + b, both("add")),
        row("add a row", with_row, lambda tf, a, b: a + b, both("add")),
        row("mul", some(2), lambda tf, a, b: a * b, with_out("multiply", "mul")),
        row("div", some(2), lambda tf, a, b: a / b, with_out("divide", "div")),
        row("maximum", some(2), lambda tf, a, b: tf.maximum(a, b), both("maximum")),
        row("relu", signed, lambda tf, a: tf.nn.relu(a), (numpy_relu, torch_relu)),
        row("abs", signed, lambda tf, a: tf.abs(a), both("abs")),
        row("square", some(1), lambda tf, a: tf.square(a), both("square")),
        row("sqrt", some(1), lambda tf, a: tf.sqrt(a), both("sqrt")),
        row(
            "rsqrt",
            some(1),
            lambda tf, a: tf.math.rsqrt(a),
            (numpy_rsqrt, both("rsqrt")[1]),
        ),
        row("exp", signed, lambda tf, a: tf.exp(a), both("exp")),
        row("log", some(1), lambda tf, a: tf.math.log(a), both("log")),
        row("log1p", some(1), lambda tf, a: tf.math.log1p(a), both("log1p")),
        row("expm1", signed, lambda tf, a: tf.math.expm1(a), both("expm1")),
        row("tanh", signed, lambda tf, a: tf.tanh(a), both("tanh")),
        row("sigmoid", signed, lambda tf, a: tf.sigmoid(a), with_out(None, "sigmoid")),
        row(
            "softplus",
            signed,
            lambda tf, a: tf.math.softplus(a),
            (None, lambda torch, out, x: torch.nn.functional.softplus(x)),
        ),
        row("erf", signed, lambda tf, a: tf.math.erf(a), with_out(None, "erf")),
        row("sin", signed, lambda tf, a: tf.sin(a), both("sin")),
        row("pow", some(2), lambda tf, a, b: tf.pow(a, b), with_out("power", "pow")),
        row("less", some(2), lambda tf, a, b: a < b, with_out("less", "lt")),
        row(
            "select",
            chosen,
            lambda tf, c, a, b: tf.where(c, a, b),
            (numpy_select, both("where")[1]),
        ),
    ]
    rows += casts()
    for dtype in ("float16", "float64", "int8", "int16", "int32", "int64", "uint8"):
        rows += [
            row(f"add {dtype}", some(2, dtype), lambda tf, a, b: a + b, both("add")),
            row(
                f"mul {dtype}",
                some(2, dtype),
                lambda tf, a, b: a * b,
                with_out("multiply", "mul"),
            ),
        ]
    for dtype in ("float16", "float64"):
        make = some(1, dtype)
        rows.append(row(f"exp {dtype}", make, lambda tf, a: tf.exp(a), both("exp")))
    for dtype in ("float64", "int8", "int64"):
        make = some(2, dtype)
        rows.append(
            row(f"less {dtype}", make, lambda tf, a, b: a < b, with_out("less", "lt"))
        )
    rows += [
        row(
            "logical and",
            some(2, "bool"),
            lambda tf, a, b: tf.logical_and(a, b),
            both("logical_and"),
        ),
        row(
            "logical not",
            some(1, "bool"),
            lambda tf, a: tf.logical_not(a),
            both("logical_not"),
        ),
    ]
    return rows


def casts() -> list[Row]:
    """Between dtypes; peers copy into an array of the other one."""

    def cast(source: str, target: str) -> Row:
        def numpy(out: Any, x: Any) -> Any:
            if out is None:
                return x.astype(target)
            np.copyto(out, x, casting="unsafe")
            return out

        def torch(torch: Any, out: Any, x: Any) -> Any:
            if out is None:
                return x.to(getattr(torch, target))
            return out.copy_(x)

        return Row(
            f"cast {source} {target}",
            "element-wise",
            some(1, source),
            lambda tf, x: tf.cast(x, target),
            numpy,
            torch,
        )

    return [
        cast("float32", "float16"),
        cast("float16", "float32"),
        cast("float32", "int32"),
        cast("int32", "float32"),
        cast("float32", "float64"),
        cast("float64", "float32"),
        cast("float32", "int8"),
        cast("int64", "float32"),
        cast("uint8", "float32"),
        cast("int64", "int32"),
        cast("bool", "float32"),
    ]


def reductions() -> list[Row]:
    rows = []

    def add(name: str, make: Any, reduce: Any, peer: tuple[str | None, str]) -> None:
        for where, axis in (("all", None), ("last axis", 1), ("first axis", 0)):

            def ipu(tf: Any, x: Any, axis: int | None = axis) -> Any:
                return reduce(tf, x, axis)

            def numpy(out: Any, x: Any, axis: int | None = axis) -> Any:
                out = None if axis is None else out  # a scalar is not an array
                return getattr(np, str(peer[0]))(x, axis=axis, out=out)

            def torch(torch: Any, out: Any, x: Any, axis: int | None = axis) -> Any:
                function = getattr(torch, peer[1])
                return function(x) if axis is None else function(x, dim=axis)

            title = f"{name}, {where}"
            rows.append(
                Row(title, "reduction", make, ipu, numpy if peer[0] else None, torch)
            )

    def sum_of(tf: Any, x: Any, axis: int | None) -> Any:
        return tf.reduce_sum(x, axis)

    def place(name: str) -> Any:
        """argmax or argmin; over everything it is that of one long row."""

        def reduce(tf: Any, x: Any, axis: int | None) -> Any:
            function = getattr(tf, name)
            if axis is None:
                return function(tf.reshape(x, [-1]), 0, tf.int32)
            return function(x, axis, tf.int32)

        return reduce

    add("sum", some(1), sum_of, ("sum", "sum"))
    add("mean", some(1), lambda tf, x, a: tf.reduce_mean(x, a), ("mean", "mean"))
    add("max", some(1), lambda tf, x, a: tf.reduce_max(x, a), ("max", "amax"))
    add("prod", near_one, lambda tf, x, a: tf.reduce_prod(x, a), ("prod", "prod"))
    add("any", false, lambda tf, x, a: tf.reduce_any(x, a), ("any", "any"))
    add("all", true, lambda tf, x, a: tf.reduce_all(x, a), ("all", "all"))
    add("argmax", some(1), place("argmax"), ("argmax", "argmax"))
    add("argmin", some(1), place("argmin"), ("argmin", "argmin"))
    for dtype in ("float16", "float64", "int32", "int8"):
        make = some(1, dtype)
        add(f"sum {dtype}", make, sum_of, ("sum", "sum"))
    return rows


def movement() -> list[Row]:
    def row(name: str, make: Any, ipu: Any, numpy: Any, torch: Any) -> Row:
        return Row(name, "movement", make, ipu, numpy, torch)

    def numpy_copy(view: Callable[[Any], Any]) -> Peer:
        def copy(out: Any, x: Any) -> Any:
            if out is None:
                return np.ascontiguousarray(view(x)).copy()
            np.copyto(out, view(x))
            return out

        return copy

    def torch_copy(view: Callable[[Any], Any]) -> Peer:
        def copy(torch: Any, out: Any, x: Any) -> Any:
            return view(x).clone() if out is None else out.copy_(view(x))

        return copy

    def torch_transpose(torch: Any, out: Any, x: Any) -> Any:
        return x.t().contiguous() if out is None else out.copy_(x.t())

    def inner(x: Any) -> Any:
        return x[1:-1, 1:-1]

    def numpy_scatter(out: Any, table: Any, rows: Any, more: Any) -> Any:
        result = table.copy()
        np.add.at(result, rows, more)
        return result

    def torch_scatter(torch: Any, out: Any, table: Any, rows: Any, more: Any) -> Any:
        return torch.index_add(table, 0, rows, more)

    def numpy_one_hot(out: Any, x: Any) -> Any:
        result = np.zeros((len(x), CLASSES), np.float32)
        result[np.arange(len(x)), x] = 1.0
        return result

    def torch_one_hot(torch: Any, out: Any, x: Any) -> Any:
        result = torch.zeros(len(x), CLASSES)
        return result.scatter_(1, x.long()[:, None], 1.0)

    def numpy_top_k(out: Any, x: Any) -> Any:
        places = np.argpartition(-x, TOP, axis=1)[:, :TOP]
        best = np.take_along_axis(x, places, 1)
        order = np.argsort(-best, axis=1)
        return np.take_along_axis(places, order, 1)

    def torch_softmax(torch: Any, out: Any, x: Any) -> Any:
        return torch.softmax(x, 1)

    def numpy_softmax(out: Any, x: Any) -> Any:
        out = np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        return np.divide(out, out.sum(axis=1, keepdims=True), out=out)

    return [
        row(
            "transpose",
            some(1),
            lambda tf, x: tf.transpose(x),
            numpy_copy(lambda x: x.T),
            torch_transpose,
        ),
        row(
            "concat, last axis",
            some(2),
            lambda tf, a, b: tf.concat([a, b], 1),
            lambda out, a, b: np.concatenate([a, b], 1, out=out),
            lambda torch, out, a, b: torch.cat([a, b], 1, out=out),
        ),
        row(
            "concat, first axis",
            some(2),
            lambda tf, a, b: tf.concat([a, b], 0),
            lambda out, a, b: np.concatenate([a, b], 0, out=out),
            lambda torch, out, a, b: torch.cat([a, b], 0, out=out),
        ),
        row(
            "slice",
            some(1),
            lambda tf, x: x[1:-1, 1:-1],
            numpy_copy(inner),
            torch_copy(inner),
        ),
        row(
            "slice, every other column",
            some(1),
            lambda tf, x: x[:, ::2],
            numpy_copy(lambda x: x[:, ::2]),
            torch_copy(lambda x: x[:, ::2]),
        ),
        row(
            "tile",
            some(1),
            lambda tf, x: tf.tile(x, [1, 2]),
            lambda out, x: np.tile(x, (1, 2)),
            lambda torch, out, x: torch.tile(x, (1, 2)),
        ),
        row(
            "broadcast a row",
            with_row,
            lambda tf, x, r: tf.broadcast_to(r, x.shape),
            lambda out, x, r: np.broadcast_to(r, x.shape).copy(),
            lambda torch, out, x, r: r.expand(*x.shape).contiguous(),
        ),
        row(
            "pad",
            some(1),
            lambda tf, x: tf.pad(x, [[1, 1], [1, 1]]),
            lambda out, x: np.pad(x, 1),
            lambda torch, out, x: torch.nn.functional.pad(x, (1, 1, 1, 1)),
        ),
        row(
            "reverse, last axis",
            some(1),
            lambda tf, x: tf.reverse(x, [1]),
            numpy_copy(lambda x: x[:, ::-1]),
            lambda torch, out, x: torch.flip(x, (1,)),
        ),
        row(
            "gather rows",
            with_rows,
            lambda tf, x, rows: tf.gather(x, rows),
            lambda out, x, rows: np.take(x, rows, 0, out=out, mode="clip"),
            lambda torch, out, x, rows: torch.index_select(x, 0, rows, out=out),
        ),
        row(
            "scatter add rows",
            scattered,
            lambda tf, x, rows, more: tf.tensor_scatter_nd_add(
                x, tf.expand_dims(rows, 1), more
            ),
            numpy_scatter,
            torch_scatter,
        ),
        row(
            "one hot",
            labels,
            lambda tf, x: tf.one_hot(x, CLASSES),
            numpy_one_hot,
            torch_one_hot,
        ),
        row(
            "cumsum, last axis",
            some(1),
            lambda tf, x: tf.cumsum(x, 1),
            lambda out, x: np.cumsum(x, 1, out=out),
            lambda torch, out, x: torch.cumsum(x, 1, out=out),
        ),
        row(
            "cumsum, first axis",
            some(1),
            lambda tf, x: tf.cumsum(x, 0),
            lambda out, x: np.cumsum(x, 0, out=out),
            lambda torch, out, x: torch.cumsum(x, 0, out=out),
        ),
        row(
            "sort, last axis",
            signed,
            lambda tf, x: tf.sort(x),
            lambda out, x: np.sort(x, 1),
            lambda torch, out, x: torch.sort(x, 1)[0],
        ),
        row(
            "top k",
            signed,
            lambda tf, x: tf.math.top_k(x, TOP).values,
            numpy_top_k,
            lambda torch, out, x: torch.topk(x, TOP)[0],
        ),
        row(
            "softmax",
            signed,
            lambda tf, x: tf.nn.softmax(x),
            numpy_softmax,
            torch_softmax,
        ),
    ]


def random() -> list[Row]:
    generator = np.random.default_rng(1)

    def numpy_normal(out: Any, x: Any) -> Any:
        return generator.standard_normal(x.shape, np.float32, out=out)

    def numpy_uniform(out: Any, x: Any) -> Any:
        return generator.random(x.shape, np.float32, out=out)

    def torch_normal(torch: Any, out: Any, x: Any) -> Any:
        return (torch.empty_like(x) if out is None else out).normal_()

    def torch_uniform(torch: Any, out: Any, x: Any) -> Any:
        return (torch.empty_like(x) if out is None else out).uniform_()

    def torch_truncated(torch: Any, out: Any, x: Any) -> Any:
        out = torch.empty_like(x) if out is None else out
        return torch.nn.init.trunc_normal_(out)

    def torch_integers(torch: Any, out: Any, x: Any) -> Any:
        out = torch.empty(x.shape, dtype=torch.int32) if out is None else out
        return out.random_(0, 100)

    def row(name: str, make: Any, ipu: Any, numpy: Any, torch: Any) -> Row:
        return Row(name, "random", make, ipu, numpy, torch)

    return [
        row(
            "normal",
            like,
            lambda tf, x: tf.random.normal(x.shape),
            numpy_normal,
            torch_normal,
        ),
        row(
            "uniform",
            like,
            lambda tf, x: tf.random.uniform(x.shape),
            numpy_uniform,
            torch_uniform,
        ),
        row(
            "truncated normal",
            like,
            lambda tf, x: tf.random.truncated_normal(x.shape),
            None,
            torch_truncated,
        ),
        row(
            "integers",
            like,
            lambda tf, x: tf.random.uniform(x.shape, 0, 100, tf.int32),
            lambda out, x: generator.integers(0, 100, x.shape, np.int32),
            torch_integers,
        ),
        row(
            "dropout",
            some(1),
            lambda tf, x: tf.nn.dropout(x, RATE),
            None,
            lambda torch, out, x: torch.nn.functional.dropout(x, RATE),
        ),
    ]


ROWS: list[Row] = [*elementwise(), *reductions(), *movement(), *random()]
