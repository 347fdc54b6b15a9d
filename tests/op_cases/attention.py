# SPDX-License-Identifier: MIT
"""Cases of attention and its gradient, with masks, causal, and with dropout."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .linear import flag
from .model import FLOATS, Array, Case, In, Shape, between, case, given
from .random_ops import philox, uniform

KEY = (5, 7)


def factors(shape: Shape, rate: float) -> Array:
    """What weights are multiplied by, of a key."""
    count = int(np.prod(shape))
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    zero = np.zeros_like(blocks)
    words = np.stack(philox((KEY[0], 0), [blocks, zero, zero, zero + KEY[1]]), -1)
    kept = uniform(words.reshape(-1)[:count], "float32") >= rate
    return np.asarray(kept.reshape(shape) * float(np.float32(1 / (1 - rate))))


@dataclass(frozen=True)
class Sizes:
    """Of an attention, and what of it is there."""

    batch: int
    heads: int
    queries: int
    keys: int
    size: int
    value_size: int
    causal: bool = False
    mask: Shape = ()
    rate: float = 0.0
    scale: float = 1.0
    divides: bool = False
    hidden: float = -1e9
    replaces: bool = False

    @property
    def scores(self) -> Shape:
        return (self.batch, self.heads, self.queries, self.keys)

    @property
    def operands(self) -> list[Shape]:
        lead = (self.batch, self.heads)
        return [
            (*lead, self.queries, self.size),
            (*lead, self.keys, self.size),
            (*lead, self.keys, self.value_size),
        ]

    @property
    def result(self) -> Shape:
        return (*self.scores[:3], self.value_size)

    @property
    def attrs(self) -> str:
        bits = bool(self.mask) + 2 * bool(self.rate)
        text = f"scale={self.scale}, causal={flag(self.causal)}"
        text += f", divides={flag(self.divides)}, hidden={self.hidden}"
        text += f", replaces={flag(self.replaces)}"
        return f"{text}, rate={self.rate}, given={bits}"

    @property
    def label(self) -> str:
        text = "x".join(map(str, (*self.scores, self.size, self.value_size)))
        text += "_causal" * self.causal + "_scaled" * (self.scale != 1)
        text += "_mask" + "x".join(map(str, self.mask)) if self.mask else ""
        text += "_divided" * self.divides + "_replaced" * self.replaces
        return text + "_dropout" * bool(self.rate)

    @property
    def factor(self) -> float:
        return 1 / self.scale if self.divides else self.scale

    def seen(self, rest: tuple[Array, ...]) -> list[Array]:
        """By the mask, and by the order of steps."""
        masks = [rest[0]] if self.mask else []
        if self.causal:
            masks.append(np.arange(self.queries)[:, None] >= np.arange(self.keys))
        return masks

    def weights(self, q: Array, k: Array, rest: tuple[Array, ...]) -> Array:
        scores = q @ k.swapaxes(2, 3) * self.factor
        for seen in self.seen(rest):
            hidden = self.hidden if self.replaces else scores + self.hidden
            scores = np.where(seen, scores, hidden)
        scores = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
        return np.asarray(scores / scores.sum(-1, keepdims=True))

    def factors(self) -> Array:
        return factors(self.scores, self.rate) if self.rate else np.ones(())

    def __call__(self, q: Array, k: Array, v: Array, *rest: Array) -> Array:
        return np.asarray((self.weights(q, k, rest) * self.factors()) @ v)

    def grad(self, q: Array, k: Array, v: Array, dy: Array, *rest: Array) -> Any:
        w, r = self.weights(q, k, rest), self.factors()
        dv = (w * r).swapaxes(2, 3) @ dy
        dw = dy @ v.swapaxes(2, 3) * r
        ds = w * (dw - (dw * w).sum(-1, keepdims=True)) * self.factor
        for seen in self.seen(rest) if self.replaces else []:
            ds = np.where(seen, ds, 0.0)
        return ds @ k, ds.swapaxes(2, 3) @ q, dv


TABLE = (
    Sizes(1, 1, 1, 1, 1, 1),
    Sizes(2, 3, 4, 5, 3, 2, scale=0.5),
    Sizes(1, 2, 5, 5, 4, 4, causal=True),
    Sizes(2, 1, 3, 6, 2, 3, mask=(2, 1, 1, 6)),
    Sizes(2, 2, 3, 4, 2, 3, mask=(1, 2, 3, 4), causal=True, scale=0.7),
    Sizes(2, 2, 3, 5, 2, 2, rate=0.3),
    Sizes(1, 2, 3, 3, 2, 2, rate=0.5, mask=(1, 1, 3, 3), causal=True),
    Sizes(2, 1, 3, 4, 2, 2, scale=1.7, divides=True, mask=(2, 1, 1, 4), hidden=-0.5),
    Sizes(2, 2, 4, 5, 2, 3, scale=0.7, mask=(1, 2, 4, 5), hidden=-0.5, replaces=True),
    Sizes(1, 2, 4, 4, 3, 2, causal=True, hidden=0.3, divides=True, replaces=True),
)
EMPTY = (Sizes(0, 2, 3, 3, 2, 2), Sizes(2, 1, 0, 3, 2, 2), Sizes(2, 1, 3, 0, 2, 2))
BIG = (
    Sizes(2, 2, 70, 130, 16, 20),  # blocks of rows
    Sizes(1, 1, 300, 700, 33, 7, causal=True, scale=0.2),  # and parts of a matrix
    Sizes(1, 1, 30, 1100, 8, 9, mask=(1, 1, 30, 1100), rate=0.1),  # chunks of a sum
)


def mask_of(rng: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Every query sees the first key."""
    mask = np.asarray(rng.random(shape) < 0.6)
    mask[..., :1] = True
    return mask


def cases() -> Iterator[Case]:
    for dtype in FLOATS:
        narrow = TABLE if dtype == "float32" else TABLE[1:]
        big = BIG if dtype != "float64" else ()
        for sizes in (*narrow, *EMPTY, *big):
            operands = [In(shape, dtype, between(-1, 1)) for shape in sizes.operands]
            rest = [In(sizes.mask, "bool", mask_of)] if sizes.mask else []
            rest += [In((2,), "int32", given(*KEY))] if sizes.rate else []
            small = sizes in TABLE
            more: dict[str, Any] = {"attrs": sizes.attrs, "smooth": small}
            yield case(
                "attention",
                sizes.label,
                [*operands, *rest],
                sizes,
                ulps=8.0,
                bound=lambda *xs: 4.0,
                twice=small,
                **more,
            )
            yield case(
                "attention_grad",
                sizes.label,
                [*operands, In(sizes.result, dtype, between(-1, 1)), *rest],
                sizes.grad,
                ulps=8.0,
                bound=lambda *xs, s=sizes: 4.0 + s.queries,
                **more,
            )
