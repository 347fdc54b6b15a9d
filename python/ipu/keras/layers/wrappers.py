# SPDX-License-Identifier: MIT
"""Layers around a layer.

Source: ``tf.keras.layers`` of Keras 2.6.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras import _serialization
from ipu.keras._types import Nest
from ipu.keras.layers.base_layer import Layer

__all__ = ["TimeDistributed", "Wrapper"]


class Wrapper(Layer):
    """Base class of layers around a layer.

    Args:
        layer: The layer inside.
        **kwargs: What ``Layer`` takes.

    Raises:
        ValueError: ``layer`` is none.
    """

    def __init__(self, layer: Layer, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(layer, Layer):
            raise ValueError(
                f"Please initialize `{type(self).__name__}` layer with a `Layer` "
                f"instance. Received: layer={layer!r}."
            )
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        """Build the layer inside."""
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        self.built = True

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        inner = _serialization.serialize_keras_object(self.layer)
        return {**super().get_config(), "layer": inner}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make a layer from what ``get_config`` gave."""
        from ipu.keras import layers

        inner = layers.deserialize(config["layer"])
        return cls(**{**config, "layer": inner})


class TimeDistributed(Wrapper):
    """Applies a layer to every time step of ``(batch, steps, ...)``.

    The steps are taken as samples of one large batch, so the layer is called once.

    Args:
        layer: The layer for one step.
        **kwargs: What ``Layer`` takes.

    Raises:
        ValueError: ``layer`` is none; in a call, the input has no steps.

    Example:
        >>> from ipu.keras.layers import Dense
        >>> TimeDistributed(Dense(2))(tf.zeros((3, 5, 4))).shape
        (3, 5, 2)
    """

    def __init__(self, layer: Layer, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        self.supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        """Build the layer inside for one step.

        Raises:
            ValueError: The input has no steps.
        """
        if len(input_shape) < 3:
            raise ValueError(
                "`TimeDistributed` Layer should be passed an `input_shape` with at "
                f"least 3 dimensions. Received: input_shape={tuple(input_shape)}."
            )
        super().build((input_shape[0], *tuple(input_shape)[2:]))

    def call(
        self, inputs: Nest, training: Any = None, *args: Any, **kwargs: Any
    ) -> Nest:
        """Apply the layer to all steps."""
        batch, steps = tuple(inputs.shape)[:2]
        flat = tf.reshape(inputs, (batch * steps, *tuple(inputs.shape)[2:]))
        results = self.layer(flat, training=training)

        def unfold(tensor: Any) -> Any:
            return tf.reshape(tensor, (batch, steps, *tuple(tensor.shape)[1:]))

        return tf.nest.map_structure(unfold, results)
