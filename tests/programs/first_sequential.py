"""The stack of `ipu.keras`, trained on a data set without end (first generation)."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

rng = np.random.default_rng(5)
pictures = rng.random((64, 28, 28), np.float32)
labels = (pictures[:, 14, 14] * 10).astype(np.int32)


def data():
    pairs = tf.data.Dataset.from_tensor_slices((pictures, labels))
    pairs = pairs.cache().repeat().batch(4, drop_remainder=True)
    return pairs.map(lambda x, y: (tf.cast(x, tf.float32), tf.cast(y, tf.int32)))


cfg = ipu.utils.create_ipu_config()
cfg = ipu.utils.auto_select_ipus(cfg, 1)
ipu.utils.configure_ipu_system(cfg)

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = ipu.keras.Sequential(
        [
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(16, activation="relu"),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    model.compile(
        loss=tf.keras.losses.SparseCategoricalCrossentropy(),
        optimizer=tf.keras.optimizers.SGD(0.01),
    )
    history = model.fit(data(), steps_per_epoch=2000, epochs=4, verbose=0)

print(
    json.dumps(
        {
            "losses": history.history["loss"],
            "keys": list(history.history),
            "updates": int(model.optimizer.iterations),
        }
    )
)
