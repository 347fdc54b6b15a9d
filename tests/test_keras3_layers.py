# SPDX-License-Identifier: MIT
"""Layers and a callback that Keras has since version 3, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

layers = keras.layers
RNG = np.random.default_rng(4)
QUERY = RNG.normal(size=(2, 5, 6)).astype("f")
VALUE = RNG.normal(size=(2, 7, 6)).astype("f")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def filled(layer: Any) -> dict[str, np.ndarray]:
    """Give weights random values; return them by name."""
    values = {}
    for weight in layer.weights:
        weight.assign(RNG.normal(size=weight.shape).astype("f"))
        parts = weight.name.removesuffix(":0").split("/")
        values["/".join(parts[-2:])] = weight.numpy()
    return values


# --- attention


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("use_gate", [True, False])
@pytest.mark.parametrize("shared", [1, 2, 4])
def test_group_query_attention(shared: int, use_gate: bool, use_bias: bool) -> None:
    layer = layers.GroupQueryAttention(
        3, 4, shared, use_bias=use_bias, use_gate=use_gate
    )
    layer(QUERY, VALUE)
    w = filled(layer)

    def heads(name: str, x: np.ndarray) -> np.ndarray:
        result = np.einsum("bsf,fhd->bhsd", x, w[f"{name}/kernel"])
        return result + w[f"{name}/bias"][:, None] if use_bias else result

    q = heads("query", QUERY)
    k, v = (np.repeat(heads(n, VALUE), 4 // shared, 1) for n in ("key", "value"))
    weights = softmax(np.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(3))
    mixed = np.einsum("bhqk,bhkd->bhqd", weights, v)
    if use_gate:
        mixed = mixed / (1 + np.exp(-heads("gate", QUERY)))
    expected = np.einsum("bhqd,hdf->bqf", mixed, w["attention_output/kernel"])
    if use_bias:
        expected = expected + w["attention_output/bias"]
    found, scores = layer(QUERY, VALUE, return_attention_scores=True)
    np.testing.assert_allclose(scores, weights, atol=1e-5)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(layer(QUERY, VALUE), expected, atol=2e-5)
    again = type(layer).from_config(layer.get_config())
    again(QUERY, VALUE)
    again.set_weights(layer.get_weights())
    np.testing.assert_array_equal(again(QUERY, VALUE), layer(QUERY, VALUE))


@pytest.mark.parametrize("is_causal", [True, False])
def test_what_a_query_sees(is_causal: bool) -> None:
    layer = layers.GroupQueryAttention(3, 4, 2, sliding_window=2)
    mask = RNG.uniform(size=(2, 5, 5)) < 0.8
    _, scores = layer(
        QUERY,
        QUERY,
        attention_mask=mask,
        use_causal_mask=is_causal,
        return_attention_scores=True,
    )
    apart = np.arange(5)[:, None] - np.arange(5)
    seen = mask & (np.abs(apart) < 2)
    if is_causal:
        seen &= apart >= 0
    rows = np.broadcast_to(seen.any(-1)[:, None], scores.shape[:-1])
    found = scores.numpy() > 1e-9
    expected = np.broadcast_to(seen[:, None], scores.shape)
    np.testing.assert_array_equal(found[rows], expected[rows])


# --- normalisation


@pytest.mark.parametrize("axis", [-1, 1, [1, 2], [2, 1]])
@pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
def test_rms_normalization(axis: Any, dtype: str) -> None:
    layer = layers.RMSNormalization(axis, epsilon=0.01, dtype=dtype)
    x = QUERY * 100  # squares leave the range of float16
    layer(x)
    (scale,) = filled(layer).values()
    axes = tuple(np.atleast_1d(axis))
    shape = {-1: (1, 1, 6), 1: (1, 5, 1)}.get(str(axis) and axes[0], (1, 5, 6))
    shape = (1, 5, 6) if len(axes) == 2 else shape
    expected = x / np.sqrt((x**2).mean(axes, keepdims=True) + 0.01)
    expected = expected * scale.reshape(shape)
    found = layer(x)
    assert found.dtype.name == ("float32" if dtype == "float32" else "float16")
    tolerance = 1e-5 if dtype == "float32" else 2e-3
    np.testing.assert_allclose(found.numpy(), expected, tolerance, tolerance)


def test_spectral_normalization() -> None:
    layer = layers.SpectralNormalization(layers.Dense(3), power_iterations=40)
    x = QUERY[:, 0]
    layer(x)
    filled(layer)
    kernel, bias = layer.layer.kernel.numpy(), layer.layer.bias.numpy()
    np.testing.assert_allclose(layer(x), x @ kernel + bias, rtol=1e-5)
    assert np.array_equal(layer.layer.kernel.numpy(), kernel)
    smaller = kernel / np.linalg.svd(kernel)[1][0]
    found = layer(x, training=True)
    np.testing.assert_allclose(layer.layer.kernel.numpy(), smaller, rtol=1e-4)
    np.testing.assert_allclose(found, x @ smaller + bias, rtol=1e-4, atol=1e-5)
    layer.layer.kernel.assign(np.zeros((6, 3), "f"))
    np.testing.assert_allclose(layer(x, training=True), [bias, bias], rtol=1e-6)
    assert np.isfinite(layer.vector_u.numpy()).all()


def test_spectral_normalization_trains_on_a_device() -> None:
    x = RNG.normal(size=(32, 6)).astype("f")
    with IPUStrategy().scope():
        dense = layers.Dense(4, kernel_initializer="he_normal")
        wrapped = layers.SpectralNormalization(dense, 30, input_shape=(6,))
        model = keras.Sequential([wrapped, layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=4)
        history = model.fit(x, x[:, :1], 8, epochs=5, verbose=0).history["loss"]
    assert history[-1] < history[0]
    model.optimizer.learning_rate = 0.0
    model.fit(x, x[:, :1], 8, verbose=0)
    largest = np.linalg.svd(dense.kernel.numpy())[1][0]
    assert largest == pytest.approx(1, rel=1e-3)


def test_identity() -> None:
    inputs = {"a": tf.constant([1.0]), "b": (tf.constant([2.0]), tf.constant([3]))}
    found = layers.Identity()(inputs)
    assert found["b"][1].numpy().tolist() == [3] and found["a"].numpy() == 1.0
    place = layers.Input((4,))
    model = keras.Model(place, layers.Identity()(layers.Masking()(place[..., None])))
    assert model(np.ones((2, 4))).shape == (2, 4, 1)


# --- pictures


def test_solarization() -> None:
    images = RNG.uniform(0, 1, (3, 4, 5, 2)).astype("f")
    turned = layers.Solarization(value_range=(0, 1))(images)
    np.testing.assert_allclose(turned, 1 - images, atol=1e-6)
    layer = layers.Solarization(0.0, (0.25, 0.25), value_range=(0, 1))
    expected = np.where(images < 0.25, images, 1 - images)
    np.testing.assert_allclose(layer(images), expected, atol=1e-6)
    layer = layers.Solarization((0.5, 0.5), 1.0, value_range=(-1, 1))
    expected = np.minimum(images + 1, 1)
    found = layer(images).numpy()
    kept = np.isclose(found, expected, atol=1e-6)
    assert (kept | np.isclose(found, -expected, atol=1e-6)).all()
    np.testing.assert_array_equal(layer(images, training=False), images)


def test_random_erasing() -> None:
    images = np.ones((200, 10, 20, 3), "f")
    layer = layers.RandomErasing(
        (1.0, 1.0), scale=(0.25, 0.25), fill_value=[0, 2, 300], seed=3
    )
    found = layer(images).numpy()
    erased = found != images
    assert (erased[..., 0] == erased[..., 1]).all()
    assert set(np.unique(found[..., 2])) == {1.0, 255.0}
    rows, columns = erased[..., 0].any(2), erased[..., 0].any(1)
    assert (rows.sum(1) == 5).all() and (columns.sum(1) == 10).all()
    assert (erased[..., 0] == rows[:, :, None] & columns[:, None]).all()
    assert rows[:, 0].any() and rows[:, -1].any()  # it lies anywhere
    few = layers.RandomErasing((0.3, 0.3))(images).numpy()
    changed = (few != images).any((1, 2, 3))
    assert 0.15 < changed.mean() < 0.45
    assert len(np.unique(few)) > 100 and few.max() <= 255 and few.min() >= 0
    np.testing.assert_array_equal(layer(images, training=False), images)


# --- files


def test_files_of_keras_3(tmp_path: Path) -> None:
    place = layers.Input((5, 6))
    x = layers.GroupQueryAttention(3, 4, 2, use_gate=True)(place, place)
    x = layers.RMSNormalization(axis=[1, 2])(x)
    x = layers.SpectralNormalization(layers.Dense(3))(x)
    model = keras.Model(place, layers.Identity()(x))
    for suffix in (".keras", ".safetensors"):
        path = str(tmp_path / f"model{suffix}")
        model.save(path)
        again = keras.models.load_model(path)
        np.testing.assert_array_equal(again.predict(QUERY), model.predict(QUERY))


# --- moving averages


def averages_and_model() -> tuple[Any, np.ndarray, np.ndarray]:
    x = np.linspace(-1, 1, 32).reshape(32, 1).astype("f")
    y = 3 * x
    dense = layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([dense])
    optimizer = keras.optimizers.SGD(0.2, use_ema=True, ema_momentum=0.9)
    model.compile(optimizer, "mse")
    return model, x, y


@pytest.mark.parametrize("swap_on_epoch", [False, True])
@pytest.mark.parametrize("on_device", [False, True])
def test_averages_are_evaluated(on_device: bool, swap_on_epoch: bool) -> None:
    seen = []

    class Look(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            seen.append(self.model.weights[0].numpy().item())

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append(self.model.weights[0].numpy().item())

    if on_device:
        with IPUStrategy().scope():
            model, x, y = averages_and_model()
            model.compile(model.optimizer, "mse", steps_per_execution=2)
    else:
        model, x, y = averages_and_model()
    swap = keras.callbacks.SwapEMAWeights(swap_on_epoch)
    history = model.fit(
        x,
        y,
        16,
        epochs=3,
        verbose=0,
        shuffle=False,
        validation_data=(x, y),
        validation_batch_size=16,
        callbacks=[swap, Look()],
    )
    weight, average, expected = 0.0, 0.0, []
    weights = [0.0]
    for step in range(6):
        part = slice(16 * (step % 2), 16 * (step % 2) + 16)
        slope = np.mean(2 * (weight * x[part] - y[part]) * x[part])
        weight -= 0.2 * float(slope)
        average = weight if step == 0 else 0.9 * average + 0.1 * weight
        if step % 2:
            expected.append(np.mean((average * x - y) ** 2))
            weights += [average if swap_on_epoch else weight, weight]
    np.testing.assert_allclose(history.history["val_loss"], expected, rtol=1e-4)
    np.testing.assert_allclose(seen, weights[:-1], rtol=1e-4, atol=1e-6)
    assert model.weights[0].numpy().item() == pytest.approx(average, rel=1e-4)


def test_averages_stand_in_for_an_evaluation() -> None:
    model, x, y = averages_and_model()
    swap = keras.callbacks.SwapEMAWeights()
    before = model.evaluate(x, y, verbose=0, callbacks=[swap])  # there are none yet
    assert before == pytest.approx(np.mean(y**2), rel=1e-5)
    for i in range(0, 32, 8):
        model.train_on_batch(x[i : i + 8], y[i : i + 8])
    weight = model.weights[0].numpy()
    (average,) = (
        model.optimizer.get_slot(one, "average").numpy() for one in model.weights
    )
    assert abs(weight - average) > 0.1
    found = model.evaluate(x, y, verbose=0, callbacks=[swap])
    assert found == pytest.approx(np.mean((average * x - y) ** 2), rel=1e-4)
    assert model.weights[0].numpy() == weight
    np.testing.assert_allclose(model.predict(x, callbacks=[swap]), x @ average, 1e-5)
    assert model.weights[0].numpy() == weight

    class Fails(keras.callbacks.Callback):
        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            assert self.model.weights[0].numpy() == average
            raise RuntimeError("in an evaluation")

    with pytest.raises(RuntimeError, match="in an evaluation"):
        model.evaluate(x, y, verbose=0, callbacks=[swap, Fails()])
    assert model.weights[0].numpy() == weight
    swap.swap_on_epoch = True
    for begin in (swap.on_epoch_end, swap.on_test_begin):  # one within the other
        begin(0)
        assert model.weights[0].numpy() == average
    swap.on_test_end()
    assert model.weights[0].numpy() == weight
    swap.on_predict_begin()
    swap.on_predict_end()
    assert model.weights[0].numpy() == weight


def test_averages_need_an_optimizer_that_keeps_them() -> None:
    model, x, y = averages_and_model()
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"Received: SGD without them\. Give it use_"):
        model.fit(x, y, verbose=0, callbacks=[keras.callbacks.SwapEMAWeights()])
    model = keras.Sequential(model.layers)
    with pytest.raises(ValueError, match=r"Received: no optimizer\. Give it use_ema"):
        model.predict(x, callbacks=[keras.callbacks.SwapEMAWeights()])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: layers.GroupQueryAttention(3, 4, 3),
            "must be divisible by `num_key_value_heads`. Received: num_query_heads=4, "
            "num_key_value_heads=3.",
        ),
        (
            lambda: layers.GroupQueryAttention(3, 0, 1),
            "`num_query_heads` must be a positive integer. Received: 0.",
        ),
        (
            lambda: layers.GroupQueryAttention(3, 4, 2, sliding_window=0),
            "`sliding_window` must be a positive integer. Received: 0.",
        ),
        (
            lambda: layers.GroupQueryAttention(3, 4, 2, dropout=1),
            "`dropout` must be a number in [0, 1). Received: 1.",
        ),
        (
            lambda: layers.RMSNormalization(epsilon="a"),
            "`epsilon` must be a number of 0 or more. Received: 'a'.",
        ),
        (
            lambda: layers.RMSNormalization(axis=3)(QUERY),
            "Invalid axis of RMSNormalization: the input has 3 axes.",
        ),
        (
            lambda: layers.SpectralNormalization(layers.Dense(3), 0),
            "`power_iterations` must be a positive integer. Received: 0.",
        ),
        (
            lambda: layers.SpectralNormalization(layers.ReLU())(QUERY),
            "needs a layer with a kernel or embeddings. Received: ReLU.",
        ),
        (lambda: layers.Solarization(2.0), "`addition_factor` must lie in [0, 1]."),
        (
            lambda: layers.RandomErasing(value_range=(1, 0)),
            "the largest one. Received: value_range=(1, 0).",
        ),
        (
            lambda: layers.RandomErasing(fill_value="white"),
            "`fill_value` must be a number, a list of them, or None.",
        ),
    ],
)
def test_what_does_not_fit(make: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)
