# SPDX-License-Identifier: MIT
"""Reductions, scans, sorting and movement of every dtype against NumPy.

Lengths around the lanes, blocks and chunks into which kernels cut their work, with the
values at which dtypes differ: no numbers, infinities, both zeros, the ends of integers.
Every class of CPU and every number of threads gives the same bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from op_cases import harness
from op_cases.model import FLOATS, INTS, NUMBERS, Array, Graph, ints, of_kind

import ipu
from ipu import _core

CLASSES = ("generic", "avx2", "avx512")
# around the lanes of a tree (16 to 128), blocks (1024) and chunks (8192)
LENGTHS = (1, 2, 15, 31, 32, 33, 63, 65, 127, 129, 255, 1000, 1055, 8191, 8193, 20000)
ENDS = (np.nan, np.inf, -np.inf, 0.0, -0.0)


pytestmark = pytest.mark.usefixtures("one_thread")


def results_of(
    monkeypatch: pytest.MonkeyPatch,
    op: str,
    attrs: str,
    inputs: Sequence[Array],
    outputs: Sequence[tuple[str, tuple[int, ...]]],
) -> list[Array]:
    """What the op gives: the same bits for every class of CPU and number of threads."""
    types = [(x.dtype.name, x.shape) for x in inputs]
    graph = Graph(host=True)
    names = [graph.param(t) for t in types]
    text = graph.finish(graph.node(op, names, attrs, list(outputs)))
    first: list[Array] | None = None
    for name in CLASSES:
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        if _core.cpu_class() != name:
            continue
        program = _core.graph_compile(text)
        for count in (1, 2, 3):
            ipu.set_num_threads(count)
            got = harness.results(program, inputs)
            first = got if first is None else first
            harness.same_bits(got, first, f"{op} {types}, {name}, {count} threads")
    assert first is not None
    return first


def numbers(dtype: str, shape: tuple[int, ...], seed: int, ends: bool) -> Array:
    """Few different values, so that there are ties; with `ends` also those of ENDS, or
    of the dtype."""
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.asarray(rng.random(shape) < 0.5)
    if kind.kind == "f":
        value = rng.integers(-40, 40, shape).astype(kind) / kind.type(8)
        special: Sequence[Any] = ENDS
    else:
        info = np.iinfo(kind)
        value = rng.integers(max(info.min, -40), 40, shape).astype(kind)
        special = (info.min, info.max)
    if ends and value.size:
        flat = value.reshape(-1)
        places = rng.integers(0, value.size, 1 + value.size // 40)
        flat[places] = rng.choice(np.array(special, kind), len(places))
    return np.asarray(value)


def shapes_of(n: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Shapes with an axis of length n."""
    yield (n,), 0
    yield (3, n), 1
    yield (n, 3), 0
    if n < 300:
        yield (n, 261), 0
        yield (2, n, 5), 1


def same(got: Array, want: Array) -> None:
    """The same numbers, wherever they are none; zeros may differ in sign."""
    np.testing.assert_array_equal(got, want)


