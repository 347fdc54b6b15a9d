# SPDX-License-Identifier: MIT
"""The networks as functions of weights and inputs, for JAX."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from benchmarks.image_networks import Images
from benchmarks.networks import EPSILON, Recurrent, Transformer
from benchmarks.sides import jax_images


def make(network: Any, training: bool) -> Callable[[list[Any], Any], Any]:
    """(weights, inputs) -> logits."""
    if isinstance(network, Recurrent):
        return lambda weights, x: recurrent(network, weights, x)
    if isinstance(network, Transformer):
        return lambda weights, x: transformer(network, weights, x)
    if isinstance(network, Images):
        return jax_images.make(network, training)
    raise TypeError(f"no function of {network}")


def recurrent(network: Recurrent, weights: list[Any], x: Any) -> Any:
    jax, jnp = importlib.import_module("jax"), importlib.import_module("jax.numpy")
    table, kernel, inner, bias, last, last_bias = weights
    sigmoid = jax.nn.sigmoid

    def lstm(state: Any, x: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(x + h @ inner, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        return (sigmoid(o) * jnp.tanh(c), c), None

    def gru(state: Any, x: Any) -> Any:
        (h,) = state
        z, r, g = jnp.split(x, 3, axis=1)
        hz, hr, hg = jnp.split(h @ inner + bias[1], 3, axis=1)
        z, g = sigmoid(z + hz), jnp.tanh(g + sigmoid(r + hr) * hg)
        return (z * h + (1 - z) * g,), None

    one = network.cell == "lstm"
    projected = table[x.T] @ kernel + (bias if one else bias[0])
    first = jnp.zeros((x.shape[0], network.units), jnp.float32)
    states = (first, first) if one else (first,)
    states, _ = jax.lax.scan(lstm if one else gru, states, projected)
    return states[0] @ last + last_bias


def transformer(network: Transformer, weights: list[Any], x: Any) -> Any:
    jax, jnp = importlib.import_module("jax"), importlib.import_module("jax.numpy")
    left = iter(weights)

    def norm(x: Any) -> Any:
        mean = jnp.mean(x, -1, keepdims=True)
        variance = jnp.var(x, -1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * next(left) + next(left)

    def heads(x: Any) -> Any:
        return jnp.einsum("btw,whs->bhts", x, next(left)) + next(left)[:, None]

    x = next(left)[x] + next(left)
    for _ in range(network.blocks):
        normal = norm(x)
        q, k, v = heads(normal), heads(normal), heads(normal)
        scores = jnp.einsum("bhqs,bhks->bhqk", q, k) * q.shape[-1] ** -0.5
        mixed = jnp.einsum("bhqk,bhks->bhqs", jax.nn.softmax(scores), v)
        x = x + jnp.einsum("bhqs,hsw->bqw", mixed, next(left)) + next(left)
        wide = jax.nn.gelu(norm(x) @ next(left) + next(left), approximate=False)
        x = x + wide @ next(left) + next(left)
    x = norm(x)
    return x @ next(left) + next(left)
