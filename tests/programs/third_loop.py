"""A training loop that runs on the device, with Keras of its own (SDK 3.4)."""

import json

import keras
import numpy as np
import tensorflow.compat.v2 as tf
from tensorflow.python import ipu

STEPS = 16

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

rng = np.random.default_rng(0)
x = rng.normal(size=(32, 4)).astype(np.float32)
y = x @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)

strategy = ipu.ipu_strategy.IPUStrategyV1()
queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

with strategy.scope():
    inputs = keras.layers.Input(shape=(4,))
    outputs = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")(inputs)
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizer_v2.gradient_descent.SGD(0.1)

    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(32, drop_remainder=True)
    iterator = iter(dataset.repeat())

    @tf.function(jit_compile=True)
    def train(iterator):
        for _ in tf.range(STEPS):
            features, targets = next(iterator)
            with tf.GradientTape() as tape:
                errors = model(features) - targets
                loss = tf.reduce_mean(tf.square(errors))
            (gradient,) = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients([(gradient, model.trainable_variables[0])])
            queue.enqueue(loss)

    strategy.run(train, args=[iterator])

losses = [float(one) for one in queue.dequeue()]

# the same steps in NumPy
kernel = np.zeros((4, 1), np.float64)
expected = []
for _ in range(STEPS):
    error = x @ kernel - y
    expected.append(float(np.mean(error**2)))
    kernel -= 0.1 * 2.0 * x.T @ error / len(x)

print(
    json.dumps(
        {
            "losses": losses,
            "expected": expected,
            "kernel": model.get_weights()[0].ravel().tolist(),
            "expected_kernel": kernel.ravel().tolist(),
        }
    )
)
