# SPDX-License-Identifier: MIT
"""A model and data with all kinds of random numbers, for training that is resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu import keras, tf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(22, 6)).astype(np.float32)
Y = RNG.normal(size=(22, 2)).astype(np.float32)


def model_of() -> Any:
    """Dropout, noise, Adam, and a rate that falls."""
    schedule = keras.optimizers.schedules.ExponentialDecay(0.02, 3, 0.7)
    model = keras.Sequential(
        [
            keras.layers.Dense(8, "relu", input_shape=(6,)),
            keras.layers.Dropout(0.4),
            keras.layers.GaussianNoise(0.1),
            keras.layers.Dense(2),
        ]
    )
    model.compile(keras.optimizers.Adam(schedule), "mse", metrics=["mae"])
    return model


class Batches(keras.utils.Sequence):
    """Five batches, which ``fit`` shuffles."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> Any:
        return X[index * 4 : index * 4 + 4], Y[index * 4 : index * 4 + 4]


def data_set() -> Any:
    """Shuffled rows with noise."""
    rows = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(22)
    noisy = rows.map(lambda x, y: (x + tf.random.normal(tf.shape(x)), y))
    return noisy.batch(4, drop_remainder=True)


DATA: dict[str, Callable[[], dict[str, Any]]] = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": 4},
    "data_set": lambda: {"x": data_set()},
    "sequence": lambda: {"x": Batches()},
    "of_unknown_size": lambda: {"x": data_set().filter(lambda x, y: True)},
}


def train(model: Any, data: dict[str, Any], epochs: int, **kwargs: Any) -> Any:
    """Fit; gives the history."""
    return model.fit(**data, epochs=epochs, verbose=0, **kwargs)


def state_of(model: Any) -> list[Any]:
    """The weights, and the optimizer's variables."""
    return [*model.get_weights(), *model.optimizer.get_weights()]
