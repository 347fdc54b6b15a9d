"""A loop of one's own, with ops of Keras, a tape and metrics that are reset."""

import json
import time

import keras
import numpy as np
import tensorflow as tf
from keras import ops

keras.utils.set_random_seed(812)
x = np.random.rand(200, 12).astype("float32")
y = (x.sum(axis=1) > 6).astype("int64")
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(32)
valid = tf.data.Dataset.from_tensor_slices((x[:50], y[:50])).batch(32)

inputs = keras.Input(shape=(12,), name="rows")
h = keras.layers.Dense(16, activation="relu")(inputs)
h = ops.concatenate([h, ops.square(h)], axis=-1)
outputs = keras.layers.Dense(2)(h)
model = keras.Model(inputs=inputs, outputs=outputs)

optimizer = keras.optimizers.Adam(learning_rate=1e-2)
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
train_metric = keras.metrics.SparseCategoricalAccuracy()
valid_metric = keras.metrics.SparseCategoricalAccuracy()
running = keras.metrics.Mean(name="loss")


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        value = loss_fn(y, logits) + sum(model.losses)
    grads = tape.gradient(value, model.trainable_weights)
    optimizer.apply(grads, model.trainable_weights)
    train_metric.update_state(y, logits)
    running.update_state(value)
    return value


@tf.function
def test_step(x, y):
    valid_metric.update_state(y, model(x, training=False))


epochs = []
for epoch in range(6):
    start = time.time()
    for step, (x_batch, y_batch) in enumerate(train):
        loss_value = train_step(x_batch, y_batch)
        if step % 100 == 0:
            print(f"Training loss at step {step}: {float(loss_value):.4f}")
    for x_batch, y_batch in valid:
        test_step(x_batch, y_batch)
    epochs.append(float(running.result()))
    print(
        f"Epoch {epoch}: accuracy {float(train_metric.result()):.4f}, validation "
        f"{float(valid_metric.result()):.4f}, {time.time() - start:.2f}s"
    )
    last = float(valid_metric.result())
    train_metric.reset_state()
    valid_metric.reset_state()
    running.reset_state()
print(
    json.dumps(
        {
            "loss": epochs,
            "accuracy": last,
            "steps": int(optimizer.iterations),
            "rate": float(optimizer.learning_rate),
        }
    )
)
