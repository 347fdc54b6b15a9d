# SPDX-License-Identifier: MIT
"""Element-wise functions over random bit patterns: float32 to 4 units in the last
place, or to the half that one rounding costs, float64 to 1, the body and the tail of a
loop to the bit, float16 over all of its numbers."""

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
# computed in float64 and rounded once
ROUNDED = "erfc ndtri lgamma bessel_i0e bessel_i1e".split()
HALF_ULP = 0.502
# functions whose range is put together of parts
JOINED = "tan asin acos atan sinh cosh log2 asinh acosh atanh atan2 erfinv".split()
JOINED_ULPS = 3.0


def each(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return np.vectorize(function, otypes=[np.float64])


def special(name: str) -> Callable[[Array], Array]:
    def compute(x: Array) -> Array:
        scipy = pytest.importorskip("scipy.special")
        result = np.asarray(getattr(scipy, name)(x.astype(np.float64)))
        return np.copysign(result, x) if name in ("erfinv", "i1e") else result  # of -0

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
    "ndtri": special("ndtri"),
    "bessel_i0e": special("i0e"),
    "bessel_i1e": special("i1e"),
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


def run(op: str, *inputs: Array, kind: str | None = None, **options: Any) -> Array:
    """The result, of dtype `kind`; None: of the inputs'."""
    result = f"{kind or inputs[0].dtype.name}[{inputs[0].size}]"
    kind = f"{inputs[0].dtype.name}[{inputs[0].size}]"
    names = [f"%{i}" for i in range(len(inputs))]
    params = ", ".join(f"{name}: {kind}" for name in names)
    last = f"%{len(inputs)}"
    text = f"block b0({params}) {{\n  {last} = {op}({', '.join(names)}) : {result}\n}}"
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
    most = HALF_ULP if op in ROUNDED else JOINED_ULPS if op in JOINED else MOST_ULPS
    assert off[worst] <= most, (
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


@pytest.mark.parametrize("name", ["generic", "avx2", "avx512"])
def test_gelu_keeps_its_digits_where_it_is_small(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For x < 0 it is x times what is left of 1, down to the least normal numbers."""
    monkeypatch.setenv("IPU_CPU_CLASS", name)
    x = sweep(20_000)
    x = np.append(x[x > -12.0], [-0.0, np.inf]).astype(np.float32)
    with np.errstate(all="ignore"):
        want = each(lambda t: 0.5 * t * math.erfc(-t * math.sqrt(0.5)))(x)
    off = ulps(run("gelu", x), want)
    assert off[x >= 0.0].max() <= JOINED_ULPS and off.max() <= 5.0
    assert (
        np.signbit(run("gelu", x)[x == 0.0]).tolist()
        == np.signbit(x[x == 0.0]).tolist()
    )


# --- float64 --------------------------------------------------------------------------

# The C library's long double is the oracle, where it has more bits.
WIDE_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    **{op: EXACT[op] for op in ("floor", "ceil", "round", "trunc")},
    **{op: FUNCTIONS[op] for op in ("exp", "log", "tanh", "log1p", "expm1")},
    **{op: FUNCTIONS[op] for op in ("sin", "cos", "sinh", "cosh")},
    **{op: FUNCTIONS[op] for op in ("asinh", "acosh", "atanh")},
    **{op: FUNCTIONS[op] for op in ("tan", "asin", "acos", "atan")},
    **{op: FUNCTIONS[op] for op in ("erf", "erfc", "erfinv", "ndtri")},
    "log2": np.log2,
    "sigmoid": sigmoid,
    "softplus": softplus,
}
WIDE_EDGES = [709.78, 709.79, 745.1, 745.2, 37.0, 36.0, 22.0, 0.3466, 2.0**-54, 2.0**52]
MOST_WIDE_ULPS = 1.0
# of other oracles in float64, with errors of their own
MOST_OTHER_ULPS = {"erf": 2.0, "erfc": 6.0, "erfinv": 12.0, "ndtri": 12.0}
# by mpmath with 40 digits, where errors were largest among thousands of numbers
ERRORS = [
    ("erf", 0.6377280465645971, "0.6328813238186799265053737"),
    ("erf", 0.7162001406052683, "0.6888729404236492024075569"),
    ("erf", 0.7294081797182386, "0.6977118428064078321369244"),
    ("erf", 1.030569332560946, "0.8550064520373995960482409"),
    ("erf", -3.7498655967678034, "-0.9999998861542163664128006"),
    ("erf", 0.04757910964824599, "0.05364679170246820287831408"),
    ("erfc", 0.656278303991306, "0.3533465304492636693902756"),
    ("erfc", -0.6675423026499343, "1.654854561909264586919197"),
    ("erfc", 0.8194121763406026, "0.2465280088839878140681572"),
    ("erfc", 1.1183290365234468, "0.113750944639909765140439"),
    ("erfc", 6.688054679908528, "3.128775764794534329524706e-21"),
    ("erfc", 16.28198943528472, "2.547147652989684603681821e-117"),
    ("erfc", 22.662803487321753, "2.192238024474928828736034e-225"),
    ("erfc", -0.7850766592161813, "1.733115605736923329601412"),
    ("erfc", 27.1, "2.333190202158696740245019e-321"),
    ("erfc", 26.55, "1.555202694113550649772974e-308"),
]


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
    most = MOST_OTHER_ULPS.get(op, MOST_WIDE_ULPS)
    assert off[worst] < most, (op, float(x[worst]), reference[worst])
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


def test_errors_of_the_normal_distribution_are_within_a_unit() -> None:
    for op, x, text in ERRORS:
        want = np.array([np.longdouble(text)])
        assert wide_ulps(run(op, np.array([x])), want)[0] < MOST_WIDE_ULPS, (op, x)


# by mpmath, too: where its parts meet, next to its zeros, and where errors were largest
LOGS_OF_GAMMA = [
    (1e-300, "690.7755278982137051803383"),
    (8.078987176666519e-06, "11.72623937944635343757613"),
    (0.37796506942800495, "0.8549438932782606301711096"),
    (0.7261227046131564, "0.2299452725984399153988401"),
    (0.99999999, "5.77215676026573083649599e-9"),
    (1.0271550689243445, "-0.01507572503971651339793919"),
    (1.108860537867991, "-0.05357108908377864818288198"),
    (1.5399347573656295, "-0.1185882660507681355360533"),
    (1.8440004646169177, "-0.05783803827123298089121124"),
    (1.9999999999, "-4.227843700475531693651113e-11"),
    (2.0000001, "4.227843666532497923203435e-8"),
    (2.4405046623190287, "0.2437245966516246005970521"),
    (2.501817837364965, "0.2859619048529417147405327"),
    (2.5406151997623097, "0.3136435511581408150183405"),
    (2.718281828, "0.4494617414505699708035498"),
    (7.420865429344911, "7.38075665601597402600124"),
    (10.220178394670178, "13.30014447133552581484039"),
    (7005541943485695.0, "248595004071898753.6652922"),
    (1.7e305, "1.193092438744218441241379e+308"),
]


def test_the_logarithm_of_gamma_of_float64(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([x for x, _ in LOGS_OF_GAMMA])
    want = np.array([np.longdouble(text) for _, text in LOGS_OF_GAMMA])
    others = np.array([1.0, 2.0, 0.0, np.inf, -np.inf, np.nan, -1.5, 5e-324, 1.7e308])
    ends = [0.0, 0.0, np.inf, np.inf, np.inf, np.nan, 0.8600470153764811]
    for name in ("generic", "avx2", "avx512"):
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        got = run("lgamma", x)
        assert wide_ulps(got, want).max() < 2.0, name
        mixed = run("lgamma", np.append(x, others))
        assert same_bits(mixed, run("lgamma", np.append(x, others), reference=True))
        assert same_bits(mixed[: x.size], got), name
        rest = mixed[x.size :]
        np.testing.assert_allclose(rest[:7], ends, rtol=1e-15)
        assert rest[7] > 744.0 and rest[8] == np.inf


@functools.lru_cache
def wide_pairs(op: str) -> tuple[Array, Array]:
    """Any two, all pairs of specials, and powers between the smallest and the largest
    number: of any base, and of some close to 1."""
    random = np.random.default_rng(5)
    x = wide_sweep(5_000)
    a, b = random.permutation(x), random.permutation(x)
    specials = np.array([*SPECIALS, 3.0, 2.5, 2.0**52, 2.0**53 + 2, 2.0**65, 1e-310])
    specials = np.concatenate([specials, -specials])
    every, each_one = np.meshgrid(specials, specials)
    a, b = np.append(a, every.ravel()), np.append(b, each_one.ravel())
    if op == "pow":
        near = 1.0 + random.normal(size=x.size) * 2.0 ** random.uniform(-50, -3, x.size)
        bases = np.concatenate([np.abs(random.permutation(x)), near])
        with np.errstate(all="ignore"):
            powers = random.uniform(-745.2, 709.8, bases.size) / np.log(bases)
        a, b = np.append(a, bases), np.append(b, powers)
    return a, b


@pytest.mark.parametrize("op", ["pow", "atan2"])
def test_an_op_of_two_float64_is_within_a_unit(
    op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double has no more bits than double")
    a, b = wide_pairs(op)
    with np.errstate(all="ignore"):
        want = PAIRS[op](a.astype(np.longdouble), b.astype(np.longdouble))
    reference = run(op, a, b, reference=True)
    off = wide_ulps(reference, want)
    worst = int(np.argmax(np.where(np.isnan(off), np.inf, off)))
    assert off[worst] < MOST_WIDE_ULPS, (op, a[worst], b[worst], reference[worst])
    for name in ("generic", "avx2", "avx512"):
        monkeypatch.setenv("IPU_CPU_CLASS", name)
        assert same_bits(run(op, a, b), reference), (op, name)
        for size in (1, 3, 5, 7, 9):
            got = run(op, a[-size:], b[-size:])
            assert same_bits(got, reference[-size:]), (op, name, size)


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
@pytest.mark.parametrize(
    "op",
    "maximum minimum equal not_equal less less_equal greater greater_equal tanh_grad "
    "sigmoid_grad relu_grad sqrt_grad rsqrt_grad reciprocal_grad".split(),
)
def test_float16_of_two_is_that_of_float32(
    op: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPU_CPU_CLASS", name)
    random = np.random.default_rng(6)
    special = np.array([0, 1, 0x3C00, 0x7BFF, 0x7C00, 0x7C01, 0x7FFF], np.uint16)
    special = np.concatenate([special, special | 0x8000]).view(np.float16)
    for other in (random.permutation(ALL_HALVES), -ALL_HALVES, ALL_HALVES):
        a = np.concatenate([ALL_HALVES, np.repeat(special, special.size)])
        b = np.concatenate([other, np.tile(special, special.size)])
        kind = "bool" if "equal" in op or op in ("less", "greater") else None
        with np.errstate(invalid="ignore", over="ignore"):
            want = run(op, a.astype(np.float32), b.astype(np.float32), kind=kind)
            want = want if kind else want.astype(np.float16)
        for part in (slice(None), slice(-37, None)):
            assert same_bits(run(op, a[part], b[part], kind=kind), want[part])


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


# --- gamma's and the normal distribution's tails --------------------------------------

# a, x, lower and upper incomplete gamma function, by mpmath with 40 digits
INCOMPLETE = [
    (1e-300, 1e-200, 1.0, 4.599398029339076e-298),
    (1e-300, 0.01, 1.0, 4.037929576538114e-300),
    (1e-300, 0.9, 1.0, 2.6018393932599965e-301),
    (1e-300, 1.49, 1.0, 1.0151959327774776e-301),
    (1e-300, 1.51, 1.0, 9.854436469838544e-302),
    (1e-300, 3.0, 1.0, 1.304838109419704e-302),
    (1e-300, 30.0, 1.0, 3.02155201e-315),
    (1e-17, 1e-200, 0.9999999999999954, 4.599398029339066e-15),
    (1e-17, 0.01, 1.0, 4.037929576538114e-17),
    (1e-17, 0.9, 1.0, 2.6018393932599965e-18),
    (1e-17, 1.49, 1.0, 1.0151959327774776e-18),
    (1e-17, 1.51, 1.0, 9.854436469838544e-19),
    (1e-17, 3.0, 1.0, 1.304838109419704e-19),
    (1e-17, 30.0, 1.0, 3.0215520106888127e-32),
    (1e-05, 1e-200, 0.9954111629222387, 0.004588837077761307),
    (1e-05, 0.01, 0.9999596214382181, 4.03785617818457e-05),
    (1e-05, 0.9, 0.9999973981360228, 2.6018639772092986e-06),
    (1e-05, 1.49, 0.9999989847905837, 1.0152094163367535e-06),
    (1e-05, 1.51, 0.9999990145431618, 9.854568381873722e-07),
    (1e-05, 3.0, 0.9999998695137144, 1.304862855285946e-07),
    (1e-05, 30.0, 1.0, 3.021673169524529e-20),
    (0.1, 0.01, 0.6626212599544798, 0.3373787400455202),
    (0.1, 0.9, 0.9716069046009709, 0.02839309539902908),
    (0.1, 1.49, 0.9884918422488013, 0.011508157751198756),
    (0.1, 1.51, 0.9888175191004346, 0.01118248089956539),
    (0.1, 3.0, 0.9984347282528856, 0.001565271747114354),
    (0.1, 30.0, 0.9999999999999996, 4.476766580012692e-16),
    (0.5, 0.01, 0.1124629160182849, 0.8875370839817152),
    (0.5, 0.9, 0.8202875051210001, 0.17971249487899985),
    (0.5, 1.49, 0.9157007275967407, 0.08429927240325934),
    (0.5, 1.51, 0.9177565338533937, 0.08224346614660624),
    (0.5, 3.0, 0.9856941215645704, 0.01430587843542964),
    (0.5, 30.0, 0.9999999999999906, 9.485737571073848e-15),
    (1.5, 0.01, 0.0007477553393911979, 0.9992522446606088),
    (1.5, 0.9, 0.3850650642174626, 0.6149349357825374),
    (1.5, 1.49, 0.6052809270809413, 0.39471907291905867),
    (1.5, 1.51, 0.6114481631137849, 0.3885518368862151),
    (1.5, 3.0, 0.8883897749052875, 0.11161022509471256),
    (1.5, 30.0, 0.9999999999994121, 5.878230727906912e-13),
    (5.0, 0.05, 2.4979513360065104e-09, 0.9999999975020487),
    (5.0, 2.5, 0.10882198108584876, 0.8911780189141513),
    (5.0, 4.5, 0.4678964236252845, 0.5321035763747155),
    (5.0, 5.0, 0.5595067149347875, 0.4404932850652124),
    (5.0, 5.5, 0.6424819975720745, 0.35751800242792553),
    (5.0, 8.0, 0.900367599512954, 0.09963240048704601),
    (5.0, 15.0, 0.9991433587892247, 0.0008566412107753004),
    (20.5, 0.20500000000000002, 5.773423164771402e-34, 1.0),
    (20.5, 10.25, 0.003102881063614914, 0.9968971189363851),
    (20.5, 18.45, 0.34661596062827393, 0.6533840393717261),
    (20.5, 20.5, 0.5293776231810191, 0.4706223768189809),
    (20.5, 22.55, 0.69553932698648, 0.3044606730135199),
    (20.5, 32.800000000000004, 0.991325576188761, 0.008674423811239004),
    (20.5, 61.5, 0.9999999995998661, 4.001339018311082e-10),
    (100.0, 1.0, 3.9812808189568546e-159, 1.0),
    (100.0, 50.0, 3.200065324585125e-10, 0.9999999996799934),
    (100.0, 90.0, 0.15822098918643016, 0.8417790108135699),
    (100.0, 100.0, 0.5132987982791487, 0.48670120172085135),
    (100.0, 110.00000000000001, 0.8417213299399132, 0.15827867006008678),
    (100.0, 160.0, 0.999999855797755, 1.4420224505352737e-07),
    (100.0, 300.0, 1.0, 1.4110215102111522e-41),
    (499.0, 387.3084604815566, 3.052633446660675e-08, 0.9999999694736655),
    (499.0, 476.6616920963113, 0.15857177415405, 0.84142822584595),
    (499.0, 499.0, 0.5059531023839139, 0.49404689761608617),
    (499.0, 505.7014923711066, 0.6230775362162235, 0.3769224637837764),
    (499.0, 588.3532316147547, 0.9999271136167058, 7.288638329418023e-05),
    (501.0, 389.08485357200306, 3.069181682459449e-08, 0.9999999693081831),
    (501.0, 478.6169707144006, 0.15857211288443962, 0.8414278871155604),
    (501.0, 501.0, 0.5059412077998809, 0.49405879220011906),
    (501.0, 507.7149087856798, 0.6230672395162874, 0.3769327604837126),
    (501.0, 590.5321171423975, 0.9999272206131341, 7.277938686588518e-05),
    (10000.0, 9500.0, 1.862454651795155e-07, 0.9999998137545348),
    (10000.0, 9900.0, 0.15865119219356466, 0.8413488078064354),
    (10000.0, 10000.0, 0.5013298083399552, 0.4986701916600448),
    (10000.0, 10030.0, 0.6190676560241815, 0.3809323439758186),
    (10000.0, 10400.0, 0.999961119829426, 3.88801705739882e-05),
    (10000000000.0, 9999500000.0, 2.8653265451088904e-07, 0.9999997134673455),
    (10000000000.0, 9999900000.0, 0.1586552539274242, 0.8413447460725758),
    (10000000000.0, 10000000000.0, 0.5000013298076014, 0.4999986701923987),
    (10000000000.0, 10000030000.0, 0.6179125790646822, 0.3820874209353178),
    (10000000000.0, 10000400000.0, 0.9999683220661515, 3.167793384851544e-05),
    (100000000000000.0, 99999950000000.0, 2.866503825056016e-07, 0.9999997133496175),
    (100000000000000.0, 99999990000000.0, 0.15865525393145666, 0.8413447460685434),
    (100000000000000.0, 100000000000000.0, 0.500000013298076, 0.49999998670192397),
    (100000000000000.0, 100000003000000.0, 0.6179114337577163, 0.3820885662422837),
    (100000000000000.0, 100000040000000.0, 0.9999683286912517, 3.1671308748283215e-05),
    (600.0, 426.0, 1.163447760481152e-15, 0.9999999999999989),
    (600.0, 413.99999999999994, 6.362321107331542e-18, 1.0),
    (600.0, 774.0, 0.9999999999664694, 3.353056763398916e-11),
    (600.0, 786.0, 0.9999999999980276, 1.9724726620118054e-12),
]
# a, x, the derivative of the lower one by a
SLOPES = [
    (600.0, 600.0, -0.01628901272760896),
    (600.0, 640.0, -0.004398047334434467),
    (600.0, 560.0, -0.004174798052546978),
    (1000000.0, 1000300.0, -0.0003813340817241017),
    (10000000000.0, 10000000000.0, -3.9894228040475656e-06),
    (10000000000.0, 9999800000.0, -5.399006665459791e-07),
]
QUANTILES = [
    (1e-05, -4.264890793922825),
    (1e-10, -6.361340902404057),
    (1.3e-11, -6.667611456510741),
    (1e-12, -7.034483825301132),
    (1e-20, -9.262340089798407),
    (1e-100, -21.273453560965326),
    (1e-300, -37.0470962993612),
    (1e-307, -37.479332564321574),
]


def test_the_incomplete_gamma_function_from_tiny_to_huge_arguments() -> None:
    a, x, lower, upper = np.array(INCOMPLETE).T
    np.testing.assert_allclose(tf.math.igamma(a, x), lower, rtol=2e-13)
    np.testing.assert_allclose(tf.math.igammac(a, x), upper, rtol=2e-13)
    a, x = (t.astype(np.float32) for t in (a, x))
    wide = tf.math.igamma(a.astype(np.float64), x.astype(np.float64))
    np.testing.assert_array_equal(tf.math.igamma(a, x), np.float32(wide))
    huge = np.array([1e16, 1e100, 1e300])
    np.testing.assert_allclose(tf.math.igamma(huge, huge), 0.5, rtol=1e-8)


@pytest.mark.parametrize("op", ["igamma", "igammac", "igamma_slope"])
def test_neighbours_change_no_bit_of_the_incomplete_gamma_function(op: str) -> None:
    """Elements of all ways at once; the reference kernel has each of them alone."""
    rows = np.random.default_rng(10).permutation(np.array(INCOMPLETE))
    a, x = np.ascontiguousarray(rows[:, :2].T)
    assert same_bits(run(op, a, x), run(op, a, x, reference=True))


def test_the_slope_of_the_incomplete_gamma_function() -> None:
    a, x, slope = np.array(SLOPES).T
    a = tf.constant(a)
    with tf.GradientTape() as tape:
        tape.watch(a)
        lower = tf.math.igamma(a, tf.constant(x))
    np.testing.assert_allclose(tape.gradient(lower, a), slope, rtol=1e-12)


def test_the_normal_quantile_of_both_tails() -> None:
    p, x = np.array(QUANTILES).T
    np.testing.assert_allclose(tf.math.ndtri(tf.constant(p)), x, rtol=1e-14)
    near = np.array([2.0**-50, 2.0**-40, 1e-3])
    above = tf.math.ndtri(tf.constant(1.0 - near))
    np.testing.assert_allclose(above, -tf.math.ndtri(tf.constant(near)), rtol=1e-12)
