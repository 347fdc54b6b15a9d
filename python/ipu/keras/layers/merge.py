# SPDX-License-Identifier: MIT
"""Add and Concatenate, and their functional forms.

Source: ``tf.keras.layers`` of Keras 2.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras._types import Nest, Tensor
from ipu.keras.layers.base_layer import Layer

__all__ = ["Add", "Concatenate", "add", "concatenate"]


class Add(Layer):
    """The sum of a list of tensors.

    Args:
        **kwargs: What ``Layer`` takes.
    """

    def build(self, input_shape: Any) -> None:
        """Check that there are two inputs or more, which broadcast.

        Raises:
            ValueError: There are fewer, or two sizes do not go together.
        """
        shapes = _need_list(self, input_shape, at_least=2)
        for shape in shapes[1:]:
            for one, other in zip(reversed(shapes[0]), reversed(shape), strict=False):
                if None not in (one, other) and one != other and 1 not in (one, other):
                    raise ValueError(
                        "Operands could not be broadcast together with shapes "
                        f"{tuple(shapes[0])} {tuple(shape)}."
                    )
        self.built = True

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Tensor:
        """Add from the first to the last."""
        total = inputs[0]
        for tensor in inputs[1:]:
            total = tf.add(total, tensor)
        return total


class Concatenate(Layer):
    """Puts tensors one after another along an axis.

    Args:
        axis: The axis; the last by default.
        **kwargs: What ``Layer`` takes.
    """

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def build(self, input_shape: Any) -> None:
        """Check that the shapes agree but for the axis.

        Raises:
            ValueError: They do not, or there is no list of inputs.
        """
        shapes = _need_list(self, input_shape, at_least=1)
        rank = len(shapes[0])
        for shape in shapes:
            rest = [
                (one, other)
                for i, (one, other) in enumerate(zip(shapes[0], shape, strict=False))
                if i != self.axis % rank
            ]
            if len(shape) != rank or any(
                None not in pair and pair[0] != pair[1] for pair in rest
            ):
                raise ValueError(
                    "A `Concatenate` layer requires inputs with matching shapes except "
                    f"for the concatenation axis {self.axis}. Received: "
                    f"input_shape={[tuple(shape) for shape in shapes]}."
                )
        self.built = True

    def call(self, inputs: Nest, *args: Any, **kwargs: Any) -> Tensor:
        """Concatenate."""
        return tf.concat(list(inputs), self.axis)

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        return {**super().get_config(), "axis": self.axis}


def _need_list(layer: Layer, shapes: Any, at_least: int) -> list[Any]:
    is_list = isinstance(shapes, (list, tuple)) and all(
        isinstance(shape, (list, tuple)) for shape in shapes
    )
    if not is_list or len(shapes) < at_least:
        kind = type(layer).__name__
        raise ValueError(
            f"A `{kind}` layer should be called on a list of at least {at_least} "
            f"input(s). Received: input_shape={shapes}."
        )
    return list(shapes)


def add(inputs: Sequence[Any], **kwargs: Any) -> Any:
    """Add tensors: a call of a new ``Add`` layer.

    Args:
        inputs: Two tensors or more.
        **kwargs: What ``Add`` takes.

    Returns:
        Their sum.
    """
    return Add(**kwargs)(inputs)


def concatenate(inputs: Sequence[Any], axis: int = -1, **kwargs: Any) -> Any:
    """Concatenate tensors: a call of a new ``Concatenate`` layer.

    Args:
        inputs: Tensors whose shapes agree but for the axis.
        axis: The axis; the last by default.
        **kwargs: What ``Concatenate`` takes.

    Returns:
        One tensor.
    """
    return Concatenate(axis=axis, **kwargs)(inputs)
