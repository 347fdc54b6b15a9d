# SPDX-License-Identifier: MIT
"""Cases of pooling, its gradients, and theirs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .model import FLOATS, NUMBERS, Array, Case, In, Shape, case, ints, is_float


@dataclass(frozen=True)
class Geometry:
    """Windows of [images, 1 to 3 axes, channels]; padding before and after each."""

    shape: Shape
    window: Shape
    strides: Shape
    padding: tuple[int, ...] = ()
    dilations: Shape = ()

    @property
    def axes(self) -> int:
        return len(self.window)

    def pads(self) -> list[tuple[int, int]]:
        pads = self.padding or (0, 0) * self.axes
        return list(zip(pads[::2], pads[1::2], strict=True))

    def steps(self) -> Shape:
        return self.dilations or (1,) * self.axes

    def windows(self) -> Shape:
        sizes = zip(
            self.shape[1:-1],
            self.window,
            self.strides,
            self.steps(),
            self.pads(),
            strict=True,
        )
        inner = [
            (size + low + high - ((window - 1) * step + 1)) // stride + 1
            for size, window, stride, step, (low, high) in sizes
        ]
        return (self.shape[0], *inner, self.shape[-1])

    def attrs(self) -> str:
        text = f"window={ints(self.window)}, strides={ints(self.strides)}"
        if self.dilations:
            text += f", dilations={ints(self.dilations)}"
        return text + (f", padding={ints(self.padding)}" if self.padding else "")

    @property
    def label(self) -> str:
        parts = (self.shape, self.window, self.strides, self.padding, self.dilations)
        return "_".join("x".join(map(str, p)) for p in parts if p)

    def inside(self, at: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The elements of the window at these indices, in row-major order."""
        found = []
        for one in itertools.product(*map(range, self.window)):
            spot = tuple(
                o * stride + k * step - low
                for o, k, stride, step, (low, _) in zip(
                    at, one, self.strides, self.steps(), self.pads(), strict=True
                )
            )
            if all(
                0 <= i < size for i, size in zip(spot, self.shape[1:-1], strict=True)
            ):
                found.append(spot)
        return found

    def places(self) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
        for at in itertools.product(*map(range, self.windows()[1:-1])):
            yield at, self.inside(at)


def stacked(x: Array, spots: list[tuple[int, ...]]) -> Array:
    return np.stack([x[(slice(None), *spot)] for spot in spots])


def max_pool(g: Geometry, x: Array) -> Array:
    y = np.empty(g.windows(), x.dtype)
    for at, spots in g.places():
        y[(slice(None), *at)] = stacked(x, spots).max(axis=0)
    return y


def average_pool(g: Geometry, x: Array) -> Array:
    y = np.empty(g.windows())
    for at, spots in g.places():
        y[(slice(None), *at)] = stacked(x, spots).mean(axis=0)
    return y


def max_pool_grad(g: Geometry, x: Array, y: Array, dy: Array) -> Array:
    dx = np.zeros(g.shape)
    for at, spots in g.places():
        first = stacked(x, spots).argmax(axis=0)
        for k, spot in enumerate(spots):
            dx[(slice(None), *spot)] += np.where(
                first == k, dy[(slice(None), *at)], 0.0
            )
    return dx


def max_pool_pick(g: Geometry, x: Array, y: Array, v: Array) -> Array:
    out = np.empty(g.windows(), v.dtype)
    for at, spots in g.places():
        first = stacked(x, spots).argmax(axis=0)[None]
        taken = np.take_along_axis(stacked(v, spots), first, axis=0)
        out[(slice(None), *at)] = taken[0]
    return out


def average_pool_grad(g: Geometry, dy: Array) -> Array:
    dx = np.zeros(g.shape)
    for at, spots in g.places():
        for spot in spots:
            dx[(slice(None), *spot)] += dy[(slice(None), *at)] / len(spots)
    return dx


