"""A small classifier, and data for it."""

from __future__ import annotations

import numpy as np

from ipu import keras, tf

RNG = np.random.default_rng(11)
SAMPLES, FEATURES, CLASSES, BATCH = 48, 6, 3, 8
X = RNG.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
Y = (X[:, :CLASSES].argmax(1)).astype(np.int32)
STEPS = SAMPLES // BATCH


def classifier(k: int = 1, optimizer: object = "sgd", **kwargs: object) -> keras.Model:
    tf.random.set_seed(1)
    model = keras.Sequential(
        [
            keras.layers.Dense(5, activation="tanh", input_shape=(FEATURES,)),
            keras.layers.Dense(CLASSES),
        ]
    )
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=k,
        **kwargs,
    )
    return model


def batches(repeat: bool = False, cast: str = "float32") -> object:
    data = tf.data.Dataset.from_tensor_slices((X.astype(cast), Y))
    data = data.batch(BATCH, drop_remainder=True)
    return data.repeat() if repeat else data
