# SPDX-License-Identifier: MIT
"""Layers of Keras replaced by the IPU's: the option ``layer_replacement``."""

from __future__ import annotations

from typing import Any

from ipu import layers as ipu_layers
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.functional import Functional
from ipu.keras.models import clone_model

__all__ = ["IPULayerReplacer", "in_graph", "of"]

_REPLACED = ("Dropout", "Embedding", "GRU", "LSTM", "LayerNormalization")


def of(layer: Layer) -> Layer:
    """Return the IPU's layer in the place of a layer of Keras, with its weights.

    Args:
        layer: Any layer; one without a counterpart is given back.

    Raises:
        RuntimeError: The counterpart does not take its arguments.
        NotImplementedError: The counterpart does not take their values.
    """
    name = type(layer).__name__
    kind: Any = getattr(ipu_layers, name, None) if name in _REPLACED else None
    if kind is None or isinstance(layer, kind):
        return layer
    config = layer.get_config()
    if name == "GRU" and config.get("implementation", 2) == 2:
        return layer  # the original left those alone
    if layer.built:
        config["weights"] = layer.get_weights()
    try:
        made: Layer = kind.from_config(config)
    except TypeError as error:
        raise RuntimeError(
            f"Could not substitute Keras {name} layer {layer.name!r}: the IPU's does "
            f"not take its arguments. {error}"
        ) from error
    made._pipeline_stage = layer._pipeline_stage
    return made


class IPULayerReplacer:
    """Puts the IPU's layers in the place of Keras's.

    Source: ``ipu.keras.layer_replacement.IPULayerReplacer`` of SDK 1.4.

    Example:
        >>> type(IPULayerReplacer()(keras.layers.Embedding(4, 2))).__module__
        'ipu.layers'
    """

    def __call__(self, layer_instance: Layer) -> Layer:
        """Return the layer that stands for one of Keras; see :func:`of`."""
        return of(layer_instance)


def in_graph(inputs: Any, outputs: Any) -> dict[str, Any]:
    """Return inputs and outputs of the same network with the IPU's layers in it."""
    made: dict[Layer, Layer] = {}

    def replace(layer: Layer) -> Layer:
        if layer not in made:
            made[layer] = of(layer)
        return made[layer]

    copy = clone_model(Functional(inputs, outputs), clone_function=replace)
    return {"inputs": copy.input, "outputs": copy.output}
