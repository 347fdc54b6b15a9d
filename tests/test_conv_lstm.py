# SPDX-License-Identifier: MIT
"""ConvLSTM1D, 2D and 3D: numbers, masks, states, configurations, errors, training.

The expected numbers are Keras's; ``conv_lstm_numbers.json`` says how they were made.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

L = keras.layers
NUMBERS = json.loads(Path(__file__).with_name("conv_lstm_numbers.json").read_text())
LAYERS: dict[str, tuple[int, tuple[int, ...], dict[str, Any]]] = {
    "1d": (1, (2, 3, 6, 2), {"kernel_size": 3}),
    "1d_last_states": (1, (1, 3, 5, 2), {"kernel_size": 2, "return_state": True}),
    "2d_same": (2, (2, 3, 4, 5, 2), {"kernel_size": (3, 2), "padding": "same"}),
    "2d_strides": (2, (1, 2, 6, 5, 1), {"kernel_size": 3, "strides": (2, 1)}),
    "2d_dilated": (2, (1, 2, 6, 6, 1), {"kernel_size": 2, "dilation_rate": 2}),
    "2d_back": (2, (1, 3, 4, 4, 1), {"kernel_size": 3, "go_backwards": True}),
    "2d_plain": (2, (1, 2, 4, 4, 1), {"kernel_size": 3, "use_bias": False}),
    "3d": (3, (1, 2, 3, 3, 4, 1), {"kernel_size": 2}),
}


def wave(*shape: int, scale: float = 0.6, phase: float = 0.0) -> np.ndarray[Any, Any]:
    numbers = scale * np.sin(1.7 * np.arange(np.prod(shape)) + phase)
    return np.asarray(numbers.reshape(shape), np.float32)


def layer_of(name: str, **more: Any) -> Any:
    rank, shape, options = LAYERS[name]
    last = options.get("return_state", False)
    given = {"return_sequences": not last, "recurrent_activation": "sigmoid"}
    layer = getattr(L, f"ConvLSTM{rank}D")(2, **{**given, **options, **more})
    layer(tf.zeros(shape))
    weights = layer.get_weights()
    layer.set_weights([wave(*w.shape, phase=i) for i, w in enumerate(weights)])
    return layer


@pytest.mark.parametrize("name", LAYERS)
def test_numbers_are_those_of_keras(name: str) -> None:
    layer = layer_of(name)
    x = tf.constant(wave(*LAYERS[name][1]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        made = layer(x)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        loss = sum(tf.reduce_sum(y * y) for y in made)
    grads = tape.gradient(loss, [x, *layer.trainable_variables])
    want = NUMBERS[name]
    for found, numbers in zip(made, want["results"], strict=True):
        np.testing.assert_allclose(found.numpy(), np.array(numbers), atol=2e-6)
    squares = [float(np.sum(np.square(g.numpy().astype(np.float64)))) for g in grads]
    np.testing.assert_allclose(squares, want["squares"], rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["1d", "2d_same", "3d"])
def test_channels_first_and_unrolled(name: str) -> None:
    rank, shape, _ = LAYERS[name]
    plain, other = layer_of(name), layer_of(name, unroll=True)
    x = wave(*shape)
    want = plain(tf.constant(x)).numpy()
    np.testing.assert_allclose(other(tf.constant(x)).numpy(), want, atol=1e-6)
    options = {**LAYERS[name][2], "data_format": "channels_first"}
    given = {"return_sequences": True, "recurrent_activation": "sigmoid"}
    first = getattr(L, f"ConvLSTM{rank}D")(2, **{**given, **options})
    turned = np.moveaxis(x, -1, 2)
    first(tf.constant(turned))
    first.set_weights(plain.get_weights())
    found = np.moveaxis(first(tf.constant(turned)).numpy(), 2, -1)
    np.testing.assert_allclose(found, want, atol=1e-6)


def test_a_masked_step_leaves_the_state() -> None:
    layer = layer_of("2d_same")
    x = wave(*LAYERS["2d_same"][1])
    mask = tf.constant([[True, False, True], [True, True, False]])
    y = layer(tf.constant(x), mask=mask).numpy()
    np.testing.assert_array_equal(y[0, 1], y[0, 0])
    np.testing.assert_array_equal(y[1, 2], y[1, 1])
    short = layer(tf.constant(x[:1, [0, 2]])).numpy()
    np.testing.assert_allclose(y[0, 2], short[0, 1], atol=1e-6)


def test_states_go_on_and_in() -> None:
    x = wave(1, 4, 4, 4, 1)
    whole = layer_of("2d_back", go_backwards=False)
    kept = L.ConvLSTM2D(
        2,
        3,
        recurrent_activation="sigmoid",
        return_sequences=True,
        stateful=True,
    )
    kept(tf.constant(x[:, :2]))
    kept.set_weights(whole.get_weights())
    kept.reset_states()
    found = [kept(tf.constant(x[:, i : i + 2])).numpy() for i in (0, 2)]
    want = whole(tf.constant(x)).numpy()
    np.testing.assert_allclose(np.concatenate(found, 1), want, atol=1e-6)
    again = L.ConvLSTM2D(2, 3, recurrent_activation="sigmoid", return_state=True)
    again(tf.constant(x))
    again.set_weights(whole.get_weights())
    _, h, c = again(tf.constant(x[:, :2]))
    last = again(tf.constant(x[:, 2:]), initial_state=[h, c])[0]
    np.testing.assert_allclose(last.numpy(), want[:, -1], atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_a_configuration_makes_an_equal_layer(name: str) -> None:
    layer = layer_of(name)
    x = tf.constant(wave(*LAYERS[name][1]))
    config = json.loads(json.dumps(layer.get_config()))
    again = type(layer).from_config(config)
    again(x)
    again.set_weights(layer.get_weights())
    for a, b in zip(tf.nest.flatten(layer(x)), tf.nest.flatten(again(x)), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_dropout_is_alike_in_all_steps_and_only_in_training() -> None:
    layer = layer_of("2d_same", dropout=0.5, recurrent_dropout=0.5)
    x = tf.constant(wave(*LAYERS["2d_same"][1]))
    plain = layer(x).numpy()
    np.testing.assert_array_equal(plain, layer(x, training=False).numpy())
    assert not np.array_equal(plain, layer(x, training=True).numpy())


def test_a_model_trains_on_the_device() -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    x = wave(8, 3, 6, 6, 1)
    y = x.sum(axis=(1, 2, 3, 4)).astype(np.float32)
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential(
            [
                keras.Input((3, 6, 6, 1), batch_size=4),
                L.ConvLSTM2D(3, 3),
                L.Flatten(),
                L.Dense(1),
            ]
        )
        model.compile(keras.optimizers.Adam(0.02), "mse", steps_per_execution=2)
        history = model.fit(x, y, batch_size=4, epochs=15, verbose=0)
    losses = history.history["loss"]
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize(
    ("options", "shape", "words"),
    [
        ({"kernel_size": (3, 3, 3)}, (1, 2, 4, 4, 1), "tuple of 2"),
        ({"kernel_size": 3, "padding": "causal"}, (1, 2, 4, 4, 1), "'valid' or 'same'"),
        ({"kernel_size": 3, "data_format": "x"}, (1, 2, 4, 4, 1), "'channels_last' or"),
        ({"kernel_size": 5}, (1, 2, 4, 4, 1), "reaches over 5 elements of axis 0"),
        ({"kernel_size": 3}, (1, 2, 4, 4), "a step of shape"),
    ],
)
def test_what_does_not_fit(
    options: dict[str, Any], shape: tuple[int, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        L.ConvLSTM2D(2, **options)(tf.zeros(shape))
