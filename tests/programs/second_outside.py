"""A training step whose loss is looked at, and clipped, by code of the host (SDK 2)."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

STEPS = 6
seen = []
data = np.linspace(-1.0, 1.0, 16, dtype=np.float32)
dataset = tf.data.Dataset.from_tensor_slices((data, 3.0 * data))
dataset = dataset.batch(4, drop_remainder=True).repeat()


def huber(error):
    """Eager code, with an ordinary Python condition in it."""
    seen.append(float(tf.reduce_max(tf.abs(error))))
    if seen[-1] > 1.0:
        return tf.where(tf.abs(error) > 1.0, 2.0 * tf.abs(error) - 1.0, error * error)
    return error * error


strategy = ipu.ipu_strategy.IPUStrategyV1()
with strategy.scope():
    weight = tf.Variable(0.0)
    iterator = iter(dataset)

    @tf.function(experimental_compile=True)
    def train(iterator):
        for _ in tf.range(STEPS):
            x, y = next(iterator)
            with tf.GradientTape() as tape:
                error = weight * x - y
                with ipu.scopes.outside_compilation_scope():
                    losses = tf.py_function(huber, [error], tf.float32)
                loss = tf.reduce_mean(losses)
            weight.assign_sub(0.3 * tape.gradient(loss, weight))

    strategy.run(train, args=(iterator,))

expected = 0.0
largest = []
for step in range(STEPS):
    x = data[4 * (step % 4) : 4 * (step % 4) + 4].astype(np.float64)
    error = expected * x - 3.0 * x
    largest.append(float(np.abs(error).max()))
    slope = np.where(np.abs(error) > 1.0, 2.0 * np.sign(error), 2.0 * error)
    expected -= 0.3 * float(np.mean(slope * x))

print(
    json.dumps(
        {
            "weight": float(weight.numpy()),
            "expected": expected,
            "seen": seen,
            "largest": largest,
        }
    )
)
