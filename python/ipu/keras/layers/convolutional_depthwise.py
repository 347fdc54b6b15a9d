# SPDX-License-Identifier: MIT
"""Convolutions of each channel by itself, and such in front of a mix of the channels.

Source: ``keras/layers/convolutional.py`` of Keras 2.6; DepthwiseConv1D: of Keras 2.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.exports import export
from ipu.keras._arguments import weight_of
from ipu.keras._types import Tensor
from ipu.keras.layers._convolution import Convolution
from ipu.keras.layers._spatial import sizes_argument

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import LayerOptions


class _Depthwise(Convolution):
    """A convolution of each channel by itself, see :class:`DepthwiseConv2D`."""

    def __init__(
        self,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        depth_multiplier: int = 1,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        self._keep_depthwise(locals())

    def _keep_depthwise(self, arguments: dict[str, Any]) -> None:
        Convolution.__init__(self, arguments)
        multiplier = arguments["depth_multiplier"]
        self.depth_multiplier = sizes_argument(
            type(self).__name__, "depth_multiplier", multiplier, 1
        )[0]
        self.depthwise_kernel: Any = None

    def _build_depthwise(self, input_shape: Any) -> int:
        """Return the number of channels after the first step."""
        channels = self._channels_of(input_shape)
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        self.depthwise_kernel = weight_of(self, "depthwise_kernel", shape, "depthwise")
        return channels * self.depth_multiplier

    def build(self, input_shape: Any) -> None:
        """Create kernel and bias for inputs of this shape.

        Raises:
            ValueError: The channels are open.
        """
        results = self._build_depthwise(input_shape)
        if self.use_bias:
            self.bias = weight_of(self, "bias", (results,))

    def _depthwise(self, inputs: Tensor) -> Tensor:
        kernel = self.depthwise_kernel
        channels, multiplier = kernel.shape[-2:]
        shape = (*self.kernel_size, 1, channels * multiplier)
        return tf.nn.convolution(
            inputs,
            tf.reshape(kernel, shape),
            strides=self.strides,
            padding=self._zeros_around(),
            data_format=self._format,
            dilations=self.dilation_rate,
        )

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._finish(self._depthwise(inputs))


class _Separable(_Depthwise):
    """A depthwise convolution, then a mix of channels, see :class:`SeparableConv2D`."""

    _may_be_causal = True

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = "glorot_uniform",
        pointwise_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        self._keep_depthwise(locals())
        self.pointwise_kernel: Any = None

    def build(self, input_shape: Any) -> None:
        """Create both kernels and the bias for inputs of this shape.

        Raises:
            ValueError: The channels are open.
        """
        middle = self._build_depthwise(input_shape)
        shape = (*(1,) * self.rank, middle, self.filters)
        self.pointwise_kernel = weight_of(self, "pointwise_kernel", shape, "pointwise")
        if self.use_bias:
            self.bias = weight_of(self, "bias", (self.filters,))

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        mixed = tf.nn.convolution(
            self._depthwise(inputs), self.pointwise_kernel, data_format=self._format
        )
        return self._finish(mixed)


class DepthwiseConv1D(_Depthwise):
    """Slides filters over sequences, for each channel by itself.

    The arguments are those of :class:`DepthwiseConv2D`, for one axis.

    Example:
        >>> DepthwiseConv1D(3)(tf.zeros((5, 9, 4))).shape
        (5, 7, 4)
    """

    rank = 1


class DepthwiseConv2D(_Depthwise, strides=(1, 1), dilation_rate=(1, 1)):
    """Slides filters over images, for each channel by itself.

    Args:
        padding: ``"valid"`` or ``"same"``.
        depth_multiplier: How many results each channel gives.
        depthwise_initializer: First values of the kernel
            ``(*kernel_size, channels, depth_multiplier)``.
        bias_initializer: First values of the bias ``(channels * depth_multiplier,)``.

    The other arguments are those of :class:`Conv2D`.

    Raises:
        ValueError: An argument is not of that form.

    Example:
        >>> DepthwiseConv2D(3, depth_multiplier=2)(tf.zeros((5, 9, 9, 4))).shape
        (5, 7, 7, 8)
    """

    rank = 2


class SeparableConv1D(_Separable):
    """A depthwise convolution over sequences, then a mix of the channels at each step.

    The arguments are those of :class:`SeparableConv2D`, for one axis; ``padding`` may
    also be ``"causal"``.

    Example:
        >>> SeparableConv1D(8, 3, padding="causal")(tf.zeros((5, 9, 4))).shape
        (5, 9, 8)
    """

    rank = 1


class SeparableConv2D(_Separable, strides=(1, 1), dilation_rate=(1, 1)):
    """A depthwise convolution over images, then a mix of the channels at each pixel.

    Args:
        padding: ``"valid"`` or ``"same"``.
        depth_multiplier: How many results each channel gives in the first step.
        depthwise_initializer: First values of the first kernel
            ``(*kernel_size, channels, depth_multiplier)``.
        pointwise_initializer: First values of the second kernel
            ``(1, 1, channels * depth_multiplier, filters)``.
        depthwise_regularizer: A penalty on the first kernel.
        pointwise_regularizer: A penalty on the second kernel.
        depthwise_constraint: The constraint of the first kernel after each update.
        pointwise_constraint: The same for the second kernel.

    The other arguments are those of :class:`Conv2D`.

    Raises:
        ValueError: An argument is not of that form.

    Example:
        >>> SeparableConv2D(8, 3)(tf.zeros((5, 9, 9, 4))).shape
        (5, 7, 7, 8)
    """

    rank = 2


SeparableConvolution1D = SeparableConv1D
SeparableConvolution2D = SeparableConv2D


export(__name__)
