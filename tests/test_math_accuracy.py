# SPDX-License-Identifier: MIT
"""Element-wise functions over random bit patterns: float32 to 4 units in the last
place, float64 to 1, the body and the tail of a loop to the bit, float16 over all of its
numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import _core, tf

Array = np.ndarray[Any, Any]
MOST_ULPS = 4.0


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return np.vectorize(function, otypes=[np.float64])


def special(name: str) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        scipy = pytest.importorskip("scipy.special")
        result = np.asarray(getattr(scipy, name)(x))
        return np.copysign(result, x) if name == "erfinv" else result  # of -0

    return compute


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x: Array) -> Array:
    rest = np.log1p(np.exp(-np.abs(x)))
    return np.where(np.isnan(x), x, np.maximum(x, 0.0) + rest)


# rounded once: also in float16
EXACT: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "sign": lambda x: np.where(x == 0.0, x, np.sign(x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
    "square": np.square,
    "reciprocal": lambda x: 1.0 / x,
    "relu": lambda x: np.where(x < 0.0, 0.0, x),
}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "log": np.log,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "softplus": softplus,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": each(math.erf),
    "erfc": each(math.erfc),
    "lgamma": special("gammaln"),
    "digamma": special("digamma"),
    "erfinv": special("erfinv"),
}
PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "atan2": np.arctan2,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
SPECIALS = [0.0, np.inf, np.nan, 1.0, 0.5, 2.0, 3.4028235e38, 1.1754944e-38, 1e-45]
# around where exp and its like overflow and underflow
EDGES = [88.72284, 88.72, 87.33655, 89.0, 103.97, 104.5, 16.6, 9.01, 17.33, 0.625, 4.0]


@functools.lru_cache
def sweep(count: int, seed: int = 1) -> Array:
    """Random bits, numbers of everyday size, around 1, denormal ones, specials."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32)
    tiny = random.integers(0, 2**24, count // 8, dtype=np.uint32).view(np.float32)
    parts = [
        bits.view(np.float32),
        random.normal(size=count) * np.exp(3.0 * random.normal(size=count)),
        1.0
        + random.normal(size=count // 2) * 2.0 ** random.uniform(-24, 1, count // 2),
        random.uniform(-106.0, 106.0, count // 2),
        tiny,
        -tiny,
        np.array(SPECIALS + EDGES),
        -np.array(SPECIALS + EDGES),
    ]
    return np.concatenate([np.asarray(part).astype(np.float32) for part in parts])


def run(op: str, *inputs: Array, **options: Any) -> Array:
    kind = f"{inputs[0].dtype.name}[{inputs[0].size}]"
    names = [f"%{i}" for i in range(len(inputs))]
    params = ", ".join(f"{name}: {kind}" for name in names)
    last = f"%{len(inputs)}"
    text = f"block b0({params}) {{\n  {last} = {op}({', '.join(names)}) : {kind}\n}}"
    if inputs[0].dtype not in (np.float16, np.float32):
        text = f"host graph\n{text}"
    program = _core.graph_compile(f"{text} -> ({last})\n", **options)
    return np.asarray(program.run(list(inputs))[0])


def ulps(got: Array, want: Array) -> Array:
    """Distances in units in the last place of the float32 nearest to `want`."""
    with np.errstate(all="ignore"):
        nearest = want.astype(np.float32)
        same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
        unit = np.spacing(np.minimum(np.abs(nearest), np.finfo(np.float32).max))
        distance = np.abs(got.astype(np.float64) - want) / unit.astype(np.float64)
    return np.where(same, 0.0, distance)


def check(op: str, got: Array, want: Array, *inputs: Array) -> None:
    off = ulps(got, want)
    worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
    assert off[worst] <= MOST_ULPS, (
        f"{op}{tuple(float(x[worst]) for x in inputs)} is {got[worst]!r}, not "
        f"{want[worst]!r}: {off[worst]} units in the last place"
    )


def same_bits(a: Array, b: Array) -> bool:
    """NaN is NaN, whatever its bits."""
    kind = np.dtype(f"u{a.dtype.itemsize}")
    equal = a.view(kind) == b.view(kind)
    return bool(np.all(equal | ((a != a) & (b != b))))


def check_function(op: str, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    x = sweep(count)
    with np.errstate(all="ignore"):
        want = {**EXACT, **FUNCTIONS}[op](x.astype(np.float64))
    if op == "lgamma":  # SciPy has minus infinity there, C and TensorFlow infinity
        want = np.where(np.isneginf(x), np.inf, want)
    check(op, run(op, x, reference=True), want, x)
    forms = []
    for name in ("generic", "avx2", "avx512"):
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        forms.append(run(op, x))
        check(op, forms[-1], want, x)
        for size in (1, 3, 7, 9, 15):  # all in the tail of a loop
            assert same_bits(run(op, x[-size:]), forms[-1][-size:]), (op, name, size)
    assert same_bits(forms[0], forms[1]), op
    assert same_bits(forms[0], forms[2]), op


@pytest.mark.parametrize("op", [*EXACT, *FUNCTIONS])
def test_a_function_is_within_four_units(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_function(op, monkeypatch, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("op", [*EXACT, *FUNCTIONS])
def test_a_function_is_within_four_units_over_millions(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_function(op, monkeypatch, 2_000_000)


# --- float64 --------------------------------------------------------------------------

# The C library's long double is the oracle, where it has more bits.
WIDE_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    **{op: EXACT[op] for op in ("floor", "ceil", "round", "trunc")},
    **{op: FUNCTIONS[op] for op in ("exp", "log", "tanh", "log1p", "expm1")},
    **{op: FUNCTIONS[op] for op in ("sin", "cos")},
    "sigmoid": sigmoid,
    "softplus": softplus,
}
WIDE_EDGES = [709.78, 709.79, 745.1, 745.2, 37.0, 36.0, 22.0, 0.3466, 2.0**-54, 2.0**52]
MOST_WIDE_ULPS = 1.0


@functools.lru_cache
def wide_sweep(count: int) -> Array:
    random = np.random.default_rng(8)
    bits = random.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    small = random.uniform(-1, 1, count) * 2.0 ** random.uniform(-60, 0, count)
    tiny = random.integers(0, 2**53, count // 8, dtype=np.uint64).view(np.float64)
    quarters = np.pi / 2 * random.integers(1, 600_000, count // 8)  # zeros of sin, cos
    edges = np.array([*WIDE_EDGES, 0.0, np.inf, np.nan, np.finfo(np.float64).max])
    parts = [
        bits,
        *(random.uniform(-most, most, count) for most in (1.0, 40.0, 750.0)),
        small,
        1.0 + small,
        tiny,
        -tiny,
        quarters,
        np.nextafter(quarters, 0.0),
        edges,
        -edges,
    ]
    return np.concatenate(parts)


def wide_ulps(got: Array, want: Array) -> Array:
    """Distances from `want`, a long double, in units in the last place of a float64."""
    with np.errstate(all="ignore"):
        nearest = want.astype(np.float64)
        same = (got == nearest) | (np.isnan(got) & np.isnan(nearest))
        unit = np.spacing(np.minimum(np.abs(nearest), np.finfo(np.float64).max))
        distance = np.abs(got.astype(np.longdouble) - want) / unit
    wrong_sign = ~np.isnan(nearest) & (np.signbit(got) != np.signbit(nearest))
    return np.where(wrong_sign, np.inf, np.where(same, 0.0, distance.astype(float)))


def check_wide_function(op: str, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double has no more bits than double")
    x = wide_sweep(count)
    with np.errstate(all="ignore"):
        want = WIDE_FUNCTIONS[op](x.astype(np.longdouble))
    reference = run(op, x, reference=True)
    off = wide_ulps(reference, want)
    worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
    assert off[worst] < MOST_WIDE_ULPS, (op, float(x[worst]), reference[worst])
    for name in ("generic", "avx2", "avx512"):
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        assert same_bits(run(op, x), reference), (op, name)
        for size in (1, 3, 5, 7, 9):
            assert same_bits(run(op, x[-size:]), reference[-size:]), (op, name, size)


@pytest.mark.parametrize("op", WIDE_FUNCTIONS)
def test_a_function_of_float64_is_within_a_unit(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_wide_function(op, monkeypatch, 20_000)


@pytest.mark.slow
@pytest.mark.parametrize("op", WIDE_FUNCTIONS)
def test_a_function_of_float64_is_within_a_unit_over_millions(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_wide_function(op, monkeypatch, 500_000)


# --- two operands ---------------------------------------------------------------------


@pytest.mark.parametrize("op", PAIRS)
def test_an_op_of_two_is_within_four_units(op: str) -> None:
    a, b = sweep(20_000, 2), sweep(20_000, 3)
    random = np.random.default_rng(4)
    a, b = random.permutation(a), random.permutation(b)
    if op == "pow":
        a = np.concatenate([a, np.abs(random.normal(size=20_000)).astype("f4")])
        b = np.concatenate([b, 8 * random.normal(size=20_000).astype("f4")])
    with np.errstate(all="ignore"):
        want = PAIRS[op](a.astype(np.float64), b.astype(np.float64))
    for options in ({}, {"reference": True}):
        check(op, run(op, a, b, **options), want, a, b)


def division_operands(dtype: str) -> tuple[Array, Array]:
    """Any bits, and pairs of which the first is much or little larger."""
    random = np.random.default_rng(9)
    kind = np.dtype(dtype)
    bits = random.integers(0, 256, (2, 4000 * kind.itemsize), dtype=np.uint8)
    a, b = bits.view(kind)
    small = (random.integers(-9, 10, (2, 4000)) * 0.75).astype(kind)
    a, b = np.concatenate([a, a, small[0]]), np.concatenate([b, small[1], small[1]])
    if kind.kind == "f":
        return a, b
    a[:3], b[:3] = np.iinfo(kind).min, [np.array(-1).astype(kind), 1, 3]
    return a, np.where(b == 0, kind.type(7), b)


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("op", ["floor_div", "floor_mod"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", *INTEGERS])
def test_floor_division_gives_the_references_bits(
    op: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = division_operands(dtype)
    want = run(op, a, b, reference=True)
    with np.errstate(all="ignore"):
        wide = (x.astype(np.float64) if x.dtype.kind == "f" else x for x in (a, b))
        oracle = (np.floor_divide if op == "floor_div" else np.mod)(*wide)
        oracle = oracle.astype(a.dtype)
    if a.dtype.kind != "f":
        assert np.array_equal(want, oracle)
    else:  # NumPy has NaN where a finite number is divided by infinity, and by 0
        usual = np.isfinite(a) & np.isfinite(b) & (b != 0) & np.isfinite(oracle)
        assert np.array_equal(want[usual], oracle[usual])
    for name in ("generic", "avx2", "avx512"):
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        for part in (slice(None), slice(-4000, None), slice(-5, None)):
            got = run(op, a[part], b[part])
            assert same_bits(got, want[part]), (name, part)


@pytest.mark.parametrize("op", ["tanh_grad", "sigmoid_grad"])
def test_a_gradient_by_the_result_is_within_four_units(op: str) -> None:
    random = np.random.default_rng(5)
    y = np.concatenate(
        [random.uniform(0, 1, 20_000), 1.0 - 2.0 ** random.uniform(-24, 0, 20_000)]
    ).astype(np.float32)
    dy = random.normal(size=y.size).astype(np.float32)
    exact, scale = y.astype(np.float64), dy.astype(np.float64)
    slope = 1.0 - exact * exact if op == "tanh_grad" else exact * (1.0 - exact)
    for options in ({}, {"reference": True}):
        check(op, run(op, y, dy, **options), scale * slope, y, dy)


ALL_HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("op", EXACT)
def test_float16_is_rounded_once(op: str) -> None:
    with np.errstate(all="ignore"):
        want = EXACT[op](ALL_HALVES.astype(np.float64)).astype(np.float16)
    assert same_bits(run(op, ALL_HALVES), want)
    assert same_bits(run(op, ALL_HALVES, reference=True), want)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_float16_arithmetic_is_rounded_once(op: str) -> None:
    random = np.random.default_rng(6)
    a, b = random.permutation(ALL_HALVES), random.permutation(ALL_HALVES)
    with np.errstate(all="ignore"):
        want = PAIRS[op](a.astype(np.float64), b.astype(np.float64)).astype(np.float16)
    assert same_bits(run(op, a, b), want)
    assert same_bits(run(op, a, b, reference=True), want)


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512"])
def test_casts_of_float16_keep_every_bit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_CPU_CLASS", name)
    quiet = ALL_HALVES.view(np.uint16).copy()
    quiet[np.isnan(ALL_HALVES)] |= 0x200
    text = (
        "block b0(%0: {0}[{2}]) {{\n"
        "  %1 = cast(%0) {{dtype={1}}} : {1}[{2}]\n"
        "}} -> (%1)\n"
    )
    widen = _core.graph_compile(text.format("float16", "float32", ALL_HALVES.size))
    wide = np.asarray(widen.run([ALL_HALVES])[0])
    with np.errstate(invalid="ignore"):
        assert same_bits(wide, ALL_HALVES.astype(np.float32))
    x = np.concatenate([wide, sweep(20_000)])
    narrow = _core.graph_compile(text.format("float32", "float16", x.size))
    halves = np.asarray(narrow.run([x])[0])
    assert np.array_equal(halves[: quiet.size].view(np.uint16), quiet)
    with np.errstate(all="ignore"):
        assert same_bits(halves, x.astype(np.float16))


@pytest.mark.parametrize("op", FUNCTIONS)
def test_float16_of_a_function_is_a_neighbour_at_worst(op: str) -> None:
    """The reference kernel rounds once; the fast one to float32 in between, which is
    seen where a result lies halfway between two numbers: in 10 of 65,536 at most."""
    with np.errstate(all="ignore"):
        want = FUNCTIONS[op](ALL_HALVES.astype(np.float64)).astype(np.float16)
    if op == "lgamma":
        want = np.where(np.isneginf(ALL_HALVES), np.float16(np.inf), want)
    got = run(op, ALL_HALVES)
    numbers = ~(np.isnan(got) & np.isnan(want))
    steps = np.abs(got.view(np.int16).astype(int) - want.view(np.int16).astype(int))
    assert steps[numbers].max() <= 1
    assert np.count_nonzero(steps[numbers]) <= 10
    assert same_bits(run(op, ALL_HALVES, reference=True), want)


def test_an_error_of_five_units_is_caught() -> None:
    x = sweep(1000)
    x = x[np.isfinite(x) & (np.abs(x) > 1e-30)]
    off = (x.view(np.int32) + 5).view(np.float32)
    with pytest.raises(AssertionError, match="units in the last place"):
        check("abs", off, x.astype(np.float64), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_neighbours_of_numbers(dtype):
    inf, nan, least = np.inf, np.nan, np.finfo(dtype).smallest_subnormal
    largest = np.finfo(dtype).max
    x = [1.0, 0.0, -1.0, inf, nan, 1.0, -0.0, 3.0, least, -least, largest]
    y = [2.0, -1.0, 0.0, 0.0, 1.0, nan, 0.0, 3.0, -1.0, 1.0, inf]
    x, y = np.array(x, dtype), np.array(y, dtype)
    found = tf.math.nextafter(x, y).numpy()
    assert found.dtype == dtype
    assert np.array_equal(found, np.nextafter(x, y), equal_nan=True)
    signs = np.signbit(np.nextafter(x, y)) == np.signbit(found)
    assert signs[~np.isnan(found)].all()
    with pytest.raises(TypeError, match="float32 or float64"):
        tf.math.nextafter([1], [2])
