# SPDX-License-Identifier: MIT
"""Cases of windows at places known at run time: read, written over, added to."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .model import (
    ALL,
    FLOATS,
    NUMBERS,
    Array,
    Case,
    In,
    Shape,
    case,
    ints,
    is_float,
    shape_label,
)
from .movement import source

# whole, window, starts of the leading axes; some starts lie outside and are moved in
WINDOWS: tuple[tuple[Shape, Shape, tuple[int, ...]], ...] = (
    ((5,), (1,), (3,)),
    ((5,), (2,), (9,)),
    ((5,), (5,), (2,)),
    ((4, 3), (1, 3), (2,)),
    ((4, 3), (1, 3), (-7,)),
    ((4, 3), (2, 2), (1, 1)),
    ((4, 3), (3, 1), (0, 2)),
    ((2, 4, 3), (2, 1, 3), (0, 2)),
    ((3, 4, 5), (1, 2, 3), (2, 1, 2)),
    ((3, 4), (0, 4), (1,)),
    ((0, 4), (0, 2), (0, 1)),
    ((64, 700), (3, 700), (20,)),
    ((64, 700), (50, 600), (20, 90)),
)


def place(whole: Shape, window: Shape, starts: list[Array]) -> tuple[slice, ...]:
    begin = [0] * len(whole)
    for axis, start in enumerate(starts):
        begin[axis] = max(0, min(int(start), whole[axis] - window[axis]))
    return tuple(slice(b, b + w) for b, w in zip(begin, window, strict=True))


def given(number: int) -> In:
    return In((), "int32", lambda rng, shape, dtype: np.full(shape, number))


def window_cases() -> Iterator[Case]:
    for dtype in ALL:
        for shape, size, starts in WINDOWS if dtype == "float32" else WINDOWS[::2]:
            whole = source(shape, dtype)
            window = source(size, dtype)
            places = [given(start) for start in starts]
            label = f"{shape_label(shape, size)}_at{'_'.join(map(str, starts))}"
            smooth = is_float(dtype) and int(np.prod(shape)) < 5000

            def read(x: Array, *at: Array, size: Shape = size) -> Array:
                return x[place(x.shape, size, list(at))]

            def write(x: Array, part: Array, *at: Array) -> Array:
                result = x.copy()
                result[place(x.shape, part.shape, list(at))] = part
                return result

            def add(x: Array, part: Array, *at: Array) -> Array:
                result = x.copy()
                result[place(x.shape, part.shape, list(at))] += part
                return result

            yield case(
                "dynamic_slice",
                label,
                [whole, *places],
                read,
                attrs=f"size={ints(size)}",
                exact=True,
                smooth=smooth,
            )
            yield case(
                "dynamic_update_slice",
                label,
                [whole, window, *places],
                write,
                exact=True,
                smooth=smooth,
            )
            if dtype in NUMBERS:
                yield case(
                    "dynamic_add_slice",
                    label,
                    [whole, window, *places],
                    add,
                    exact=dtype not in FLOATS,
                    smooth=smooth,
                    ulps=1.0,
                    bound=lambda x, part, *at: np.maximum(
                        np.abs(x), np.max(np.abs(part), initial=0.0)
                    ),
                )
