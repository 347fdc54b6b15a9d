# SPDX-License-Identifier: MIT
"""Layers like convolutions, whose filters differ from place to place.

Source: ``keras/layers/local.py`` of Keras 2.6, with ``implementation=1``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras._arguments import weight_of
from ipu.keras._local_windows import local_conv
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

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = local_conv(
            inputs,
            self.kernel,
            self.kernel_size,
            self.strides,
            data_format=self.data_format,
        )
        if self.bias is not None:
            bias = self.bias
            if self._channels_first:
                bias = tf.transpose(bias, [self.rank, *range(self.rank)])
            result = result + bias
        return self.activation(result)


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
