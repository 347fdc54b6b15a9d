# SPDX-License-Identifier: MIT
"""Layers around others that capture gradients on their way back.

In ``fit`` what was captured goes to the optimizer's ``apply_gradients`` as
``captured_grads``, where the optimizer says ``supports_captured_grads``.
"""

from __future__ import annotations

from typing import Any

from ipu.eager import backprop
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import Layer
from ipu.keras.layers.wrappers import Wrapper
from ipu.ops.grad_util_ops import capture_upstream_gradients

__all__ = ["CaptureActivationGradients", "CaptureUpstreamGradients"]


def _captured(values: Nest, tag: str) -> Nest:
    """Return the values; their gradients are captured where somebody wants them."""
    if backprop.active_context() is None:
        return values
    return capture_upstream_gradients(values, tag)


class _Capturing(Wrapper):
    """A layer around another one.

    Args:
        layer: The layer.
        tag: The name of what is captured; None for one made of the layer's name.
        suffix: The end of such a name.
    """

    def __init__(
        self, layer: Any, tag: str | None, suffix: str, /, **kwargs: Any
    ) -> None:
        if not isinstance(layer, Layer):
            raise ValueError(
                f"{type(self).__name__} wraps a Keras layer. Received: {layer!r}."
            )
        kwargs.setdefault("name", f"{layer.name}{suffix}")
        super().__init__(layer, **kwargs)
        self.tag = kwargs["name"] if tag is None else tag

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Nest:
        return self.layer(inputs, *args, **kwargs)


class CaptureUpstreamGradients(_Capturing):
    """A layer around another one, which captures the gradients of its results.

    Args:
        layer: The layer.
        tag: The name of what is captured; None for the layer's name and ``"_cug"``.

    Raises:
        ValueError: ``layer`` is not a layer.

    Example:
        >>> layer = CaptureUpstreamGradients(keras.layers.Dense(2, name="dense"))
        >>> layer.tag
        'dense_cug'
    """

    def __init__(self, layer: Any, tag: str | None = None, **kwargs: Any) -> None:
        super().__init__(layer, tag, "_cug", **kwargs)

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Nest:
        return _captured(super().call(inputs, *args, **kwargs), self.tag)


class CaptureActivationGradients(_Capturing):
    """A layer around another one, which captures the gradients that come out of its
    activation function, on their way to the layer.

    Args:
        layer: A layer with an activation function.
        tag: The name of what is captured; None for the layer's name and ``"_cag"``.

    Raises:
        ValueError: ``layer`` is not a layer, or has no activation function.

    Example:
        >>> layer = CaptureActivationGradients(
        ...     keras.layers.Dense(2, activation="relu", name="dense"))
        >>> layer.tag
        'dense_cag'
    """

    def __init__(self, layer: Any, tag: str | None = None, **kwargs: Any) -> None:
        super().__init__(layer, tag, "_cag", **kwargs)
        activation = getattr(layer, "activation", None)
        if activation is None:
            raise ValueError(
                f"Layer {layer.name!r} has no activation function whose gradients "
                "could be captured. Give it one, or use CaptureUpstreamGradients."
            )
        self._activation = activation

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Nest:
        activation, tag = self._activation, self.tag
        place = self.layer

        def capturing(x: Tensor) -> Any:
            return activation(_captured(x, tag))

        place.activation = capturing
        try:
            return super().call(inputs, *args, **kwargs)
        finally:
            place.activation = activation