TABLE: tuple[Geometry, ...] = (
    Geometry((2, 5, 3), (2,), (2,)),
    Geometry((2, 4, 6, 3), (2, 2), (2, 2)),
    Geometry((1, 5, 5, 2), (3, 3), (2, 2), (1, 1, 1, 1)),
    Geometry((1, 4, 5, 1), (3, 2), (1, 1), (1, 1, 0, 1)),
    Geometry((1, 7, 6, 2), (2, 3), (1, 2), (0, 1, 2, 2), (3, 2)),
    Geometry((1, 6, 2, 1), (1, 1), (3, 2)),
    Geometry((1, 3, 4, 5, 2), (2, 2, 3), (1, 2, 2), (0, 0, 1, 0, 1, 1)),
    Geometry((0, 4, 4, 2), (2, 2), (2, 2)),
    Geometry((2, 4, 4, 0), (2, 2), (2, 2)),
)
FEW = TABLE[1:4]
WIDE = Geometry((3, 21, 23, 67), (3, 3), (2, 2), (1, 1, 1, 1))
LONG = Geometry((2, 5000, 1), (3,), (2,), (1, 1))


def distinct(g: Geometry, dtype: str) -> Array:
    count = int(np.prod(g.shape))
    order = np.random.default_rng(7).permutation(count).reshape(g.shape)
    if is_float(dtype):
        return ((order - count / 2) / max(8.0, count / 16)).astype(dtype)
    return np.asarray((order % 100).astype(dtype))


def whole(g: Geometry, dtype: str) -> In:
    return In(g.shape, dtype, lambda rng, shape, kind: distinct(g, dtype))


def maxima(g: Geometry, dtype: str) -> In:
    return In(
        g.windows(), dtype, lambda rng, shape, kind: max_pool(g, distinct(g, dtype))
    )


def any_of(shape: Shape, dtype: str) -> In:
    def make(rng: np.random.Generator, shape: Shape, kind: np.dtype) -> Array:
        if kind.kind == "f":
            return rng.uniform(-2, 2, shape)
        return rng.integers(0, 2 if kind.kind == "b" else 100, shape)

    return In(shape, dtype, make)


def cases() -> Iterator[Case]:
    for dtype in NUMBERS:
        table = TABLE if dtype == "float32" else FEW
        big = (WIDE, LONG) if dtype in ("float32", "float16") else ()
        for g in (*table, *big):
            small = {"smooth": is_float(dtype) and g not in big}
            more = {"label": g.label, "attrs": g.attrs()}
            yield case(
                "max_pool",
                inputs=[whole(g, dtype)],
                oracle=lambda x, g=g: max_pool(g, x),
                exact=True,
                twice=small["smooth"],
                **small,
                **more,
            )
            if dtype not in FLOATS:
                continue
            yield case(
                "max_pool_grad",
                inputs=[whole(g, dtype), maxima(g, dtype), any_of(g.windows(), dtype)],
                oracle=lambda x, y, dy, g=g: max_pool_grad(g, x, y, dy),
                bound=lambda x, y, dy: np.max(dy, initial=0.0),
                **small,
                **more,
            )
            yield case(
                "average_pool",
                inputs=[any_of(g.shape, dtype)],
                oracle=lambda x, g=g: average_pool(g, x),
                bound=lambda x: np.max(x, initial=0.0),
                twice=small["smooth"],
                **small,
                **more,
            )
            yield case(
                "average_pool_grad",
                inputs=[any_of(g.windows(), dtype)],
                oracle=lambda dy, g=g: average_pool_grad(g, dy),
                bound=lambda dy: np.max(dy, initial=0.0),
                **small,
                label=g.label,
                attrs=f"{g.attrs()}, shape={ints(g.shape)}",
            )
    for dtype in NUMBERS:
        for g in (*FEW, WIDE) if dtype == "float32" else FEW[:1]:
            yield case(
                "max_pool_pick",
                inputs=[whole(g, dtype), maxima(g, dtype), any_of(g.shape, dtype)],
                oracle=lambda x, y, v, g=g: max_pool_pick(g, x, y, v),
                exact=True,
                label=g.label,
                attrs=g.attrs(),
                smooth=is_float(dtype) and g is not WIDE,
            )
    g = FEW[0]
    yield case(
        "max_pool_pick",
        inputs=[whole(g, "float32"), maxima(g, "float32"), any_of(g.shape, "int32")],
        oracle=lambda x, y, v: max_pool_pick(g, x, y, v),
        exact=True,
        label=f"{g.label}_of_integers",
        attrs=g.attrs(),
        float_dtype="float32",
    )
