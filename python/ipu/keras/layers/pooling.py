# SPDX-License-Identifier: MIT
"""Maxima and averages of windows of steps, pixels or voxels.

Source: ``tf.keras.layers`` of Keras 2.6.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._backend_state import state
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer

__all__ = [
    "AveragePooling1D",
    "AveragePooling2D",
    "AveragePooling3D",
    "AvgPool1D",
    "AvgPool2D",
    "AvgPool3D",
    "MaxPool1D",
    "MaxPool2D",
    "MaxPool3D",
    "MaxPooling1D",
    "MaxPooling2D",
    "MaxPooling3D",
]


class _Pooling(Layer):
    """Pools the axes between batch and channels.

    Args:
        pool_size: The size of the windows: a number, or one for each axis.
        strides: From one window to the next, likewise; None for ``pool_size``.
        padding: ``"valid"``: windows lie inside of the input; ``"same"``: there are
            ``ceil(size / stride)`` of them. Padding does not count.
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.
        **kwargs: What ``Layer`` takes.

    Raises:
        ValueError: An argument is none of these.
    """

    _rank = 0
    _pool = staticmethod(tf.nn.max_pool)

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if data_format not in (None, "channels_last", "channels_first"):
            raise ValueError(
                "`data_format` must be 'channels_last' or 'channels_first'. "
                f"Received: data_format={data_format!r}."
            )
        if str(padding).lower() not in ("valid", "same"):
            raise ValueError(
                f"`padding` must be 'valid' or 'same'. Received: padding={padding!r}."
            )
        self.pool_size = self._sizes("pool_size", pool_size)
        self.strides = self._sizes(
            "strides", self.pool_size if strides is None else strides
        )
        self.padding = str(padding).lower()
        self.data_format = data_format or state.image_data_format
        self.input_spec = InputSpec(ndim=self._rank + 2)

    def _sizes(self, name: str, value: Any) -> tuple[int, ...]:
        sizes = (value,) * self._rank if isinstance(value, int) else value
        try:
            sizes = tuple(map(int, sizes))
        except (TypeError, ValueError):
            sizes = ()
        if len(sizes) != self._rank or min(sizes) < 1:
            raise ValueError(
                f"`{name}` of {type(self).__name__} must be a positive integer, or "
                f"{self._rank} of them. Received: {name}={value!r}."
            )
        return sizes

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Pool."""
        axes = "DHW"[3 - self._rank :]
        first = self.data_format == "channels_first"
        return type(self)._pool(
            inputs,
            list(self.pool_size),
            list(self.strides),
            self.padding.upper(),
            f"NC{axes}" if first else f"N{axes}C",
        )

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "strides": self.strides,
            "pool_size": self.pool_size,
            "padding": self.padding,
            "data_format": self.data_format,
        }


class MaxPooling2D(_Pooling):
    """The largest element of each window of an image, channel by channel.

    Args:
        pool_size: The height and the width of the windows, or one number for both.
        strides: From one window to the next, likewise; None for ``pool_size``.
        padding: ``"valid"``: windows lie inside of the image; ``"same"``: there are
            ``ceil(size / stride)`` of them. Padding does not count.
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.
        **kwargs: What ``Layer`` takes.

    Raises:
        ValueError: An argument is none of these.

    Example:
        >>> MaxPooling2D()(tf.reshape(tf.range(16.0), [1, 4, 4, 1])).numpy().ravel()
        array([ 5.,  7., 13., 15.], dtype=float32)
    """

    _rank = 2


class MaxPooling1D(MaxPooling2D):
    """The largest element of each window of time steps, channel by channel.

    Args:
        pool_size: The length of the windows.
        strides: From one window to the next; None for ``pool_size``.
        padding: ``"valid"`` or ``"same"``, as for ``MaxPooling2D``.
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.
        **kwargs: What ``Layer`` takes.

    Example:
        >>> MaxPooling1D()(tf.constant([[[1.0], [3.0]]])).numpy().tolist()
        [[[3.0]]]
    """

    _rank = 1

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: str = "channels_last",
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, data_format, **kwargs)


class MaxPooling3D(MaxPooling2D):
    """The largest element of each window of a volume; arguments as ``MaxPooling2D``.

    Example:
        >>> MaxPooling3D()(tf.ones((1, 4, 4, 4, 2))).shape
        (1, 2, 2, 2, 2)
    """

    _rank = 3


class AveragePooling2D(_Pooling):
    """The average of each window of an image, channel by channel.

    Arguments are those of ``MaxPooling2D``; what lies in the padding does not count.

    Example:
        >>> layer = AveragePooling2D()
        >>> layer(tf.reshape(tf.range(4.0), [1, 2, 2, 1])).numpy().ravel().tolist()
        [1.5]
    """

    _rank = 2
    _pool = staticmethod(tf.nn.avg_pool)


class AveragePooling1D(MaxPooling1D):
    """The average of each window of time steps; arguments as for ``MaxPooling1D``.

    Example:
        >>> AveragePooling1D()(tf.constant([[[1.0], [3.0]]])).numpy().tolist()
        [[[2.0]]]
    """

    _pool = staticmethod(tf.nn.avg_pool)


class AveragePooling3D(AveragePooling2D):
    """The average of each window of a volume; arguments as for ``MaxPooling2D``.

    Example:
        >>> AveragePooling3D()(tf.ones((1, 4, 4, 4, 2))).shape
        (1, 2, 2, 2, 2)
    """

    _rank = 3


MaxPool1D = MaxPooling1D
MaxPool2D = MaxPooling2D
MaxPool3D = MaxPooling3D
AvgPool1D = AveragePooling1D
AvgPool2D = AveragePooling2D
AvgPool3D = AveragePooling3D
