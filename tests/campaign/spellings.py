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

    def fit(self, model: Any, epochs: int = EPOCHS) -> Any:
        """Train with arrays."""
        given = {"batch_size": self.batch, "shuffle": False, "verbose": 0}
        model.fit(self.x, self.y, epochs=epochs, **given)
        return model

    def given(self) -> tuple[Any, ...]:
        """Give what each way of training takes after the model."""
        return self.x, self.y, self.batch, EPOCHS


def of_a_data_set(model: Any, x: Any, y: Any, batch: int, epochs: int) -> Any:
    """Train by a data set of whole batches."""
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch, drop_remainder=True)
    model.fit(data, epochs=epochs, verbose=0)
    return model


def batches_of(x: Any, y: Any, batch: int, epochs: int) -> Iterator[tuple[Any, Any]]:
    """Give the batches of all epochs."""
    for _ in range(epochs):
        for k in range(0, len(x), batch):
            yield x[k : k + batch], y[k : k + batch]


def by_batches(model: Any, x: Any, y: Any, batch: int, epochs: int) -> Any:
    """Train by `train_on_batch`."""
    for own_x, own_y in batches_of(x, y, batch, epochs):
        model.train_on_batch(own_x, own_y)
    return model


def by_a_tape(model: Any, x: Any, y: Any, batch: int, epochs: int) -> Any:
    """Train by a step of one's own: the mean squared error and the model's losses."""

    @tf.function
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            predicted = model(x, training=True)
            loss = tf.reduce_mean(keras.losses.mean_squared_error(y, predicted))
            loss = tf.add_n([loss, *model.losses])
        weights = model.trainable_variables
        pairs = zip(tape.gradient(loss, weights), weights, strict=True)
        model.optimizer.apply_gradients(pairs)

    for own_x, own_y in batches_of(x, y, batch, epochs):
        step(tf.constant(own_x), tf.constant(own_y))
    return model


def from_a_file(t: Training) -> Any:
    """Half of it, then a model that is read from a file goes on."""
    model = t.fit(t.model(t.steps), 1)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.keras")
        model.save(path)
        return t.fit(keras.models.load_model(path), EPOCHS - 1)


WAYS: dict[str, Callable[[Training], Any]] = {
    "steps at once": lambda t: t.fit(t.model(t.steps)),
    "a data set": lambda t: of_a_data_set(t.model(t.steps), *t.given()),
    "train_on_batch": lambda t: by_batches(t.model(), *t.given()),
    "a tape": lambda t: by_a_tape(t.model(), *t.given()),
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
