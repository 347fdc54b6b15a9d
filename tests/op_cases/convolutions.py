# SPDX-License-Identifier: MIT
"""Cases of convolutions and their gradients, against sums of slices in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .model import (
    FLOATS,
    Array,
    Case,
    In,
    Shape,
    case,
    ints,
    of_kind,
    shape_label,
)
from .products import ACTIVATIONS


@dataclass(frozen=True)
class Geometry:
    """A convolution: sizes of one image, and how the window slides."""

    sizes: Shape
    window: Shape
    channels: int = 3
    filters: int = 4
    batch: int = 2
    strides: Shape = ()
    dilations: Shape = ()
    padding: Shape = ()
    groups: int = 1
    first: bool = False

    @property
    def rank(self) -> int:
        return len(self.sizes)

    def steps(self) -> Shape:
        return self.strides or (1,) * self.rank

    def spread(self) -> Shape:
        return self.dilations or (1,) * self.rank

    def border(self) -> list[tuple[int, int]]:
        flat = self.padding or (0,) * (2 * self.rank)
        return list(zip(flat[::2], flat[1::2], strict=True))

    def out(self) -> Shape:
        found = []
        for i, size in enumerate(self.sizes):
            reach = (self.window[i] - 1) * self.spread()[i] + 1
            room = size + sum(self.border()[i]) - reach
            found.append(0 if room < 0 else room // self.steps()[i] + 1)
        return tuple(found)

    def _placed(self, sizes: Shape, channels: int) -> Shape:
        rest = (channels, *sizes) if self.first else (*sizes, channels)
        return (self.batch, *rest)

    def x(self) -> Shape:
        return self._placed(self.sizes, self.channels)

    def y(self) -> Shape:
        return self._placed(self.out(), self.filters)

    def w(self) -> Shape:
        return (*self.window, self.channels // self.groups, self.filters)

    def attrs(self) -> str:
        parts = {
            "strides": self.strides and ints(self.strides),
            "dilations": self.dilations and ints(self.dilations),
            "padding": self.padding and ints(self.padding),
            "groups": "" if self.groups == 1 else str(self.groups),
            "channels_first": "true" if self.first else "",
        }
        return ", ".join(f"{key}={text}" for key, text in parts.items() if text)

    def label(self) -> str:
        letters = {"s": self.strides, "d": self.dilations, "p": self.padding}
        more = [f"{k}{'_'.join(map(str, v))}" for k, v in letters.items() if v]
        if self.groups > 1:
            more.append(f"g{self.groups}")
        if self.first:
            more.append("first")
        return "-".join([shape_label(self.x(), self.w()), *more])

    # --- the oracle: a product for each window position ---------------------------

    def to_last(self, x: Array) -> Array:
        return np.moveaxis(x, 1, -1) if self.first else x

    def from_last(self, x: Array) -> Array:
        return np.moveaxis(x, -1, 1) if self.first else x

    def _padded(self, x: Array) -> Array:
        return np.pad(x, [(0, 0), *self.border(), (0, 0)])

    def _windows(self) -> Iterator[tuple[Shape, tuple[slice, ...]]]:
        """Each window position, and the elements that it meets."""
        for k in np.ndindex(*self.window):
            parts = [
                slice(i * d, i * d + (n - 1) * s + 1 if n else 0, s)
                for i, d, n, s in zip(
                    k, self.spread(), self.out(), self.steps(), strict=True
                )
            ]
            yield k, (slice(None), *parts)

    def _parts(self) -> Iterator[tuple[slice, slice]]:
        """Channels and filters of each group."""
        depth, filters = self.channels // self.groups, self.filters // self.groups
        for g in range(self.groups):
            yield (
                slice(g * depth, (g + 1) * depth),
                slice(g * filters, (g + 1) * filters),
            )

    def forward(self, x: Array, w: Array) -> Array:
        padded = self._padded(self.to_last(x))
        y = np.zeros((self.batch, *self.out(), self.filters))
        for k, place in self._windows():
            for c, f in self._parts():
                y[..., f] += padded[place][..., c] @ w[k][:, f]
        return self.from_last(y)

    def grad_input(self, y: Array, w: Array) -> Array:
        y = self.to_last(y)
        padded = self._padded(np.zeros((self.batch, *self.sizes, self.channels)))
        for k, place in self._windows():
            for c, f in self._parts():
                padded[place][..., c] += y[..., f] @ w[k][:, f].T
        inner = tuple(
            slice(low, low + size)
            for (low, _), size in zip(self.border(), self.sizes, strict=True)
        )
        return self.from_last(padded[(slice(None), *inner)])

    def grad_filter(self, x: Array, y: Array) -> Array:
        padded, y = self._padded(self.to_last(x)), self.to_last(y)
        w = np.zeros(self.w())
        axes = list(range(self.rank + 1))
        for k, place in self._windows():
            for c, f in self._parts():
                parts = padded[place][..., c], y[..., f]
                w[k][:, f] = np.tensordot(*parts, (axes, axes))
        return w


def conv_cases(g: Geometry, dtype: str, **more: Any) -> Iterator[Case]:
    """The op and both of its gradients."""
    make = of_kind(-1.0, 1.0)(dtype)
    x, w, y = In(g.x(), dtype, make), In(g.w(), dtype, make), In(g.y(), dtype, make)
    chain = int(np.prod(g.w()[:-1]))
    back = int(np.prod(g.window)) * g.filters // g.groups
    along = int(np.prod(g.y())) // max(g.filters, 1)
    forms: tuple[tuple[str, In, In, Callable[..., Any], str, int], ...] = (
        ("conv", x, w, g.forward, "", chain),
        ("conv_grad_input", y, w, g.grad_input, ints(g.x()), back),
        ("conv_grad_filter", x, y, g.grad_filter, ints(g.w()), along),
    )
    for op, a, b, oracle, shape, length in forms:
        attrs = ", ".join(filter(None, (g.attrs(), shape and f"shape={shape}")))
        yield case(
            op,
            g.label(),
            [a, b],
            oracle,
            attrs=attrs,
            ulps=4.0 + 2.0 * np.sqrt(length),
            bound=oracle,
            **more,
        )


def fused_cases(g: Geometry, dtype: str) -> Iterator[Case]:
    for bias in (False, True):
        for activation in ACTIVATIONS:
            base = next(conv_cases(g, dtype))
            inputs = list(base.inputs)
            if bias:
                inputs.append(In((g.filters,), dtype, of_kind()(dtype)))

            def oracle(
                x: Array, w: Array, *rest: Array, activation: int = activation
            ) -> Array:
                y = g.forward(x, w)
                return ACTIVATIONS[activation](y + rest[0] if rest else y)

            def bound(x: Array, w: Array, *rest: Array) -> Array:
                return g.forward(x, w) + (rest[0] if rest else 0.0)

            attrs = ", ".join(filter(None, (g.attrs(), f"activation={activation}")))
            yield case(
                "fused_conv",
                f"{g.label()}_{'bias' if bias else 'no_bias'}_{activation}",
                inputs,
                oracle,
                attrs=attrs,
                ulps=base.ulps,
                bound=bound,
            )


def stepped_cases(g: Geometry, dtype: str) -> Iterator[Case]:
    """Bias, factor, shift and a sum behind a convolution."""
    base = next(conv_cases(g, dtype))
    made = of_kind(-1.0, 1.0)(dtype)
    shapes = [(g.filters,)] * 3 + [g.y()]

    def oracle(x: Array, w: Array, *more: Array) -> Array:
        bias, factor, shift, total = more
        return (g.forward(x, w) + bias) * factor + shift + total

    yield case(
        "fused_conv",
        f"{g.label()}_steps",
        [*base.inputs, *(In(shape, dtype, made) for shape in shapes)],
        oracle,
        attrs=", ".join(filter(None, (g.attrs(), "steps=[0,1,0,2]"))),
        ulps=base.ulps,
        bound=lambda *given: np.abs(oracle(*given)) + 4.0,
    )


def masked_cases(g: Geometry, dtype: str) -> Iterator[Case]:
    """The gradient of the input where a relu was above 0."""
    base = next(c for c in conv_cases(g, dtype) if c.op == "conv_grad_input")

    def oracle(relu: Array, y: Array, w: Array) -> Array:
        return np.where(relu > 0, g.grad_input(y, w), 0.0)

    yield case(
        "fused_conv_grad_input",
        g.label(),
        [In(g.x(), dtype, of_kind(-1.0, 1.0)(dtype)), *base.inputs],
        oracle,
        attrs=base.attrs,
        ulps=base.ulps,
        bound=lambda _, y, w: g.grad_input(y, w),
    )


SMALL = (
    Geometry((5,), (3,)),
    Geometry((4, 5), (2, 3), padding=(1, 0, 1, 1), strides=(2, 1)),
    Geometry((3, 4, 3), (2, 1, 2), channels=2, filters=3, batch=1),
)
MORE = (
    Geometry((9,), (4,), strides=(3,), padding=(2, 1)),
    Geometry((9,), (3,), dilations=(2,), padding=(4, 0)),  # causal
    Geometry((1,), (1,), channels=1, filters=1, batch=1),
    Geometry((5, 6), (3, 3), padding=(1, 1, 1, 1), first=True),
    Geometry((5, 6), (3, 2), channels=4, filters=6, groups=2, strides=(1, 2)),
    Geometry((6, 5), (3, 3), channels=4, filters=8, groups=4, padding=(1, 1, 1, 1)),
    Geometry((6, 5), (2, 2), channels=4, filters=4, groups=4, first=True),
    Geometry((7, 7), (2, 3), strides=(3, 2), padding=(0, 1, 2, 0)),
    Geometry((7, 7), (2, 3), dilations=(3, 2), padding=(0, 1, 2, 0)),
    Geometry((8, 8), (2, 2), strides=(3, 3)),  # some elements meet no window
    Geometry((4, 4), (1, 1), strides=(2, 2)),
    Geometry((5, 5), (2, 2), strides=(2, 3), dilations=(3, 1), padding=(0, 2, 1, 1)),
    Geometry((3, 4, 3), (2, 2, 3), padding=(1, 0, 0, 1, 1, 1), strides=(1, 2, 1)),
    Geometry((4, 3, 3), (3, 1, 2), channels=2, filters=4, groups=2, first=True),
    Geometry((4, 4), (2, 2), batch=0),
    Geometry((0, 4), (2, 2)),
    Geometry((4, 4), (2, 2), channels=0),
    Geometry((4, 4), (2, 2), filters=0),
)
# for threads, panels and tiles
LARGE = (
    Geometry((13, 14), (3, 3), channels=20, filters=37, padding=(1, 1, 1, 1), batch=3),
    Geometry((16, 15), (3, 3), channels=18, filters=33, strides=(2, 2)),
    Geometry((12, 12), (1, 1), channels=40, filters=48, batch=3),
    Geometry((17, 17), (3, 3), channels=3, filters=16, padding=(1, 1, 1, 1)),
    Geometry((12, 12), (3, 3), channels=40, filters=40, groups=40, batch=3),
    Geometry((9, 20), (3, 3), channels=24, filters=24, groups=2, first=True),
    Geometry((300,), (5,), channels=12, filters=20, padding=(4, 0), batch=3),
)


def cases() -> Iterator[Case]:
    for dtype in FLOATS:
        for g in SMALL:
            yield from conv_cases(g, dtype, smooth=True, twice=True)
            yield from fused_cases(g, dtype)
            yield from stepped_cases(g, dtype)
    for g in SMALL:
        yield from masked_cases(g, "float32")
    for g in MORE:
        yield from conv_cases(g, "float32", smooth=True, twice=True)
    for g in LARGE:
        yield from conv_cases(g, "float32")
        yield from conv_cases(replace(g, batch=1), "float16")
        yield from conv_cases(replace(g, batch=1), "float64")
        if not g.first:
            yield from fused_cases(g, "float32")
            yield from masked_cases(g, "float32")
            yield from stepped_cases(g, "float32")
