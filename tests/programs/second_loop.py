"""A training loop that runs on the device, an iterator in it (SDK 2.4)."""

import json

import tensorflow as tf
from tensorflow.python import ipu

STEPS = 20
EPOCHS = 4

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()

tf.random.set_seed(3)


def create_dataset():
    x = tf.random.uniform([64, 8], seed=1)
    y = tf.cast(tf.reduce_sum(x, axis=1) > 4.0, tf.int32)
    ds = tf.data.Dataset.from_tensor_slices((x, y))
    return ds.batch(8, drop_remainder=True).repeat()


def create_model():
    return tf.keras.Sequential(
        [
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(2),
        ]
    )


outfeed_queue = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()

with strategy.scope():
    model = create_model()
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.1)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    iterator = iter(create_dataset())

    @tf.function(jit_compile=True)
    def training_loop(iterator, steps):
        for _ in tf.range(steps):
            features, labels = next(iterator)
            with tf.GradientTape() as tape:
                logits = model(features, training=True)
                loss = loss_fn(labels, logits)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
            outfeed_queue.enqueue(loss)

    means = []
    counts = []
    for _ in range(EPOCHS):
        strategy.run(training_loop, args=(iterator, STEPS))
        losses = [float(loss) for loss in outfeed_queue]
        counts.append(len(losses))
        means.append(sum(losses) / STEPS)
    # the queue is empty after each round
    left = sum(outfeed_queue)

print(json.dumps({"means": means, "counts": counts, "left": float(left)}))
