# SPDX-License-Identifier: MIT
"""Layers that bring data into the form that a network learns from.

They are ``keras.layers.Normalization`` and so on, and also, as in Keras 2.6, in
``keras.layers.experimental.preprocessing``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras._pictures import smart_resize
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import Layer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["CenterCrop", "Normalization", "Rescaling", "Resizing"]


class PreprocessingLayer(Layer):
    """Base class of layers whose state comes from data, not from training.

    Example:
        >>> issubclass(Normalization, PreprocessingLayer)
        True
    """

    sparse = False  # results are dense

    def adapt(
        self, data: Any, batch_size: int | None = None, steps: int | None = None
    ) -> None:
        """Take the state from data.

        Args:
            data: An array, or a batched data set of such.
            batch_size: Ignored.
            steps: How many batches of a data set; None for all.
        """
        raise NotImplementedError(f"{type(self).__name__} has no state to adapt.")


class Normalization(PreprocessingLayer):
    """``(x - mean) / sqrt(variance)`` with the moments of data seen before.

    Args:
        axis: The axis, or axes, that have moments of their own; None for one mean and
            one variance of everything.
        mean: The mean, instead of ``adapt``.
        variance: The variance.

    Raises:
        ValueError: One of ``mean`` and ``variance`` without the other.

    Example:
        >>> layer = Normalization()
        >>> layer.adapt(np.array([[1.0], [3.0]], np.float32))
        >>> layer(tf.constant([[5.0]])).numpy().tolist()
        [[3.0]]
    """

    _left_out = ("axis", "mean", "variance")

    def __init__(
        self,
        axis: int | Sequence[int] | None = -1,
        mean: Any = None,
        variance: Any = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        if (mean is None) != (variance is None):
            raise ValueError(
                "When setting values directly, both `mean` and `variance` must be set. "
                f"Received: mean={mean} and variance={variance}."
            )
        if axis is None:
            self.axis: tuple[int, ...] = ()
        else:
            self.axis = (axis,) if isinstance(axis, int) else tuple(axis)
        self.input_mean = mean
        self.input_variance = variance
        self.adapt_mean: Any = None
        self.adapt_variance: Any = None
        self.count: Any = None

    def build(self, input_shape: Any) -> None:
        """Create the moments.

        Raises:
            ValueError: A kept axis is out of range or of open size.
        """
        rank = len(input_shape)
        if any(not -rank <= axis < rank for axis in self.axis):
            raise ValueError(
                f"All `axis` values must be in the range [-{rank}, {rank}). "
                f"Received: axis={self.axis}, input_shape={tuple(input_shape)}."
            )
        kept = sorted(axis % rank for axis in self.axis)
        shape = [input_shape[axis] if axis in kept else 1 for axis in range(rank)]
        if None in shape:
            raise ValueError(
                "All `axis` values to be kept must have known shape. "
                f"Received: axis={self.axis}, input_shape={tuple(input_shape)}."
            )
        self._kept, self._shape = kept, tuple(shape)
        sizes = tuple(shape[axis] for axis in kept)
        if self.input_mean is None:
            self.adapt_mean = self.add_weight(
                "mean", sizes, initializer="zeros", trainable=False
            )
            self.adapt_variance = self.add_weight(
                "variance", sizes, initializer="ones", trainable=False
            )
            self.count = self.add_weight(
                "count", (), dtype="int32", initializer="zeros", trainable=False
            )

    def adapt(
        self, data: Any, batch_size: int | None = None, steps: int | None = None
    ) -> None:
        """Take mean and variance from data, on the host.

        Raises:
            ValueError: Mean and variance were given, or there are no data.
        """
        del batch_size
        if self.input_mean is not None:
            raise ValueError(
                "Cannot `adapt` a Normalization layer that is initialized with static "
                f"`mean` and `variance`. Received: mean={self.input_mean}."
            )
        total: Any = 0.0
        squares: Any = 0.0
        count = 0
        for number, batch in enumerate(_batches(data)):
            if number == steps:
                break
            values = np.asarray(batch, np.float64)
            if values.ndim == 1:
                values = values[:, None]
            if not self.built:
                self._maybe_build(values)
            others = tuple(a for a in range(values.ndim) if a not in self._kept)
            total = total + values.sum(axis=others)
            squares = squares + np.square(values).sum(axis=others)
            count += math.prod(values.shape[axis] for axis in others)
        if count == 0:
            raise ValueError("There are no data to adapt to.")
        mean = total / count
        variance = np.maximum(squares / count - np.square(mean), 0.0)
        self.adapt_mean.assign(np.asarray(mean, np.float32))
        self.adapt_variance.assign(np.asarray(variance, np.float32))
        self.count.assign(np.int32(min(count, 2**31 - 1)))

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        inputs = tf.cast(inputs, self._compute_kind)
        return (inputs - self.mean) / tf.maximum(tf.sqrt(self.variance), 1e-7)

    @property
    def mean(self) -> Any:
        """The mean, of the inputs' rank; None before the layer is built."""
        return self._moment(self.input_mean, self.adapt_mean)

    @property
    def variance(self) -> Any:
        """The variance, likewise."""
        return self._moment(self.input_variance, self.adapt_variance)

    def _moment(self, given: Any, adapted: Any) -> Any:
        if not self.built:
            return None
        if given is not None:
            return self._constant(given)
        return tf.reshape(adapted, self._shape)

    def _constant(self, value: Any) -> Tensor:
        array = np.asarray(value, np.float32)
        whole = np.broadcast_to(array, [self._shape[axis] for axis in self._kept])
        return tf.cast(tf.constant(whole.reshape(self._shape)), self._compute_kind)

    def get_config(self) -> dict[str, Any]:
        mean, variance = (
            None if value is None else np.asarray(value).tolist()
            for value in (self.input_mean, self.input_variance)
        )
        own = {"axis": list(self.axis) or None, "mean": mean, "variance": variance}
        return {**super().get_config(), **own}


