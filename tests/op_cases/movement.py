# SPDX-License-Identifier: MIT
"""Cases of ops that move elements: bytes in, the same bytes out elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .elementwise import HUGE, THREADED
from .model import (
    ALL,
    INTS,
    Array,
    Case,
    In,
    Maker,
    Shape,
    between,
    case,
    ints,
    is_float,
    of_kind,
    shape_label,
    whole_range,
)


def source(shape: Shape, dtype: str) -> In:
    return In(shape, dtype, of_kind()(dtype))


def move(op: str, label: str, inputs: Sequence[In], oracle: Any, **more: Any) -> Case:
    """An exact op, differentiable in its floats where it is small."""
    size = sum(int(np.prod(i.shape)) for i in inputs)
    floats = any(is_float(i.dtype) for i in inputs)
    return case(
        op, label, inputs, oracle, exact=True, smooth=floats and size < 5000, **more
    )


def view_cases() -> Iterator[Case]:
    table: tuple[tuple[Shape, Shape], ...] = (
        ((), ()),
        ((), (1, 1)),
        ((1,), ()),
        ((0, 3), (3, 0, 5)),
        ((6,), (2, 3)),
        ((2, 3, 5), (5, 6)),
        (THREADED, (217 * 301,)),
    )
    for dtype in ALL:
        for old, new in table if dtype == "float32" else table[:6:2]:
            oracle = lambda x, new=new: x.reshape(new)  # noqa: E731
            label = shape_label(old, new)
            attrs = f"shape={ints(new)}"
            yield move("reshape", label, [source(old, dtype)], oracle, attrs=attrs)
        for shape in ((), (0,), (5, 3)):
            one = [source(shape, dtype)]
            yield move("identity", shape_label(shape), one, lambda x: x)
            yield move("checkpoint", shape_label(shape), one, lambda x: x)
            stop = move("stop_gradient", shape_label(shape), one, lambda x: x)
            yield Case(**{**stop.__dict__, "smooth": False})
            own = move("custom_gradient", shape_label(shape), one, lambda x: x)
            yield Case(**{**own.__dict__, "smooth": False})
            make = np.random.default_rng(3).uniform(0, 9, shape).astype(dtype)
            yield case(
                "constant",
                f"{dtype}_{shape_label(shape)}",
                [],
                lambda make=make: make.astype("f8") if make.dtype.kind == "f" else make,
                attrs=f"dtype={dtype}, shape={ints(shape)}, "
                f"value=0x{make.tobytes().hex()}",
                float_dtype=dtype if is_float(dtype) else "",
                exact=True,
            )


def transpose_cases() -> Iterator[Case]:
    table: tuple[tuple[Shape, tuple[int, ...]], ...] = (
        ((), ()),
        ((4,), (0,)),
        ((1, 5), (1, 0)),
        ((5, 33), (1, 0)),
        ((5, 33), (0, 1)),
        ((0, 3), (1, 0)),
        ((2, 3, 5), (0, 2, 1)),
        ((2, 3, 5), (2, 1, 0)),
        ((2, 3, 5), (1, 2, 0)),
        ((2, 3, 5, 7), (3, 1, 0, 2)),
        ((2, 1, 3, 1, 2, 2, 1, 3), (7, 5, 3, 1, 0, 2, 4, 6)),
        (THREADED, (1, 0)),
        ((13, 37, 129), (2, 0, 1)),
        ((13, 37, 129), (1, 0, 2)),
    )
    tiles: tuple[tuple[Shape, tuple[int, ...]], ...] = (
        ((35, 52), (1, 0)),
        ((131, 3), (1, 0)),
        ((3, 41, 2), (2, 0, 1)),
        ((4, 47, 3), (0, 2, 1)),
    )
    for dtype in ALL:
        some = table if dtype == "float32" else table[3:10:2]
        for shape, perm in some + tiles:
            oracle = lambda x, perm=perm: np.transpose(x, perm)  # noqa: E731
            label = f"{shape_label(shape)}_{''.join(map(str, perm))}"
            attrs = f"perm={ints(perm)}"
            yield move("transpose", label, [source(shape, dtype)], oracle, attrs=attrs)
    more = {"attrs": "perm=[1,0]", "slow": True}
    for dtype in ("float32", "uint8"):
        yield move("transpose", "huge", [source(HUGE, dtype)], np.transpose, **more)


def broadcast_cases() -> Iterator[Case]:
    table: tuple[tuple[Shape, Shape], ...] = (
        ((), ()),
        ((), (3, 4)),
        ((1,), (7,)),
        ((7,), (5, 7)),
        ((5, 1), (5, 7)),
        ((1, 7), (5, 7)),
        ((3, 1, 2), (2, 3, 4, 2)),
        ((1,), (0,)),
        ((0, 1), (2, 0, 3)),
        ((217,), THREADED),
        ((301, 1), THREADED),
    )
    for dtype in ALL:
        for old, new in table if dtype == "float32" else table[1:8:2]:
            oracle = lambda x, new=new: np.broadcast_to(x, new)  # noqa: E731
            label = shape_label(old, new)
            attrs = f"shape={ints(new)}"
            yield move("broadcast", label, [source(old, dtype)], oracle, attrs=attrs)
    more = {"attrs": f"shape={ints(HUGE)}", "slow": True}
    for shape in ((HUGE[1],), (HUGE[0], 1)):
        one = [source(shape, "float32")]
        oracle = lambda x: np.broadcast_to(x, HUGE)  # noqa: E731
        yield move("broadcast", "huge_" + shape_label(shape), one, oracle, **more)


def concat_cases() -> Iterator[Case]:
    table: tuple[tuple[tuple[Shape, ...], int], ...] = (
        (((3,),), 0),
        (((3,), (1,), (5,)), 0),
        (((2, 3), (4, 3)), 0),
        (((2, 3), (2, 5), (2, 1)), 1),
        (((2, 3), (2, 0)), -1),
        (((0, 3), (0, 2)), 1),
        (((2, 3, 5), (2, 1, 5)), 1),
        (((2, 3, 5), (2, 3, 2)), -1),
        (((301, 100), (301, 117)), 1),
        (((100, 217), (201, 217)), 0),
    )
    for dtype in ALL:
        for shapes, axis in table if dtype == "float32" else table[1:7:2]:
            oracle = lambda *xs, axis=axis: np.concatenate(xs, axis)  # noqa: E731
            label = f"{shape_label(*shapes)}_axis{axis}"
            inputs = [source(s, dtype) for s in shapes]
            yield move("concat", label, inputs, oracle, attrs=f"axis={axis}")
    both = [source(HUGE, "float32")] * 2
    for axis in (0, 1):
        oracle = lambda *xs, axis=axis: np.concatenate(xs, axis)  # noqa: E731
        more = {"attrs": f"axis={axis}", "slow": True}
        yield move("concat", f"huge_axis{axis}", both, oracle, **more)


# --- slices ---------------------------------------------------------------------------

Bounds = tuple[Shape, tuple[int, ...], tuple[int, ...], tuple[int, ...]]
SLICES: tuple[Bounds, ...] = (
    ((), (), (), ()),
    ((7,), (2,), (3,), (1,)),
    ((7,), (6,), (7,), (-1,)),
    ((7,), (1,), (3,), (2,)),
    ((7,), (3,), (0,), (1,)),
    ((0,), (0,), (0,), (1,)),
    ((5, 7), (1, 2), (3, 4), (1, 1)),
    ((5, 7), (4, 0), (3, 4), (-2, 2)),
    ((5, 7), (0, 6), (5, 3), (1, -3)),
    ((2, 3, 5), (0, 1, 4), (2, 1, 2), (1, 1, -3)),
    (THREADED, (1, 3), (299, 100), (1, 2)),
    (THREADED, (5, 0), (211, 217), (1, 1)),
)


def index_of(bounds: Bounds) -> tuple[Any, ...]:
    _, begin, size, strides = bounds
    triples = zip(begin, size, strides, strict=True)
    return tuple(b + s * np.arange(n) for b, n, s in triples)


def slice_text(bounds: Bounds) -> str:
    _, begin, size, strides = bounds
    return f"begin={ints(begin)}, size={ints(size)}, strides={ints(strides)}"


def slice_cases() -> Iterator[Case]:
    for dtype in ALL:
        for bounds in SLICES if dtype == "float32" else SLICES[1:10:3]:
            shape, begin, size, strides = bounds

            def cut(x: Array, bounds: Bounds = bounds) -> Array:
                return x[np.ix_(*index_of(bounds))] if bounds[0] else x

            def paste(g: Array, bounds: Bounds = bounds) -> Array:
                whole = np.zeros(bounds[0], g.dtype)
                if not bounds[0]:
                    return g
                whole[np.ix_(*index_of(bounds))] = g
                return whole

            parts = "_".join("".join(map(str, p)) for p in (begin, size, strides))
            label = f"{shape_label(shape)}_{parts}"
            text = slice_text(bounds)
            yield move("slice", label, [source(shape, dtype)], cut, attrs=text)
            text += f", shape={ints(shape)}"
            yield move("slice_grad", label, [source(size, dtype)], paste, attrs=text)
    bounds = (HUGE, (2, 2052), (1049, 685), (2, -3))
    more: dict[str, Any] = {"attrs": slice_text(bounds), "slow": True}
    oracle = lambda x: x[2:2102:2, 2052::-3]  # noqa: E731
    yield move("slice", "huge", [source(HUGE, "float32")], oracle, **more)


# --- gather and one_hot ---------------------------------------------------------------

GATHERS: tuple[tuple[Shape, Shape, int], ...] = (
    ((5,), (), 0),
    ((5,), (4,), 0),
    ((5, 3), (2, 4), 0),
    ((5, 3), (6,), 1),
    ((2, 5, 3), (4,), -2),
    ((2, 5, 3), (2, 2), 2),
    ((5, 3), (0,), 0),
    ((5, 0), (4,), 0),
    (THREADED, (500,), 0),
    (THREADED, (200,), 1),
)


def gather_cases() -> Iterator[Case]:
    kinds = [(d, "int32") for d in ALL] + [("float32", k) for k in INTS if k != "int32"]
    for dtype, kind in kinds:
        main = (dtype, kind) == ("float32", "int32")
        for shape, picked, axis in GATHERS if main else GATHERS[2:6]:
            size = shape[axis]
            front = axis % len(shape)
            result = (*shape[:front], *picked, *shape[front + 1 :])
            places = In(picked, kind, between(0, size - 1))

            def take(x: Array, i: Array, axis: int = axis) -> Array:
                return np.take(x, i, axis)

            def scatter(
                i: Array, g: Array, shape: Shape = shape, front: int = front
            ) -> Array:
                whole = np.zeros(shape, g.dtype)
                np.add.at(whole, (slice(None),) * front + (i,), g)
                return whole

            label = f"{shape_label(shape, picked)}_axis{axis}"
            inputs = [source(shape, dtype), places]
            yield move("gather", label, inputs, take, attrs=f"axis={axis}")
            if dtype == "bool":
                continue
            count = int(np.prod(picked))
            yield case(
                "gather_grad",
                label,
                [places, source(result, dtype)],
                scatter,
                attrs=f"shape={ints(shape)}, axis={axis}",
                smooth=is_float(dtype) and int(np.prod(result)) < 5000,
                ulps=4.0 + count,
                bound=lambda i, g: np.max(np.abs(g), initial=1.0),
            )
    inputs = [source(HUGE, "float32"), In((3000,), "int32", between(0, HUGE[0] - 1))]
    more: dict[str, Any] = {"attrs": "axis=0", "slow": True}
    yield move("gather", "huge", inputs, lambda x, i: x[i], **more)


BATCHED: tuple[tuple[Shape, Shape, int, int], ...] = (
    ((3, 5), (3,), 1, 1),
    ((3, 5), (3, 4), 1, 1),
    ((2, 5, 3), (2, 4), 1, 1),
    ((2, 3, 5, 4), (2, 2), 2, 1),
    ((2, 3, 5), (2, 3, 2), -1, 2),
    ((0, 5), (0, 2), 1, 1),
    ((30, 200, 9), (30, 70), 1, 1),
)


def batched_gather_cases() -> Iterator[Case]:
    def pick(x: Array, i: Array, axis: int, batch: int) -> Array:
        if batch == 0:
            return np.take(x, i, axis)
        rows = [pick(a, b, axis - 1, batch - 1) for a, b in zip(x, i, strict=True)]
        if rows:
            return np.stack(rows)
        return np.zeros((0, *x.shape[1:axis], *i.shape[1:], *x.shape[axis + 1 :]))

    for dtype in ("float32", "float16", "float64", "int32", "uint8"):
        for shape, picked, axis, batch in (
            BATCHED if dtype == "float32" else BATCHED[:5]
        ):
            front = axis % len(shape)
            oracle = lambda x, i, f=front, b=batch: pick(x, i, f, b)  # noqa: E731
            places = In(picked, "int32", between(0, shape[axis] - 1))
            label = f"batch{batch}_{shape_label(shape, picked)}_axis{axis}"
            attrs = f"axis={axis}, batch_dims={batch}"
            inputs = [source(shape, dtype), places]
            yield move("gather", label, inputs, oracle, attrs=attrs)

            def scatter(
                i: Array, g: Array, shape: Shape = shape, f: int = front, b: int = batch
            ) -> Array:
                whole = np.zeros(shape, g.dtype)
                flat = np.arange(whole.size).reshape(shape)
                np.add.at(whole.reshape(-1), pick(flat, i, f, b).astype(np.int64), g)
                return whole

            result = (*shape[:front], *picked[batch:], *shape[front + 1 :])
            yield case(
                "gather_grad",
                label,
                [places, source(result, dtype)],
                scatter,
                attrs=f"shape={ints(shape)}, {attrs}",
                smooth=is_float(dtype) and int(np.prod(shape)) < 5000,
                ulps=64.0,
                bound=lambda i, g: np.max(np.abs(g), initial=1.0),
            )


def floats_in(new: str, make: Maker) -> Maker:
    """Values whose bytes are ordinary numbers of dtype `new`."""
    if not is_float(new):
        return make

    def values(rng: np.random.Generator, shape: Shape, dtype: Any) -> Array:
        count = int(np.prod(shape)) * dtype.itemsize // np.dtype(new).itemsize
        numbers = rng.uniform(1, 2, count).astype(new)
        return numbers.view(dtype).reshape(shape)

    return values


def bitcast_cases() -> Iterator[Case]:
    for old in ALL[:-1]:
        for new in ALL[:-1]:
            if not {old, new} & {"float32", "uint8", "int64"}:
                continue
            a, b = np.dtype(old).itemsize, np.dtype(new).itemsize
            shape: Shape = (5, 3) if a >= b else (5, b // a)

            def typed(
                x: Array, a: int = a, b: int = b, old: str = old, new: str = new
            ) -> Array:
                y = x.astype(old).view(new)
                y = y.reshape(*x.shape, a // b) if a > b else y
                y = y[..., 0] if a < b else y
                return y.astype(np.float64) if y.dtype.kind == "f" else y

            make = whole_range if not is_float(old) else of_kind()(old)
            yield case(
                "bitcast",
                new,
                [In(shape, old, floats_in(new, make))],
                typed,
                attrs=f"dtype={new}",
                float_dtype=new if is_float(new) else "",
                exact=True,
            )


def one_hot_cases() -> Iterator[Case]:
    table: tuple[tuple[Shape, int, int], ...] = (
        ((), 4, -1),
        ((5,), 3, -1),
        ((5,), 3, 0),
        ((2, 3), 4, 1),
        ((0,), 4, -1),
        ((3,), 0, -1),
        ((3,), 1, 1),
        ((3001,), 17, -1),
    )
    kinds = [("int32", d) for d in ALL] + [(k, "float32") for k in INTS if k != "int32"]
    for kind, dtype in kinds:
        main = (kind, dtype) == ("int32", "float32")
        for shape, depth, axis in table if main else table[1:4]:
            # with labels outside of the depth, for which no element is on
            labels = In(shape, kind, between(-1, depth))
            values = {"b": (1, 0), "u": (3, 1), "i": (3, -1), "f": (2.5, -0.5)}
            on, off = values[np.dtype(dtype).kind]

            def oracle(
                i: Array,
                depth: int = depth,
                axis: int = axis,
                dtype: str = dtype,
                on: float = on,
                off: float = off,
            ) -> Array:
                hot = i[..., None].astype(np.int64) == np.arange(depth)
                wide = "float64" if is_float(dtype) else dtype
                return np.moveaxis(np.where(hot, on, off).astype(wide), -1, axis)

            yield case(
                "one_hot",
                f"{dtype}_{shape_label(shape)}_depth{depth}_axis{axis}",
                [labels],
                oracle,
                attrs=f"depth={depth}, axis={axis}, on_value={on}, off_value={off}, "
                f"dtype={dtype}",
                float_dtype=dtype if is_float(dtype) else "",
                exact=True,
            )

    def last(i: Array) -> Array:
        return (i[:, None] == np.arange(10)).astype(np.float64)

    # depth alone: the new axis is the last, 1 where it matches and 0 elsewhere
    one = In((6,), "int32", between(0, 9))
    yield case("one_hot", "defaults", [one], last, attrs="depth=10", exact=True)


def cases() -> Iterator[Case]:
    yield from view_cases()
    yield from transpose_cases()
    yield from broadcast_cases()
    yield from concat_cases()
    yield from slice_cases()
    yield from gather_cases()
    yield from batched_gather_cases()
    yield from bitcast_cases()
    yield from one_hot_cases()