# --- reductions -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", ["max", "min"])
def test_extremes(op: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in LENGTHS:
        for shape, axis in shapes_of(n):
            for ends in (False, True):
                x = numbers(dtype, shape, n, ends)
                want = getattr(np, op)(x, axis=axis)
                attrs = f"axes=[{axis}]"
                (got,) = results_of(monkeypatch, op, attrs, [x], [(dtype, want.shape)])
                same(got, want)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", ["sum", "mean", "prod"])
def test_totals(op: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in LENGTHS:
        for shape, axis in shapes_of(n):
            x = numbers(dtype, shape, n, ends=False)
            attrs = f"axes=[{axis}]"
            with np.errstate(all="ignore"):
                if op == "prod" and dtype in FLOATS:  # as are products of powers of 2
                    x = np.array([1, -1, 2, 0.5], dtype)[x.astype("i8") % 4]
                if dtype in FLOATS:  # sums of eighths are exact
                    want = getattr(np, op)(x.astype("f8"), axis=axis).astype(dtype)
                elif op == "mean":
                    wide = x.astype("i8").sum(axis=axis)
                    want = (np.sign(wide) * (np.abs(wide) // n)).astype(dtype)
                else:
                    want = getattr(np, op)(x, axis=axis, dtype=x.dtype)
            (got,) = results_of(monkeypatch, op, attrs, [x], [(dtype, want.shape)])
            if dtype in FLOATS and op == "mean":
                limit = 2 * float(np.finfo(dtype).eps)
                np.testing.assert_allclose(got, want, rtol=limit)
            else:
                same(got, want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["sum", "mean", "prod"])
def test_totals_of_what_is_no_number(
    op: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for values in ([np.inf, 1.0], [np.inf, -np.inf], [np.nan, 1.0], [-np.inf, 2.0]):
        for n in (2, 40, 9000):
            x = np.ones(n, dtype)
            x[[0, n - 1]] = values
            with np.errstate(all="ignore"):
                want = getattr(np, op)(x.astype("f8")).astype(dtype)
            (got,) = results_of(monkeypatch, op, "axes=[0]", [x], [(dtype, ())])
            same(got, want)


def test_products_of_float16_are_held_in_float64(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.tile(np.repeat(np.array([2.0**14, 2.0**-14], "f2"), 40), (3, 1))
    for axis, y in ((0, x.T.copy()), (1, x)):
        (got,) = results_of(
            monkeypatch, "prod", f"axes=[{axis}]", [y], [("float16", (3,))]
        )
        same(got, np.ones(3, "f2"))


def test_sums_of_float16_are_held_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.full((70000, 2), 0.75, "f2")
    for axes in ((0,), (0, 1)):
        shape = (2,) if axes == (0,) else ()
        (got,) = results_of(
            monkeypatch, "mean", f"axes={ints(axes)}", [x], [("float16", shape)]
        )
        same(got, np.full(shape, 0.75, "f2"))


@pytest.mark.parametrize("op", ["any", "all"])
def test_logical_reductions(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (*LENGTHS, 0, 40000):
        for shape, axis in shapes_of(n):
            for odd in (None, 0, n // 2, n - 1):
                x = np.full(shape, op == "all")
                if odd is not None and n > 0:
                    x[(*(0,) * axis, odd)] = op == "any"
                want = getattr(np, op)(x, axis=axis)
                (got,) = results_of(
                    monkeypatch, op, f"axes=[{axis}]", [x], [("bool", want.shape)]
                )
                same(got, want)


@pytest.mark.parametrize("op", ["sum", "max", "prod"])
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((1, 70001), (0, 1)),
        ((3, 40000), (1,)),
        ((2, 300, 3, 300), (1, 3)),
        ((30000, 3), (0,)),
        ((300, 3, 100, 2), (0, 2)),
        ((2, 20000, 5), (1,)),
        ((4000, 1, 9), (0, 1)),
        ((5, 0, 3), (1,)),
    ],
    ids=str,
)
def test_few_results_of_much(
    op: str,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for dtype in ("float32", "float16", "float64", "int16", "uint64"):
        if op == "max" and 0 in shape:
            continue
        x = numbers(dtype, shape, 3, ends=False)
        if dtype in FLOATS:
            x = np.where(x < 0, -1, 1).astype(dtype)  # so that products are exact
        more = {} if op == "max" else {"dtype": x.dtype}
        if dtype == "float16":
            more = {} if op == "max" else {"dtype": np.dtype("f8")}
        want = getattr(np, op)(x, axis=axes, **more).astype(dtype)
        (got,) = results_of(
            monkeypatch, op, f"axes={ints(axes)}", [x], [(dtype, want.shape)]
        )
        same(got, want)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_places_of_extremes(
    op: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (*LENGTHS, 70000):
        for shape, axis in shapes_of(n):
            for ends in (False, True):
                x = numbers(dtype, shape, n, ends)
                known = x
                if dtype in FLOATS:  # NaN is passed over
                    worst = -np.inf if op == "argmax" else np.inf
                    known = np.where(np.isnan(x), worst, x)
                want = getattr(np, op)(known, axis=axis).astype("int32")
                attrs = f"axis={axis}, dtype=int32"
                (got,) = results_of(
                    monkeypatch, op, attrs, [x], [("int32", want.shape)]
                )
                if not (dtype in FLOATS and ends and n < 3):  # see below
                    same(got, want)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_an_infinity_is_better_than_no_number(
    op: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worst = -np.inf if op == "argmax" else np.inf
    for n in (2, 70, 3000, 70000):
        for place in (0, 1, n - 1, None):
            x = np.full(n, np.nan, dtype)
            if place is not None:
                x[place] = worst
            for shape, axis in (((n,), 0), ((n, 1), 0), ((1, n), 1)):
                (got,) = results_of(
                    monkeypatch,
                    op,
                    f"axis={axis}, dtype=int64",
                    [x.reshape(shape)],
                    [("int64", tuple(s for s in shape if s == 1))],
                )
                assert got.reshape(-1)[0] == (place or 0)
            both = np.stack([x, x], axis=1)
            (got,) = results_of(
                monkeypatch, op, "axis=0, dtype=int64", [both], [("int64", (2,))]
            )
            assert got.tolist() == [place or 0] * 2


# --- scans ----------------------------------------------------------------------------


def held_in(op: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What the running value is held in."""
    if dtype.kind != "f":
        return dtype
    return np.dtype("f4" if op == "cumsum" and dtype == np.float16 else "f8")


def scanned(op: str, x: Array, axis: int, reverse: bool, exclusive: bool) -> Array:
    lines = np.flip(x, axis) if reverse else x
    whole = getattr(np, op)(lines, axis=axis, dtype=held_in(op, x.dtype))
    if exclusive:
        start = np.full_like(np.take(whole, [0], axis), op == "cumprod")
        rest = np.take(whole, range(x.shape[axis] - 1), axis)
        whole = np.concatenate([start, rest], axis)
    if x.dtype == np.float16:
        whole = whole.astype("f4")
    whole = whole.astype(x.dtype)
    return np.flip(whole, axis) if reverse else whole


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("op", ["cumsum", "cumprod"])
def test_scans(op: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (1, 2, 33, 511, 513, 1100):
        for shape, axis in (((n,), 0), ((7, n), 1), ((n, 3), 0), ((2, n, 131), 1)):
            if shape[-1] == 131 and n > 33:
                continue
            x = numbers(dtype, shape, n, ends=dtype not in FLOATS)
            for reverse in (False, True):
                for exclusive in (False, True):
                    with np.errstate(all="ignore"):
                        want = scanned(op, x, axis, reverse, exclusive)
                    flags = f"reverse={reverse}, exclusive={exclusive}".lower()
                    (got,) = results_of(
                        monkeypatch, op, f"axis={axis}, {flags}", [x], [(dtype, shape)]
                    )
                    harness.same_bits([got], [want], f"{op} {dtype} {shape} {flags}")


@pytest.mark.parametrize("dtype", FLOATS)
def test_recurrences(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = held_in("recurrence", np.dtype(dtype))
    for shape, axis in (((1,), 0), ((9, 70), 1), ((70, 9), 0), ((3, 5, 140), 1)):
        a, b = (numbers(dtype, shape, seed, ends=False) / 8 for seed in (1, 2))
        for reverse in (False, True):
            factors, terms = (
                np.moveaxis(np.flip(x, axis) if reverse else x, axis, 0).astype(held)
                for x in (a, b)
            )
            steps = [terms[0]]
            for factor, term in zip(factors[1:], terms[1:], strict=True):
                steps.append(factor * steps[-1] + term)
            results = np.stack(steps)
            if dtype == "float16":
                results = results.astype("f4")
            want = np.moveaxis(results.astype(dtype), 0, axis)
            want = np.flip(want, axis) if reverse else want
            attrs = f"axis={axis}, reverse={str(reverse).lower()}"
            (got,) = results_of(
                monkeypatch, "recurrence", attrs, [a, b], [(dtype, shape)]
            )
            np.testing.assert_allclose(got, want, rtol=2 * float(np.finfo(dtype).eps))


# --- sorting --------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMBERS)
def test_the_first_of_a_row(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal ones as they stood, the two zeros among them; NaN as the largest."""
    rng = np.random.default_rng(8)
    for rows, n in ((1, 1), (3, 24), (2, 25), (40, 49), (3, 257), (2, 3000), (1, 9000)):
        for kind in ("ties", "ends", "any", "up", "near"):
            x = numbers(dtype, (rows, n), n, ends=kind == "ends")
            if kind == "any":
                make = of_kind(-4, 4)(dtype)
                x = np.asarray(make(rng, (rows, n), np.dtype(dtype))).astype(dtype)
            if kind == "up":
                x = np.sort(x, axis=1)
            if kind == "near":  # in all bits but the last ones, and one is far away
                word = f"u{x.itemsize}"
                more = rng.integers(0, 120, (rows, n)).astype(word)
                x = (np.ones((rows, n), dtype).view(word) + more).view(dtype)
                x[:, 0] = np.inf if dtype in FLOATS else np.iinfo(dtype).max
            _, ranks = np.unique(x, return_inverse=True)  # all NaN are one
            ranks = ranks.reshape(x.shape)
            for depth in sorted({1, min(n, 5), min(n, 20), n // 3, n}):
                for ascending in (False, True):
                    order = np.argsort(
                        ranks if ascending else -ranks, axis=1, kind="stable"
                    )[:, :depth]
                    attrs = f"depth={depth}, ascending={str(ascending).lower()}"
                    shape = (rows, depth)
                    values, places = results_of(
                        monkeypatch,
                        "top_k",
                        attrs,
                        [x],
                        [(dtype, shape), ("int32", shape)],
                    )
                    same(places, order)
                    want = np.take_along_axis(x, order, 1)
                    harness.same_bits([values], [want], f"{kind} {attrs}")


# --- indices --------------------------------------------------------------------------

# slices, indices, elements of a slice: from single elements to long slices
TABLES = ((1, 3, 1), (40, 700, 1), (90000, 3000, 1), (50, 60, 3), (40000, 700, 9))
TABLES += ((300, 270, 64), (3, 40, 2500), (7, 0, 5), (4, 5, 0))


def table_of(
    dtype: str, table: tuple[int, int, int], kind: str = "int32"
) -> tuple[Array, Array, Array]:
    slices, count, inner = table
    rng = np.random.default_rng(slices)
    indices = rng.integers(0, min(slices, np.iinfo(kind).max + 1), count).astype(kind)
    more = numbers(dtype, (count, inner), 2, ends=False)
    return numbers(dtype, (slices, inner), 1, ends=False), indices, more


@pytest.mark.parametrize("dtype", (*NUMBERS, "bool"))
def test_gathered_slices(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in TABLES:
        for kind in INTS if table == TABLES[3] else ("int32",):
            x, indices, more = table_of(dtype, table, kind)
            out = [(dtype, more.shape)]
            (got,) = results_of(monkeypatch, "gather", "axis=0", [x, indices], out)
            same(got, x[indices])
            points = indices[:, None]
            (got,) = results_of(monkeypatch, "gather_nd", "", [x, points], out)
            same(got, x[indices])


def joined(x: Array, indices: Array, more: Array, reduction: int) -> Array:
    """As the core's: replaced, sum, product, min, max; float16 held in float32."""
    held = np.dtype("f4") if x.dtype == np.float16 else x.dtype
    total = x.astype(held)
    if reduction == 0:
        for i, one in zip(indices, more, strict=True):
            total[i] = one
    else:
        steps = (np.add, np.multiply, np.minimum, np.maximum)
        steps[reduction - 1].at(total, indices, more.astype(held))
    return total.astype(x.dtype)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_joined_slices(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in TABLES:
        x, indices, more = table_of(dtype, table)
        if dtype in FLOATS:  # sums that round: the order counts
            rng = np.random.default_rng(6)
            more = (more + rng.normal(size=more.shape) / 8).astype(dtype)
        zeros = np.zeros_like(x)
        out = [(dtype, x.shape)]
        want = joined(zeros, indices, more, 1)
        points = indices[:, None]
        for op, places, attrs in (
            ("gather_grad", indices, f"shape={ints(x.shape)}, axis=0"),
            ("scatter_nd", points, f"shape={ints(x.shape)}"),
        ):
            (got,) = results_of(monkeypatch, op, attrs, [places, more], out)
            harness.same_bits([got], [want], f"{op} {dtype} {table}")
        for reduction in range(5):
            with np.errstate(all="ignore"):
                want = joined(x, indices, more, reduction)
            inputs = [x, points, more]
            attrs = f"reduction={reduction}"
            (got,) = results_of(monkeypatch, "tensor_scatter", attrs, inputs, out)
            same(got, want)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "float64"])
def test_slices_in_blocks(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Along inner axes, side by side for leading ones, and of points of two axes."""
    rng = np.random.default_rng(3)
    x = numbers(dtype, (6, 500, 40, 3), 1, ends=False)
    i = rng.integers(0, 40, (6, 300)).astype("i4")
    places = np.broadcast_to(i[:, None, :, None], (6, 500, 300, 3))
    want = np.take_along_axis(x, places, 2)
    attrs = "axis=2, batch_dims=1"
    (got,) = results_of(monkeypatch, "gather", attrs, [x, i], [(dtype, want.shape)])
    same(got, want)
    total = np.zeros((6 * 500, 40, 3), "f4" if dtype == "float16" else dtype)
    flat = places[..., 0].reshape(3000, 300)
    np.add.at(total, (np.arange(3000)[:, None], flat), want.reshape(3000, 300, 3))
    attrs += f", shape={ints(x.shape)}"
    (got,) = results_of(
        monkeypatch, "gather_grad", attrs, [i, want], [(dtype, x.shape)]
    )
    same(got, total.reshape(x.shape).astype(dtype))
    points = np.stack([rng.integers(0, n, 70) for n in (6, 500)], 1).astype("i4")
    picked = x[points[:, 0], points[:, 1]]
    (got,) = results_of(
        monkeypatch, "gather_nd", "", [x, points], [(dtype, picked.shape)]
    )
    same(got, picked)
    total = np.zeros(x.shape, "f4" if dtype == "float16" else dtype)
    np.add.at(total, (points[:, 0], points[:, 1]), picked)
    (got,) = results_of(
        monkeypatch,
        "scatter_nd",
        f"shape={ints(x.shape)}",
        [points, picked],
        [(dtype, x.shape)],
    )
    same(got, total.astype(dtype))


@pytest.mark.parametrize("bad", [-1, 700])
@pytest.mark.parametrize("place", [0, 300, 2999])
def test_an_index_outside_is_named(place: int, bad: int) -> None:
    x = np.zeros((700, 3), "f4")
    indices = np.zeros(3000, "i4")
    indices[place] = bad
    more = np.zeros((3000, 3), "f2")
    shape = "shape=[700,3]"
    for op, attrs, inputs in (
        ("gather", "axis=0", [x, indices]),
        ("gather_nd", "", [x, indices[:, None]]),
        ("gather_grad", shape, [indices, more]),
        ("gather_grad", shape, [indices, more.astype("f4")]),
        ("scatter_nd", shape, [indices[:, None], more]),
        ("tensor_scatter", "reduction=0", [x.astype("f2"), indices[:, None], more]),
    ):
        dtype = inputs[-1].dtype.name if "gather" not in op[:7] else "float32"
        if op == "gather_grad":
            dtype = inputs[-1].dtype.name
        graph = Graph(host=True)
        names = [graph.param((v.dtype.name, v.shape)) for v in inputs]
        rows = 3000 if op in ("gather", "gather_nd") else 700
        text = graph.finish(graph.node(op, names, attrs, [(dtype, (rows, 3))]))
        for count in (1, 3):
            ipu.set_num_threads(count)
            message = rf"{op}: indices\[{place}\] = {bad} .*not in \[0, 700\)"
            with pytest.raises(ipu.tf.errors.InvalidArgumentError, match=message):
                harness.run(text, inputs)


@pytest.mark.parametrize("dtype", (*NUMBERS, "bool"))
def test_one_hot_rows(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for shape, axis in (((9000,), 1), ((9000,), 0), ((40, 70), 1), ((3, 4000), 2)):
        labels = np.random.default_rng(2).integers(-1, 13, shape).astype("i4")
        for on, off in ((1.0, 0.0), (0.0, 1.0)):
            hot = labels[..., None] == np.arange(12)
            want = np.moveaxis(np.where(hot, on, off), -1, axis).astype(dtype)
            attrs = (
                f"depth=12, axis={axis}, dtype={dtype}, on_value={on}, off_value={off}"
            )
            (got,) = results_of(
                monkeypatch, "one_hot", attrs, [labels], [(dtype, want.shape)]
            )
            same(got, want)


# --- movement -------------------------------------------------------------------------

WIDTHS = (*range(1, 10), 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 130)
BY_SIZE = ("uint8", "int16", "float32", "float64")


@pytest.mark.parametrize("dtype", BY_SIZE)
def test_moved_rows(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of each width: contiguous, repeated, reversed, strided, transposed."""
    for n in WIDTHS:
        x = np.arange(7 * n * 5).reshape(7, n, 5).astype(dtype)
        flat = x.reshape(7, n * 5)
        cases: list[tuple[str, str, Array, Array]] = []
        for perm in ((0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)):
            want = x.transpose(perm)
            cases.append(("transpose", f"perm={ints(perm)}", x, want))
        for start, stop, step in (
            (0, n, 2),
            (n - 1, -1, -1),
            (0, n, 3),
            (n // 2, n, 1),
        ):
            where = np.arange(start, stop, step)
            for source, axis in ((x[:, :, 0], 1), (x, 1)):
                begin, size, steps = [0] * 3, [7, n, 5], [1] * 3
                begin[axis], size[axis], steps[axis] = start, len(where), step
                rank = source.ndim
                attrs = (
                    f"begin={ints(begin[:rank])}, size={ints(size[:rank])}, "
                    f"strides={ints(steps[:rank])}"
                )
                want = source.take(where, axis)
                cases.append(("slice", attrs, np.ascontiguousarray(source), want))
                whole = np.zeros_like(source)
                whole[:, where] = want
                more = f"{attrs}, shape={ints(source.shape)}"
                cases.append(("slice_grad", more, want, whole))
        for old in ((n, 1), (1, n), (7, 1, n), (7, n, 1), ()):
            small = np.asarray(flat.reshape(-1)[: int(np.prod(old))].reshape(old))
            shape = (7, n, n)
            want = np.broadcast_to(small, shape)
            cases.append(("broadcast", f"shape={ints(shape)}", small, want))
        for op, attrs, source, want in cases:
            kind = [(dtype, want.shape)]
            (got,) = results_of(monkeypatch, op, attrs, [source], kind)
            same(got, want)


@pytest.mark.parametrize("dtype", BY_SIZE)
def test_moved_matrices(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large enough for several tasks, whose borders fall into planes."""
    x = np.arange(301 * 17 * 9 * 3).reshape(301, 17, 9, 3).astype(dtype)
    for perm in ((0, 2, 1, 3), (3, 0, 1, 2), (1, 0, 2, 3), (0, 1, 3, 2)):
        want = x.transpose(perm)
        (got,) = results_of(
            monkeypatch, "transpose", f"perm={ints(perm)}", [x], [(dtype, want.shape)]
        )
        same(got, want)
    want = x[::-1, :, ::-2, :]
    attrs = "begin=[300,0,8,0], size=[301,17,5,3], strides=[-1,1,-2,1]"
    (got,) = results_of(monkeypatch, "slice", attrs, [x], [(dtype, want.shape)])
    same(got, want)
    for axis in range(4):
        want = np.concatenate([x, x], axis)
        (got,) = results_of(
            monkeypatch, "concat", f"axis={axis}", [x, x], [(dtype, want.shape)]
        )
        same(got, want)
