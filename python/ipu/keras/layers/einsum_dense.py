# SPDX-License-Identifier: MIT
"""``EinsumDense``: a dense layer over any axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu.keras._arguments import KernelAttributes, keep, weight_of
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import Layer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import LayerOptions

__all__ = ["EinsumDense"]

_AXES = r"(\.{3})?([a-zA-Z]+)(\.{3})?"
_EQUATION = re.compile(rf"{_AXES},([a-zA-Z]+)->{_AXES}")
_SPARE = "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA"


class EinsumDense(Layer, KernelAttributes):
    """``activation(einsum(equation, inputs, kernel) + bias)``.

    Args:
        equation: As ``"abc,cd->abd"``: the axes of the inputs with the batch, of the
            kernel, and of the result. ``...`` at the same end of inputs and result
            stands for any axes there.
        output_shape: The sizes of the result without the batch and without what ``...``
            stands for; None in it for the inputs' size. A number alone is one axis.
        activation: A name or a function; None for linear.
        bias_axes: The axes of the result along which the bias has values of its own;
            None for no bias.
        kernel_initializer: First values of the kernel.
        bias_initializer: First values of the bias.
        kernel_regularizer, bias_regularizer: Penalties on kernel and bias.
        activity_regularizer: A penalty on the result, divided by the batch size.
        kernel_constraint, bias_constraint: Their constraints after each update.

    Raises:
        ValueError: The equation has another value; when built, it does not go with the
            inputs or with ``output_shape``.

    Example:
        >>> layer = EinsumDense("...x,xy->...y", 64, bias_axes="y")
        >>> layer(tf.ones((2, 32, 128))).shape
        (2, 32, 64)
        >>> [tuple(weight.shape) for weight in layer.weights]
        [(128, 64), (64,)]
    """

    equation: str
    bias_axes: str | None

    def __init__(
        self,
        equation: str,
        output_shape: int | Sequence[int | None],
        activation: Any = None,
        bias_axes: str | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        keep(self, locals())
        sizes = (output_shape,) if isinstance(output_shape, int) else output_shape
        self.partial_output_shape = tuple(sizes)
        self._output_shape = list(sizes)
        self.kernel: Any = None
        self.bias: Any = None
        self._parts = _parsed(equation)
        self._full_equation = ""

    def build(self, input_shape: Any) -> None:
        """Create kernel and bias for inputs of this shape.

        Raises:
            ValueError: The equation does not go with it or with ``output_shape``.
        """
        inputs, kernel, outputs, elided = self._axes(len(input_shape))
        sizes: dict[str, int | None] = dict(zip(inputs, input_shape, strict=True))
        own = outputs.removeprefix(elided).removesuffix(elided)
        count = len(self.partial_output_shape)
        # the batch has a letter of its own where ... is not in its place
        first = 0 if elided and outputs.startswith(elided) else 1
        if len(own) - first != count:
            raise ValueError(
                f"`output_shape` must have {len(own) - first} sizes for the equation "
                f"{self.equation!r}. Received: "
                f"output_shape={self.partial_output_shape}."
            )
        for axis, size in zip(own[first:], self.partial_output_shape, strict=True):
            if axis in inputs and size is not None and size != sizes[axis]:
                raise ValueError(
                    f"Input shape and output shape do not match at shared dimension "
                    f"{axis!r}. Input shape is {sizes[axis]}, and output shape is "
                    f"{size}."
                )
            if axis not in inputs:
                sizes[axis] = size
        self.kernel = weight_of(self, "kernel", self._sizes_of(kernel, sizes))
        if self.bias_axes:
            start = min(outputs.index(axis) for axis in self.bias_axes)
            shape = [
                self._sizes_of(axis, sizes)[0] if axis in self.bias_axes else 1
                for axis in outputs[start:]
            ]
            self.bias = weight_of(self, "bias", shape)
        self._full_equation = f"{inputs},{kernel}->{outputs}"

    def _axes(self, rank: int) -> tuple[str, str, str, str]:
        """Return the axes of inputs, kernel and result, and those that ``...`` stands
        for."""
        before, inputs, after, kernel, outputs = self._parts
        count = rank - len(inputs)
        if count < 0 or (count and not (before or after)):
            raise ValueError(
                f"The equation {self.equation!r} is for inputs of {len(inputs)} axes"
                f"{' at least' if before or after else ''}. Received: inputs with "
                f"{rank} axes."
            )
        spare = [axis for axis in _SPARE if axis not in self.equation]
        elided = "".join(spare[:count])
        if before:
            return elided + inputs, kernel, elided + outputs, elided
        return inputs + elided, kernel, outputs + elided, elided

    def _sizes_of(self, axes: str, sizes: dict[str, int | None]) -> list[int]:
        found = []
        for axis in axes:
            size = sizes.get(axis)
            if size is None:
                raise ValueError(
                    f"The size of the axis {axis!r} of the equation {self.equation!r} "
                    "is known neither from the inputs nor from `output_shape`. "
                    f"Received: output_shape={self.partial_output_shape}."
                )
            found.append(size)
        return found

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = tf.einsum(self._full_equation, inputs, self.kernel)
        if self.bias is not None:
            result = result + self.bias
        return self.activation(result)


def _parsed(equation: str) -> tuple[bool, str, bool, str, str]:
    """Return whether ``...`` is before or after the inputs' axes; axes of all three."""
    match = _EQUATION.fullmatch(equation.replace(" ", ""))
    if match is None:
        raise ValueError(
            "`equation` must look like 'ab,bc->ac', '...ab,bc->...ac' or "
            f"'ab...,bc->ac...'. Received: equation={equation!r}."
        )
    before, inputs, after, kernel, first, outputs, last = match.groups()
    if (before, after) != (first, last) or (before and after):
        raise ValueError(
            "'...' must be at one end of the inputs, and at the same end of the "
            f"result. Received: equation={equation!r}."
        )
    strange = sorted(set(outputs) - set(inputs) - set(kernel))
    if strange:
        raise ValueError(
            f"The axis {strange[0]!r} of the result is neither one of the inputs nor "
            f"one of the kernel. Received: equation={equation!r}."
        )
    return bool(before), inputs, bool(after), kernel, outputs
