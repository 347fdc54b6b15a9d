# SPDX-License-Identifier: MIT
"""Networks that are more than dense layers: sizes, arithmetic, samples, first weights.

Weights are those of the Keras model of the same name (`sides/keras_networks.py`), in
its order; every side takes them from there. No framework is imported here.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Network(ABC):
    """What the sides of a job have to agree on."""

    samples: int
    compared_steps: int = 50  # of the loss curve, at most

    @property
    @abstractmethod
    def title(self) -> str:
        """The network in a few words."""

    @property
    @abstractmethod
    def forward_flops(self) -> int:
        """Of the products of one sample, forward; each gradient takes as much again."""

    def flops(self, training: bool) -> float:
        """Of the products of one sample; training has two gradients as large."""
        return float(self.forward_flops * (3 if training else 1))

    @abstractmethod
    def make_samples(
        self, random: np.random.Generator
    ) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Inputs and labels."""

    @abstractmethod
    def make_weights(self, random: np.random.Generator) -> list[Floats]:
        """The first weights."""


def glorot(random: np.random.Generator, rows: int, columns: int) -> Floats:
    bound = np.sqrt(6.0 / (rows + columns))
    return random.uniform(-bound, bound, (rows, columns)).astype(np.float32)


def small(random: np.random.Generator, *shape: int) -> Floats:
    return random.uniform(-0.05, 0.05, shape).astype(np.float32)


def zeros(*shape: int) -> Floats:
    return np.zeros(shape, np.float32)


@dataclasses.dataclass(frozen=True)
class Recurrent(Network):
    """An embedding, an LSTM or a GRU over all words, two classes of its last state."""

    cell: str
    words: int = 20_000
    units: int = 128
    steps: int = 80
    classes: int = 2
    samples: int = 8192

    @property
    def gates(self) -> int:
        return {"lstm": 4, "gru": 3}[self.cell]

    @property
    def title(self) -> str:
        return (
            f"Embedding {self.words}x{self.units}, {self.cell.upper()} {self.units}, "
            f"{self.steps} steps"
        )

    @property
    def forward_flops(self) -> int:
        products = 2 * self.steps * self.units * self.gates * self.units
        return 2 * (products + self.units * self.classes)

    def make_samples(
        self, random: np.random.Generator
    ) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """A class prefers words of its own; the last ones decide."""
        y = random.integers(0, self.classes, self.samples, dtype=np.int32)
        x = random.integers(0, self.words, (self.samples, self.steps), dtype=np.int32)
        chosen = random.random(x.shape) < 0.2
        own = x // self.classes * self.classes + y[:, None]
        return np.where(chosen, own % self.words, x).astype(np.int32), y

    def make_weights(self, random: np.random.Generator) -> list[Floats]:
        n, wide = self.units, self.gates * self.units
        bias = zeros(wide) if self.cell == "lstm" else zeros(2, wide)
        if self.cell == "lstm":
            bias[n : 2 * n] = 1.0
        return [
            small(random, self.words, n),
            glorot(random, n, wide),
            glorot(random, n, wide),
            bias,
            glorot(random, n, self.classes),
            zeros(self.classes),
        ]


@dataclasses.dataclass(frozen=True)
class Transformer(Network):
    """Blocks of attention and two dense layers; a token is said for each place."""

    blocks: int = 4
    width: int = 128
    heads: int = 4
    length: int = 128
    tokens: int = 256
    samples: int = 4096

    @property
    def title(self) -> str:
        return (
            f"{self.blocks} blocks, width {self.width}, {self.heads} heads, "
            f"sequence {self.length}"
        )

    @property
    def forward_flops(self) -> int:
        dense = self.length * 12 * self.width**2
        attention = 2 * self.length**2 * self.width
        head = self.length * self.width * self.tokens
        return 2 * (self.blocks * (dense + attention) + head)

    def make_samples(
        self, random: np.random.Generator
    ) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Each sequence is to be turned around."""
        shape = (self.samples, self.length)
        x = random.integers(0, self.tokens, shape, dtype=np.int32)
        return x, x[:, ::-1].copy()

    def make_weights(self, random: np.random.Generator) -> list[Floats]:
        w, heads, size = self.width, self.heads, self.width // self.heads
        weights = [small(random, self.tokens, w), small(random, self.length, w)]
        for _ in range(self.blocks):
            weights += norm(w)
            for _ in range(3):
                kernel = glorot(random, w, w).reshape(w, heads, size)
                weights += [kernel, zeros(heads, size)]
            weights += [glorot(random, w, w).reshape(heads, size, w), zeros(w)]
            weights += norm(w)
            weights += [glorot(random, w, 4 * w), zeros(4 * w)]
            weights += [glorot(random, 4 * w, w), zeros(w)]
        return [*weights, *norm(w), glorot(random, w, self.tokens), zeros(self.tokens)]


def norm(width: int) -> list[Floats]:
    """Factor and shift of a layer normalisation."""
    return [np.ones(width, np.float32), zeros(width)]


# of Keras's LayerNormalization
EPSILON = 1e-3

NETWORKS: dict[str, Network] = {
    "lstm": Recurrent("lstm"),
    "gru": Recurrent("gru"),
    "transformer": Transformer(),
}
