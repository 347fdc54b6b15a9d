# SPDX-License-Identifier: MIT
"""Arguments that classes of Keras 2 have since Keras 3.

Numbers in the tests are what Keras 3.15.1 gave for the same arrays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from ipu import keras, tf

RNG = np.random.default_rng(9)
PARTS = RNG.dirichlet(np.ones(3), (4, 5)).astype("f")
NUMBERS = RNG.integers(0, 3, (4, 5))
NUMBERS[RNG.uniform(size=NUMBERS.shape) < 0.3] = 255
WEIGHTS = RNG.uniform(0.2, 2, (4, 5)).astype("f")
KINDS = np.eye(3)[RNG.integers(0, 3, 40)]
SCORES = RNG.dirichlet(np.ones(3), 40).astype("f") * 0.6
SCORES += 0.4 * KINDS.astype("f") * RNG.uniform(size=(40, 1)).astype("f")


@pytest.mark.parametrize("rank", [0, 1])
def test_classes_that_do_not_count(rank: int) -> None:
    labels = NUMBERS[..., None] if rank else NUMBERS
    kind = keras.losses.SparseCategoricalCrossentropy
    loss = kind(ignore_class=255)
    assert float(loss(labels, PARTS)) == pytest.approx(1.6956, abs=2e-5)
    assert float(loss(labels, PARTS, WEIGHTS)) == pytest.approx(1.70413, abs=2e-5)
    total = kind(ignore_class=255, reduction="sum")
    assert float(total(labels, PARTS)) == pytest.approx(32.21635, rel=1e-5)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert float(again(labels, PARTS)) == float(loss(labels, PARTS))
    each = kind(ignore_class=255, reduction=None)(labels, PARTS).numpy()
    assert (each[NUMBERS == 255] == 0).all() and (each[NUMBERS != 255] > 0).all()
    metric = keras.metrics.SparseCategoricalCrossentropy(ignore_class=255)
    metric.update_state(labels, PARTS)
    assert float(metric.result()) == pytest.approx(1.6956, abs=2e-5)
    metric.reset_state()
    metric.update_state(labels, PARTS, WEIGHTS)
    counts = WEIGHTS * (NUMBERS != 255)
    expected = (each * counts).sum() / counts.sum()
    assert float(metric.result()) == pytest.approx(expected, rel=1e-5)
    with pytest.raises(ValueError, match="`ignore_class` must be an integer"):
        kind(ignore_class="void")  # type: ignore[arg-type]


def test_reductions() -> None:
    y, x = np.zeros((2, 1), "f"), np.array([[1.0], [3.0]], "f")
    assert float(keras.losses.MeanSquaredError(reduction="mean")(y, x)) == 5.0
    loss = keras.losses.MeanSquaredError(reduction=None)
    assert loss(y, x).numpy().tolist() == [1.0, 9.0]
    assert loss.get_config()["reduction"] == "none"
    with pytest.raises(ValueError, match="Invalid Reduction Key: 'meen'"):
        keras.losses.MeanSquaredError(reduction="meen")


AT = {
    "PrecisionAtRecall": 0.57895,
    "RecallAtPrecision": 0.46667,
    "SensitivityAtSpecificity": 0.66667,
    "SpecificityAtSensitivity": 0.68,
}


@pytest.mark.parametrize("name", AT)
def test_one_class_at_a_threshold(name: str) -> None:
    metric = getattr(keras.metrics, name)(0.7, class_id=1)
    metric.update_state(KINDS, SCORES)
    assert float(metric.result()) == pytest.approx(AT[name], abs=1e-5)
    assert metric.get_config()["class_id"] == 1
    with pytest.raises(ValueError, match="`class_id` must be an integer of 0 or more"):
        getattr(keras.metrics, name)(0.7, class_id=-1)


def test_negative_slopes() -> None:
    x = tf.constant([-2.0, 2.0])
    layer = keras.layers.LeakyReLU(negative_slope=0.5)
    assert layer(x).numpy().tolist() == [-1.0, 2.0]
    assert layer.get_config()["alpha"] == layer.negative_slope == 0.5
    assert type(layer).from_config(layer.get_config()).alpha == 0.5
    found = keras.activations.relu(x, negative_slope=0.25)
    assert found.numpy().tolist() == [-0.5, 2.0]
    with pytest.raises(ValueError, match="`negative_slope` must be a number"):
        keras.layers.LeakyReLU(negative_slope="a")


@pytest.mark.parametrize("name", ["GaussianNoise", "GaussianDropout"])
def test_noise_from_a_seed(name: str) -> None:
    results = []
    for seed in (3, 3, 4):
        tf.random.set_seed(1)
        layer = getattr(keras.layers, name)(0.5, seed=seed)
        results.append(layer(tf.ones((3, 4)), training=True).numpy())
        assert layer.get_config()["seed"] == seed
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0] != results[2]).any()


def made() -> Any:
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])
    model.compile(keras.optimizers.SGD(0.0), "mse", steps_per_execution=1)
    return model


def test_stopping_begins_late() -> None:
    x, y = np.ones((4, 3), "f"), np.ones((4, 1), "f")
    stop = keras.callbacks.EarlyStopping("loss", patience=1, start_from_epoch=4)
    history = made().fit(x, y, epochs=20, callbacks=[stop], verbose=0)
    assert len(history.epoch) == 6
    with pytest.raises(ValueError, match="`start_from_epoch` must be an integer of 0"):
        keras.callbacks.EarlyStopping(start_from_epoch=-1)


def test_no_number_is_an_error() -> None:
    x, y = np.ones((4, 3), "f"), np.full((4, 1), np.nan, "f")
    stop = keras.callbacks.TerminateOnNaN(raise_error=True)
    with pytest.raises(RuntimeError, match="Batch 0: the loss is nan"):
        made().fit(x, y, epochs=2, callbacks=[stop], verbose=0)


def test_axis_of_classes() -> None:
    y_true = np.moveaxis(np.eye(3, dtype="f")[NUMBERS % 3], -1, 1)
    y_pred = np.moveaxis(PARTS, -1, 1)
    metric = keras.metrics.CategoricalCrossentropy(axis=1)
    expected = -np.mean(np.log((y_true * y_pred).sum(1)))
    assert float(metric(y_true, y_pred)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("use_gate", [False, True])
@pytest.mark.parametrize("window", [None, 2])
def test_attention_through_gates_and_windows(window: Any, use_gate: bool) -> None:
    """With as many heads of keys as of queries both kinds of attention are one."""
    x = RNG.normal(size=(2, 5, 6)).astype("f")
    options = {"sliding_window": window, "use_gate": use_gate}
    one = keras.layers.MultiHeadAttention(4, 3, flash_attention=False, **options)
    other = keras.layers.GroupQueryAttention(3, 4, 4, **options)
    one(x, x), other(x, x)
    other.set_weights(one.get_weights())
    np.testing.assert_array_equal(one(x, x), other(x, x))
    again = type(one).from_config(one.get_config())
    assert again.use_gate is use_gate and again.sliding_window == window
    with pytest.raises(ValueError, match="`sliding_window` must be a positive integer"):
        keras.layers.MultiHeadAttention(4, 3, sliding_window=0)


@pytest.mark.parametrize("use_gate", [False, True])
def test_files_of_attention(use_gate: bool, tmp_path: Path) -> None:
    x = RNG.normal(size=(2, 5, 6)).astype("f")
    place = keras.layers.Input((5, 6))
    layer = keras.layers.MultiHeadAttention(2, 3, use_gate=use_gate)
    model = keras.Model(place, layer(place, place))
    for suffix in (".keras", ".safetensors", ".h5"):
        model.save(tmp_path / f"model{suffix}")
        again = keras.models.load_model(tmp_path / f"model{suffix}")
        np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_keras_2_is_told_what_it_knows(tmp_path: Path) -> None:
    place = keras.layers.Input((5, 6))
    x = keras.layers.GaussianNoise(0.1)(place)
    x = keras.layers.GaussianDropout(0.1, seed=3)(x)
    model = keras.Model(place, keras.layers.MultiHeadAttention(2, 3)(x, x))
    model.compile("sgd", "mse", metrics=[keras.metrics.MeanIoU(2)])
    model.save(tmp_path / "model.h5")
    with h5py.File(tmp_path / "model.h5") as file:
        layers = json.loads(file.attrs["model_config"])["config"]["layers"]
        told = json.loads(file.attrs["training_config"])
    configs = {layer["class_name"]: layer["config"] for layer in layers}
    assert "seed" not in configs["GaussianNoise"]
    assert configs["GaussianDropout"]["seed"] == 3
    assert not {"use_gate", "sliding_window"} & set(configs["MultiHeadAttention"])
    (metric,) = told["metrics"]
    assert set(metric["config"]) == {"name", "dtype", "num_classes"}
    again = keras.models.load_model(tmp_path / "model.h5")
    assert again.layers[1].seed is None
