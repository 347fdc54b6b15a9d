# SPDX-License-Identifier: MIT
"""Cases of normalisation over groups of channels, its gradient, and that one's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .model import FLOATS, Array, Case, In, Shape, between, case

EPSILON = 0.125


@dataclass(frozen=True)
class Groups:
    shape: Shape  # outer, rows, channels
    groups: int
    strided: bool = False

    @property
    def statistics(self) -> Shape:
        return (self.shape[0], self.groups)

    @property
    def channels(self) -> Shape:
        return self.shape[2:]

    @property
    def attrs(self) -> str:
        flag = str(self.strided).lower()
        return f"groups={self.groups}, strided={flag}, epsilon={EPSILON}"

    @property
    def label(self) -> str:
        kind = "strided" if self.strided else "groups"
        return f"{'x'.join(map(str, self.shape))}_{self.groups}_{kind}"

    def split(self, x: Array) -> tuple[Array, tuple[int, int]]:
        """With an axis for the groups and one inside of them; and what is reduced."""
        outer, rows, channels = self.shape
        each = channels // self.groups
        if self.strided:
            return x.reshape(outer, rows, each, self.groups), (1, 2)
        return x.reshape(outer, rows, self.groups, each), (1, 3)

    def whole(self, statistics: Array) -> Array:
        """Statistics for each channel: [outer, 1, channels]."""
        each = self.shape[2] // self.groups
        spread = (
            np.tile(statistics, (1, each))
            if self.strided
            else np.repeat(statistics, each, axis=1)
        )
        return spread[:, None, :]


def moments(g: Groups, x: Array) -> tuple[Array, Array]:
    parts, axes = g.split(x)
    return parts.mean(axis=axes), parts.var(axis=axes)


def normalize(
    g: Groups, x: Array, factor: Array, shift: Array
) -> tuple[Array, Array, Array]:
    mean, variance = moments(g, x)
    y = (x - g.whole(mean)) / np.sqrt(g.whole(variance) + EPSILON)
    return y * factor + shift, mean, variance


def normalize_grad(
    g: Groups, x: Array, dy: Array, factor: Array, mean: Array, variance: Array
) -> tuple[Array, Array, Array]:
    """Mean and variance are those of x, whatever is given."""
    mean, variance = moments(g, x)
    deviation = np.sqrt(g.whole(variance) + EPSILON)
    z = (x - g.whole(mean)) / deviation
    gradient = dy * factor
    parts, axes = g.split(gradient)
    tilted, _ = g.split(gradient * z)
    plain = g.whole(parts.mean(axis=axes))
    slope = g.whole(tilted.mean(axis=axes))
    dx = (gradient - plain - z * slope) / deviation
    return dx, (dy * z).sum(axis=(0, 1)), dy.sum(axis=(0, 1))


TABLE: tuple[Groups, ...] = (
    Groups((1, 7, 3), 3),  # a batch
    Groups((1, 130, 40), 40),
    Groups((3, 1, 5), 1),  # layers
    Groups((2, 1, 67), 1),
    Groups((2, 3, 6), 2),
    Groups((2, 3, 6), 2, strided=True),
    Groups((2, 4, 3), 3),  # instances
    Groups((3, 1, 6), 3, strided=True),
    Groups((2, 3, 4), 1),
    Groups((0, 3, 4), 2),
)
BIG = (
    Groups((1, 3000, 24), 24),
    Groups((9, 33, 48), 6),
    Groups((200, 1, 300), 1),
    Groups((2, 1, 9000), 1),
    Groups((1, 40, 5000), 5000),
)


def given_moments(g: Groups, dtype: str, which: int) -> In:
    wide = "float64" if dtype == "float64" else "float32"

    def make(rng: np.random.Generator, shape: Shape, kind: np.dtype) -> Array:
        x = source(g, dtype).astype(np.float64)
        return moments(g, x)[which] if x.size else np.zeros(shape)

    return In(g.statistics, wide, make)


def source(g: Groups, dtype: str) -> Array:
    rng = np.random.default_rng(3)
    return np.asarray((rng.uniform(-2, 2, g.shape) + 0.5).astype(dtype))


def cases() -> Iterator[Case]:
    for dtype in FLOATS:
        wide = "float64" if dtype == "float64" else "float32"
        table = TABLE if dtype == "float32" else TABLE[1:6]
        for g in (*table, *(BIG if dtype != "float64" else ())):
            x = In(g.shape, dtype, lambda rng, shape, kind, g=g, d=dtype: source(g, d))
            factor = In(g.channels, wide, between(0.5, 1.5))
            shift = In(g.channels, wide, between(-1, 1))
            dy = In(g.shape, dtype, between(-1, 1))
            statistics = [given_moments(g, dtype, k) for k in range(2)]
            small = g not in BIG and 0 not in g.shape
            yield case(
                "normalize",
                g.label,
                [x, factor, shift],
                lambda x, f, s, g=g: normalize(g, x, f, s),
                attrs=g.attrs,
                ulps=32.0,
                bound=lambda x, f, s: 4.0,
                float_dtypes=(dtype, wide, wide),
                smooth=small,
                twice=small,
            )
            many = float(np.sqrt(g.shape[0] * g.shape[1]))
            yield case(
                "normalize_grad",
                g.label,
                [x, dy, factor, *statistics],
                lambda x, dy, f, m, v, g=g: normalize_grad(g, x, dy, f, m, v),
                attrs=g.attrs,
                ulps=32.0 * max(1.0, many),
                bound=lambda x, dy, f, m, v: 4.0,
                float_dtypes=(dtype, wide, wide),
                smooth=small,
            )
