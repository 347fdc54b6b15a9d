# SPDX-License-Identifier: MIT
"""Networks for images, as data that a module of each framework reads.

Images are [height, width, channel], kernels [height, width, in, out].
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.networks import Floats, Network

KERNEL = 3  # height and width of a convolution's window
POOL = 2  # size and step of a pooling window
EPSILON = 1e-3  # of batch normalisation, as in Keras
MOVING = 0.99  # what a moving average keeps, as in Keras

Shape = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Layer:
    """`conv`, `batch_norm`, `relu`, `pool` (maximum), `mean` (of an image's places),
    `flatten`, `dense`, or `residual`: x + inner(x)."""

    kind: str
    size: int = 0  # channels or columns of the result
    padding: str = "same"
    bias: bool = True
    inner: tuple[Layer, ...] = ()


@dataclasses.dataclass(frozen=True)
class Site:
    """A layer with the shapes of what goes in and out."""

    layer: Layer
    before: Shape
    after: Shape

    @property
    def flops(self) -> int:
        taps = {"conv": KERNEL * KERNEL, "dense": 1}.get(self.layer.kind, 0)
        return 2 * taps * self.before[-1] * math.prod(self.after)

    def weights(self, random: np.random.Generator) -> list[Floats]:
        """Kernel and bias; scale, offset and the two moving averages."""
        depth, size = self.before[-1], self.layer.size
        match self.layer.kind:
            case "conv":
                shape: Shape = (KERNEL, KERNEL, depth, size)
            case "dense":
                shape = (depth, size)
            case "batch_norm":
                # the averages are not those of any batch: forward alone, they are used
                mean = random.normal(0.0, 0.1, depth).astype(np.float32)
                variance = random.uniform(0.5, 2.0, depth).astype(np.float32)
                ones, zeros = np.ones(depth), np.zeros(depth)
                return [
                    ones.astype(np.float32),
                    zeros.astype(np.float32),
                    mean,
                    variance,
                ]
            case _:
                return []
        bound = math.sqrt(6.0 / (math.prod(shape[:-2]) * (depth + size)))
        found = [random.uniform(-bound, bound, shape).astype(np.float32)]
        return found + [np.zeros(size, np.float32)] * self.layer.bias


def sites_of(layers: tuple[Layer, ...], shape: Shape) -> Iterator[Site]:
    """All layers in order, those inside others, too."""
    for layer in layers:
        yield from sites_of(layer.inner, shape)
        after = shape_after(layer, shape)
        yield Site(layer, shape, after)
        shape = after


def shape_after(layer: Layer, shape: Shape) -> Shape:
    match layer.kind:
        case "conv":
            less = 0 if layer.padding == "same" else KERNEL - 1
            return (shape[0] - less, shape[1] - less, layer.size)
        case "pool":
            return (shape[0] // POOL, shape[1] // POOL, shape[2])
        case "mean":
            return shape[-1:]
        case "flatten":
            return (math.prod(shape),)
        case "dense":
            return (layer.size,)
    return shape


@dataclasses.dataclass(frozen=True)
class Images(Network):
    """Layers on images of ten classes."""

    name: str
    layers: tuple[Layer, ...]
    shape: Shape = (32, 32, 3)
    samples: int = 8192
    compared_steps: int = 6  # the reference takes seconds for each
    classes: int = 10

    @property
    def title(self) -> str:
        return f"{self.name} on {self.shape[0]}x{self.shape[1]} images"

    def sites(self) -> list[Site]:
        return list(sites_of(self.layers, self.shape))

    @property
    def forward_flops(self) -> int:
        return sum(site.flops for site in self.sites())

    def flops(self, training: bool) -> float:
        """No gradient of the images."""
        first = next(site.flops for site in self.sites() if site.flops)
        return super().flops(training) - (first if training else 0)

    def make_samples(
        self, random: np.random.Generator
    ) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """A class has a picture of its own, under noise; a tenth of the labels is
        wrong, so that no loss goes to zero."""
        pictures = random.random((self.classes, *self.shape), dtype=np.float32)
        y = random.integers(0, self.classes, self.samples, dtype=np.int32)
        noise = random.random((self.samples, *self.shape), dtype=np.float32)
        x = np.float32(0.3) * pictures[y] + np.float32(0.7) * noise
        wrong = random.random(self.samples) < 0.1
        y[wrong] = random.integers(0, self.classes, int(wrong.sum()), dtype=np.int32)
        return x, y

    def make_weights(self, random: np.random.Generator) -> list[Floats]:
        return [w for site in self.sites() for w in site.weights(random)]


RELU = Layer("relu")


def cifar() -> Images:
    """Keras's example of a CNN for CIFAR-10 without its dropout: what is random cannot
    be the same on all sides."""
    layers: list[Layer] = []
    for size in (32, 64):
        layers += [Layer("conv", size), RELU, Layer("conv", size, "valid"), RELU]
        layers += [Layer("pool")]
    layers += [Layer("flatten"), Layer("dense", 512), RELU, Layer("dense", 10)]
    return Images("Keras's CIFAR-10 CNN", tuple(layers))


def residual() -> Images:
    """Seven convolutions of 32 channels, batch normalisation after each."""
    conv, norm = Layer("conv", 32, bias=False), Layer("batch_norm")
    block = Layer("residual", inner=(conv, norm, RELU, conv, norm))
    layers = (
        (conv, norm, RELU) + (block, RELU) * 3 + (Layer("mean"), Layer("dense", 10))
    )
    return Images("residual net, 7 convolutions 3x3x32 with batch norm", layers)


IMAGES: dict[str, Network] = {"cifar": cifar(), "residual": residual()}
