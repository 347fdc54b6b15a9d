# SPDX-License-Identifier: MIT
"""The networks as PyTorch modules, with weights in Keras's order and layout."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.image_networks import Images
from benchmarks.networks import EPSILON, Floats, Recurrent, Transformer
from benchmarks.sides import torch_images


def make(network: Any, weights: list[Floats]) -> Any:
    """The module with these weights."""
    nn = importlib.import_module("torch").nn
    if isinstance(network, Recurrent):
        return recurrent(nn, network, weights)
    if isinstance(network, Transformer):
        return transformer(nn, network, weights)
    if isinstance(network, Images):
        return torch_images.make(network, weights)
    raise TypeError(f"no PyTorch module of {network}")


def put(parameter: Any, values: Any) -> None:
    torch = importlib.import_module("torch")
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(np.ascontiguousarray(values)))


def dense(nn: Any, kernel: Floats, bias: Floats) -> Any:
    layer = nn.Linear(*kernel.shape)
    put(layer.weight, kernel.T)
    put(layer.bias, bias)
    return layer


def embedding(nn: Any, table: Floats) -> Any:
    layer = nn.Embedding(*table.shape)
    put(layer.weight, table)
    return layer


def recurrent(nn: Any, network: Recurrent, weights: list[Floats]) -> Any:
    """Keras's gates are i, f, c, o and z, r, h; PyTorch's i, f, g, o and r, z, n."""
    table, kernel, inner, bias, *last = weights
    n, cell = network.units, {"lstm": nn.LSTM, "gru": nn.GRU}[network.cell]
    layer = cell(n, n, batch_first=True)
    order = [0, 1, 2, 3] if network.cell == "lstm" else [1, 0, 2]

    def ordered(x: Floats) -> Floats:
        gates = [x[..., gate * n : (gate + 1) * n] for gate in order]
        return np.concatenate(gates, -1).T

    both = bias if bias.ndim == 2 else np.stack([bias, np.zeros_like(bias)])
    put(layer.weight_ih_l0, ordered(kernel))
    put(layer.weight_hh_l0, ordered(inner))
    put(layer.bias_ih_l0, ordered(both[0]))
    put(layer.bias_hh_l0, ordered(both[1]))
    if network.cell == "lstm":  # whose second bias Keras has not
        layer.bias_hh_l0.requires_grad_(False)

    class Module(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = embedding(nn, table)
            self.layer = layer
            self.last = dense(nn, *last)

        def forward(self, x: Any) -> Any:
            steps, _ = self.layer(self.embedding(x))
            return self.last(steps[:, -1])

    return Module()


def transformer(nn: Any, network: Transformer, weights: list[Floats]) -> Any:
    functional, width, heads = nn.functional, network.width, network.heads
    left = iter(weights)

    def norm() -> Any:
        layer = nn.LayerNorm(width, eps=EPSILON)
        put(layer.weight, next(left))
        put(layer.bias, next(left))
        return layer

    def projections(count: int) -> Any:
        """Some dense layers on the same input, as one."""
        kernels = [flat(left, width) for _ in range(count)]
        return dense(
            nn,
            np.concatenate([kernel for kernel, _ in kernels], 1),
            np.concatenate([bias for _, bias in kernels]),
        )

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = norm()
            self.inputs = projections(3)
            self.output = projections(1)
            self.wide_norm = norm()
            self.wide = dense(nn, next(left), next(left))
            self.narrow = dense(nn, next(left), next(left))

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.inputs(self.norm(x)).view(batch, length, 3, heads, -1)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v)
            x = x + self.output(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.narrow(functional.gelu(self.wide(self.wide_norm(x))))

    class Module(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = embedding(nn, next(left))
            table = next(left)
            self.positions = nn.Parameter(self.embedding.weight.new_zeros(table.shape))
            put(self.positions, table)
            self.blocks = nn.Sequential(*(Block() for _ in range(network.blocks)))
            self.norm = norm()
            self.last = dense(nn, next(left), next(left))

        def forward(self, x: Any) -> Any:
            x = self.embedding(x) + self.positions
            return self.last(self.norm(self.blocks(x)))

    return Module()


def flat(left: Iterator[Floats], width: int) -> tuple[Floats, Floats]:
    """A projection of Keras's attention as a matrix and a vector."""
    return next(left).reshape(width, width), next(left).reshape(-1)
