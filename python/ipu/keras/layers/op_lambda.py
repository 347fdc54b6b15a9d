# SPDX-License-Identifier: MIT
"""The layer that a plain function or operator on symbolic values becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu.keras import _names
from ipu.keras.layers.base_layer import Layer

__all__ = ["OpLambda"]


class OpLambda(Layer):
    """Calls a function; made by operators and functions on ``KerasTensor``s.

    Args:
        function: Takes the arguments of the call, with tensors in them.
        op_name: What the layer's name starts with.
    """

    def __init__(self, function: Callable[..., Any], op_name: str) -> None:
        super().__init__(name=_names.unique_name(f"tf.{op_name}"), autocast=False)
        self.function = function
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)
