# SPDX-License-Identifier: MIT
"""Cases of matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .elementwise import relu, sigmoid
from .model import (
    NUMBERS,
    Array,
    Case,
    In,
    Shape,
    case,
    is_float,
    of_kind,
    shape_label,
)

SIZES: tuple[tuple[int, int, int], ...] = (
    (1, 1, 1),
    (3, 5, 7),
    (1, 17, 9),
    (9, 17, 1),
    (0, 3, 2),
    (2, 0, 3),
    (2, 3, 0),
    (33, 65, 17),
)
FEW_SIZES = ((1, 1, 1), (3, 5, 7), (2, 0, 3))
THREADED_SIZES = ((130, 70, 90), (32, 784, 256), (257, 33, 129))
HUGE_SIZE = (701, 903, 1107)
BATCHES: tuple[tuple[Shape, Shape], ...] = (
    ((4,), (4,)),
    ((4,), ()),
    ((), (4,)),
    ((2, 1), (3,)),
    ((1,), (3,)),
    ((0,), (1,)),
    ((2, 3), (2, 3)),
)
FLAGS = ((False, False), (True, False), (False, True), (True, True))
ACTIVATIONS: dict[int, Callable[[Array], Array]] = {
    0: lambda x: x,
    1: relu,
    2: np.tanh,
    3: sigmoid,
}


def turned(x: Array, transpose: bool) -> Array:
    return np.swapaxes(x, -1, -2) if transpose else x


def attrs_of(flags: tuple[bool, bool]) -> str:
    return ", ".join(
        f"transpose_{name}={str(flag).lower()}"
        for name, flag in zip("ab", flags, strict=True)
    )


def product_case(
    size: tuple[int, int, int],
    dtype: str,
    flags: tuple[bool, bool],
    batch: tuple[Shape, Shape] = ((), ()),
    **more: Any,
) -> Case:
    m, k, n = size
    a = (*batch[0], *((k, m) if flags[0] else (m, k)))
    b = (*batch[1], *((n, k) if flags[1] else (k, n)))
    make = of_kind()(dtype)

    def oracle(x: Array, y: Array) -> Array:
        return np.matmul(turned(x, flags[0]), turned(y, flags[1]))

    letters = "".join("t" if flag else "n" for flag in flags)
    return case(
        "matmul",
        f"{letters}_{shape_label(a, b)}",
        [In(a, dtype, make), In(b, dtype, make)],
        oracle,
        attrs=attrs_of(flags),
        ulps=4.0 + 2.0 * np.sqrt(k),
        bound=oracle,
        **more,
    )


def matmul_cases() -> Iterator[Case]:
    for dtype in NUMBERS:
        main = dtype == "float32"
        small: dict[str, Any] = {"smooth": is_float(dtype), "twice": is_float(dtype)}
        for flags in FLAGS:
            for size in SIZES if main else FEW_SIZES:
                yield product_case(size, dtype, flags, **small)
            for batch in BATCHES if main else BATCHES[:3]:
                yield product_case((3, 5, 4), dtype, flags, batch, **small)
            for size in THREADED_SIZES if main else THREADED_SIZES[:1]:
                if main or flags == (False, False):
                    yield product_case(size, dtype, flags)
            if main:
                yield product_case((37, 21, 53), dtype, flags, ((5, 1), (3,)))
                yield product_case(HUGE_SIZE, dtype, flags, slow=True)
    yield product_case(HUGE_SIZE, "float16", (False, False), slow=True)


def fused_case(
    size: tuple[int, int, int],
    dtype: str,
    bias: bool,
    activation: int,
    batch: tuple[Shape, Shape] = ((), ()),
    **more: Any,
) -> Case:
    base = product_case(size, dtype, (False, False), batch)
    inputs = list(base.inputs)
    if bias:
        inputs.append(In((size[2],), dtype, of_kind()(dtype)))

    def oracle(x: Array, y: Array, *rest: Array) -> Array:
        z = np.matmul(x, y)
        return ACTIVATIONS[activation](z + rest[0] if rest else z)

    def bound(x: Array, y: Array, *rest: Array) -> Array:
        return np.matmul(x, y) + (rest[0] if rest else 0.0)

    return case(
        "fused_matmul",
        f"{base.label}_{'bias' if bias else 'no_bias'}_{activation}",
        inputs,
        oracle,
        attrs=f"{base.attrs}, activation={activation}",
        ulps=base.ulps,
        bound=bound,
        **more,
    )


def fused_matmul_cases() -> Iterator[Case]:
    for dtype in NUMBERS:
        for bias in (False, True):
            for activation in ACTIVATIONS if is_float(dtype) else (0, 1):
                yield fused_case((3, 5, 7), dtype, bias, activation)
                yield fused_case((2, 0, 3), dtype, bias, activation)
                if dtype == "float32":
                    yield fused_case((130, 70, 90), dtype, bias, activation)
                    batch: tuple[Shape, Shape] = ((4,), ())
                    yield fused_case((3, 5, 4), dtype, bias, activation, batch)
    yield fused_case(HUGE_SIZE, "float32", True, 1, slow=True)


def accumulate_case(
    size: tuple[int, int, int],
    dtype: str,
    flags: tuple[bool, bool],
    batch: tuple[Shape, Shape] = ((), ()),
    **more: Any,
) -> Case:
    base = product_case(size, dtype, flags, batch)
    shape = (*np.broadcast_shapes(*batch), size[0], size[2])
    accumulator = In(shape, dtype, of_kind()(dtype))

    def oracle(total: Array, x: Array, y: Array) -> Array:
        return total + base.oracle(x, y)

    return case(
        "matmul_accumulate",
        base.label,
        [accumulator, *base.inputs],
        oracle,
        attrs=base.attrs,
        ulps=base.ulps,
        bound=oracle,
        **more,
    )


def accumulate_cases() -> Iterator[Case]:
    for flags in FLAGS:
        for size in (*SIZES, *THREADED_SIZES, (67, 1100, 40)):
            yield accumulate_case(size, "float32", flags)
        yield accumulate_case((37, 21, 53), "float32", flags, ((5, 1), (3,)))
    yield accumulate_case(HUGE_SIZE, "float32", (True, False), slow=True)


def cases() -> Iterator[Case]:
    yield from accumulate_cases()
    yield from matmul_cases()
    yield from fused_matmul_cases()
