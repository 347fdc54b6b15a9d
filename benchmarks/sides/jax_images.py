# SPDX-License-Identifier: MIT
"""Networks for images as functions of weights and inputs, for JAX."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.image_networks import EPSILON, POOL, Images, Layer


def make(network: Images, training: bool) -> Callable[[list[Any], Any], Any]:
    """(weights, images) -> logits. Moving averages stay as they are."""
    jax = importlib.import_module("jax")
    return lambda weights, x: apply(jax, network.layers, x, iter(weights), training)


def apply(
    jax: Any, layers: tuple[Layer, ...], x: Any, weights: Iterator[Any], training: bool
) -> Any:
    for layer in layers:
        match layer.kind:
            case "conv":
                x = jax.lax.conv_general_dilated(
                    x,
                    next(weights),
                    (1, 1),
                    layer.padding.upper(),
                    dimension_numbers=("NHWC", "HWIO", "NHWC"),
                )
                x = x + next(weights) if layer.bias else x
            case "batch_norm":
                x = batch_norm(jax, x, [next(weights) for _ in range(4)], training)
            case "relu":
                x = jax.nn.relu(x)
            case "pool":
                window = (1, POOL, POOL, 1)
                x = jax.lax.reduce_window(
                    x, -jax.numpy.inf, jax.lax.max, window, window, "VALID"
                )
            case "mean":
                x = x.mean(axis=(1, 2))
            case "flatten":
                x = x.reshape(x.shape[0], -1)
            case "dense":
                x = x @ next(weights) + next(weights)
            case "residual":
                x = x + apply(jax, layer.inner, x, weights, training)
            case _:
                raise ValueError(layer.kind)
    return x


def batch_norm(jax: Any, x: Any, weights: list[Any], training: bool) -> Any:
    scale, offset, mean, variance = weights
    if training:
        mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
    return (x - mean) * (jax.lax.rsqrt(variance + EPSILON) * scale) + offset
