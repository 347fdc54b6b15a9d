# SPDX-License-Identifier: MIT
"""The networks as a Keras user writes them: `keras` is Keras's own or ipu's."""

from __future__ import annotations

from typing import Any

from benchmarks.image_networks import Images
from benchmarks.networks import Recurrent, Transformer
from benchmarks.sides import keras_images


def make(keras: Any, network: Any) -> Any:
    """The model, not compiled; its weights are in the order of the network's."""
    if isinstance(network, Recurrent):
        return recurrent(keras, network)
    if isinstance(network, Transformer):
        return transformer(keras, network)
    if isinstance(network, Images):
        return keras_images.make(keras, network)
    raise TypeError(f"no Keras model of {network}")


def recurrent(keras: Any, network: Recurrent) -> Any:
    layers = keras.layers
    cell = {"lstm": layers.LSTM, "gru": layers.GRU}[network.cell]
    return keras.Sequential(
        [
            keras.Input((network.steps,), dtype="int32"),
            layers.Embedding(network.words, network.units),
            cell(network.units),
            layers.Dense(network.classes),
        ]
    )


def transformer(keras: Any, network: Transformer) -> Any:
    layers, width = keras.layers, network.width

    class Positions(layers.Layer):  # type: ignore[misc, name-defined]
        """Adds a vector that is learned for each place."""

        def build(self, input_shape: Any) -> None:
            shape = tuple(input_shape[1:])
            self.table = self.add_weight(name="table", shape=shape)

        def call(self, inputs: Any) -> Any:
            return inputs + self.table

    inputs = keras.Input((network.length,), dtype="int32")
    x = Positions()(layers.Embedding(network.tokens, width)(inputs))
    for _ in range(network.blocks):
        normal = layers.LayerNormalization()(x)
        size = width // network.heads
        x = x + layers.MultiHeadAttention(network.heads, size)(normal, normal)
        normal = layers.LayerNormalization()(x)
        wide = layers.Dense(4 * width, activation="gelu")(normal)
        x = x + layers.Dense(width)(wide)
    x = layers.LayerNormalization()(x)
    return keras.Model(inputs, layers.Dense(network.tokens)(x))
