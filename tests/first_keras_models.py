# SPDX-License-Identifier: MIT
"""Models of the first Keras of the IPU, and data for them."""

import numpy as np
import pytest

from ipu import keras, tf
from ipu.drop_in import first_keras
from ipu.ipu_strategy import IPUStrategy

RNG = np.random.default_rng(3)
X = RNG.normal(size=(48, 4)).astype(np.float32)
Y = X @ np.array([[1.0], [-1.0], [0.5], [2.0]], np.float32)
BATCH = 4
RATE = 0.02


@pytest.fixture(autouse=True)
def strategy():
    with IPUStrategy().scope() as one:
        yield one


def functional(optimizer=None, metrics=None, **kwargs):
    inputs = keras.Input((4,))
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(inputs)
    model = first_keras.Model(inputs, outputs, **kwargs)
    model.compile(optimizer or keras.optimizers.SGD(RATE), "mse", metrics=metrics)
    return model


def stacked(optimizer=None, metrics=None, units=1, **kwargs):
    layer = keras.layers.Dense(units, kernel_initializer="ones")
    model = first_keras.Sequential([layer], **kwargs)
    model.compile(optimizer or keras.optimizers.SGD(RATE), "mse", metrics=metrics)
    return model


def batches(x=X, y=Y, size=BATCH):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(size, drop_remainder=True)
