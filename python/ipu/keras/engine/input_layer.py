# SPDX-License-Identifier: MIT
"""``Input``: where data come into a functional model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu.keras import _names
from ipu.keras._backend_state import state
from ipu.keras._types import Shape, Tensor
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.symbols.keras_tensor import KerasTensor, Node

__all__ = ["Input", "InputLayer"]


class InputLayer(Layer):
    """The layer that ``Input`` makes.

    Args:
        input_shape: Sizes without the batch.
        batch_size: The batch size, None for an open one.
        dtype: The dtype of the data; None for float32.
        name: A name for the layer and the input.
        batch_input_shape: Sizes with the batch, instead of the first two.

    Example:
        >>> InputLayer((28, 28), name="images").name
        'images'
    """

    def __init__(
        self,
        input_shape: Sequence[int | None] | int | None = None,
        batch_size: int | None = None,
        dtype: Any = None,
        name: str | None = None,
        batch_input_shape: Sequence[int | None] | None = None,
    ) -> None:
        if name is None:
            name = _names.unique_name("input", zero_based=False)
        # what a model is fed does not follow the policy of its layers
        kind = state.floatx if dtype is None else dtype
        super().__init__(name=name, dtype=kind, autocast=False)
        if batch_input_shape is None:
            sizes = (input_shape,) if isinstance(input_shape, int) else input_shape
            batch_input_shape = (batch_size, *(sizes or ()))
        self._batch_input_shape: Shape = tuple(batch_input_shape)
        self.built = True
        self._autocast = False
        symbol = KerasTensor(self._batch_input_shape, self._dtype, self.name)
        Node(self, outputs=symbol)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal input."""
        return {
            "batch_input_shape": self._batch_input_shape,
            "dtype": self.dtype,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """Make an input from what ``get_config`` gave, here or in Keras."""
        known = ("batch_input_shape", "dtype", "name")
        return cls(**{key: config[key] for key in known if key in config})

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Return the input back."""
        return inputs


def Input(
    shape: Sequence[int | None] | int | None = None,
    batch_size: int | None = None,
    name: str | None = None,
    dtype: Any = None,
    batch_shape: Sequence[int | None] | None = None,
    **kwargs: Any,
) -> KerasTensor:
    """Start a functional model: a symbolic value for its data.

    Args:
        shape: Sizes without the batch; an int means one axis.
        batch_size: The batch size; None leaves it to the data.
        name: A name for the input, which a dict of data can use.
        dtype: The dtype that data are cast to; None for float32.
        batch_shape: Sizes with the batch, instead of ``shape`` and ``batch_size``.
        **kwargs: ``batch_input_shape``, the same as ``batch_shape``.

    Returns:
        A ``KerasTensor`` to call layers on.

    Raises:
        ValueError: Neither or both of ``shape`` and ``batch_shape``.
        TypeError: An unknown keyword.

    Source: ``tf.keras.Input`` of Keras 2.6.

    Example:
        >>> Input((28, 28, 1), batch_size=32).shape
        (32, 28, 28, 1)
    """
    if "batch_input_shape" in kwargs:
        batch_shape = kwargs.pop("batch_input_shape")
    if kwargs:
        unknown = next(iter(kwargs))
        known = ("shape", "batch_size", "name", "dtype", "batch_shape")
        raise TypeError(
            f"Input() got an unexpected keyword argument {unknown!r}."
            f"{_names.nearest(unknown, known)}"
        )
    if shape is not None and batch_shape is not None:
        raise ValueError(
            "Only one of `shape` and `batch_shape` may be given. Received: "
            f"shape={shape!r}, batch_shape={batch_shape!r}."
        )
    if shape is None and batch_shape is None:
        raise ValueError(
            "Please provide to Input a `shape` (sizes without the batch). "
            "Received: shape=None. A scalar for each sample is shape=()."
        )
    layer = InputLayer(shape, batch_size, dtype, name, batch_shape)
    symbol: KerasTensor = layer.output
    return symbol