def _batches(data: Any) -> Any:
    is_data_set = hasattr(data, "element_spec")
    return data if is_data_set else [data]


class Rescaling(PreprocessingLayer):
    """``x * scale + offset``.

    Args:
        scale: The factor, such as ``1 / 255``.
        offset: The number that is added.

    Example:
        >>> Rescaling(0.5, 1.0)(tf.constant([4])).numpy().tolist()
        [3.0]
    """

    def __init__(
        self, scale: Any, offset: Any = 0.0, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.scale = scale
        self.offset = offset

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = tf.cast(inputs, self._compute_kind)
        scale, offset = (
            tf.constant(value, dtype=self._compute_kind)
            for value in (self.scale, self.offset)
        )
        return x * scale + offset


def check_size(owner: str, height: Any, width: Any) -> None:
    """Raise ValueError for a size that no image has."""
    if height < 1 or width < 1:
        raise ValueError(
            f"`height` and `width` of {owner} must be positive. Received: "
            f"height={height!r}, width={width!r}."
        )


class _ImageSize(PreprocessingLayer):
    def __init__(
        self, height: int, width: int, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        check_size(type(self).__name__, height, width)
        self.height = height
        self.width = width


class CenterCrop(_ImageSize):
    """The middle of images ``(..., rows, columns, channels)``.

    Of images that are smaller it is the largest middle part of those proportions,
    resized.

    Args:
        height: How many rows stay.
        width: How many columns stay.

    Raises:
        ValueError: A size is not positive.

    Source: ``tf.keras.layers.CenterCrop`` of Keras 2.8.

    Example:
        >>> image = tf.reshape(tf.range(4.0), (1, 4, 1))
        >>> CenterCrop(1, 2)(image).numpy().ravel().tolist()
        [1.0, 2.0]
    """

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        rows, columns = tuple(inputs.shape)[-3:-1]
        if rows < self.height or columns < self.width:
            images = tf.cast(inputs, self._compute_kind)
            return smart_resize(images, (self.height, self.width))
        top, left = (rows - self.height) // 2, (columns - self.width) // 2
        return inputs[..., top : top + self.height, left : left + self.width, :]


class Resizing(_ImageSize):
    """Images of another size.

    Args:
        height: The number of rows.
        width: The number of columns.
        interpolation: A method of ``tf.image.resize``.
        crop_to_aspect_ratio: Whether what does not fit is cut off before, at both
            sides, so that proportions stay.

    Raises:
        ValueError: A size is not positive.

    Example:
        >>> Resizing(2, 2, crop_to_aspect_ratio=True)(tf.ones((1, 4, 8, 3))).shape
        (1, 2, 2, 3)
    """

    def __init__(
        self,
        height: int,
        width: int,
        interpolation: str = "bilinear",
        crop_to_aspect_ratio: bool = False,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(height, width, **kwargs)
        self.interpolation = interpolation
        self.crop_to_aspect_ratio = crop_to_aspect_ratio

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        size = (self.height, self.width)
        if self.crop_to_aspect_ratio:
            images = tf.cast(inputs, self._compute_kind)
            return smart_resize(images, size, self.interpolation)
        return tf.image.resize(inputs, size, method=self.interpolation)
