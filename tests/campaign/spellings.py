# SPDX-License-Identifier: MIT
"""Random models, trained in several ways that must give the same bits."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from test_random_keras_pipelines import random_model

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

BATCHES, EPOCHS = 4, 2


class Training:
    """A model, an optimizer and data that stand for a seed."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.seed = seed
        self.batch = rng.choice([1, 2, 3, 8])
        self.steps = rng.choice([1, 2, 4])
        self.optimizer = rng.choice(["SGD", "Adam", "RMSprop", "Adagrad"])
        data = np.random.default_rng(seed)
        self.x = data.normal(size=(self.batch * BATCHES, 6)).astype(np.float32)
        self.y = data.normal(size=(self.batch * BATCHES, 3)).astype(np.float32)

    def model(self, steps: int | None = None) -> Any:
        """Make the model anew, with its first values."""
        keras.utils.set_random_seed(self.seed)
        model = random_model(random.Random(self.seed))
        chosen = getattr(keras.optimizers, self.optimizer)(1e-2)
        model.compile(chosen, "mse", metrics=["mae"], steps_per_execution=steps)
        return model

    def batches(self) -> Iterator[tuple[Any, Any]]:
        """Give the batches of all epochs."""
        for _ in range(EPOCHS):
            for k in range(0, len(self.x), self.batch):
                yield self.x[k : k + self.batch], self.y[k : k + self.batch]

    def fit(self, model: Any, epochs: int = EPOCHS) -> Any:
        """Train with arrays."""
        given = {"batch_size": self.batch, "shuffle": False, "verbose": 0}
        model.fit(self.x, self.y, epochs=epochs, **given)
        return model


def at_once(t: Training) -> Any:
    return t.fit(t.model(t.steps))


def of_a_data_set(t: Training) -> Any:
    data = tf.data.Dataset.from_tensor_slices((t.x, t.y))
    model = t.model(t.steps)
    model.fit(data.batch(t.batch, drop_remainder=True), epochs=EPOCHS, verbose=0)
    return model


def by_batches(t: Training) -> Any:
    model = t.model()
    for x, y in t.batches():
        model.train_on_batch(x, y)
    return model


def by_a_tape(t: Training) -> Any:
    model = t.model()

    @tf.function
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            predicted = model(x, training=True)
            loss = tf.reduce_mean(keras.losses.mean_squared_error(y, predicted))
            loss = tf.add_n([loss, *model.losses])
        weights = model.trainable_variables
        pairs = zip(tape.gradient(loss, weights), weights, strict=True)
        model.optimizer.apply_gradients(pairs)

    for x, y in t.batches():
        step(tf.constant(x), tf.constant(y))
    return model


def from_a_file(t: Training) -> Any:
    """Half of it, then a model that is read from a file goes on."""
    model = t.fit(t.model(t.steps), 1)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.keras")
        model.save(path)
        return t.fit(keras.models.load_model(path), EPOCHS - 1)


WAYS: dict[str, Callable[[Training], Any]] = {
    "steps at once": at_once,
    "a data set": of_a_data_set,
    "train_on_batch": by_batches,
    "a tape": by_a_tape,
    "a file": from_a_file,
}


def check(seed: int) -> None:
    """Train in each way, outside and inside of a strategy."""
    training = Training(seed)
    expected = training.fit(training.model()).get_weights()
    for name, way in WAYS.items():
        for scope in (False, True):
            if scope and name in ("a tape", "a file"):
                continue
            with IPUStrategy().scope() if scope else nullcontext():
                found = way(training).get_weights()
            for number, (one, other) in enumerate(zip(expected, found, strict=True)):
                np.testing.assert_array_equal(
                    one, other, f"seed {seed}, {name}, weight {number}"
                )
