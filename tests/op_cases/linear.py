# SPDX-License-Identifier: MIT
"""Cases of running totals, sorting, points, and linear algebra."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .elementwise import THREADED
from .model import (
    ALL,
    INTS,
    NUMBERS,
    SPECIAL,
    Array,
    Case,
    In,
    Maker,
    Shape,
    between,
    case,
    distinct,
    given,
    ints,
    is_float,
    of_kind,
    off_zero,
    shape_label,
    whole_range,
)

WIDE = ("float32", "float64")


def flag(value: bool) -> str:
    return str(value).lower()


# --- running totals -------------------------------------------------------------------

LINES: tuple[tuple[Shape, int], ...] = (
    ((1,), 0),
    ((7,), -1),
    ((5, 33), 0),
    ((5, 33), 1),
    ((2, 3, 5), 1),
    ((0,), 0),
    ((3, 0, 2), 0),
    ((3, 0, 2), 1),
)


def scanned(op: str, axis: int, exclusive: bool, reverse: bool) -> Callable[..., Any]:
    start = 0 if op == "cumsum" else 1
    step = np.add if op == "cumsum" else np.multiply

    def oracle(x: Array) -> Array:
        turned = np.flip(x, axis) if reverse else x
        out = step.accumulate(turned, axis, dtype=x.dtype)
        if exclusive:
            size = x.shape[axis]
            first = np.full_like(np.take(turned, range(min(size, 1)), axis), start)
            rest = np.take(out, range(max(size - 1, 0)), axis)
            out = np.concatenate([first, rest], axis)
        return np.flip(out, axis) if reverse else out

    return oracle


def scan_cases() -> Iterator[Case]:
    for op in ("cumsum", "cumprod"):
        for dtype in NUMBERS:
            main = dtype == "float32"
            # products stay near 1
            make: Maker = off_zero(1.6, 0.6) if is_float(dtype) else whole_range
            table = LINES if main else LINES[2:5:2]
            for shape, axis in (*table, (THREADED, 1), (THREADED, 0)):
                big = shape == THREADED
                if big and (not main or op == "cumprod"):
                    continue
                for exclusive in (False, True):
                    for reverse in (False, True):
                        if big and exclusive != reverse:
                            continue
                        letters = "e" * exclusive + "r" * reverse
                        yield case(
                            op,
                            f"{shape_label(shape)}_axis{axis}{letters}",
                            [In(shape, dtype, make)],
                            scanned(op, axis, exclusive, reverse),
                            attrs=f"axis={axis}, exclusive={flag(exclusive)}, "
                            f"reverse={flag(reverse)}",
                            bound=_largest if is_float(dtype) else None,
                            ulps=4.0 if op == "cumsum" else 64.0,
                            smooth=is_float(dtype) and not big,
                            twice=dtype == "float64",
                        )
            if is_float(dtype):
                one = In((3, 7), dtype, given(*SPECIAL))
                oracle = scanned(op, 0, False, False)
                yield case(op, "special", [one], oracle, attrs="axis=0", ulps=4.0)


def recurred(axis: int, reverse: bool) -> Callable[..., Any]:
    def oracle(a: Array, b: Array) -> Array:
        if reverse:
            return np.flip(
                recurred(axis, False)(np.flip(a, axis), np.flip(b, axis)), axis
            )
        a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
        y = np.zeros_like(b)
        for k in range(len(b)):
            y[k] = b[k] if k == 0 else a[k] * y[k - 1] + b[k]
        return np.moveaxis(y, 0, axis)

    return oracle


def recurrence_cases() -> Iterator[Case]:
    for dtype in ("float16", "float32", "float64"):
        for shape, axis in LINES if dtype == "float32" else LINES[2:5:2]:
            for reverse in (False, True):
                yield case(
                    "recurrence",
                    f"{shape_label(shape)}_axis{axis}{'r' * reverse}",
                    [
                        In(shape, dtype, between(-0.9, 0.9)),
                        In(shape, dtype, between(-2, 2)),
                    ],
                    recurred(axis, reverse),
                    attrs=f"axis={axis}, reverse={flag(reverse)}",
                    bound=lambda a, b: np.asarray(np.sum(np.abs(b), initial=1.0)),
                    ulps=4.0,
                    smooth=True,
                    twice=dtype == "float64",
                )


def _largest(x: Array) -> Array:
    return np.asarray(np.sum(np.abs(x), initial=1.0))


# --- order ----------------------------------------------------------------------------

ROWS: tuple[tuple[Shape, int], ...] = (
    ((1,), 1),
    ((7,), 3),
    ((5, 33), 33),
    ((2, 3, 5), 2),
    ((4, 3), 0),
    ((0, 4), 2),
    ((301, 217), 20),
)


def ordered(k: int, ascending: bool) -> Callable[[Array], tuple[Array, Array]]:
    def oracle(x: Array) -> tuple[Array, Array]:
        if ascending:
            places = np.argsort(x, axis=-1, kind="stable")
        else:  # stable from the other end, and back
            flipped = np.argsort(x[..., ::-1], axis=-1, kind="stable")[..., ::-1]
            places = x.shape[-1] - 1 - flipped
        places = places[..., :k]
        return np.take_along_axis(x, places, -1), places.astype(np.int32)

    return oracle


def order_cases() -> Iterator[Case]:
    for dtype in NUMBERS:
        main = dtype == "float32"
        for shape, k in ROWS if main else ROWS[1:4:2]:
            for ascending in (False, True):
                label = f"{shape_label(shape)}_k{k}{'_up' * ascending}"
                attrs = f"depth={k}, ascending={flag(ascending)}"
                oracle = ordered(k, ascending)
                small = is_float(dtype) and shape != (301, 217)
                make = distinct if is_float(dtype) else whole_range
                yield case(
                    "top_k",
                    label,
                    [In(shape, dtype, make)],
                    oracle,
                    attrs=attrs,
                    exact=True,
                    smooth=small,
                    twice=small,
                )
        ties = In((4, 40), dtype, between(0, 3.9))
        whole = case("top_k", "ties", [ties], ordered(40, False), attrs="depth=40")
        yield Case(**{**whole.__dict__, "exact": True})
        if is_float(dtype):
            special = In((1, len(SPECIAL)), dtype, given(*SPECIAL))
            for ascending in (False, True):
                yield case(
                    "top_k",
                    f"special{'_up' * ascending}",
                    [special],
                    ordered(21, ascending),
                    attrs=f"depth=21, ascending={flag(ascending)}",
                    exact=True,
                )


# --- points ---------------------------------------------------------------------------

# the whole, the points' own shape, and how many axes a point names
POINTS: tuple[tuple[Shape, Shape, int], ...] = (
    ((5,), (4,), 1),
    ((5, 3), (2, 4), 1),
    ((5, 3), (6,), 2),
    ((2, 5, 3), (4,), 2),
    ((2, 5, 3), (), 3),
    ((5, 3), (2,), 0),
    ((5, 3), (0,), 1),
    ((4, 0), (3,), 1),
    ((9, 7001), (20,), 1),
)


def points_in(shape: Shape, depth: int) -> Maker:
    def make(rng: np.random.Generator, wanted: Shape, dtype: Any) -> Array:
        top = np.array([*shape[:depth]])
        return rng.integers(0, np.broadcast_to(top, wanted))

    return make


def apart(shape: Shape, depth: int) -> Maker:
    """Points that all differ."""

    def make(rng: np.random.Generator, wanted: Shape, dtype: Any) -> Array:
        size = int(np.prod(shape[:depth]))
        flat = rng.permutation(size)[: int(np.prod(wanted[:-1]))]
        return np.stack(np.unravel_index(flat, shape[:depth]), -1).reshape(wanted)

    return make


def as_index(i: Array) -> tuple[Array, ...]:
    return tuple(np.moveaxis(i.astype(np.int64), -1, 0))


def gathered(x: Array, i: Array) -> Array:
    if i.shape[-1] == 0:
        return np.broadcast_to(x, (*i.shape[:-1], *x.shape))
    return x[as_index(i)]


SCATTERS: tuple[tuple[str, int, Any], ...] = (
    ("update", 0, None),
    ("add", 1, np.add),
    ("mul", 2, np.multiply),
    ("min", 3, np.minimum),
    ("max", 4, np.maximum),
)


def joined(step: Any, whole: Array, i: Array, updates: Array) -> Array:
    out = whole.copy()
    if i.shape[-1] == 0:
        for u in updates.reshape(-1, *whole.shape):
            out = u.copy() if step is None else step(out, u)
    elif step is None:
        out[as_index(i)] = updates
    else:
        step.at(out, as_index(i), updates)
    return out


def point_cases() -> Iterator[Case]:
    kinds = [(d, "int32") for d in ALL] + [("float32", k) for k in INTS if k != "int32"]
    for dtype, kind in kinds:
        main = (dtype, kind) == ("float32", "int32")
        make = of_kind()(dtype)
        for shape, picked, depth in POINTS if main else POINTS[1:4]:
            points = In((*picked, depth), kind, points_in(shape, depth))
            slices = (*picked, *shape[depth:])
            label = shape_label(shape, (*picked, depth))
            whole = In(shape, dtype, make)
            part = In(slices, dtype, make)
            count = int(np.prod(picked))
            smooth = is_float(dtype) and int(np.prod(shape)) < 5000
            yield case(
                "gather_nd", label, [whole, points], gathered, exact=True, smooth=smooth
            )
            if dtype != "bool":

                def sums(i: Array, g: Array, shape: Shape = shape) -> Array:
                    return joined(np.add, np.zeros(shape, g.dtype), i, g)

                yield case(
                    "scatter_nd",
                    label,
                    [points, part],
                    sums,
                    attrs=f"shape={ints(shape)}",
                    smooth=smooth,
                    ulps=4.0 + count,
                    bound=lambda i, g: np.max(g, initial=1.0),
                )
            for name, number, step in SCATTERS:
                if (dtype == "bool" or kind != "int32") and number > 0:
                    continue
                if number > 1 and not main and picked != (6,):
                    continue
                exact = step not in (np.add, np.multiply)
                repeats = points if depth == 0 or number else None
                places = repeats or In((*picked, depth), kind, apart(shape, depth))
                if number == 0 and count > int(np.prod(shape[:depth])):
                    continue

                def oracle(x: Array, i: Array, u: Array, step: Any = step) -> Array:
                    return joined(step, x, i, u)

                yield case(
                    "tensor_scatter",
                    f"{name}_{label}",
                    [whole, places, part],
                    oracle,
                    attrs=f"reduction={number}",
                    exact=exact,
                    # with depth 0 the last of several updates wins
                    smooth=smooth and number != 2 and depth > 0,
                    ulps=4.0 + 4 * count,
                    bound=None if exact else lambda x, i, u: _largest(u) ** 2 + 2,
                )


# --- linear algebra -------------------------------------------------------------------

SIZES: tuple[Shape, ...] = ((1, 1), (3, 3), (2, 3, 3), (2, 1, 5, 5), (0, 0), (0, 2, 2))
CLOSE: dict[str, Any] = {"ulps": 64.0, "bound": lambda *_: np.array(10.0)}


def definite(rng: np.random.Generator, shape: Shape, dtype: Any) -> Array:
    a = rng.uniform(-1, 1, shape)
    return a @ np.swapaxes(a, -1, -2) + 2 * np.eye(shape[-1])


def solid(rng: np.random.Generator, shape: Shape, dtype: Any) -> Array:
    """Far from singular, in need of row exchanges."""
    a = rng.uniform(-1, 1, shape) + 3 * np.eye(shape[-1])
    return a[..., rng.permutation(shape[-1]), :]


def well_posed(rng: np.random.Generator, shape: Shape, dtype: Any) -> Array:
    return rng.uniform(-1, 1, shape) + 3 * np.eye(shape[-1])


def cholesky(a: Array) -> Array:
    return np.linalg.cholesky((a + np.swapaxes(a, -1, -2)) / 2)


def turned(a: Array, transpose: bool) -> Array:
    return np.swapaxes(a, -1, -2) if transpose else a


def linear_cases() -> Iterator[Case]:
    for dtype in WIDE:
        for shape in SIZES if dtype == "float32" else SIZES[1:3]:
            one = [In(shape, dtype, definite)]
            label = shape_label(shape)
            more = {**CLOSE, "smooth": True, "twice": True}
            # its gradient is symmetric, which single elements' differences are not
            once = {**more, "twice": False}
            yield case("cholesky", label, one, cholesky, **once)
            matrix = In(shape, dtype, solid)
            yield case("det", label, [matrix], np.linalg.det, **more)
            sign_and_size = lambda a: tuple(np.linalg.slogdet(a))  # noqa: E731
            yield case("slogdet", label, [matrix], sign_and_size, **more)
            for columns in (1, 4) if shape != (0, 0) else (2,):
                right = In((*shape[:-1], columns), dtype, of_kind()(dtype))
                both = f"{label}_{columns}"
                for transpose in (False, True):

                    def general(a: Array, b: Array, t: bool = transpose) -> Array:
                        return np.linalg.solve(turned(a, t), b)

                    attrs = f"transpose_a={flag(transpose)}"
                    letter = "t" if transpose else "n"
                    yield case(
                        "solve",
                        f"{both}_{letter}",
                        [matrix, right],
                        general,
                        attrs=attrs,
                        **more,
                    )
                    for lower in (False, True):

                        def triangle(
                            a: Array,
                            b: Array,
                            t: bool = transpose,
                            lower: bool = lower,
                        ) -> Array:
                            own = np.tril(a) if lower else np.triu(a)
                            return np.linalg.solve(turned(own, t), b)

                        yield case(
                            "triangular_solve",
                            f"{both}_{letter}_{'lower' if lower else 'upper'}",
                            [In(shape, dtype, well_posed), right],
                            triangle,
                            attrs=f"{attrs}, lower={flag(lower)}",
                            **more,
                        )


RECTANGLES: tuple[Shape, ...] = ((1, 1), (4, 3), (2, 3, 5), (0, 2, 2), (3, 0), (9, 9))


def signed(vectors: Array, *others: Array) -> tuple[Array, ...]:
    """Columns with their largest element positive, and others turned alike."""
    if not vectors.size:
        return (vectors, *others)
    place = np.argmax(np.abs(vectors), -2)[..., None, :]
    sign = np.sign(np.take_along_axis(vectors, place, -2))
    return tuple(sign * v for v in (vectors, *others))


def eigh(a: Array) -> tuple[Array, ...]:
    e, v = np.linalg.eigh(a)
    return (e, *signed(v))


def svd(a: Array) -> tuple[Array, ...]:
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return (s, *signed(u, np.swapaxes(vt, -1, -2)))


def lu(a: Array) -> tuple[Array, Array]:
    """Row by row, by exchanges."""
    n = a.shape[-1]
    both, rows = a.copy(), np.zeros(a.shape[:-1], np.int32)
    for at in np.ndindex(a.shape[:-2]):
        m, order = both[at], np.arange(n)
        for i in range(n):
            best = i + int(np.argmax(np.abs(m[i:, i])))
            m[[i, best]], order[[i, best]] = m[[best, i]], order[[best, i]]
            m[i + 1 :, i] /= m[i, i]
            m[i + 1 :, i + 1 :] -= np.outer(m[i + 1 :, i], m[i, i + 1 :])
        rows[at] = order
    return both, rows


def spectral_cases() -> Iterator[Case]:
    for dtype in WIDE:
        for shape in RECTANGLES if dtype == "float32" else RECTANGLES[1:3]:
            one = [In(shape, dtype, between(-2, 2))]
            label = shape_label(shape)
            yield case("qr", label, one, lambda a: tuple(np.linalg.qr(a)), **CLOSE)
            yield case("svd", label, one, svd, **CLOSE)
        for shape in (*SIZES, (12, 12)) if dtype == "float32" else SIZES[1:3]:
            label = shape_label(shape)
            yield case("eigh", label, [In(shape, dtype, definite)], eigh, **CLOSE)
            yield case("lu", label, [In(shape, dtype, solid)], lu, **CLOSE)


def cases() -> Iterator[Case]:
    yield from spectral_cases()
    yield from scan_cases()
    yield from recurrence_cases()
    yield from order_cases()
    yield from point_cases()
    yield from linear_cases()
