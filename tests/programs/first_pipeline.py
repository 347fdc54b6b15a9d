"""A functional model in four stages on two IPUs, with a branch (first generation)."""

import json

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import keras as ipu_keras

WORDS, LENGTH, BATCH = 50, 8, 4
UPDATES, EPOCHS = 48, 3

rng = np.random.default_rng(6)
texts = rng.integers(0, WORDS, (32, LENGTH)).astype(np.int32)
labels = (texts[:, 0] < WORDS // 2).astype(np.float32)


def data():
    pairs = tf.data.Dataset.from_tensor_slices((texts, labels)).repeat()
    pairs = pairs.map(lambda x, y: (x, tf.cast(y, tf.int32)))
    return pairs.batch(BATCH, drop_remainder=True)


def create_model():
    inputs = tf.keras.layers.Input(shape=(LENGTH), dtype=tf.int32, batch_size=BATCH)
    with ipu_keras.PipelineStage(0):
        x = tf.keras.layers.Embedding(WORDS, 6)(inputs)
        x = tf.keras.layers.Flatten()(x)
    with ipu_keras.PipelineStage(1):
        a = tf.keras.layers.Dense(8, activation="relu")(x)
    with ipu_keras.PipelineStage(2):
        b = tf.keras.layers.Dense(8, activation="relu")(x)
    with ipu_keras.PipelineStage(3):
        x = tf.keras.layers.Concatenate()([a, b])
        x = tf.keras.layers.Dense(1, activation="sigmoid")(x)
    return ipu_keras.PipelineModel(
        inputs, x, gradient_accumulation_count=16, device_mapping=[0, 1, 1, 0]
    )


cfg = ipu.utils.create_ipu_config()
cfg = ipu.utils.auto_select_ipus(cfg, 2)
ipu.utils.configure_ipu_system(cfg)

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = create_model()
    model.compile(loss="binary_crossentropy", optimizer=tf.keras.optimizers.Adam(0.005))
    history = model.fit(data(), steps_per_epoch=UPDATES, epochs=EPOCHS, verbose=0)

print(
    json.dumps(
        {
            "losses": history.history["loss"],
            "updates": int(model.optimizer.iterations),
            "stages": [a.pipeline_stage for a in model.get_pipeline_stage_assignment()],
            "made_by": type(model).__module__,
        }
    )
)
