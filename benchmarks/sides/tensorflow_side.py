# SPDX-License-Identifier: MIT
"""TensorFlow: the whole loop of steps in one tf.function, compiled by XLA or not."""

from __future__ import annotations

import importlib
import os
from typing import Any

from benchmarks.jobs import LEARNING_RATE, MOMENTUM, SHUFFLE_BUFFER, Data, Order
from benchmarks.sides import keras_networks
from benchmarks.sides.harness import Side, main


def import_tensorflow(order: Order) -> Any:
    """TensorFlow on the CPU, quiet, with the job's number of threads."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    tf: Any = importlib.import_module("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(order.threads)
    tf.config.threading.set_inter_op_parallelism_threads(order.threads)
    return tf


def tutorial_pipeline(tf: Any, data: Data, batch: int) -> Any:
    """The tutorial's input pipeline, word for word, on the shared arrays."""
    dataset = tf.data.Dataset.from_tensor_slices((data.x, data.y))
    dataset = dataset.shuffle(SHUFFLE_BUFFER).batch(batch, drop_remainder=True)
    dataset = dataset.map(lambda x, y: (tf.cast(x, tf.float32), y))
    return dataset.repeat()


class TensorFlowSide(Side):
    """Variants `jit`, `plain` and `draw`."""

    def load(self, order: Order) -> str:
        self.tf: Any = import_tensorflow(order)
        return f"tensorflow {self.tf.__version__}"

    def build(self, order: Order, data: Data) -> None:
        self.order = order
        self.position = 0
        if order.variant == "draw":
            self.batches = iter(tutorial_pipeline(self.tf, data, order.job.batch))
            return
        self.build_training(data)

    def build_training(self, data: Data) -> None:
        tf = self.tf
        self.x, self.y = tf.constant(data.x), tf.constant(data.y)
        self.rows = [tf.constant(rows) for rows in data.order]
        trains = self.order.job.kind == "train"
        if self.order.job.network:
            os.environ["KERAS_BACKEND"] = "tensorflow"
            keras = importlib.import_module("keras")
            model = keras_networks.make(keras, self.order.job.network)
            model.set_weights(data.weights)
            weights = [variable.value for variable in model.trainable_variables]
        else:
            model = None
            weights = [tf.Variable(w) for w in data.weights]
        velocity = [tf.Variable(tf.zeros_like(w)) for w in weights]
        steps = self.order.job.steps

        def loss_of(x: Any, y: Any) -> Any:
            if model is not None:
                x = model(x, training=trains)
            for index in range(0, 0 if model else len(weights), 2):
                x = tf.matmul(x, weights[index]) + weights[index + 1]
                x = tf.nn.relu(x) if index + 2 < len(weights) else x
            return tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
            )

        def train_step(x: Any, y: Any) -> Any:
            if not trains:
                return loss_of(x, y)
            with tf.GradientTape() as tape:
                loss = loss_of(x, y)
            gradients = tape.gradient(loss, weights)
            for w, v, g in zip(weights, velocity, gradients, strict=True):
                v.assign(MOMENTUM * v - LEARNING_RATE * tf.convert_to_tensor(g))
                w.assign_add(v)
            return loss

        def train(x: Any, y: Any, order: Any) -> Any:
            def body(step: Any, losses: Any) -> Any:
                rows = order[step]
                loss = train_step(tf.gather(x, rows), tf.gather(y, rows))
                return step + 1, losses.write(step, loss)

            losses = tf.TensorArray(tf.float32, size=steps)
            start = (tf.constant(0), losses)
            _, losses = tf.while_loop(lambda step, _: step < steps, body, start)
            return losses.stack()

        jit = self.order.variant == "jit"
        self.train = tf.function(train, jit_compile=jit)

    def run(self, executions: int) -> list[float]:
        losses = None
        for _ in range(executions):
            if self.order.variant == "draw":
                for _ in range(self.order.job.steps):
                    next(self.batches)
                continue
            rows = self.rows[self.position % len(self.rows)]
            self.position += 1
            losses = self.train(self.x, self.y, rows)
        if losses is None:
            return []
        return [float(loss) for loss in losses.numpy().tolist()]


if __name__ == "__main__":
    main(TensorFlowSide())
