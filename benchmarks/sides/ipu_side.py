# SPDX-License-Identifier: MIT
"""ipu: Model.fit with steps_per_execution, a loop on the device, and tf.data alone."""

from __future__ import annotations

import importlib
import statistics
import time
from typing import Any

from benchmarks.jobs import (
    LEARNING_RATE,
    MOMENTUM,
    SHUFFLE_BUFFER,
    Data,
    Job,
    Order,
)
from benchmarks.sides import keras_networks
from benchmarks.sides.harness import Side, main


class IpuSide(Side):
    """Variants `fit`, `loop` and `draw`.

    The data set of `fit` holds the shared permutation, a batch an element; its map
    function gathers the rows from the preloaded array, in C. In `loop` the array is a
    variable of the device, and the rows are gathered by the program itself.
    """

    def load(self, order: Order) -> str:
        self.ipu: Any = importlib.import_module("ipu")
        # Modules that are loaded when they are first used belong to the import.
        _ = self.ipu.keras.Sequential, self.ipu.tf.data.Dataset
        self.ipu.set_num_threads(order.threads)
        return f"ipu {self.ipu.__version__}"

    def build(self, order: Order, data: Data) -> None:
        tf = self.ipu.tf
        self.job = order.job
        self.data = data
        self.compile_s = 0.0
        self.variant = order.variant
        config = self.ipu.config.IPUConfig()
        config.auto_select_ipus = 1
        config.configure_ipu_system()
        self.strategy = self.ipu.ipu_strategy.IPUStrategy()
        if order.job.kind in ("train", "forward"):
            rows = data.order.reshape(-1, order.job.batch)
            self.dataset = tf.data.Dataset.from_tensor_slices(rows).repeat()
        else:
            self.dataset = tutorial_pipeline(tf, data, order.job.batch)
        if order.variant == "draw":
            self.batches = iter(self.dataset)
            return
        with self.strategy.scope():
            if order.variant == "loop":
                self.build_loop(data)
                return
            if order.job.kind == "train":
                x, y = tf.constant(data.x), tf.constant(data.y)
                self.dataset = self.dataset.map(
                    lambda rows: (tf.gather(x, rows), tf.gather(y, rows))
                )
            self.model = build_model(self.ipu.keras, order.job, data)

    def build_loop(self, data: Data) -> None:
        ipu, tf = self.ipu, self.ipu.tf
        x = tf.Variable(data.x, trainable=False)
        y = tf.Variable(data.y, trainable=False)
        trains = self.job.kind == "train"
        if self.job.network:
            model = build_model(ipu.keras, self.job, data)
            weights = model.trainable_variables
        else:
            model = None
            weights = [tf.Variable(w) for w in data.weights]
        optimizers = importlib.import_module("ipu.keras.optimizers")
        optimizer = optimizers.SGD(LEARNING_RATE, momentum=MOMENTUM)
        if trains:
            optimizer._create_all_weights(weights)
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(self.dataset)
        self.losses = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

        def step(rows: Any) -> None:
            inputs, labels = tf.gather(x, rows), tf.gather(y, rows)
            if model is not None:
                inputs = model(inputs, training=trains)
            for index in range(0, 0 if model else len(weights), 2):
                inputs = tf.matmul(inputs, weights[index]) + weights[index + 1]
                if index + 2 < len(weights):
                    inputs = tf.nn.relu(inputs)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=labels, logits=inputs
                )
            )
            if trains:
                gradients = tf.gradients(loss, weights)
                optimizer.apply_gradients(zip(gradients, weights, strict=True))
            self.losses.enqueue(loss)

        def loop() -> None:
            ipu.loops.repeat(self.job.steps, step, infeed_queue=infeed)

        function = importlib.import_module("ipu.tf._functions.function").DeviceFunction
        self.loop = function(loop)
        start = time.perf_counter()
        self.loop.traced()
        self.compile_s = time.perf_counter() - start
        _ = infeed.initializer

    def run(self, executions: int) -> list[float]:
        steps = self.job.steps
        if self.variant == "draw":
            for _ in range(steps * executions):
                next(self.batches)
            return []
        with self.strategy.scope():
            if self.variant == "loop":
                losses: list[float] = []
                for _ in range(executions):
                    self.loop()
                    losses = self.losses.dequeue().numpy().tolist()
                return losses
            history = self.model.fit(
                self.dataset, epochs=1, steps_per_epoch=steps * executions, verbose=0
            )
        return [float(loss) for loss in history.steps["loss"][-steps:]]

    def details(self) -> dict[str, Any]:
        if self.variant == "fit" and self.job.kind == "train":
            self.compile_s = statistics.median(self.fit_once_s() for _ in range(3))
            return {"compile": ["fit of one step on a new model", self.compile_s]}
        if self.variant == "loop":
            return {"compile": ["trace and compile", self.compile_s]}
        return {}

    def fit_once_s(self) -> float:
        """Tracing and compiling, and all else that a call of `fit` does once.

        The loop is traced once whatever the number of its steps.
        """
        data, batch = self.data, self.job.batch
        dataset = self.ipu.tf.data.Dataset.from_tensors(
            (data.x[:batch], data.y[:batch])
        )
        dataset = dataset.repeat()
        with self.strategy.scope():
            model = build_model(self.ipu.keras, self.job, data, steps=1)
            start = time.perf_counter()
            model.fit(dataset, epochs=1, steps_per_epoch=1, verbose=0)
            return time.perf_counter() - start


def tutorial_pipeline(tf: Any, data: Data, batch: int) -> Any:
    """The tutorial's input pipeline, word for word, on the shared arrays."""
    dataset = tf.data.Dataset.from_tensor_slices((data.x, data.y))
    dataset = dataset.shuffle(SHUFFLE_BUFFER).batch(batch, drop_remainder=True)
    dataset = dataset.map(lambda x, y: (tf.cast(x, tf.float32), y))
    return dataset.repeat()


def build_model(keras: Any, job: Job, data: Data, steps: int = 0) -> Any:
    """The job's model with the shared weights, compiled."""
    if job.network:
        model = keras_networks.make(keras, job.network)
    else:
        layers = [keras.Input((job.layers[0],))]
        layers += [keras.layers.Dense(n, activation="relu") for n in job.layers[1:-1]]
        layers += [keras.layers.Dense(job.layers[-1])]
        model = keras.Sequential(layers)
    model.set_weights(data.weights)
    model.compile(
        optimizer=keras.optimizers.SGD(LEARNING_RATE, momentum=MOMENTUM),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=steps or job.steps,
    )
    return model


if __name__ == "__main__":
    main(IpuSide())
