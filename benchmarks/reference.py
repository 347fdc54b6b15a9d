# SPDX-License-Identifier: MIT
"""The judge of the loss curves: the same training in float64 NumPy, written plainly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks.jobs import LEARNING_RATE, MOMENTUM, Data

# The largest difference that is called agreement: relative to the reference, or
# absolute where the loss is below one. Rounding gives about 3e-7, and up to a few 1e-5
# once it has moved a ReLU's input across zero.
TOLERANCE = 1e-4


def loss_curve(data: Data, steps: int) -> NDArray[np.float64]:
    """The mean softmax cross-entropy of each of the first `steps` steps."""
    weights = [w.astype(np.float64) for w in data.weights]
    velocity = [np.zeros_like(w) for w in weights]
    losses = np.zeros(steps)
    batches = data.order.reshape(-1, data.order.shape[-1])
    last = len(weights) // 2 - 1
    for step in range(steps):
        rows = batches[step % len(batches)]
        labels = data.y[rows]
        outputs = [data.x[rows].astype(np.float64)]
        for layer in range(last + 1):
            z = outputs[-1] @ weights[2 * layer] + weights[2 * layer + 1]
            outputs.append(np.maximum(z, 0.0) if layer < last else z)
        logits = outputs[-1] - outputs[-1].max(axis=1, keepdims=True)
        log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        each = np.arange(len(rows))
        losses[step] = -log_p[each, labels].mean()
        delta = np.exp(log_p)
        delta[each, labels] -= 1.0
        delta /= len(rows)
        for layer in range(last, -1, -1):
            inputs = outputs[layer]
            gradients = (inputs.T @ delta, delta.sum(axis=0))
            if layer > 0:
                delta = (delta @ weights[2 * layer].T) * (inputs > 0.0)
            for offset, gradient in enumerate(gradients):
                v, w = velocity[2 * layer + offset], weights[2 * layer + offset]
                v *= MOMENTUM
                v -= LEARNING_RATE * gradient
                w += v
    return losses


def disagreement(
    measured: list[float], mean: float | None, reference: NDArray[np.float64]
) -> float:
    """The largest relative difference; infinite where a number is missing.

    `mean` is what a side gives that does not tell the loss of every step.
    """
    want = reference
    if mean is not None:
        got, want = np.array([mean]), np.array([want.mean()])
    elif len(measured) < len(want):
        return float("inf")
    else:
        got = np.array(measured[: len(want)])
    worst = np.max(np.abs(got - want) / np.maximum(1.0, np.abs(want)))
    return float(worst) if np.isfinite(worst) else float("inf")
