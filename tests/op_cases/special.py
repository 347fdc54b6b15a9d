# SPDX-License-Identifier: MIT
"""Cases of special functions and of random numbers by rejection.

The oracles of the first are integrals by the tanh-sinh rule (Takahasi and Mori 1974)
and long sums; those of the second are the algorithms written again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from .elementwise import same
from .functions import SHAPES, digamma, elementwise
from .model import FLOATS, Array, Case, In, Shape, between, case, given, shape_label
from .random_ops import words

T = np.arange(-4.5, 4.5, 2.0**-6)
NODES = 1.0 / (1.0 + np.exp(-np.pi * np.sinh(T)))
_RISE = 0.25 * np.pi * np.cosh(T) / np.cosh(0.5 * np.pi * np.sinh(T)) ** 2
WEIGHTS = _RISE * 2.0**-6


def integral(f: Callable[[Array], Array], end: float) -> float:
    """From 0 to `end`, of what may be steep at both."""
    keep = (NODES > 0.0) & (NODES < 1.0)
    return float(np.sum(f(end * NODES[keep]) * WEIGHTS[keep]) * end)


@elementwise
def igamma(a: float, x: float) -> float:
    return integral(lambda t: t ** (a - 1) * np.exp(-t), x) / math.gamma(a)


@elementwise
def igamma_slope(a: float, x: float) -> float:
    whole = integral(lambda t: t ** (a - 1) * np.exp(-t) * np.log(t), x)
    return whole / math.gamma(a) - float(igamma(a, x)) * float(digamma(a))


@elementwise
def zeta(s: float, q: float) -> float:
    """20,000 terms, and the integral of the others from half a step before them."""
    terms = (q + np.arange(20_000.0)) ** -s
    return math.fsum(terms) + (q + 19_999.5) ** (1 - s) / (s - 1)


def polygamma(n: Array, x: Array) -> Array:
    sign = np.where(n % 2 == 0, -1.0, 1.0)
    return np.asarray(sign * elementwise(math.gamma)(n + 1) * zeta(n + 1, x))


def bessel(order: int) -> Any:
    """The mean of exp(x cos t) cos(order t) over a turn, times exp(-|x|)."""
    turn = np.arange(400) * (2 * np.pi / 400)

    @elementwise
    def oracle(x: float) -> float:
        return float(np.mean(np.exp(x * np.cos(turn) - abs(x)) * np.cos(order * turn)))

    return oracle


@elementwise
def ndtri(p: float) -> float:
    if not 0 < p < 1:
        return math.copysign(math.inf, p - 0.5) if p in (0, 1) else math.nan
    return NormalDist().inv_cdf(p)


def of_one(*_: Array) -> Array:
    return np.array(1.0)


ENDS = In((6,), "float32", given(0.0, 1.0, 0.5, -0.1, 1.5, np.nan))
PAIRS: tuple[tuple[str, Any, Any, Any], ...] = (
    ("igamma", igamma, between(0.6, 6.0), between(0.2, 9.0)),
    ("igammac", lambda a, x: 1.0 - igamma(a, x), between(0.6, 6.0), between(0.2, 9.0)),
    ("igamma_slope", igamma_slope, between(0.6, 6.0), between(0.2, 9.0)),
    ("zeta", zeta, between(2.0, 6.0), between(0.5, 4.0)),
)
SINGLES: tuple[tuple[str, Any, Any], ...] = (
    ("ndtri", ndtri, between(0.05, 0.95)),
    ("bessel_i0e", bessel(0), between(-40.0, 40.0)),
    ("bessel_i1e", bessel(1), between(-40.0, 40.0)),
)


def function_cases() -> Iterator[Case]:
    for dtype in FLOATS:
        for shape in SHAPES if dtype == "float32" else SHAPES[2:]:
            label = shape_label(shape)
            room: dict[str, Any] = {"ulps": 32.0, "bound": of_one}
            for op, oracle, make in SINGLES:
                one = In(shape, dtype, make)
                yield case(op, label, [one], oracle, smooth=True, **room)
            for op, oracle, first, second in PAIRS:
                both = [In(shape, dtype, first), In(shape, dtype, second)]
                smooth = op in ("igamma", "igammac")
                yield case(op, label, both, oracle, smooth=smooth, **room)
        orders = In((4, 1), dtype, given(1.0, 2.0, 3.0, 4.0))
        places = In((4, 5), dtype, between(1.0, 4.0))
        room = {"ulps": 64.0, "bound": lambda n, x: np.max(np.abs(polygamma(n, x)))}
        yield case("polygamma", "orders", [orders, places], polygamma, **room)
    yield case("ndtri", "ends", [ENDS], ndtri)
    wide = [In((3,), "float64", same(between(100.0, 120.0))("float64"))] * 2
    yield case("igamma", "wide", wide, igamma, ulps=4096.0, bound=of_one)


# --- random numbers -------------------------------------------------------------------

ATTEMPTS = 64
Draws = Callable[[int], list[int]]


def coarse(word: int) -> float:
    return (word + 0.5) * 2.0**-32


def fine(low: int, high: int) -> float:
    return ((high << 20 | low >> 12) + 0.5) * 2.0**-52


def gamma_number(draws: Draws, alpha: float) -> float:
    if alpha == 0:
        return 0.0
    scale = 1.0
    if alpha < 1:
        scale = coarse(draws(0)[3]) ** (1 / alpha)
        alpha += 1
    d = alpha - 1 / 3
    for k in range(ATTEMPTS):
        a, b, c, _ = draws(k)
        x = math.sqrt(-2 * math.log(coarse(a))) * math.cos(2 * math.pi * coarse(b))
        v = (1 + x / math.sqrt(9 * d)) ** 3
        if v > 0 and math.log(coarse(c)) < x * x / 2 + d - d * v + d * math.log(v):
            return scale * d * v
    raise AssertionError


def poisson_number(draws: Draws, rate: float) -> float:
    if rate < 10:
        rest, share, k = fine(*draws(0)[:2]), math.exp(-rate), 0
        while rest >= share:
            rest -= share
            k += 1
            share *= rate / k
        return float(k)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    for i in range(ATTEMPTS):
        w = draws(i)
        u, v = fine(w[0], w[1]) - 0.5, fine(w[2], w[3])
        edge = 0.5 - abs(u)
        k = math.floor((2 * a / edge + b) * u + rate + 0.43)
        if edge >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2):
            return float(k)
        if k < 0 or (edge < 0.013 and v > edge):
            continue
        height = math.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / edge**2 + b))
        if height <= k * math.log(rate) - rate - math.lgamma(k + 1):
            return float(k)
    raise AssertionError


def binomial_number(draws: Draws, n: float, p: float) -> float:
    q = min(p, 1 - p)
    if n * q < 10:
        rest, share, k = fine(*draws(0)[:2]), (1 - q) ** n, 0.0
        while rest >= share and k < n:
            rest -= share
            share *= q / (1 - q) * (n - k) / (k + 1)
            k += 1
    else:
        k = many_hits(draws, n, q)
    return n - k if p > 0.5 else k


def many_hits(draws: Draws, n: float, p: float) -> float:
    spread = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    mode = math.floor((n + 1) * p)
    for i in range(ATTEMPTS):
        w = draws(i)
        u, v = fine(w[0], w[1]) - 0.5, fine(w[2], w[3])
        edge = 0.5 - abs(u)
        k = math.floor((2 * a / edge + b) * u + n * p + 0.5)
        if k < 0 or k > n:
            continue
        if edge >= 0.07 and v <= 0.92 - 4.2 / b:
            return float(k)
        height = math.log(v * (2.83 + 5.1 / b) * spread / (a / edge**2 + b))
        level = math.lgamma(mode + 1) + math.lgamma(n - mode + 1)
        level -= math.lgamma(k + 1) + math.lgamma(n - k + 1)
        if height <= level + (k - mode) * math.log(p / (1 - p)):
            return float(k)
    raise AssertionError


def drawn(number: Callable[..., float], ordinal: int) -> Callable[..., Array]:
    def oracle(*parameters: Array, step: int) -> Array:
        shape = parameters[0].shape
        flat = [p.reshape(-1) for p in parameters]
        count = flat[0].size
        stream = words(4 * ATTEMPTS * count, ordinal, None, step)
        blocks = stream.reshape(count, ATTEMPTS, 4).tolist() if count else []
        made = [
            number(blocks[k].__getitem__, *(float(p[k]) for p in flat))
            for k in range(count)
        ]
        return np.array(made, np.float64).reshape(shape)

    return oracle


def random_cases() -> Iterator[Case]:
    for dtype in FLOATS:
        shapes: tuple[Shape, ...] = (
            ((), (0,), (3, 7)) if dtype == "float32" else ((9,),)
        )
        for shape in shapes:
            for ordinal, low, high in ((0, 0.3, 3.0), (2, 9.0, 200.0)):
                label = f"{shape_label(shape)}_{high:g}"
                one = In(shape, dtype, between(low, high))
                attrs = f"ordinal={ordinal}"
                more: dict[str, Any] = {"attrs": attrs, "random": True, "ulps": 16.0}
                gamma = drawn(gamma_number, ordinal)
                poisson = drawn(poisson_number, ordinal)
                binomial = drawn(binomial_number, ordinal)
                yield case("random_gamma", label, [one], gamma, **more)
                yield case("random_poisson", label, [one], poisson, **more)
                counts = In(shape, dtype, lambda r, s, d, h=high: r.integers(1, h, s))
                chance = In(shape, dtype, between(0.1, 0.9))
                yield case("random_binomial", label, [counts, chance], binomial, **more)


def cases() -> Iterator[Case]:
    yield from function_cases()
    yield from random_cases()
