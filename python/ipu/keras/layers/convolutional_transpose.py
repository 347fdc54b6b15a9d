# SPDX-License-Identifier: MIT
"""Transposed convolutions: from the size of results to that of inputs.

Source: ``keras/layers/convolutional.py`` of Keras 2.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.exports import export
from ipu.keras._arguments import weight_of
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import InputSpec
from ipu.keras.layers._convolution import Convolution

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import LayerOptions


class _ConvTranspose(Convolution):
    """The transpose of a convolution, see :class:`Conv2DTranspose`."""

    output_padding: tuple[int, ...] | None

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        output_padding: Any = None,
        data_format: str | None = None,
        dilation_rate: Any = 1,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(locals())
        self.kernel: Any = None
        if output_padding is not None:
            self.output_padding = self._sizes("output_padding", output_padding, least=0)
            pairs = zip(self.strides, self.output_padding, strict=True)
            if any(step <= more for step, more in pairs):
                raise ValueError(
                    f"Stride {self.strides} of {type(self).__name__} must be greater "
                    f"than output padding {self.output_padding}."
                )

    def build(self, input_shape: Any) -> None:
        """Create kernel and bias for inputs of this shape.

        Raises:
            ValueError: The channels are open, or the rank is another one.
        """
        if len(input_shape) != self.rank + 2:
            raise ValueError(
                f"Inputs of {type(self).__name__} should have rank {self.rank + 2}. "
                f"Received: input_shape={tuple(input_shape)}."
            )
        channels = self._channels_of(input_shape)
        self.input_spec = InputSpec(ndim=self.rank + 2, axes=self.input_spec.axes)
        self.kernel = weight_of(
            self, "kernel", (*self.kernel_size, self.filters, channels)
        )
        if self.use_bias:
            self.bias = weight_of(self, "bias", (self.filters,))

    def _length(self, axis: int, size: int) -> int:
        """Return the result's size along a spatial axis, as Keras counts it."""
        window, step = self.kernel_size[axis], self.strides[axis]
        reach = (window - 1) * self.dilation_rate[axis] + 1
        if self.output_padding is None:
            more = max(reach - step, 0) if self.padding == "valid" else 0
            return size * step + more
        border = reach // 2 if self.padding == "same" else 0
        return (size - 1) * step + reach - 2 * border + self.output_padding[axis]

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        first = 2 if self._channels_first else 1
        given = inputs.shape[first : first + self.rank]
        sizes = [self._length(i, size) for i, size in enumerate(given)]
        result = tf.nn.conv_transpose(
            inputs,
            self.kernel,
            sizes,
            strides=self.strides,
            padding=self._zeros_around(),
            data_format=self._format,
            dilations=self.dilation_rate,
        )
        return self._finish(result)


class Conv1DTranspose(_ConvTranspose):
    """The transpose of a convolution over sequences.

    The arguments are those of :class:`Conv2DTranspose`, for one axis.

    Example:
        >>> Conv1DTranspose(8, 3, strides=2)(tf.zeros((5, 7, 4))).shape
        (5, 15, 8)
    """

    rank = 1


class Conv2DTranspose(_ConvTranspose, strides=(1, 1), dilation_rate=(1, 1)):
    """The transpose of a convolution over images, also called deconvolution.

    It leads from what a :class:`Conv2D` of these arguments would give to what it took.

    Args:
        strides: Its steps over the result, in the same form.
        padding: ``"valid"`` or ``"same"``.
        output_padding: How much larger the result is, less than ``strides``, in the
            same form; None: sizes are ``size * strides`` (``"valid"``: and what a
            window reaches further).
        kernel_initializer: First values of the kernel
            ``(*kernel_size, filters, channels)``.

    The other arguments are those of :class:`Conv2D`.

    Raises:
        ValueError: An argument is not of that form.

    Example:
        >>> Conv2DTranspose(8, 3, strides=2)(tf.zeros((5, 7, 7, 4))).shape
        (5, 15, 15, 8)
    """

    rank = 2


class Conv3DTranspose(_ConvTranspose, strides=(1, 1, 1), dilation_rate=(1, 1, 1)):
    """The transpose of a convolution over volumes.

    The arguments are those of :class:`Conv2DTranspose`, for three axes.

    Example:
        >>> Conv3DTranspose(8, 2, strides=2)(tf.zeros((5, 3, 3, 3, 4))).shape
        (5, 6, 6, 6, 8)
    """

    rank = 3


Convolution1DTranspose = Conv1DTranspose
Convolution2DTranspose = Conv2DTranspose
Convolution3DTranspose = Conv3DTranspose


export(__name__)
