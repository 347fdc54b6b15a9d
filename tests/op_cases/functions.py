# SPDX-License-Identifier: MIT
"""Cases of further element-wise functions: trigonometry, special functions, bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from statistics import NormalDist
from typing import Any

import numpy as np

from .elementwise import (
    CURVE,
    DOZEN,
    EXACT,
    FEW_PAIRS,
    HUGE,
    POSITIVE,
    THREADED,
    mixed,
    same,
)
from .model import (
    FLOATS,
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
    is_float,
    of_kind,
    off_zero,
    shape_label,
    whole_range,
)

SHAPES: tuple[Shape, ...] = ((), (0,), (5, 13))
elementwise = partial(np.vectorize, otypes=[np.float64])
erf = elementwise(math.erf)
erfc = elementwise(math.erfc)


def softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


@elementwise
def lgamma(x: float) -> float:
    if x == -math.inf:
        return math.inf
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


@elementwise
def gelu(x: float) -> float:
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


def gelu_grad(x: Array, dy: Array) -> Array:
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    below = 0.5 * (1 + erf(x / math.sqrt(2)))
    return np.asarray(dy * (below + x * density))


@elementwise
def digamma(x: float) -> float:
    """The recurrence far up, where the asymptotic series needs two terms."""
    if x == 0:
        return -math.copysign(math.inf, x)
    if x < 0:
        whole = math.isinf(x) or x == math.floor(x)
        return (
            math.nan
            if whole
            else digamma(1 - x) - math.pi / math.tan(math.pi * (x - round(x)))
        )
    if math.isinf(x) or math.isnan(x):
        return x
    terms = []
    while x < 200:
        terms.append(-1 / x)
        x += 1
    tail = math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4)
    return math.fsum([*terms, tail])


@elementwise
def erfinv(y: float) -> float:
    if not -1 < y < 1:
        return math.copysign(math.inf, y) if abs(y) == 1 else math.nan
    x = NormalDist().inv_cdf((1 + y) / 2) / math.sqrt(2) if y else y
    for _ in range(2 if y else 0):
        x -= (math.erf(x) - y) * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return x


def near_one(x: Array) -> Array:
    return np.ones_like(x)  # the functions cross 0


def as_large(x: Array, *_: Array) -> Array:
    return np.asarray(1 + np.abs(x))


def rounded(x: Array) -> Array:
    return np.rint(x) if x.dtype.kind == "f" else x


Function = tuple[str, Callable[..., Any], tuple[str, ...], Callable[[str], Maker], dict]
INSIDE = between(-0.9, 0.9)
OUTSIDE = between(1.2, 4.0)
STEEP: dict[str, Any] = {"twice": True, "ulps": 8.0}
HALVES: Maker = lambda r, s, d: distinct(r, s, d) + 0.05  # noqa: E731
FUNCTIONS: tuple[Function, ...] = (
    ("reciprocal", np.reciprocal, FLOATS, same(POSITIVE), {**EXACT, **CURVE}),
    ("log1p", np.log1p, FLOATS, same(between(-0.7, 3.0)), CURVE),
    ("log2", np.log2, FLOATS, same(POSITIVE), CURVE),
    ("expm1", np.expm1, FLOATS, of_kind(), CURVE),
    ("sin", np.sin, FLOATS, same(between(-9, 9)), CURVE),
    ("cos", np.cos, FLOATS, same(between(-9, 9)), CURVE),
    ("tan", np.tan, FLOATS, same(between(-1.2, 1.2)), CURVE),
    ("asin", np.arcsin, FLOATS, same(INSIDE), CURVE),
    ("acos", np.arccos, FLOATS, same(INSIDE), CURVE),
    ("atan", np.arctan, FLOATS, of_kind(), CURVE),
    ("sinh", np.sinh, FLOATS, of_kind(), CURVE),
    ("cosh", np.cosh, FLOATS, of_kind(), CURVE),
    ("asinh", np.arcsinh, FLOATS, of_kind(), CURVE),
    ("acosh", np.arccosh, FLOATS, same(OUTSIDE), CURVE),
    ("atanh", np.arctanh, FLOATS, same(INSIDE), CURVE),
    ("erf", erf, FLOATS, of_kind(), CURVE),
    ("erfc", erfc, FLOATS, of_kind(), CURVE),
    ("softplus", softplus, FLOATS, of_kind(-4, 4), CURVE),
    ("gelu", gelu, FLOATS, of_kind(), {**CURVE, "bound": as_large}),
    (
        "lgamma",
        lgamma,
        FLOATS,
        same(between(2.2, 5.0)),
        {"bound": near_one, "ulps": 16.0},
    ),
    (
        "digamma",
        digamma,
        FLOATS,
        same(between(2.0, 5.0)),
        {"bound": near_one, "ulps": 16.0},
    ),
    ("erfinv", erfinv, FLOATS, same(INSIDE), STEEP),
    ("ceil", np.ceil, FLOATS, same(HALVES), EXACT),
    ("round", rounded, NUMBERS, mixed(HALVES), EXACT),
    ("trunc", np.trunc, FLOATS, same(HALVES), EXACT),
    ("is_nan", np.isnan, FLOATS, of_kind(), EXACT),
    ("is_inf", np.isinf, FLOATS, of_kind(), EXACT),
    ("is_finite", np.isfinite, FLOATS, of_kind(), EXACT),
    ("bitwise_not", np.invert, INTS, of_kind(), EXACT),
)
TESTS = ("is_nan", "is_inf", "is_finite")
# these have functions of their own for float32, and so for float16
FAST = """reciprocal log1p expm1 sin cos erf gelu softplus ceil round trunc is_nan
is_inf is_finite bitwise_not""".split()


def one_input() -> Iterator[Case]:
    for op, oracle, dtypes, maker, more in FUNCTIONS:
        for dtype in dtypes:
            smooth = is_float(dtype) and op not in TESTS
            for shape in SHAPES if dtype == dtypes[0] else SHAPES[2:]:
                one = In(shape, dtype, maker(dtype))
                yield case(op, shape_label(shape), [one], oracle, smooth=smooth, **more)
            if op in FAST and dtype in (dtypes[0], "float16"):
                big = In(THREADED, dtype, maker(dtype))
                yield case(op, "threads", [big], oracle, **more)
            if is_float(dtype):
                special = In((DOZEN,), dtype, given(*SPECIAL))
                yield case(op, "special", [special], oracle, **{**more, "twice": False})
        huge = In(HUGE, dtypes[0], maker(dtypes[0]))
        if op in FAST:
            yield case(op, "huge", [huge], oracle, slow=True, **more)


def sine_far_out() -> Iterator[Case]:
    """Where pi has to be known to many digits."""
    far = (1e2, -3e3, 5e4, 6.7e7, 6.72e7, -1e9, 3e20, 2.0**25, 22.0, 355.0, 710.0)
    for op, oracle in (("sin", np.sin), ("cos", np.cos)):
        one = In((len(far),), "float32", given(*far))
        yield case(op, "far", [one], oracle)


def left_shift(a: Array, b: Array) -> Array:
    inside = (b >= 0) & (b < a.dtype.itemsize * 8)
    count = np.where(inside, b, 0).astype(a.dtype)
    return np.where(inside, np.left_shift(a, count), a.dtype.type(0))


def right_shift(a: Array, b: Array) -> Array:
    bits = a.dtype.itemsize * 8
    inside = (b >= 0) & (b < bits)
    count = np.where(inside, b, bits - 1).astype(a.dtype)
    low = np.right_shift(a, count)
    return low if a.dtype.kind == "i" else np.where(inside, low, a.dtype.type(0))


def two_inputs() -> Iterator[Case]:
    for dtype in FLOATS:
        make = off_zero(3, 0.3)
        for sa, sb in FEW_PAIRS:
            inputs = [In(sa, dtype, make), In(sb, dtype, make)]
            label = shape_label(sa, sb)
            yield case("atan2", label, inputs, np.arctan2, smooth=True, twice=True)
            more: dict[str, Any] = {"bound": lambda x, dy: 4 * as_large(dy)}
            more |= {"smooth": True, "twice": True}
            yield case("gelu_grad", label, inputs, gelu_grad, **more)
        inputs = [
            In((DOZEN, 1), dtype, given(*SPECIAL)),
            In((1, DOZEN), dtype, given(*SPECIAL)),
        ]
        yield case("atan2", "special", inputs, np.arctan2)
    big = [In(THREADED, "float32", off_zero(3))] * 2
    yield case("atan2", "threads", big, np.arctan2)
    yield case(
        "gelu_grad", "threads", big, gelu_grad, bound=lambda x, dy: 4 * as_large(dy)
    )
    table: tuple[tuple[str, Any, Maker], ...] = (
        ("bitwise_and", np.bitwise_and, whole_range),
        ("bitwise_or", np.bitwise_or, whole_range),
        ("bitwise_xor", np.bitwise_xor, whole_range),
        ("left_shift", left_shift, between(-3, 70)),
        ("right_shift", right_shift, between(-3, 70)),
    )
    for op, oracle, right in table:
        for dtype in INTS:
            for sa, sb in FEW_PAIRS if dtype == "int32" else FEW_PAIRS[1:2]:
                inputs = [In(sa, dtype, whole_range), In(sb, dtype, right)]
                yield case(op, shape_label(sa, sb), inputs, oracle, exact=True)
        big = [In(THREADED, "int32", whole_range), In(THREADED, "int32", right)]
        yield case(op, "threads", big, oracle, exact=True)


def cases() -> Iterator[Case]:
    yield from one_input()
    yield from sine_far_out()
    yield from two_inputs()
