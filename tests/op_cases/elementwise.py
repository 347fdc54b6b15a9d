# SPDX-License-Identifier: MIT
"""Cases of the element-wise ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ipu import _core

from .model import (
    ALL,
    DTYPE_NUMBERS,
    FLOATS,
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

SHAPES: tuple[Shape, ...] = ((), (1,), (0,), (3, 0, 2), (7,), (5, 33), (2, 3, 5, 7))
FEW_SHAPES: tuple[Shape, ...] = ((), (0,), (5, 13))
THREADED: Shape = (301, 217)  # several tasks, none of them full at the end
HUGE: Shape = (2100, 2053)  # larger than the caches of most machines

PAIRS: tuple[tuple[Shape, Shape], ...] = (
    ((), ()),
    ((), (3,)),
    ((3,), ()),
    ((1,), (4,)),
    ((4,), (1,)),
    ((5, 7), (7,)),
    ((7,), (5, 7)),
    ((5, 1), (1, 7)),
    ((1, 7), (5, 1)),
    ((2, 1, 3), (5, 1)),
    ((2, 3, 4), (1, 3, 1)),
    ((1, 3, 1), (2, 3, 4)),
    ((1,), (0,)),
    ((0, 3), (3,)),
    ((2, 1), (2, 0)),
    ((33, 129), (33, 129)),
)
FEW_PAIRS: tuple[tuple[Shape, Shape], ...] = (
    ((), ()),
    ((5, 13), (5, 13)),
    ((5, 1), (13,)),
    ((1,), (0,)),
)
THREADED_PAIRS: tuple[tuple[Shape, Shape], ...] = (
    (THREADED, THREADED),
    (THREADED, THREADED[1:]),
    ((301, 1), THREADED),
)
DOZEN = len(SPECIAL)


def sign(a: Array) -> Array:
    return np.where(a > 0, 1.0, np.where(a < 0, -1.0, a)) if is_f(a) else np.sign(a)


def is_f(a: Array) -> bool:
    return a.dtype.kind == "f"


def relu(a: Array) -> Array:
    return np.where(a < 0, a.dtype.type(0), a)


def sigmoid(a: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-a))


def maximum(a: Array, b: Array) -> Array:
    return np.where((a > b) | (a != a), a, b)


def minimum(a: Array, b: Array) -> Array:
    return np.where((a < b) | (a != a), a, b)


def relu_grad(y: Array, g: Array) -> Array:
    return np.where(y > 0, g, g.dtype.type(0))


Unary = tuple[str, Callable[..., Any], tuple[str, ...], Callable[[str], Maker], dict]
POSITIVE = between(0.2, 3.0)


def same(maker: Maker) -> Callable[[str], Maker]:
    return lambda dtype: maker


def mixed(maker: Maker) -> Callable[[str], Maker]:
    """This one for floats, and the whole range for integers."""
    return lambda dtype: maker if is_float(dtype) else whole_range


EXACT = {"exact": True}
CURVE = {"twice": True}
UNARY: tuple[Unary, ...] = (
    ("neg", np.negative, NUMBERS, of_kind(), EXACT),
    ("abs", np.abs, NUMBERS, mixed(off_zero(3)), EXACT),
    ("sign", sign, NUMBERS, mixed(off_zero(3)), EXACT),
    ("floor", np.floor, FLOATS, same(lambda r, s, d: distinct(r, s, d) + 0.05), EXACT),
    ("exp", np.exp, FLOATS, of_kind(), CURVE),
    ("log", np.log, FLOATS, same(POSITIVE), CURVE),
    ("sqrt", np.sqrt, FLOATS, same(POSITIVE), {**EXACT, **CURVE}),
    ("rsqrt", lambda a: 1.0 / np.sqrt(a), FLOATS, same(POSITIVE), CURVE),
    ("square", lambda a: a * a, NUMBERS, of_kind(), {**EXACT, **CURVE}),
    ("tanh", np.tanh, FLOATS, of_kind(), CURVE),
    ("sigmoid", sigmoid, FLOATS, of_kind(), CURVE),
    ("relu", relu, NUMBERS, mixed(off_zero(3)), EXACT),
    ("logical_not", np.logical_not, ("bool",), of_kind(), EXACT),
)


def unary_cases() -> Iterator[Case]:
    for op, oracle, dtypes, maker, more in UNARY:
        for dtype in dtypes:
            make = maker(dtype)
            smooth = is_float(dtype)
            for shape in SHAPES if dtype in ("float32", "bool") else FEW_SHAPES:
                one = In(shape, dtype, make)
                label = shape_label(shape)
                yield case(op, label, [one], oracle, smooth=smooth, **more)
            big = In(THREADED, dtype, make)
            yield case(op, "threads", [big], oracle, **more)
            if smooth:
                special = In((DOZEN,), dtype, given(*SPECIAL))
                yield case(op, "special", [special], oracle, **{**more, "twice": False})
        huge = In(HUGE, dtypes[0], maker(dtypes[0]))
        yield case(op, "huge", [huge], oracle, slow=True, **more)


# --- two inputs -----------------------------------------------------------------------

Binary = tuple[
    str,
    Callable[..., Any],
    tuple[str, ...],
    Callable[[str], Maker],
    Callable[[str], Maker],
    dict,
]


def quotient(dtype: str) -> Maker:
    if is_float(dtype):
        return off_zero(3, 0.5)
    return off_zero(11) if np.dtype(dtype).kind == "i" else between(1, 200)


def between_quarters(rng: np.random.Generator, shape: Shape, dtype: Any) -> Array:
    """A quarter off the whole numbers."""
    if dtype.kind != "f":
        return whole_range(rng, shape, dtype)
    return rng.integers(-6, 6, shape) + rng.uniform(0.2, 0.3, shape)


def one_or_two(dtype: str) -> Maker:
    if is_float(dtype):
        return lambda rng, shape, _: rng.choice([-2.0, -1.0, 1.0, 2.0], shape)
    return quotient(dtype)


def evens(rng: np.random.Generator, shape: Shape, dtype: Any) -> Array:
    return rng.integers(-4, 4, shape) * 0.5


def odds(rng: np.random.Generator, shape: Shape, dtype: Any) -> Array:
    return rng.integers(-4, 4, shape) * 0.5 + 0.25


BINARY: tuple[Binary, ...] = (
    ("add", np.add, NUMBERS, of_kind(), of_kind(), EXACT),
    ("sub", np.subtract, NUMBERS, of_kind(), of_kind(), EXACT),
    ("mul", np.multiply, NUMBERS, of_kind(), of_kind(), {**EXACT, **CURVE}),
    ("div", np.divide, FLOATS, of_kind(), quotient, {**EXACT, **CURVE}),
    (
        "floor_div",
        np.floor_divide,
        NUMBERS,
        same(between_quarters),
        one_or_two,
        EXACT,
    ),
    ("floor_mod", np.mod, NUMBERS, same(between_quarters), one_or_two, EXACT),
    (
        "pow",
        np.power,
        NUMBERS,
        mixed(POSITIVE),
        lambda d: between(-2.0, 2.0) if is_float(d) else between(0, 9),
        CURVE,
    ),
    ("maximum", maximum, NUMBERS, mixed(evens), mixed(odds), EXACT),
    ("minimum", minimum, NUMBERS, mixed(evens), mixed(odds), EXACT),
    ("relu_grad", relu_grad, NUMBERS, mixed(off_zero(3)), of_kind(), EXACT),
    ("tanh_grad", lambda y, g: g * (1.0 - y * y), FLOATS, of_kind(), of_kind(), CURVE),
    (
        "sigmoid_grad",
        lambda y, g: g * (y * (1.0 - y)),
        FLOATS,
        of_kind(),
        of_kind(),
        CURVE,
    ),
    (
        "sqrt_grad",
        lambda y, g: np.where(g == 0, 0, g * 0.5 / y),
        FLOATS,
        same(POSITIVE),
        of_kind(),
        CURVE,
    ),
    (
        "rsqrt_grad",
        lambda y, g: np.where(g == 0, 0, g * -0.5 * y * y * y),
        FLOATS,
        same(POSITIVE),
        of_kind(),
        CURVE,
    ),
    (
        "reciprocal_grad",
        lambda y, g: np.where(g == 0, 0, -g * (y * y)),
        FLOATS,
        same(POSITIVE),
        of_kind(),
        CURVE,
    ),
    ("logical_and", np.logical_and, ("bool",), of_kind(), of_kind(), EXACT),
    ("logical_or", np.logical_or, ("bool",), of_kind(), of_kind(), EXACT),
)
COMPARISONS: tuple[tuple[str, Callable[..., Any], tuple[str, ...]], ...] = (
    ("equal", np.equal, ALL),
    ("not_equal", np.not_equal, ALL),
    ("less", np.less, NUMBERS),
    ("less_equal", np.less_equal, NUMBERS),
    ("greater", np.greater, NUMBERS),
    ("greater_equal", np.greater_equal, NUMBERS),
)
# the error of 1 - y * y and y * (1 - y) scales with what they are made of
BOUNDS = {
    "tanh_grad": lambda y, g: g * (1.0 + y * y),
    "sigmoid_grad": lambda y, g: g * (y + y * y),
}


def binary_table() -> Iterator[Binary]:
    yield from BINARY
    for op, oracle, dtypes in COMPARISONS:
        few = lambda d: between(-2, 2)  # noqa: E731  (few values: many are equal)
        yield op, oracle, dtypes, few, few, EXACT


def binary_cases() -> Iterator[Case]:
    for op, oracle, dtypes, left, right, more in binary_table():
        more = {**more, "bound": BOUNDS.get(op)}
        compares = any(op == c[0] for c in COMPARISONS)
        for dtype in dtypes:
            a, b = left(dtype), right(dtype)
            main = dtype == dtypes[0]
            smooth = is_float(dtype) and not compares
            for sa, sb in PAIRS if main else FEW_PAIRS:
                inputs = [In(sa, dtype, a), In(sb, dtype, b)]
                label = shape_label(sa, sb)
                yield case(op, label, inputs, oracle, smooth=smooth, **more)
            for sa, sb in THREADED_PAIRS[: 3 if main else 1]:
                inputs = [In(sa, dtype, a), In(sb, dtype, b)]
                label = "threads_" + shape_label(sa, sb)
                yield case(op, label, inputs, oracle, **more)
            if is_float(dtype) and op not in BOUNDS:
                inputs = [
                    In((DOZEN, 1), dtype, given(*SPECIAL)),
                    In((1, DOZEN), dtype, given(*SPECIAL)),
                ]
                yield case(op, "special", inputs, oracle, **{**more, "twice": False})
        huge = [
            In(HUGE, dtypes[0], left(dtypes[0])),
            In(HUGE, dtypes[0], right(dtypes[0])),
        ]
        yield case(op, "huge", huge, oracle, slow=True, **more)


# --- the others -----------------------------------------------------------------------


def select_cases() -> Iterator[Case]:
    triples: tuple[tuple[Shape, Shape, Shape], ...] = (
        ((), (), ()),
        ((4,), (), ()),
        ((), (4,), (1,)),
        ((5, 1), (1, 7), (7,)),
        ((7,), (5, 1), (5, 7)),
        ((2, 3, 4), (3, 1), (4,)),
        ((1,), (0,), (1,)),
        ((33, 65), (33, 65), (33, 65)),
        (THREADED, THREADED, (217,)),
    )
    for dtype in ALL:
        make = of_kind()(dtype)
        for sc, sa, sb in triples:
            inputs = [In(sc, "bool", of_kind()("bool")), In(sa, dtype, make)]
            inputs.append(In(sb, dtype, make))
            smooth = is_float(dtype) and sc != THREADED
            label = shape_label(sc, sa, sb)
            yield case("select", label, inputs, np.where, exact=True, smooth=smooth)
    huge = [In(HUGE, d, of_kind()(d)) for d in ("bool", "float32", "float32")]
    yield case("select", "huge", huge, np.where, exact=True, slow=True)


def cast_to(target: str) -> Callable[[Array], Array]:
    """Floats to integers truncate and saturate, NaN gives 0; integers wrap."""
    dtype = np.dtype(target)

    def cast(x: Array) -> Array:
        if dtype.kind == "b":
            return x != 0
        if dtype.kind == "f":
            return x.astype(np.float64)
        if x.dtype.kind != "f":
            return x.astype(dtype)
        info = np.iinfo(dtype)
        whole = np.trunc(np.where(np.isnan(x), 0.0, x))
        inside = (whole >= float(info.min)) & (whole < float(info.max))
        low, high = np.array(info.min, dtype), np.array(info.max, dtype)
        ends = np.where(whole < 0, low, high)
        return np.where(inside, np.where(inside, whole, 0).astype(dtype), ends)

    return cast


def cast_cases() -> Iterator[Case]:
    for source in ALL:
        for target in ALL:
            for shape in ((), (0,), (5, 13), THREADED):
                if shape != (5, 13) and "float32" not in (source, target):
                    continue
                more: dict[str, Any] = {"attrs": f"dtype={target}", "exact": True}
                more["float_dtype"] = target if is_float(target) else ""
                both = is_float(source) and is_float(target)
                more["smooth"] = both and shape != THREADED
                one = In(shape, source, of_kind(-300.0, 300.0)(source))
                label = f"{target}_{shape_label(shape)}"
                yield case("cast", label, [one], cast_to(target), **more)
            if is_float(source):
                del more["smooth"]
                one = In((DOZEN,), source, given(*SPECIAL))
                yield case("cast", f"{target}_special", [one], cast_to(target), **more)
    huge = In(HUGE, "uint8", whole_range)
    more = {"attrs": "dtype=float32", "float_dtype": "float32", "slow": True}
    yield case("cast", "float32_huge", [huge], cast_to("float32"), exact=True, **more)


def instruction(op: str, dtype: str, *operands: int) -> list[int]:
    number = [row[0] for row in _core.op_table()].index(op)
    padded = [*operands, -1, -1, -1][:3]
    return [number, DTYPE_NUMBERS.index(dtype), *padded]


def fused_cases() -> Iterator[Case]:
    def oracle(a: Array, b: Array, c: Array) -> Array:
        return np.where(a < b, np.maximum(a * 0.5, c), -b)

    for dtype in FLOATS:
        half = "0x" + np.array(0.5, dtype).tobytes().hex()
        code = [
            *instruction("less", "bool", 0, 1),
            *instruction("mul", dtype, 0, 3),
            *instruction("maximum", dtype, 5, 2),
            *instruction("neg", dtype, 1),
            *instruction("select", dtype, 4, 6, 7),
        ]
        assert half
        for sa, sb, sc in (
            ((), (), ()),
            ((4, 5), (5,), (4, 1)),
            ((1,), (4, 5), ()),
            ((0, 3), (3,), (1,)),
            (THREADED, THREADED, (217,)),
        ):
            inputs = [In(s, dtype, of_kind()(dtype)) for s in (sa, sb, sc)]
            inputs.append(In((), dtype, given(0.5)))
            yield case(
                "fused_elementwise",
                shape_label(sa, sb, sc),
                inputs,
                lambda a, b, c, half: oracle(a, b, c),
                attrs=f"code={ints(code)}",
                exact=True,
            )
    code = [*instruction("cast", "float32", 0), *instruction("mul", "float32", 2, 1)]
    for shape in ((7,), (5, 33), THREADED):
        inputs = [In(shape, "uint8", whole_range), In((), "float32", given(0.5))]
        more = {"attrs": f"code={ints(code)}", "exact": True}
        label = "bytes_" + shape_label(shape)
        yield case("fused_elementwise", label, inputs, np.multiply, **more)


def cases() -> Iterator[Case]:
    yield from unary_cases()
    yield from binary_cases()
    yield from select_cases()
    yield from cast_cases()
    yield from fused_cases()
