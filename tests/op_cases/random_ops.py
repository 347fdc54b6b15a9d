# SPDX-License-Identifier: MIT
"""Cases of random ops, against Philox4x32-10 written again in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from .model import (
    FLOATS,
    INTS,
    Array,
    Case,
    In,
    Shape,
    case,
    given,
    ints,
    off_zero,
    shape_label,
)

M32 = 0xFFFFFFFF
M64 = 0xFFFFFFFFFFFFFFFF
SHAPES: tuple[Shape, ...] = ((), (1,), (0,), (5,), (3, 7), (4, 0), (301, 217))


def philox(key: tuple[int, int], counter: list[Array]) -> list[Array]:
    """Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", SC 2011."""
    c0, c1, c2, c3 = (c.astype(np.uint64) for c in counter)
    k0, k1 = key
    low = np.uint64(M32)
    half = np.uint64(32)
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0 = (p1 >> half) ^ c1 ^ np.uint64(k0)
        c2 = (p0 >> half) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & low, p0 & low
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return [c0, c1, c2, c3]


def mix(x: int) -> int:
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & M64
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & M64
    return x ^ x >> 33


def words(
    count: int,
    ordinal: int,
    seed: int | None,
    step: int,
    turn: int = 0,
    rounds: bool = False,
) -> Array:
    """The 32-bit words of an op on a device whose own seed is 0."""
    number = ordinal + 1 | (1 << 32 if rounds else 0)
    op = mix(number * 0x9E3779B97F4A7C15 & M64)
    if seed is not None:
        op = mix(op ^ mix((seed + 0x632BE59BD9B4E019) & M64))
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    same = np.ones_like(blocks)
    counter = [blocks, *(np.uint64(n) * same for n in (turn, op >> 32, step))]
    return np.stack(philox((0, 0), counter), axis=-1).reshape(-1)


def uniform(w: Array, dtype: str) -> Array:
    if dtype == "float64":  # of two words
        bits53 = (w[1::2] << np.uint64(32) | w[0::2]) >> np.uint64(11)
        return bits53.astype(np.float64) * 2.0**-53
    bits = {"float16": 11, "float32": 24}[dtype]
    return (w >> np.uint64(32 - bits)).astype(np.float64) * 2.0**-bits


def normal(w: Array, dtype: str) -> Array:
    pairs = w.reshape(-1, 2).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log((pairs[:, 0] + 1.0) * 2.0**-32))
    angle = 2.0 * np.pi * pairs[:, 1] * 2.0**-32
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], -1).reshape(-1)


def truncated(w: Array, dtype: str) -> Array:
    gauss = NormalDist()
    below = gauss.cdf(-2.0)
    u = (w.astype(np.float64) + 0.5) * 2.0**-32
    return np.array([gauss.inv_cdf(below + p * (1.0 - 2.0 * below)) for p in u])


RANDOM: dict[str, Any] = {
    "random_uniform": uniform,
    "random_normal": normal,
    "truncated_normal": truncated,
}


def words_each(op: str, dtype: str) -> int:
    return 2 if op == "random_uniform" and dtype == "float64" else 1


def draw(
    op: str, dtype: str, shape: Shape, ordinal: int = 0, seed: int | None = None
) -> Case:
    count = int(np.prod(shape))

    def oracle(step: int) -> Array:
        w = words(count * words_each(op, dtype), ordinal, seed, step)
        return np.asarray(RANDOM[op](w, dtype)[:count].reshape(shape))

    attrs = f"dtype={dtype}, shape={ints(shape)}, ordinal={ordinal}"
    return case(
        op,
        f"{shape_label(shape)}_op{ordinal}_seed{seed}",
        [],
        oracle,
        attrs=attrs if seed is None else f"{attrs}, seed={seed}",
        float_dtype=dtype,
        exact=op == "random_uniform",
        ulps=8.0,
        bound=lambda: 1.0,
        random=True,
    )


