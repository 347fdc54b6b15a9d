"""A step at a time from Python, model and optimizer as arguments (SDK 1.4)."""

import json

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

STEPS = 30

cfg = ipu.utils.create_ipu_config(profiling=False)
cfg = ipu.utils.auto_select_ipus(cfg, 1)
ipu.utils.configure_ipu_system(cfg)

rng = np.random.RandomState(0)
images = rng.rand(16, 6, 6).astype(np.float32)
labels = (images.mean(axis=(1, 2)) > 0.5).astype(np.float32)


def create_dataset():
    ds = tf.data.Dataset.from_tensor_slices((images, labels))
    ds = ds.batch(16, drop_remainder=True)
    ds = ds.map(lambda x, y: (tf.cast(x, tf.float32), tf.cast(y, tf.int32)))
    return ds.repeat()


def create_model():
    return keras.models.Sequential(
        [
            keras.layers.Flatten(),
            keras.layers.Dense(12, activation="relu"),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )


@tf.function
def training_step(features, targets, model, opt):
    with tf.GradientTape() as tape:
        predictions = model(features, training=True)
        each = keras.losses.sparse_categorical_crossentropy(targets, predictions)
        loss = tf.reduce_mean(each)
    gradients = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


strategy = ipu.ipu_strategy.IPUStrategy()
losses = []
with strategy.scope():
    model = create_model()
    opt = keras.optimizers.SGD(0.2)
    for (x, y), step in zip(create_dataset(), range(STEPS)):
        loss = strategy.experimental_run_v2(training_step, args=[x, y, model, opt])
        losses.append(float(loss.numpy()))

print(
    json.dumps(
        {
            "losses": losses,
            "variables": len(model.trainable_variables),
            "steps": int(opt.iterations),
        }
    )
)
