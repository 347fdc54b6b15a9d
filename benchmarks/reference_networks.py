# SPDX-License-Identifier: MIT
"""The judge of networks' loss curves: float64, every gate and score written out.

Gradients are PyTorch's; without it there is no curve, and nothing is compared.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.image_networks import Images
from benchmarks.jobs import LEARNING_RATE, MOMENTUM, Data, Job
from benchmarks.networks import EPSILON, Recurrent, Transformer
from benchmarks.reference_images import images


def loss_curve(job: Job, data: Data) -> NDArray[np.float64]:
    """The mean cross-entropy of each of the job's first steps, as many as it compares.

    Raises:
        ImportError: PyTorch is not installed.
    """
    torch = importlib.import_module("torch")
    weights = [torch.from_numpy(w.astype(np.float64)) for w in data.weights]
    velocity = [torch.zeros_like(w) for w in weights]
    losses = np.zeros(job.compared_steps)
    batches = data.order.reshape(-1, job.batch)
    for step in range(len(losses)):
        rows = batches[step % len(batches)]
        x, y = torch.from_numpy(data.x[rows]), torch.from_numpy(data.y[rows]).long()
        for w in weights:
            w.requires_grad_(job.kind == "train")
        log_p = torch.log_softmax(logits(torch, job, weights, x), -1)
        loss = -log_p.gather(-1, y[..., None]).mean()
        losses[step] = loss.item()
        if job.kind == "train":
            gradients = torch.autograd.grad(
                loss, weights, allow_unused=True, materialize_grads=True
            )
            velocity = [
                MOMENTUM * v - LEARNING_RATE * g
                for v, g in zip(velocity, gradients, strict=True)
            ]
            moved = zip(weights, velocity, strict=True)
            weights = [w.detach() + v for w, v in moved]
    return losses


def logits(torch: Any, job: Job, weights: list[Any], x: Any) -> Any:
    network = job.network
    if isinstance(network, Images):
        training = job.kind == "train"
        return images(torch, network.layers, x.double(), iter(weights), training)
    if isinstance(network, Recurrent):
        return recurrent(torch, network, weights, x)
    if isinstance(network, Transformer):
        return transformer(torch, network, weights, x)
    raise TypeError(f"no reference of {network}")


def recurrent(torch: Any, network: Recurrent, weights: list[Any], x: Any) -> Any:
    table, kernel, inner, bias, last, last_bias = weights
    n = network.units
    h = c = torch.zeros(len(x), n, dtype=torch.float64)
    for words in table[x].unbind(1):
        if network.cell == "lstm":
            gates = words @ kernel + h @ inner + bias
            i, f, o = (torch.sigmoid(gates[:, k * n : (k + 1) * n]) for k in (0, 1, 3))
            c = f * c + i * torch.tanh(gates[:, 2 * n : 3 * n])
            h = o * torch.tanh(c)
        else:
            new, old = words @ kernel + bias[0], h @ inner + bias[1]
            z, r = torch.sigmoid(new + old)[:, : 2 * n].split(n, 1)
            candidate = torch.tanh(new[:, 2 * n :] + r * old[:, 2 * n :])
            h = z * h + (1 - z) * candidate
    return h @ last + last_bias


def transformer(torch: Any, network: Transformer, weights: list[Any], x: Any) -> Any:
    left = iter(weights)

    def norm(x: Any) -> Any:
        centred = x - x.mean(-1, keepdim=True)
        variance = (centred * centred).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + EPSILON) * next(left) + next(left)

    def heads(x: Any) -> Any:
        kernel, bias = next(left), next(left)
        return torch.einsum("btw,whs->bhts", x, kernel) + bias[:, None]

    x = next(left)[x] + next(left)
    for _ in range(network.blocks):
        normal = norm(x)
        q, k, v = heads(normal), heads(normal), heads(normal)
        scores = q @ k.transpose(2, 3) / q.shape[-1] ** 0.5
        mixed = torch.softmax(scores, -1) @ v
        x = x + torch.einsum("bhqs,hsw->bqw", mixed, next(left)) + next(left)
        wide = norm(x) @ next(left) + next(left)
        wide = wide * 0.5 * (1 + torch.erf(wide / 2**0.5))
        x = x + wide @ next(left) + next(left)
    x = norm(x)
    return x @ next(left) + next(left)