def keyed(op: str, dtype: str, shape: Shape, key: tuple[int, int]) -> Case:
    """Numbers that are a function of a key: of no step, no ordinal, no seed."""
    count = int(np.prod(shape))

    def oracle(given_key: Array) -> Array:
        needed = count * words_each(op, dtype)
        blocks = np.arange((needed + 3) // 4, dtype=np.uint64)
        low, high = (int(k) & M32 for k in given_key)
        same = np.ones_like(blocks)
        counter = [blocks, 0 * same, 0 * same, np.uint64(high) * same]
        w = np.stack(philox((low, 0), counter), axis=-1).reshape(-1)
        return np.asarray(RANDOM[op](w, dtype)[:count].reshape(shape))

    return case(
        op,
        f"key_{dtype}_{shape_label(shape)}_{key[0]}_{key[1]}",
        [In((2,), "int32", given(*key))],
        oracle,
        attrs=f"dtype={dtype}, shape={ints(shape)}, ordinal=3",
        float_dtype=dtype,
        exact=op == "random_uniform",
        ulps=8.0,
        bound=lambda *_: 1.0,
    )


def integers(dtype: str, shape: Shape, low: int, high: int, ordinal: int = 0) -> Case:
    count = int(np.prod(shape))
    wide = np.dtype(dtype).itemsize == 8

    def oracle(a: Array, b: Array, step: int) -> Array:
        w = words(count * (2 if wide else 1), ordinal, None, step)
        span = int(b) - int(a)
        if wide:
            pairs = w[: 2 * count].reshape(-1, 2)
            drawn = [(int(y) << 32 | int(x)) * span >> 64 for x, y in pairs]
        else:
            drawn = [int(x) * span >> 32 for x in w[:count]]
        return np.array([int(a) + d for d in drawn], dtype).reshape(shape)

    return case(
        "random_integer",
        f"{shape_label(shape)}_{low}_{high}_op{ordinal}",
        [In((), dtype, given(low)), In((), dtype, given(high))],
        oracle,
        attrs=f"shape={ints(shape)}, ordinal={ordinal}",
        exact=True,
        random=True,
    )


def dropout(
    dtype: str, shape: Shape, rate: float, ordinal: int = 0, seed: int | None = None
) -> Case:
    count = int(np.prod(shape))
    scale = float(np.array(1.0 / (1.0 - rate)).astype(dtype))

    def oracle(x: Array, step: int) -> tuple[Array, Array]:
        w = words(count, ordinal, seed, step)[:count].reshape(shape)
        mask = uniform(w, "float32") >= rate
        return np.where(mask, x * scale, 0.0), mask

    attrs = f"rate={rate!r}, ordinal={ordinal}"
    return case(
        "dropout",
        f"{shape_label(shape)}_rate{rate}_op{ordinal}_seed{seed}",
        [In(shape, dtype, off_zero(2))],
        oracle,
        attrs=attrs if seed is None else f"{attrs}, seed={seed}",
        exact=True,
        random=True,
        smooth=count < 5000,
    )


def widely(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Numbers of any size that float16 has, and beyond at both ends."""
    size = 2.0 ** rng.uniform(-30.0, 17.0, shape)
    return np.where(rng.random(shape) < 0.5, -size, size)


def rounding(shape: Shape, ordinal: int = 0, values: Any = widely) -> Case:
    count = int(np.prod(shape))

    def oracle(x: Array, step: int) -> Array:
        w = words(count, ordinal, None, step, rounds=True)[:count].reshape(shape)
        size = np.abs(x.astype(np.float64))
        exponent = np.floor(np.log2(np.where(size > 0.0, size, 1.0)))
        spacing = 2.0 ** (np.maximum(exponent, -14.0) - 10.0)
        with np.errstate(invalid="ignore"):
            below = np.floor(size / spacing)
            up = size / spacing - below + uniform(w, "float32") >= 1.0
        result = np.where(size < 65536.0, (below + up) * spacing, size)
        with np.errstate(over="ignore"):
            return np.copysign(result, x).astype(np.float16)

    return case(
        "round_stochastic",
        f"{shape_label(shape)}_op{ordinal}_{values.__name__}",
        [In(shape, "float32", values)],
        oracle,
        attrs=f"ordinal={ordinal}",
        float_dtype="float16",
        exact=True,
        random=True,
        smooth=False,
    )


def ends(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    found = [0.0, -0.0, 65504.0, 65519.99, -65535.0, 65536.0, 1e30, np.inf, -np.inf]
    found += [np.nan, 2.0**-14, 2.0**-24, 2.0**-25, -(2.0**-40), 1e-40, 1.0, 0.1]
    return np.resize(np.array(found), shape)


def cases() -> Iterator[Case]:
    for shape in SHAPES:
        yield rounding(shape)
    yield rounding((4099,), 5)
    yield rounding((340,), 1, ends)
    for dtype in FLOATS:
        for op in RANDOM:
            for shape in SHAPES:
                if shape != (301, 217) or op != "truncated_normal":
                    yield draw(op, dtype, shape)
            yield draw(op, dtype, (9,), ordinal=3)
            yield draw(op, dtype, (9,), ordinal=1, seed=7)
            yield draw(op, dtype, (4099,), ordinal=2, seed=-5)
        for shape in SHAPES:
            yield dropout(dtype, shape, 0.25)
        yield dropout(dtype, (9,), 0.0)
        yield dropout(dtype, (9,), 0.9, ordinal=4)
        yield dropout(dtype, (4099,), 0.5, ordinal=1, seed=12)
        for op in RANDOM:
            yield keyed(op, dtype, (3, 7), (7, -12))
            yield keyed(op, dtype, (0,), (1, 2))
    for dtype in INTS:
        info = np.iinfo(dtype)
        yield integers(dtype, (3, 7), 0, 100)
        yield integers(dtype, (41,), info.min, info.max, ordinal=2)
    for shape in SHAPES:
        yield integers("int32", shape, -5, 6)
