# SPDX-License-Identifier: MIT
"""Two spellings of one training give the same bits, whatever is drawn at random."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from campaign.spellings import by_a_tape, by_batches, of_a_data_set

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

L = keras.layers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4, 3)).astype(np.float32)
X[:, 2:] *= RNG.random((24, 2, 1)) > 0.5  # steps that `Masking` leaves out
Y = RNG.normal(size=(24, 2)).astype(np.float32)
BATCH = 4


class Repeated(keras.layers.Layer):
    """A loop of the user's that draws in each turn."""

    def call(self, inputs: Any, training: Any = None) -> Any:
        def turn(k: Any, x: Any) -> Any:
            return k + 1, tf.nn.dropout(x, 0.2) if training else x

        return tf.while_loop(
            lambda k, x: k < 3, turn, (tf.constant(0), inputs), maximum_iterations=3
        )[1]


class Unsteady(keras.Sequential):
    """A step with a loop of its own."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        for _ in tf.range(2):
            x = x + tf.random.normal(tf.shape(x), stddev=0.1)
        return super().train_step((x, y))


class Recomputed(keras.Sequential):
    """Layers that are computed again when their gradients are."""

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:
        def layers(x: Any) -> Any:
            return super(Recomputed, self).call(x, training=training, mask=mask)

        return tf.recompute_grad(layers)(inputs)


# name -> layers; the first ones take (4, 3)
MODELS: dict[str, Callable[[], list[Any]]] = {
    "plain": lambda: [L.Flatten(), L.BatchNormalization(), L.Dense(5, "relu")],
    "drops": lambda: [L.Flatten(), L.Dropout(0.5), L.GaussianNoise(0.1)],
    "lstm": lambda: [L.LSTM(3, dropout=0.3)],
    "lstm_steps": lambda: [L.LSTM(3, dropout=0.2, recurrent_dropout=0.3)],
    "gru_steps": lambda: [L.GRU(3, recurrent_dropout=0.3), L.Dropout(0.3)],
    "unrolled": lambda: [L.GRU(3, recurrent_dropout=0.3, unroll=True), L.Dropout(0.3)],
    "masked": lambda: [L.Masking(), L.SimpleRNN(3), L.Dropout(0.5)],
    "both_ways": lambda: [
        L.Masking(),
        L.Bidirectional(L.GRU(2, recurrent_dropout=0.3)),
        L.Dropout(0.5),
    ],
    "cells": lambda: [
        L.RNN([L.LSTMCell(3, dropout=0.2), L.GRUCell(2, recurrent_dropout=0.2)]),
        L.Dropout(0.2),
    ],
    "pictures": lambda: [
        L.Reshape((2, 2, 3, 1)),
        L.ConvLSTM2D(2, 1, recurrent_dropout=0.3, dropout=0.2),
        L.Flatten(),
        L.Dropout(0.3),
    ],
    "steps": lambda: [
        L.TimeDistributed(L.Dropout(0.3)),
        L.LSTM(2, recurrent_dropout=0.2),
    ],
    "own_loop": lambda: [Repeated(), L.Flatten(), L.Dropout(0.2)],
}


def model_of(name: str, steps: int | None = None, kind: Any = keras.Sequential) -> Any:
    tf.random.set_seed(7)
    model = kind([keras.Input((4, 3)), *MODELS[name](), L.Dense(2)])
    optimizer = keras.optimizers.SGD(0.1, 0.9)
    model.compile(optimizer, "mse", metrics=["mae"], steps_per_execution=steps)
    return model


def fit(model: Any, epochs: int = 2) -> Any:
    model.fit(X, Y, BATCH, epochs=epochs, shuffle=False, verbose=0)
    return model


GIVEN = (X, Y, BATCH, 2)
SPELLINGS: dict[str, Callable[[str], Any]] = {
    "steps of their own": lambda name: fit(model_of(name)),
    "all steps at once": lambda name: fit(model_of(name, 6)),
    "two fits": lambda name: fit(fit(model_of(name, 2), 1), 1),
    "a data set": lambda name: of_a_data_set(model_of(name, 3), *GIVEN),
    "train_on_batch": lambda name: by_batches(model_of(name), *GIVEN),
    "a loop of one's own": lambda name: by_a_tape(model_of(name), *GIVEN),
    "recomputed": lambda name: fit(model_of(name, 6, Recomputed)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scope", [False, True])
def test_the_same_bits(name: str, scope: bool) -> None:
    kept = fit(model_of(name, 1))
    for spelling, train in SPELLINGS.items():
        if scope and spelling in ("steps of their own", "a loop of one's own"):
            continue
        with IPUStrategy().scope() if scope else nullcontext():
            found = train(name)
        # as in TensorFlow, what is recomputed writes its moving averages twice
        is_trained = spelling == "recomputed"
        weights = [
            model.trainable_weights if is_trained else model.weights
            for model in (kept, found)
        ]
        for one, other in zip(*weights, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy(), spelling)


def test_a_loop_in_a_step_of_training() -> None:
    expected = fit(model_of("drops", 6, Unsteady)).get_weights()
    found = by_batches(model_of("drops", None, Unsteady), *GIVEN).get_weights()
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_steps_at_once_where_nothing_is_drawn() -> None:
    expected = fit(model_of("plain")).get_weights()
    model = model_of("plain")
    model.run_eagerly = True
    for one, other in zip(expected, fit(model).get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_names_of_other_generations_are_there_natively():
    """One table serves both ways."""
    source = """
import ipu.cross_replica_optimizer
from ipu import keras
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.keras.ipu.extensions import PipelineStage
from ipu.nn_ops import gelu

assert ipu.optimizers.GradientAccumulationReductionMethod is Method
assert ipu.IPUInfeedQueue is ipu.ipu_infeed_queue.IPUInfeedQueue
assert ipu.function is ipu.outlined_function
assert keras.ipu.PipelineStage is PipelineStage is ipu.keras.PipelineStage
assert keras.layers.CTCPredictionsLayer is ipu.layers.CTCPredictionsLayer
assert ipu.keras.PipelineSequential is keras.PipelineSequential
assert gelu is ipu.nn_ops.gelu
assert not hasattr(ipu, "nothing") and not hasattr(keras.layers, "nothing")
try:
    import ipu.nothing
except ModuleNotFoundError:
    pass
"""
    subprocess.run([sys.executable, "-c", source], check=True, timeout=60)
