# SPDX-License-Identifier: MIT
"""The common part of convolutional layers: their arguments, bias and activation.

Source: ``keras/layers/convolutional.py`` of Keras 2.6.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

from ipu import tf
from ipu.keras._arguments import KernelAttributes, keep
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import InputSpec
from ipu.keras.layers._spatial import SpatialLayer

_CHECKED = frozenset(
    "data_format dilation_rate filters groups kernel_size padding strides "
    "use_bias".split()
)


class Convolution(SpatialLayer, KernelAttributes):
    """A layer with a window that slides over ``rank`` axes, a bias and an activation.

    Args:
        arguments: The ``locals()`` of a subclass's constructor: ``kernel_size``,
            ``strides``, ``padding``, ``data_format``, ``activation``, ``use_bias``, the
            four about each weight, ``kwargs``; and what else there is.

    Raises:
        ValueError: An argument has not the form that Keras asks for.
    """

    _may_be_causal = False  # `padding`, over one axis
    filters: int

    def __init__(self, arguments: Mapping[str, Any], /) -> None:
        super().__init__(arguments["data_format"], **arguments["kwargs"])
        keep(self, arguments, _CHECKED)
        layer = type(self).__name__
        self.use_bias = bool(arguments["use_bias"])
        self.kernel_size = self._sizes("kernel_size", arguments["kernel_size"])
        self.strides = self._sizes("strides", arguments["strides"])
        rates = arguments.get("dilation_rate", 1)
        self.dilation_rate = self._sizes("dilation_rate", rates)
        self.padding = self._padding_argument(arguments["padding"])
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(
                f"`strides > 1` of {layer} is not supported in conjunction with "
                "`dilation_rate > 1`. "
                f"Received: strides={self.strides}, dilation_rate={self.dilation_rate}."
            )
        if "filters" in arguments:
            self.filters = filters_argument(layer, arguments["filters"])
        self.bias: Any = None
        self.input_spec = InputSpec(min_ndim=self.rank + 2)

    def _padding_argument(self, padding: Any) -> str:
        causal = self._may_be_causal and self.rank == 1
        name = padding.lower() if isinstance(padding, str) else padding
        if name == "causal" and not causal:
            raise ValueError(
                "Causal padding is only supported for `Conv1D` and `SeparableConv1D`. "
                f"Received: padding={padding!r} of {type(self).__name__}."
            )
        if name not in ("valid", "same", "causal"):
            raise ValueError(
                f"The `padding` argument of {type(self).__name__} must be 'valid' or "
                f"'same'{' or `causal`' if causal else ''}. "
                f"Received: padding={padding!r}."
            )
        return str(name)

    def _channels_of(self, input_shape: Any) -> int:
        """Return the input's channels, which the input has from now on."""
        axis = -1 - self.rank if self._channels_first else -1
        channels = input_shape[axis]
        if channels is None:
            raise ValueError(
                f"The channel dimension of the inputs of {type(self).__name__} should "
                f"be defined. Received: input_shape={tuple(input_shape)}."
            )
        self.input_spec = InputSpec(min_ndim=self.rank + 2, axes={axis: channels})
        return int(channels)

    def _zeros_around(self) -> Any:
        """Return the padding as ``tf.nn`` takes it; causal: all zeros in front."""
        if self.padding != "causal":
            return self.padding.upper()
        front = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        rest = [(0, 0), (front, 0)] if self._channels_first else [(front, 0), (0, 0)]
        return [(0, 0), *rest]

    def _finish(self, result: Tensor) -> Tensor:
        """Add the bias and apply the activation."""
        if self.bias is not None:
            if self._channels_first and result.ndim > self.rank + 2:
                shape = (-1, *[1] * self.rank)
                result = result + tf.reshape(self.bias, shape)
            else:
                first = "NC" if self._channels_first else None
                result = tf.nn.bias_add(result, self.bias, data_format=first)
        return self.activation(result)


def filters_argument(layer: str, filters: Any) -> int:
    """Return the number of results.

    Raises:
        ValueError: It is not a positive whole number.
    """
    number = isinstance(filters, numbers.Real) and not isinstance(filters, bool)
    if not number or filters % 1 != 0 or filters <= 0:
        raise ValueError(
            f"`filters` of {layer} must be a positive integer. "
            f"Received: filters={filters!r}."
        )
    return int(filters)
