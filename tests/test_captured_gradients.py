# SPDX-License-Identifier: MIT
"""Gradients that layers capture, and optimizers get with the others."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import drop_in, keras, layers as ipu_layers, tf
from ipu.eager.backprop import GradientCaptureContext
from ipu.ipu_strategy import IPUStrategy

Upstream = ipu_layers.CaptureUpstreamGradients
Activation = ipu_layers.CaptureActivationGradients
layers = keras.layers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(32, 5)).astype(np.float32)
Y = RNG.normal(size=(32, 3)).astype(np.float32)
START = [RNG.normal(size=s).astype(np.float32) for s in ((5, 4), (4,), (4, 3), (3,))]


class Noting(keras.optimizers.SGD):
    """Adds up what it is given, in variables."""

    supports_captured_grads = True

    def __init__(self, rate: float, shape: tuple[int, ...]) -> None:
        super().__init__(rate)
        self.tags: list[str] = []
        self.sums = {
            tag: tf.Variable(np.zeros(shape, np.float32)) for tag in ("up", "act_cag")
        }

    def apply_gradients(self, pairs: Any, captured_grads: Any = None, **kw: Any) -> Any:
        self.tags = sorted(captured_grads)
        for tag, gradient in captured_grads.items():
            self.sums[tag].assign_add(gradient)
        return super().apply_gradients(pairs, **kw)


def model_of(kind: str) -> Any:
    dense = layers.Dense(4, "tanh", name="act")
    last = layers.Dense(3)
    if kind == "plain":
        return keras.Sequential([keras.Input((5,)), dense, last])
    return keras.Sequential(
        [keras.Input((5,)), Activation(dense), Upstream(last, tag="up")]
    )


def expected(batch: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Gradients of a mean square error to the result, and to what tanh gets."""
    w, b, v, c = START
    x, y = X[:batch], Y[:batch]
    h = np.tanh(x @ w + b)
    up = 2 * (h @ v + c - y) / y.size
    return up, up @ v.T * (1 - h * h)


@pytest.mark.parametrize("kind", ["plain step", "accumulated", "pipelined"])
def test_fit_hands_on_what_was_captured(kind: str) -> None:
    """With a rate of 0, so that each step captures the same."""
    attach(2 if kind == "pipelined" else 1)
    try:
        with IPUStrategy().scope():
            model = model_of("capturing")
            model.set_weights(START)
            if kind == "pipelined":
                model.set_pipeline_stage_assignment([0, 1])
                model.set_pipelining_options(
                    gradient_accumulation_steps_per_replica=4,
                    gradient_accumulation_for_captured_grads=True,
                )
            elif kind == "accumulated":
                model.set_gradient_accumulation_options(
                    gradient_accumulation_steps_per_replica=4
                )
            if kind != "pipelined":  # a weight that has no gradient
                model.layers[0].add_weight(name="unused", shape=(2,))
            optimizer = Noting(0.0, (8, 3))
            optimizer.sums["act_cag"] = tf.Variable(np.zeros((8, 4), np.float32))
            model.compile(optimizer, "mse", steps_per_execution=4)
            data = tf.data.Dataset.from_tensors((X[:8], Y[:8])).repeat()
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                model.fit(data, steps_per_epoch=4, epochs=1, verbose=0)
            told = [one for one in seen if "Gradients do not exist" in str(one.message)]
            assert len(told) == (kind != "pipelined")
            assert optimizer.tags == ["act_cag", "up"]
            up, of_activation = expected(8)
            np.testing.assert_allclose(optimizer.sums["up"], 4 * up, rtol=1e-4)
            np.testing.assert_allclose(
                optimizer.sums["act_cag"], 4 * of_activation, rtol=1e-4, atol=1e-6
            )
    finally:
        attach(1)


@pytest.mark.parametrize("optimizer", ["sgd", "als"])
def test_training_is_that_of_the_layers_alone(optimizer: str) -> None:
    results = []
    for kind in ("plain", "capturing"):
        model = model_of(kind)
        model.set_weights(START)
        sgd = keras.optimizers.SGD(0.1)
        als = keras.optimizers.ALSOptimizer(sgd, captured_grads_only=True)
        model.compile(sgd if optimizer == "sgd" else als, "mse")
        model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)
        results.append([*model.get_weights(), model.predict(X, batch_size=8)])
        results[-1].append(np.float32(model.evaluate(X, Y, batch_size=8, verbose=0)))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_captures_of_float16_count() -> None:
    model = keras.Sequential(
        [Upstream(layers.Dense(3, dtype="float16"), dtype="float16", tag="a")]
    )
    optimizer = keras.optimizers.ALSOptimizer(
        keras.optimizers.SGD(0.0), captured_grads_only=True
    )
    model.compile(optimizer, "mse", steps_per_execution=4)
    model.fit(X, Y, batch_size=8, epochs=1, verbose=0)
    np.testing.assert_array_equal(optimizer.histogram, [4 * 8 * 3, 0])


def test_layers_outside_of_models() -> None:
    layer = Activation(layers.Dense(2, activation=lambda x: x * x), tag="square")
    layer.build((None, 3))
    layer.set_weights([np.ones((3, 2), np.float32), np.zeros(2, np.float32)])

    def run(x: Any) -> Any:
        with GradientCaptureContext() as context, tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x))
        return tape.gradient(loss, layer.trainable_variables), context

    (gradient, _), context = run(tf.constant([[1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(context.captured_gradients["square"], [[12.0, 12.0]])
    np.testing.assert_array_equal(gradient[:, 0], [12.0, 24.0, 36.0])
    np.testing.assert_array_equal(layer(np.ones((1, 3))), [[9.0, 9.0]])


def test_configurations() -> None:
    for layer in (Upstream(layers.Dense(2)), Activation(layers.Dense(2, "relu"), "x")):
        again = type(layer).from_config(layer.get_config())
        assert again.get_config() == layer.get_config()
        assert type(again.layer) is layers.Dense
    same = ipu_layers.AssumeEqualAcrossReplicas(inplace=True)
    assert same.get_config()["inplace"] is True
    np.testing.assert_array_equal(same(X), X)


@pytest.mark.parametrize("kind", [Upstream, Activation])
def test_what_cannot_be_wrapped(kind: Any) -> None:
    with pytest.raises(ValueError, match="Received: <function"):
        kind(test_configurations)
    if kind is Activation:
        with pytest.raises(ValueError, match="has no activation function"):
            kind(layers.Flatten())


def test_old_programs_find_them() -> None:
    drop_in.install()
    try:
        from ipu_tensorflow_addons.keras.layers import AssumeEqualAcrossReplicas
        from keras.ipu.layers import CaptureUpstreamGradients as served

        assert served is Upstream
        assert AssumeEqualAcrossReplicas is ipu_layers.AssumeEqualAcrossReplicas
    finally:
        drop_in.uninstall()
