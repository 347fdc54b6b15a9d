# SPDX-License-Identifier: MIT
"""Networks for images as a Keras user writes them: `keras` is Keras's own or ipu's."""

from __future__ import annotations

from typing import Any

from benchmarks.image_networks import KERNEL, POOL, Images, Layer


def make(keras: Any, network: Images) -> Any:
    """The model, not compiled; its weights are in the order of the network's."""
    inputs = keras.Input(network.shape)
    return keras.Model(inputs, apply(keras, network.layers, inputs))


def apply(keras: Any, layers: tuple[Layer, ...], x: Any) -> Any:
    for layer in layers:
        if layer.kind == "residual":
            x = keras.layers.Add()([x, apply(keras, layer.inner, x)])
        else:
            x = layer_of(keras, layer)(x)
    return x


def layer_of(keras: Any, layer: Layer) -> Any:
    match layer.kind:
        case "conv":
            return keras.layers.Conv2D(
                layer.size, KERNEL, padding=layer.padding, use_bias=layer.bias
            )
        case "batch_norm":
            return keras.layers.BatchNormalization()
        case "relu":
            return keras.layers.ReLU()
        case "pool":
            return keras.layers.MaxPooling2D(POOL)
        case "mean":
            return keras.layers.GlobalAveragePooling2D()
        case "flatten":
            return keras.layers.Flatten()
        case "dense":
            return keras.layers.Dense(layer.size)
    raise ValueError(layer.kind)
