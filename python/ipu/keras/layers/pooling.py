# SPDX-License-Identifier: MIT
"""Maxima and averages of windows of steps, pixels or voxels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.exports import export
from ipu.keras._types import Tensor
from ipu.keras.layers._spatial import SpatialLayer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions


class _Pooling(SpatialLayer):
    """Pools the axes between batch and channels, see :class:`MaxPooling2D`."""

    _pool = staticmethod(tf.nn.max_pool)

    def __init__(
        self,
        pool_size: Any = 2,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(data_format, **kwargs)
        if str(padding).lower() not in ("valid", "same"):
            raise ValueError(
                f"`padding` must be 'valid' or 'same'. Received: padding={padding!r}."
            )
        self.pool_size = self._sizes("pool_size", pool_size)
        steps = self.pool_size if strides is None else strides
        self.strides = self._sizes("strides", steps)
        self.padding = str(padding).lower()

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return type(self)._pool(
            inputs,
            list(self.pool_size),
            list(self.strides),
            self.padding.upper(),
            self._format,
        )


class MaxPooling2D(_Pooling):
    """The largest element of each window of an image, channel by channel.

    Args:
        pool_size: The height and the width of the windows, or one number for both.
        strides: From one window to the next, likewise; None for ``pool_size``.
        padding: ``"valid"``: windows lie inside of the image; ``"same"``: there are
            ``ceil(size / stride)`` of them. Padding does not count.
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.

    Raises:
        ValueError: An argument has another value.

    Example:
        >>> MaxPooling2D()(tf.reshape(tf.range(16.0), [1, 4, 4, 1])).numpy().ravel()
        array([ 5.,  7., 13., 15.], dtype=float32)
    """

    rank = 2


class MaxPooling1D(MaxPooling2D, data_format="channels_last"):
    """The largest element of each window of time steps, channel by channel.

    The arguments are those of :class:`MaxPooling2D`, for one axis.

    Example:
        >>> MaxPooling1D()(tf.constant([[[1.0], [3.0]]])).numpy().tolist()
        [[[3.0]]]
    """

    rank = 1


class MaxPooling3D(MaxPooling2D):
    """The largest element of each window of a volume; arguments as ``MaxPooling2D``.

    Example:
        >>> MaxPooling3D()(tf.ones((1, 4, 4, 4, 2))).shape
        (1, 2, 2, 2, 2)
    """

    rank = 3


class AveragePooling2D(_Pooling):
    """The average of each window of an image, channel by channel.

    Arguments are those of ``MaxPooling2D``; what lies in the padding does not count.

    Example:
        >>> layer = AveragePooling2D()
        >>> layer(tf.reshape(tf.range(4.0), [1, 2, 2, 1])).numpy().ravel().tolist()
        [1.5]
    """

    rank = 2
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

    rank = 3


MaxPool1D = MaxPooling1D
MaxPool2D = MaxPooling2D
MaxPool3D = MaxPooling3D
AvgPool1D = AveragePooling1D
AvgPool2D = AveragePooling2D
AvgPool3D = AveragePooling3D


export(__name__)
