# SPDX-License-Identifier: MIT
"""JAX: jit over lax.scan, weights and velocities donated."""

from __future__ import annotations

import importlib
import os
from typing import Any

from benchmarks.jobs import LEARNING_RATE, MOMENTUM, Data, Order
from benchmarks.sides import jax_networks
from benchmarks.sides.harness import Side, main


class JaxSide(Side):
    """Variant `scan`: one call runs all steps of an execution."""

    def load(self, order: Order) -> str:
        os.environ["JAX_PLATFORMS"] = "cpu"
        self.jax: Any = importlib.import_module("jax")
        self.jnp: Any = importlib.import_module("jax.numpy")
        return f"jax {self.jax.__version__}"

    def build(self, order: Order, data: Data) -> None:
        jax, jnp = self.jax, self.jnp
        self.x, self.y = jnp.asarray(data.x), jnp.asarray(data.y)
        self.rows = [jnp.asarray(rows) for rows in data.order]
        self.position = 0
        self.weights = [jnp.array(w) for w in data.weights]
        self.velocity = [jnp.zeros_like(w) for w in self.weights]

        def dense(weights: Any, x: Any) -> Any:
            for index in range(0, len(weights), 2):
                x = x @ weights[index] + weights[index + 1]
                x = jax.nn.relu(x) if index + 2 < len(weights) else x
            return x

        network = order.job.network
        trains = order.job.kind == "train"
        logits = jax_networks.make(network, trains) if network else dense

        def loss_of(weights: Any, x: Any, y: Any) -> Any:
            log_p = jax.nn.log_softmax(logits(weights, x))
            return -jnp.mean(jnp.take_along_axis(log_p, y[..., None], axis=-1))

        gradient = jax.value_and_grad(loss_of)

        def train(weights: Any, velocity: Any, x: Any, y: Any, order: Any) -> Any:
            def step(carry: Any, rows: Any) -> Any:
                weights, velocity = carry
                if not trains:
                    return carry, loss_of(weights, x[rows], y[rows])
                loss, gradients = gradient(weights, x[rows], y[rows])
                velocity = [
                    MOMENTUM * v - LEARNING_RATE * g
                    for v, g in zip(velocity, gradients, strict=True)
                ]
                weights = [w + v for w, v in zip(weights, velocity, strict=True)]
                return (weights, velocity), loss

            return jax.lax.scan(step, (weights, velocity), order)

        self.train = jax.jit(train, donate_argnums=(0, 1))

    def run(self, executions: int) -> list[float]:
        losses = None
        for _ in range(executions):
            rows = self.rows[self.position % len(self.rows)]
            self.position += 1
            (self.weights, self.velocity), losses = self.train(
                self.weights, self.velocity, self.x, self.y, rows
            )
        self.jax.block_until_ready((self.weights, losses))
        return [float(loss) for loss in losses.tolist()] if losses is not None else []


if __name__ == "__main__":
    main(JaxSide())
