# SPDX-License-Identifier: MIT
"""What convolutional layers share: their arguments, and bias and activation.

Source: ``keras/layers/convolutional.py`` of Keras 2.6.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras import activations, constraints, initializers, regularizers
from ipu.keras._backend_state import state
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer

_FORMATS = {1: "NWC NCW", 2: "NHWC NCHW", 3: "NDHWC NCDHW"}


def sizes_argument(
    layer: str, name: str, value: Any, rank: int, least: int = 1
) -> tuple[int, ...]:
    """One whole number for each spatial axis, of one for all or of a sequence.

    Raises:
        ValueError: It is neither, or a number is less than ``least``.
    """
    items = (value,) * rank if isinstance(value, numbers.Integral) else value
    try:
        sizes = tuple(int(n) for n in items)
    except (TypeError, ValueError):
        sizes = ()
    if len(sizes) != rank:
        raise ValueError(
            f"The `{name}` argument of {layer} must be an integer or a tuple of {rank} "
            f"integers. Received: {name}={value!r}."
        )
    if min(sizes) < least:
        raise ValueError(
            f"The `{name}` argument of {layer} must have no entry below {least}. "
            f"Received: {name}={value!r}."
        )
    return sizes


class Convolution(Layer):
    """A layer with a window that slides over ``rank`` axes, a bias and an activation.

    Args:
        window: ``kernel_size``.
        strides: Steps of the window.
        padding: ``"valid"``, ``"same"`` or, where ``causal``, ``"causal"``.
        data_format: Where the channels are.
        dilation_rate: Steps between the elements under the window.
        options: ``activation``, ``use_bias``, ``activity_regularizer`` and the three
            arguments about the bias.
        causal: Whether ``padding`` may be ``"causal"``.
        **kwargs: What ``Layer`` takes.

    Raises:
        ValueError: An argument has not the form that Keras asks for.
    """

    rank = 0
    # weights beside the bias: arguments give their initializers, ...
    _kernels: tuple[str, ...] = ("kernel",)

    def __init__(
        self,
        window: Any,
        strides: Any,
        padding: str,
        data_format: str | None,
        dilation_rate: Any,
        options: dict[str, Any],
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            activity_regularizer=options.get("activity_regularizer"), **kwargs
        )
        layer = type(self).__name__
        self.kernel_size = sizes_argument(layer, "kernel_size", window, self.rank)
        self.strides = sizes_argument(layer, "strides", strides, self.rank)
        self.dilation_rate = sizes_argument(
            layer, "dilation_rate", dilation_rate, self.rank
        )
        self.padding = self._padding_argument(padding, causal)
        if data_format not in (None, "channels_last", "channels_first"):
            raise ValueError(
                "`data_format` must be 'channels_last' or 'channels_first'. "
                f"Received: data_format={data_format!r}."
            )
        self.data_format = data_format or state.image_data_format
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise ValueError(
                f"`strides > 1` of {layer} is not supported in conjunction with "
                "`dilation_rate > 1`. "
                f"Received: strides={self.strides}, dilation_rate={self.dilation_rate}."
            )
        self.activation = activations.get(options.get("activation"))
        self.use_bias = bool(options.get("use_bias", True))
        for name in ("bias", *self._kernels):
            self._keep_kind(name, options)
        self.bias: Any = None
        self.input_spec = InputSpec(min_ndim=self.rank + 2)

    def _keep_kind(self, name: str, options: dict[str, Any]) -> None:
        default = "zeros" if name == "bias" else "glorot_uniform"
        made = {
            "initializer": initializers.get(
                options.get(f"{name}_initializer", default)
            ),
            "regularizer": regularizers.get(options.get(f"{name}_regularizer")),
            "constraint": constraints.get(options.get(f"{name}_constraint")),
        }
        for kind, value in made.items():
            setattr(self, f"{name}_{kind}", value)

    def _padding_argument(self, padding: Any, causal: bool) -> str:
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

    @property
    def _channels_first(self) -> bool:
        return self.data_format == "channels_first"

    @property
    def _format(self) -> str:
        return _FORMATS[self.rank].split()[self._channels_first]

    def _channels_of(self, input_shape: Any) -> int:
        """The input's channels, which the input has from now on.

        Raises:
            ValueError: They are open.
        """
        axis = -1 - self.rank if self._channels_first else -1
        channels = input_shape[axis]
        if channels is None:
            raise ValueError(
                f"The channel dimension of the inputs of {type(self).__name__} should "
                f"be defined. Received: input_shape={tuple(input_shape)}."
            )
        self.input_spec = InputSpec(min_ndim=self.rank + 2, axes={axis: channels})
        return int(channels)

    def _add(self, name: str, shape: Sequence[int]) -> Any:
        return self.add_weight(
            name,
            tuple(shape),
            initializer=getattr(self, f"{name}_initializer"),
            regularizer=getattr(self, f"{name}_regularizer"),
            constraint=getattr(self, f"{name}_constraint"),
        )

    def _zeros_around(self) -> Any:
        """The padding as ``tf.nn`` takes it; causal: all zeros in front."""
        if self.padding != "causal":
            return self.padding.upper()
        front = self.dilation_rate[0] * (self.kernel_size[0] - 1)
        rest = [(0, 0), (front, 0)] if self._channels_first else [(front, 0), (0, 0)]
        return [(0, 0), *rest]

    def _finish(self, result: Tensor) -> Tensor:
        """Bias and activation."""
        if self.bias is not None:
            if self._channels_first and result.ndim > self.rank + 2:
                shape = (-1, *[1] * self.rank)
                result = result + tf.reshape(self.bias, shape)
            else:
                first = "NC" if self._channels_first else None
                result = tf.nn.bias_add(result, self.bias, data_format=first)
        return self.activation(result)

    def _kernel_config(self) -> dict[str, Any]:
        """What is said about weights and the activation, as plain data."""
        config: dict[str, Any] = {
            "activation": activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "activity_regularizer": regularizers.serialize(self.activity_regularizer),
        }
        for name in ("bias", *self._kernels):
            for kind, module in (
                ("initializer", initializers),
                ("regularizer", regularizers),
                ("constraint", constraints),
            ):
                config[f"{name}_{kind}"] = module.serialize(
                    getattr(self, f"{name}_{kind}")
                )
        return config

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "strides": self.strides,
            "padding": self.padding,
            "data_format": self.data_format,
            "dilation_rate": self.dilation_rate,
            **self._kernel_config(),
        }


def filters_argument(layer: str, filters: Any) -> int:
    """The number of results.

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
