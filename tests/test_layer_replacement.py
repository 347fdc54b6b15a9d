# SPDX-License-Identifier: MIT
"""Layers of Keras replaced by the IPU's: the option ``layer_replacement``."""

import numpy as np
import pytest

import ipu
from ipu import drop_in, keras
from ipu.drop_in import first_keras
from ipu.drop_in.first_keras import replacement
from ipu.ipu_strategy import IPUStrategy


@pytest.fixture(autouse=True)
def strategy():
    with IPUStrategy().scope() as one:
        yield one


def test_layers_are_replaced():
    x = keras.Input((3,), dtype="int32")
    embedding = keras.layers.Embedding(5, 2)
    y = keras.layers.Dense(1)(keras.layers.Flatten()(embedding(x)))
    plain = first_keras.Model(x, y)
    replaced = first_keras.Model(x, y, layer_replacement=True)
    kinds = [type(layer) for layer in replaced.layers]
    assert ipu.layers.Embedding in kinds and keras.layers.Embedding not in kinds
    for one, two in zip(plain.get_weights(), replaced.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    rows = np.arange(12, dtype=np.int32).reshape(4, 3) % 5
    np.testing.assert_array_equal(
        plain.predict(rows, batch_size=2), replaced.predict(rows, batch_size=2)
    )
    stack = [keras.layers.Embedding(5, 2), keras.layers.Dense(1)]
    model = first_keras.Sequential(stack, layer_replacement=True)
    assert type(model.layers[0]) is ipu.layers.Embedding
    assert model.layers[1] is stack[1]
    with pytest.raises(NotImplementedError, match="mask_zero"):
        layers = [keras.layers.Embedding(5, 2, mask_zero=True)]
        first_keras.Sequential(layers, layer_replacement=True)


def test_arguments_that_a_replacement_does_not_take():
    class LayerNormalization(keras.layers.Layer):
        def get_config(self):
            return {**super().get_config(), "strange": 1}

    with pytest.raises(RuntimeError, match="Could not substitute Keras LayerNorm"):
        first_keras.Sequential([LayerNormalization()], layer_replacement=True)


def test_the_replacer_of_layers():
    drop_in.install()
    try:
        from tensorflow.python.ipu.keras.layer_replacement import IPULayerReplacer
    finally:
        drop_in.uninstall()
    dense = keras.layers.Dense(2)
    assert IPULayerReplacer()(dense) is dense
    made = IPULayerReplacer()(keras.layers.Embedding(4, 2, name="table"))
    assert (type(made), made.name) == (ipu.layers.Embedding, "table")


@pytest.mark.parametrize("name", ["LSTM", "GRU", "LayerNormalization", "Embedding"])
def test_a_replacement_computes_the_same(name):
    kinds = {"LSTM": (3,), "GRU": (3,), "LayerNormalization": (), "Embedding": (5, 3)}
    words = {"implementation": 1} if name in ("LSTM", "GRU") else {}
    layer = getattr(keras.layers, name)(*kinds[name], **words)
    shape = (2, 4) if name == "Embedding" else (2, 4, 3)
    x = np.random.default_rng(1).integers(0, 5, shape)
    x = x.astype(np.int32 if name == "Embedding" else np.float32)
    result = layer(x)
    made = replacement.of(layer)
    assert type(made) is getattr(ipu.layers, name) and made.name == layer.name
    if name != "LayerNormalization":  # that of the IPU has one group of all axes
        np.testing.assert_array_equal(made(x), result)


def test_layers_that_are_left_alone():
    for layer in (
        keras.layers.GRU(3),
        keras.layers.GRU(3, implementation=2),
        keras.layers.GroupNormalization(groups=1),
        keras.layers.SerialDense(4, 2, "kernel_rows"),
        keras.layers.SimpleRNN(3),
    ):
        assert replacement.of(layer) is layer
    with pytest.raises(ValueError, match="another `activation` than 'tanh'"):
        replacement.of(keras.layers.LSTM(3, activation="relu"))


@pytest.mark.parametrize("name", keras.layers._OF_THE_PORT)
def test_layers_that_keras_does_not_have_are_where_the_port_has_them(name):
    assert getattr(keras.layers, name) is getattr(ipu.layers, name)
    assert name not in keras.layers.__all__
