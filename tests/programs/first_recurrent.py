"""Words to a pipeline of an embedding and an LSTM (first generation)."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

rng = np.random.default_rng(7)
words = rng.integers(0, 200, (512, 20)).astype(np.int32)
labels = (words[:, :4].sum(1) > 398).astype(np.float32)[:, None]


def data():
    pairs = tf.data.Dataset.from_tensor_slices((words, labels))
    pairs = pairs.repeat().batch(8, drop_remainder=True)
    return pairs.map(lambda x, y: (tf.cast(x, tf.int32), tf.cast(y, tf.float32)))


cfg = ipu.utils.create_ipu_config()
cfg = ipu.utils.auto_select_ipus(cfg, 2)
ipu.utils.configure_ipu_system(cfg)

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = ipu.keras.SequentialPipelineModel(
        [
            [ipu.layers.Embedding(200, 16)],
            [ipu.layers.LSTM(16), tf.keras.layers.Dense(1, activation="sigmoid")],
        ],
        gradient_accumulation_count=16,
    )
    model.compile(loss="binary_crossentropy", optimizer=tf.keras.optimizers.Adam(0.01))
    history = model.fit(data(), steps_per_epoch=48, epochs=6, verbose=0)

print(
    json.dumps(
        {
            "losses": history.history["loss"],
            "updates": int(model.optimizer.iterations),
            "weights": [list(weight.shape) for weight in model.weights],
        }
    )
)
