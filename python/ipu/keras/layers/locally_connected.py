# SPDX-License-Identifier: MIT
"""Layers like convolutions, whose filters differ from place to place.

Source: ``keras/layers/local.py`` of Keras 2.6, with ``implementation=1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras._arguments import weight_of
from ipu.keras._types import Tensor
from ipu.keras.layers._convolution import Convolution

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import LayerOptions

__all__ = ["LocallyConnected1D", "LocallyConnected2D"]


class _LocallyConnected(Convolution):
    """Filters of their own for each window, see :class:`LocallyConnected2D`."""

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        implementation: int = 1,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(locals())
        self.kernel: Any = None
        layer = type(self).__name__
        if implementation != 1:
            raise ValueError(
                f"{layer} stores its kernel in the form of implementation=1 alone. "
                f"Received: implementation={implementation!r}."
            )
        if self.padding != "valid":
            raise ValueError(
                f"Invalid border mode for {layer} (only 'valid' is supported if "
                f"implementation is 1). Received: padding={padding!r}."
            )

    def _windows(self, input_shape: Any) -> list[int]:
        """Return how many windows each spatial axis has."""
        first = 2 if self._channels_first else 1
        sizes = list(input_shape[first : first + self.rank])
        steps = zip(sizes, self.kernel_size, self.strides, strict=True)
        if None in sizes or any(n < k for n, k, _ in steps):
            raise ValueError(
                f"The spatial dimensions of the inputs of {type(self).__name__} must "
                f"be defined and at least {self.kernel_size}. Received: "
                f"input_shape={tuple(input_shape)}."
            )
        steps = zip(sizes, self.kernel_size, self.strides, strict=True)
        return [(n - k) // s + 1 for n, k, s in steps]

    def build(self, input_shape: Any) -> None:
        """Create kernel and bias for inputs of this shape.

        Raises:
            ValueError: A dimension is open, or shorter than the window.
        """
        channels = self._channels_of(input_shape)
        windows = self._windows(input_shape)
        depth = int(np.prod(self.kernel_size)) * channels
        self.kernel = weight_of(
            self, "kernel", (int(np.prod(windows)), depth, self.filters)
        )
        if self.use_bias:
            self.bias = weight_of(self, "bias", (*windows, self.filters))
        self.built = True

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        first = self._channels_first
        if first:
            inputs = tf.transpose(inputs, [0, *range(2, self.rank + 2), 1])
        windows = self._patches(inputs)
        places, depth = windows.shape[1:-1], windows.shape[-1]
        rows = tf.reshape(windows, [-1, int(np.prod(places)), depth])
        turned = tf.transpose(rows, [1, 0, 2])
        product = tf.transpose(tf.matmul(turned, self.kernel), [1, 0, 2])
        result = tf.reshape(product, [-1, *places, self.filters])
        if self.bias is not None:
            result = result + self.bias
        if first:
            result = tf.transpose(result, [0, self.rank + 1, *range(1, self.rank + 1)])
        return self.activation(result)

    def _patches(self, inputs: Tensor) -> Tensor:
        """Return [batch, the windows, the elements of one]; the channels come last
        among those, or first where they come first in the inputs, as Keras has them."""
        shape = inputs.shape
        if self.rank == 1:
            inputs = tf.reshape(inputs, [-1, 1, shape[1], shape[2]])
        ones = [1] * (2 - self.rank)
        found = tf.image.extract_patches(
            inputs,
            [1, *ones, *self.kernel_size, 1],
            [1, *ones, *self.strides, 1],
            [1, 1, 1, 1],
            "VALID",
        )
        if self._channels_first:
            count = int(np.prod(self.kernel_size))
            parts = tf.reshape(found, [-1, *found.shape[1:3], count, shape[-1]])
            order = tf.transpose(parts, [0, 1, 2, 4, 3])
            found = tf.reshape(order, [-1, *found.shape[1:]])
        if self.rank == 1:
            found = tf.reshape(found, [-1, *found.shape[2:]])
        return found


class LocallyConnected1D(_LocallyConnected):
    """Filters of their own for each place of sequences ``(batch, steps, channels)``.

    The arguments are those of :class:`LocallyConnected2D`, for one axis.

    Example:
        >>> LocallyConnected1D(8, 3)(tf.zeros((5, 20, 4))).shape
        (5, 18, 8)
    """

    rank = 1


class LocallyConnected2D(_LocallyConnected, strides=(1, 1)):
    """Filters of their own for each place of images: a convolution that shares none.

    Args:
        padding: ``"valid"``: only windows that lie in the image.
        kernel_initializer: First values of the kernel
            ``(windows, window size * channels, filters)``.
        bias_initializer: First values of the bias ``(*windows, filters)``.
        implementation: 1: the form in which Keras stores the kernel.

    The other arguments are those of :class:`Conv2D`.

    Raises:
        ValueError: An argument is not of that form.

    Example:
        >>> LocallyConnected2D(8, 3)(tf.zeros((5, 28, 28, 1))).shape
        (5, 26, 26, 8)
    """

    rank = 2
