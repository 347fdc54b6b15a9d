# SPDX-License-Identifier: MIT
"""Keras on TensorFlow: Model.fit with steps_per_execution, as a Keras user runs it."""

from __future__ import annotations

import importlib
import os
from typing import Any

from benchmarks.jobs import LEARNING_RATE, MOMENTUM, Data, Order
from benchmarks.sides import keras_networks
from benchmarks.sides.harness import Side, main
from benchmarks.sides.tensorflow_side import import_tensorflow, tutorial_pipeline


class KerasSide(Side):
    """Variants `fit`, with Keras's own choice of `jit_compile`, and `plain`, without
    it: TensorFlow's own kernels."""

    def load(self, order: Order) -> str:
        os.environ["KERAS_BACKEND"] = "tensorflow"
        self.tf: Any = import_tensorflow(order)
        self.keras: Any = importlib.import_module("keras")
        return f"keras {self.keras.__version__}, tensorflow {self.tf.__version__}"

    def build(self, order: Order, data: Data) -> None:
        tf, keras, job = self.tf, self.keras, order.job
        self.steps = job.steps
        self.trains = job.kind != "forward"
        self.initial = data.weights
        if job.kind == "fit":
            self.dataset = tutorial_pipeline(tf, data, job.batch)
        else:
            x, y = tf.constant(data.x), tf.constant(data.y)
            rows = data.order.reshape(-1, job.batch)
            batches = tf.data.Dataset.from_tensor_slices(rows).repeat()
            batches = batches.map(lambda row: (tf.gather(x, row), tf.gather(y, row)))
            self.dataset = batches.prefetch(tf.data.AUTOTUNE)
        if job.network:
            self.model = keras_networks.make(keras, job.network)
        else:
            sizes = job.layers
            layers = [keras.Input((sizes[0],))]
            layers += [keras.layers.Dense(n, activation="relu") for n in sizes[1:-1]]
            self.model = keras.Sequential([*layers, keras.layers.Dense(sizes[-1])])
        self.model.set_weights(data.weights)
        self.model.compile(
            optimizer=keras.optimizers.SGD(LEARNING_RATE, momentum=MOMENTUM),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=self.steps,
            jit_compile="auto" if order.variant == "fit" else False,
        )

    def run(self, executions: int) -> list[float]:
        """One epoch of so many executions; every call draws the data from its start."""
        return [self.pass_through(self.dataset, self.steps * executions)]

    def pass_through(self, dataset: Any, steps: int) -> float:
        """The mean loss."""
        if not self.trains:
            return float(self.model.evaluate(dataset, steps=steps, verbose=0))
        history = self.model.fit(dataset, epochs=1, steps_per_epoch=steps, verbose=0)
        return float(history.history["loss"][-1])

    def mean_of_first(self, steps: int) -> float:
        """A shorter data set of the same elements, through the same compiled loop."""
        self.model.set_weights(self.initial)
        for variable in self.model.optimizer.variables[2:]:
            variable.assign(self.keras.ops.zeros_like(variable))
        return self.pass_through(self.dataset.take(steps), steps)


if __name__ == "__main__":
    main(KerasSide())
