# SPDX-License-Identifier: MIT
"""Models and data whose last batch is smaller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ipu import keras, tf

N, FEATURES, CLASSES, BATCH = 45, 6, 3, 8
_GRID = np.arange(N * FEATURES, dtype=np.float32).reshape(N, FEATURES)
X = np.sin(_GRID * 1.7)
Y = (np.arange(N) * 7 % CLASSES).astype(np.int32)
layers = keras.layers


def numbered(shape: tuple[int, ...], start: int) -> np.ndarray:
    count = int(np.prod(shape))
    return np.cos(np.arange(start, start + count) * 2.3).reshape(shape).astype("f") / 2


def number_weights(model: Any) -> Any:
    model.set_weights([numbered(w.shape, i) for i, w in enumerate(model.get_weights())])
    return model


def built(k: int = 1, metrics: Any = "accuracy", loss: Any = None, **more: Any) -> Any:
    model = keras.Sequential(
        [
            layers.Dense(5, activation="tanh", input_shape=(FEATURES,)),
            layers.Dense(CLASSES),
        ]
    )
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=metrics if isinstance(metrics, list) else [metrics],
        steps_per_execution=k,
        **more,
    )
    return number_weights(model)


def fitted(model: Any, *args: Any, **more: Any) -> dict[str, list[float]]:
    """The history of a fit, and a sum of the weights after it."""
    more = {"batch_size": BATCH, "shuffle": False, "verbose": 0, "epochs": 2, **more}
    history = dict(model.fit(*args, **more).history)
    total = sum(float(np.abs(w).sum()) for w in model.get_weights())
    return {**history, "weights": [total]}


def pairs(*arrays: np.ndarray) -> Any:
    return tf.data.Dataset.from_tensor_slices(arrays or (X, Y))


def generated(lengths: tuple[int, ...] = (8, 8, 5, 8, 3)) -> Any:
    """Batches of any length, whose number is not known."""

    def batches() -> Iterator[Any]:
        start = 0
        for length in lengths:
            yield X[start : start + length], Y[start : start + length]
            start += length

    signature = (
        tf.TensorSpec((None, FEATURES), tf.float32),
        tf.TensorSpec((None,), tf.int32),
    )
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


def arrays() -> Any:
    return fitted(built(), X, Y)
