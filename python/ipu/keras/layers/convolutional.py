# SPDX-License-Identifier: MIT
"""Convolutions over sequences, images and volumes.

Source: ``keras/layers/convolutional.py`` of Keras 2.6.
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


class _Conv(Convolution):
    """A convolution with filters of its own, see :class:`Conv2D`."""

    _may_be_causal = True

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str | None = None,
        dilation_rate: Any = 1,
        groups: int = 1,
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
        layer = type(self).__name__
        self.groups = sizes_argument(layer, "groups", groups, 1)[0]
        if self.filters % self.groups != 0:
            raise ValueError(
                "The number of filters must be evenly divisible by the number of "
                f"groups. Received: groups={self.groups}, filters={self.filters} "
                f"of {layer}."
            )

    def build(self, input_shape: Any) -> None:
        """Create kernel and bias for inputs of this shape.

        Raises:
            ValueError: The channels are open, or ``groups`` does not divide them.
        """
        channels = self._channels_of(input_shape)
        if channels % self.groups != 0:
            raise ValueError(
                "The number of input channels must be evenly divisible by the number "
                f"of groups. Received: groups={self.groups} of {type(self).__name__}, "
                f"but the input has {channels} channels "
                f"(input_shape={tuple(input_shape)})."
            )
        depth = channels // self.groups
        self.kernel = weight_of(
            self, "kernel", (*self.kernel_size, depth, self.filters)
        )
        if self.use_bias:
            self.bias = weight_of(self, "bias", (self.filters,))

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = tf.nn.convolution(
            inputs,
            self.kernel,
            strides=self.strides,
            padding=self._zeros_around(),
            data_format=self._format,
            dilations=self.dilation_rate,
        )
        return self._finish(result)


class Conv1D(_Conv, data_format="channels_last"):
    """Slides filters over sequences ``(batch, steps, channels)``.

    The arguments are those of :class:`Conv2D`, for one axis; ``padding`` may also be
    ``"causal"``: zeros are put in front, so that a result depends on no later step.

    Example:
        >>> Conv1D(8, 3, padding="causal")(tf.zeros((5, 20, 4))).shape
        (5, 20, 8)
    """

    rank = 1


class Conv2D(_Conv, strides=(1, 1), dilation_rate=(1, 1)):
    """Slides filters over images: ``activation(inputs * kernel + bias)``.

    Args:
        filters: The number of results, positive: the result's channels.
        kernel_size: The size of the window: an integer, or one for each spatial axis.
        strides: Its steps, in the same form.
        padding: ``"valid"``: only windows that lie in the image; ``"same"``: zeros are
            put around, so that results are of ceil(size / strides).
        data_format: ``"channels_last"`` (the default, see ``keras.backend``) or
            ``"channels_first"``.
        dilation_rate: Steps between the elements under the window, in the form of
            ``strides``; one of the two is 1.
        groups: Into how many groups the input's channels fall. Each is seen by an equal
            share of the filters alone.
        activation: A name or a function; None for linear.
        use_bias: Whether there is a bias.
        kernel_initializer: First values of the kernel
            ``(*kernel_size, channels / groups, filters)``.
        bias_initializer: First values of the bias ``(filters,)``.
        kernel_regularizer, bias_regularizer: Penalties on kernel and bias.
        activity_regularizer: A penalty on the result, divided by the batch size.
        kernel_constraint, bias_constraint: Their constraints after each update.

    Raises:
        ValueError: An argument is not of that form, or ``groups`` does not divide
            ``filters``.

    Example:
        >>> Conv2D(8, 3, padding="same")(tf.zeros((5, 28, 28, 1))).shape
        (5, 28, 28, 8)
    """

    rank = 2


class Conv3D(_Conv, strides=(1, 1, 1), dilation_rate=(1, 1, 1)):
    """Slides filters over volumes ``(batch, depth, height, width, channels)``.

    The arguments are those of :class:`Conv2D`, for three axes.

    Example:
        >>> Conv3D(8, 3)(tf.zeros((5, 9, 9, 9, 1))).shape
        (5, 7, 7, 7, 8)
    """

    rank = 3


Convolution1D = Conv1D
Convolution2D = Conv2D
Convolution3D = Conv3D


export(__name__)
