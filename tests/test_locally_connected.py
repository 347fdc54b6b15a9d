# SPDX-License-Identifier: MIT
"""Layers whose filters differ from place to place, against loops over the places in
the order in which Keras 2.6 stores kernels; and the CTC loss as a layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import drop_in, keras, layers, tf
from ipu.ops import nn_ops

RNG = np.random.default_rng(8)


def expected(x: Any, layer: Any, first: bool) -> Any:
    """Place by place; `x` has the channels last."""
    kernel = layer.kernel.numpy()
    sizes, steps = layer.kernel_size, layer.strides
    axes = zip(x.shape[1:-1], sizes, steps, strict=True)
    windows = [(n - k) // s + 1 for n, k, s in axes]
    result = np.zeros((len(x), *windows, layer.filters))
    for number, place in enumerate(np.ndindex(*windows)):
        cut = tuple(
            slice(p * s, p * s + k) for p, s, k in zip(place, steps, sizes, strict=True)
        )
        part = x[(slice(None), *cut)]
        if first:
            part = np.moveaxis(part, -1, 1)
        rows = part.reshape(len(x), -1)
        result[(slice(None), *place)] = rows @ kernel[number]
    return result + layer.bias.numpy()


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(("size", "stride"), [(3, 1), ((2, 3), (2, 1))])
def test_images(size: Any, stride: Any, first: bool) -> None:
    order = "channels_first" if first else "channels_last"
    layer = keras.layers.LocallyConnected2D(
        4, size, stride, data_format=order, bias_initializer="random_normal"
    )
    x = RNG.normal(size=(2, 6, 7, 3)).astype(np.float32)
    got = layer(np.moveaxis(x, -1, 1) if first else x).numpy()
    got = np.moveaxis(got, 1, -1) if first else got
    np.testing.assert_allclose(got, expected(x, layer, first), atol=1e-5)
    assert layer.bias.shape == got.shape[1:]


@pytest.mark.parametrize("first", [False, True])
def test_sequences(first: bool) -> None:
    order = "channels_first" if first else "channels_last"
    layer = keras.layers.LocallyConnected1D(5, 3, 2, data_format=order)
    x = RNG.normal(size=(2, 9, 3)).astype(np.float32)
    got = layer(np.moveaxis(x, -1, 1) if first else x).numpy()
    got = np.moveaxis(got, 1, -1) if first else got
    assert layer.kernel.shape == (4, 9, 5)
    np.testing.assert_allclose(got, expected(x, layer, first), atol=1e-5)


def test_a_model_with_them_learns_and_is_made_again() -> None:
    model = keras.Sequential(
        [
            keras.layers.LocallyConnected2D(4, 3, activation="tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.Adam(0.01), "mse")
    x = RNG.normal(size=(32, 6, 6, 1)).astype(np.float32)
    y = x[:, 1, 1] * x[:, 4, 4]
    history = model.fit(x, y, epochs=30, batch_size=32, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]
    layer = model.layers[0]
    again = type(layer).from_config(layer.get_config())
    assert again.filters == 4 and again.kernel_size == (3, 3)


def test_what_does_not_fit_is_said() -> None:
    kinds = keras.layers
    with pytest.raises(ValueError, match="valid"):
        kinds.LocallyConnected2D(4, 3, padding="same")
    with pytest.raises(ValueError, match="implementation"):
        kinds.LocallyConnected1D(4, 3, implementation=2)
    with pytest.raises(ValueError, match="at least"):
        kinds.LocallyConnected1D(4, 3)(np.zeros((1, 2, 1), np.float32))


def test_the_ctc_loss_as_a_layer() -> None:
    data = RNG.normal(size=(5, 2, 4)).astype(np.float32)
    labels = [[1, 2], [3, 0]]
    drop_in.install()
    try:
        from ipu_tensorflow_addons.keras.losses import CTCLoss
        from keras.layers.local import LocallyConnected1D
        from tensorflow.python.ipu.keras.layers.embedding_lookup import Embedding
        from tensorflow.python.ipu.keras.losses.ctc import CTCLoss as older
    finally:
        drop_in.uninstall()
    assert older is CTCLoss and LocallyConnected1D is keras.layers.LocallyConnected1D
    assert Embedding is layers.Embedding
    loss = CTCLoss(from_logits=True)(labels, data, [2, 1], [5, 4])
    want = nn_ops.ctc_loss_v2(labels, data, [2, 1], [5, 4], 0)
    np.testing.assert_allclose(loss, want)
    logs = tf.nn.log_softmax(data)
    again = CTCLoss()(labels, logs, [[2], [1]], [[5], [4]])
    np.testing.assert_allclose(again, want, 1e-6)
