# SPDX-License-Identifier: MIT
"""The layer that a plain function or operator on symbolic values becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu.keras import _names
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.files import op_names

__all__ = ["OpLambda"]


class OpLambda(Layer):
    """Calls a function; made by operators and functions on ``KerasTensor``s.

    Args:
        function: Takes the arguments of the call, with tensors in them.
        op_name: The prefix of the layer's name.
        name: The whole name, instead.
    """

    def __init__(
        self, function: Callable[..., Any], op_name: str, name: str | None = None
    ) -> None:
        name = name or _names.unique_name(f"tf.{op_name}")
        super().__init__(name=name, autocast=False)
        self.function = function
        self.built = True

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        """Return the name of the function.

        Raises:
            ValueError: It has no public name.
        """
        return {
            "name": self.name,
            "function": op_names.name_of(self.function, self.name),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make a layer from what ``get_config`` gave."""
        function = op_names.function_of(config["function"])
        return cls(function, function.__name__, config.get("name"))
