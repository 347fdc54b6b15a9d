# SPDX-License-Identifier: MIT
"""Networks for images as PyTorch modules, of channels_last tensors."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.image_networks import EPSILON, KERNEL, MOVING, POOL, Images, Layer
from benchmarks.networks import Floats


def make(network: Images, weights: list[Floats]) -> Any:
    """The module with these weights; images come as [image, height, width, channel]."""
    torch = importlib.import_module("torch")
    nn = torch.nn

    class Channels(nn.Module):  # type: ignore[misc, name-defined]
        """From the channels in the second place to the last, or back: no copy."""

        def __init__(self, *order: int) -> None:
            super().__init__()
            self.order = order

        def forward(self, x: Any) -> Any:
            return x.permute(self.order)

    class Mean(nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x.mean(dim=(2, 3))

    class Residual(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return x + self.inner(x)

    left = iter(weights)

    def layer_of(layer: Layer) -> Any:
        match layer.kind:
            case "conv":
                kernel = next(left)
                depth, size = kernel.shape[2:]
                same = layer.padding == "same"
                found = nn.Conv2d(
                    depth, size, KERNEL, padding=KERNEL // 2 * same, bias=layer.bias
                )
                put(found.weight, kernel.transpose(3, 2, 0, 1))
                if layer.bias:
                    put(found.bias, next(left))
                return found
            case "dense":
                kernel = next(left)
                found = nn.Linear(*kernel.shape)
                put(found.weight, kernel.T)
                put(found.bias, next(left))
                return found
            case "batch_norm":
                return batch_norm(nn, left)
            case "relu":
                return nn.ReLU()
            case "pool":
                return nn.MaxPool2d(POOL)
            case "mean":
                return Mean()
            case "flatten":
                return nn.Sequential(Channels(0, 2, 3, 1), nn.Flatten())
            case "residual":
                return Residual(nn.Sequential(*map(layer_of, layer.inner)))
        raise ValueError(layer.kind)

    model = nn.Sequential(Channels(0, 3, 1, 2), *map(layer_of, network.layers))
    return model.to(memory_format=torch.channels_last)


def batch_norm(nn: Any, weights: Iterator[Floats]) -> Any:
    four = [next(weights) for _ in range(4)]
    layer = nn.BatchNorm2d(len(four[0]), EPSILON, 1.0 - MOVING)
    names = ("weight", "bias", "running_mean", "running_var")
    for name, values in zip(names, four, strict=True):
        put(getattr(layer, name), values)
    return layer


def put(parameter: Any, values: Floats) -> None:
    torch = importlib.import_module("torch")
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))
