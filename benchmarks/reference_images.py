# SPDX-License-Identifier: MIT
"""Networks for images, written out: a convolution is a product for each of its taps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.image_networks import EPSILON, KERNEL, POOL, Layer


def images(
    torch: Any,
    layers: tuple[Layer, ...],
    x: Any,
    weights: Iterator[Any],
    training: bool,
) -> Any:
    """Logits of float64 tensors; moving averages stay as they are."""
    for layer in layers:
        match layer.kind:
            case "conv":
                kernel = next(weights)
                x = conv(torch, x, kernel, layer.padding)
                x = x + next(weights) if layer.bias else x
            case "batch_norm":
                scale, offset, mean, variance = (next(weights) for _ in range(4))
                if training:
                    mean = x.mean(dim=(0, 1, 2))
                    variance = ((x - mean) ** 2).mean(dim=(0, 1, 2))
                x = (x - mean) / torch.sqrt(variance + EPSILON) * scale + offset
            case "relu":
                x = x.clamp(min=0.0)
            case "pool":
                n, height, width, channels = x.shape
                high, wide = height // POOL, width // POOL
                x = x[:, : high * POOL, : wide * POOL]
                x = x.reshape(n, high, POOL, wide, POOL, channels).amax(dim=(2, 4))
            case "mean":
                x = x.mean(dim=(1, 2))
            case "flatten":
                x = x.flatten(1)
            case "dense":
                x = x @ next(weights) + next(weights)
            case "residual":
                x = x + images(torch, layer.inner, x, weights, training)
    return x


def conv(torch: Any, x: Any, kernel: Any, padding: str) -> Any:
    side = KERNEL // 2 if padding == "same" else 0
    x = torch.nn.functional.pad(x, (0, 0, side, side, side, side))
    height, width = x.shape[1] - KERNEL + 1, x.shape[2] - KERNEL + 1
    y = 0.0
    for i in range(KERNEL):
        for j in range(KERNEL):
            y = y + x[:, i : i + height, j : j + width] @ kernel[i, j]
    return y
