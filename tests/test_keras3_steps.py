# SPDX-License-Identifier: MIT
"""Losses and metrics that a subclass of ``Model`` computes, as with Keras 3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

_X = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
_Y = _X.sum(axis=1, keepdims=True)


def _ends(penalty: Any = None) -> tuple[Any, Any]:
    x = keras.Input((4,))
    return x, keras.layers.Dense(1, kernel_regularizer=penalty)(x)


class OwnLoss(keras.Model):
    """A loss, its mean and the list of metrics are the user's; compile has none."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def compute_loss(self, x, y, y_pred, sample_weight, training=True):
        loss = tf.reduce_mean((y_pred - y) ** 2) + tf.reduce_sum(self.losses)
        self.loss_tracker.update_state(loss)
        return loss

    def reset_metrics(self):
        self.loss_tracker.reset_state()

    @property
    def metrics(self):
        return [self.loss_tracker]


class OwnStep(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=y_pred)
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, self.trainable_weights)
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, y_pred)
        return {metric.name: metric.result() for metric in self.metrics}


class More(keras.Model):
    """Both add to what the base class gives."""

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **how):
        loss = super().compute_loss(x, y, y_pred, sample_weight, **how)
        return loss + (1.0 if how["training"] else 2.0)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        results = super().compute_metrics(x, y, y_pred, sample_weight)
        return {**results, "mean_input": tf.reduce_mean(x)}


def _mse(model: keras.Model) -> float:
    return float(((model.predict(_X, verbose=0) - _Y) ** 2).mean())


def test_a_loss_of_the_users_own_needs_none_of_compile() -> None:
    model = OwnLoss(*_ends("l2"))
    model.compile("sgd")
    losses = model.fit(_X, _Y, batch_size=8, epochs=3, verbose=0).history["loss"]
    assert losses[2] < losses[0]
    penalty = 0.01 * float((model.get_weights()[0] ** 2).sum())
    assert model.evaluate(_X, _Y, verbose=0) == pytest.approx(_mse(model) + penalty)


def test_a_step_of_the_users_own_lists_the_metrics_of_compile() -> None:
    model = OwnStep(*_ends())
    model.compile("sgd", "mse", metrics=["mae"])
    history = model.fit(_X, _Y, batch_size=8, epochs=2, verbose=0).history
    assert list(history) == ["loss", "mae"]
    assert history["loss"][1] < history["loss"][0]


@pytest.mark.parametrize("is_eager", [False, True])
def test_the_shown_loss_is_what_the_subclass_gave(is_eager: bool) -> None:
    model = More(*_ends())
    model.compile("sgd", "mse", metrics=["mae"], run_eagerly=is_eager)
    before = _mse(model)
    # parts of 10 count for as many rows as they have
    results = model.evaluate(_X, _Y, batch_size=10, verbose=0, return_dict=True)
    assert results["loss"] == pytest.approx(before + 2.0, rel=1e-5)
    assert list(results) == ["loss", "mae", "mean_input"]
    history = model.fit(_X, _Y, batch_size=24, verbose=0).history
    assert history["loss"] == pytest.approx([before + 1.0], rel=1e-5)
    assert model.get_metrics_result().keys() == {"loss", "mae"}


def test_gradients_are_accumulated_of_the_subclass_loss() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = More(*_ends())
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=2
        )
        model.compile("sgd", "mse", steps_per_execution=4)
        assert model.fit(_X, _Y, batch_size=6, verbose=0).history["loss"][0] > 1.0


def test_a_pipelined_model_refuses_them() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        x = keras.Input((4,))
        with ipu.keras.PipelineStage(0):
            y = keras.layers.Dense(4)(x)
        with ipu.keras.PipelineStage(1):
            y = keras.layers.Dense(1)(y)
        model = More(x, y)
        model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        model.compile("sgd", "mse", steps_per_execution=4)
        with pytest.raises(RuntimeError, match="compute_loss` of More has been"):
            model.fit(_X, _Y, batch_size=6, verbose=0)


def test_what_compile_was_told_can_be_told_again() -> None:
    model = keras.Model(*_ends())
    model.compile(keras.optimizers.Adam(0.25), "mse", metrics=["mae"])
    other = keras.Model(*_ends())
    other.compile_from_config(model.get_compile_config())
    assert float(other.optimizer.learning_rate) == 0.25
    assert len(other.evaluate(_X, _Y, batch_size=12, verbose=0)) == 2
