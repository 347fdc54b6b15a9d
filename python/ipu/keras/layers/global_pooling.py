# SPDX-License-Identifier: MIT
"""Averages and maxima over all steps, pixels or voxels of a sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.exports import export
from ipu.keras._types import Nest, Tensor
from ipu.keras.layers._spatial import SpatialLayer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions


class _GlobalPooling(SpatialLayer):
    """Reduces all axes between batch and channels.

    Args:
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.
        keepdims: Whether the reduced axes stay, with size 1.

    Raises:
        ValueError: ``data_format`` is neither.
    """

    def __init__(
        self,
        data_format: str | None = None,
        keepdims: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(data_format, **kwargs)
        self.keepdims = keepdims

    @property
    def _axes(self) -> list[int]:
        first = 2 if self._channels_first else 1
        return list(range(first, first + self.rank))


class GlobalAveragePooling2D(_GlobalPooling):
    """The average of each channel of an image.

    Example:
        >>> GlobalAveragePooling2D()(tf.ones((2, 4, 4, 3))).shape
        (2, 3)
    """

    rank = 2

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tf.reduce_mean(inputs, axis=self._axes, keepdims=self.keepdims)


class GlobalAveragePooling3D(GlobalAveragePooling2D):
    """The average of each channel of a volume.

    Example:
        >>> GlobalAveragePooling3D()(tf.ones((2, 4, 4, 4, 3))).shape
        (2, 3)
    """

    rank = 3


class GlobalAveragePooling1D(GlobalAveragePooling2D):
    """The average of each channel over all time steps; masked steps do not count.

    Example:
        >>> layer = GlobalAveragePooling1D()
        >>> layer(tf.constant([[[1.0], [3.0]]])).numpy().tolist()
        [[2.0]]
    """

    rank = 1

    def __init__(
        self, data_format: str = "channels_last", **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(data_format, **kwargs)
        self.supports_masking = True

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return None: there are no steps any more."""
        return None

    def call(
        self, inputs: Tensor, mask: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Average.

        Args:
            inputs: Shape ``(batch, steps, channels)``.
            mask: Shape ``(batch, steps)``, true for the steps that count; None for all.
            *args, **kwargs: Ignored.

        Raises:
            ValueError: The mask has another shape.
        """
        if mask is None:
            return super().call(inputs)
        [axis] = self._axes
        wanted = (inputs.shape[0], inputs.shape[axis])
        if tuple(mask.shape) != wanted:
            raise ValueError(
                f"The mask of layer {self.name} must have shape (batch, steps)="
                f"{wanted}, as the input has. Received: mask with shape "
                f"{tuple(mask.shape)}."
            )
        weights = tf.expand_dims(tf.cast(mask, inputs.dtype), 3 - axis)
        total = tf.reduce_sum(inputs * weights, axis=axis, keepdims=self.keepdims)
        return total / tf.reduce_sum(weights, axis=axis, keepdims=self.keepdims)


class GlobalMaxPooling2D(_GlobalPooling):
    """The largest element of each channel of an image.

    Example:
        >>> GlobalMaxPooling2D()(tf.ones((2, 4, 4, 3))).shape
        (2, 3)
    """

    rank = 2

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tf.reduce_max(inputs, axis=self._axes, keepdims=self.keepdims)


class GlobalMaxPooling3D(GlobalMaxPooling2D):
    """The largest element of each channel of a volume.

    Example:
        >>> GlobalMaxPooling3D()(tf.ones((2, 4, 4, 4, 3))).shape
        (2, 3)
    """

    rank = 3


class GlobalMaxPooling1D(GlobalMaxPooling2D):
    """The largest element of each channel over all time steps.

    Example:
        >>> GlobalMaxPooling1D()(tf.constant([[[1.0], [3.0]]])).numpy().tolist()
        [[3.0]]
    """

    rank = 1


GlobalAvgPool1D = GlobalAveragePooling1D
GlobalAvgPool2D = GlobalAveragePooling2D
GlobalAvgPool3D = GlobalAveragePooling3D
GlobalMaxPool1D = GlobalMaxPooling1D
GlobalMaxPool2D = GlobalMaxPooling2D
GlobalMaxPool3D = GlobalMaxPooling3D


export(__name__)
