# SPDX-License-Identifier: MIT
"""Layers that disturb their input in training, and a penalty on activations."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.exports import export
from ipu.keras import regularizers
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer
from ipu.keras.layers._spatial import format_argument
from ipu.keras.layers.core import Dropout

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions


class GaussianNoise(Layer):
    """In training, adds normal noise.

    Args:
        stddev: The standard deviation of the noise.
        seed: An integer for a random sequence of the layer's own.

    Example:
        >>> GaussianNoise(0.1)(tf.ones((2, 2))).numpy().tolist()  # not in training
        [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(
        self,
        stddev: float,
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.stddev = stddev
        self.seed = seed

    def call(
        self, inputs: Tensor, training: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        if not training:
            return inputs
        shape, dtype = tuple(inputs.shape), inputs.dtype
        noise = tf.random.normal(shape, 0.0, self.stddev, dtype=dtype, seed=self.seed)
        return inputs + noise


class GaussianDropout(Layer):
    """In training, multiplies with normal noise of mean 1.

    Args:
        rate: As in ``Dropout``, in [0, 1): the noise has the standard deviation
            ``sqrt(rate / (1 - rate))``, that of dropping out.
        seed: An integer for a random sequence of the layer's own.

    Raises:
        ValueError: ``rate`` is not in [0, 1).

    Example:
        >>> GaussianDropout(0.5)(tf.ones((2, 2)), training=True).shape
        (2, 2)
    """

    def __init__(
        self, rate: float, seed: int | None = None, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        _check_rate(self, rate)
        self.supports_masking = True
        self.rate = rate
        self.seed = seed

    def call(
        self, inputs: Tensor, training: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        stddev = math.sqrt(self.rate / (1.0 - self.rate))
        shape, dtype = tuple(inputs.shape), inputs.dtype
        noise = tf.random.normal(shape, 1.0, stddev, dtype=dtype, seed=self.seed)
        return inputs * noise


class AlphaDropout(Layer):
    """Dropout for networks of ``selu``: keeps mean and variance of the inputs.

    Args:
        rate: The part that is set to the function's negative limit, in [0, 1).
        noise_shape: The shape in which decisions are drawn; None for the input's.
        seed: An integer for a random sequence of the layer's own.

    Raises:
        ValueError: ``rate`` is not in [0, 1).

    Example:
        >>> AlphaDropout(0.5)(tf.ones((2, 2)), training=True).shape
        (2, 2)
    """

    def __init__(
        self,
        rate: float,
        noise_shape: Any = None,
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        _check_rate(self, rate)
        self.supports_masking = True
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(
        self, inputs: Tensor, training: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        if not training or self.rate == 0:
            return inputs
        limit = -1.6732632423543772 * 1.0507009873554805
        keep = 1.0 - self.rate
        scale = (keep * (1.0 + self.rate * limit**2)) ** -0.5
        shift = -scale * limit * self.rate
        shape = tuple(inputs.shape if self.noise_shape is None else self.noise_shape)
        drawn = tf.random.uniform(shape, dtype="float32", seed=self.seed)
        kept = tf.cast(tf.greater_equal(drawn, self.rate), inputs.dtype)
        return scale * (inputs * kept + limit * (1.0 - kept)) + shift


class SpatialDropout1D(Dropout):
    """Drops whole channels of ``(batch, steps, channels)``.

    Args:
        rate: The part that is set to 0, in [0, 1).
        **kwargs: The arguments of ``Dropout``.

    Example:
        >>> SpatialDropout1D(0.5)(tf.ones((2, 5, 3)), training=True).shape
        (2, 5, 3)
    """

    _rank = 3

    def __init__(self, rate: float, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(rate, **kwargs)
        self.input_spec = InputSpec(ndim=self._rank)

    def _noise_shape(self, inputs: Tensor) -> Any:
        shape = tuple(inputs.shape)
        return (shape[0], 1, shape[2])


class SpatialDropout2D(SpatialDropout1D):
    """Drops whole channels of images.

    Args:
        rate: The part that is set to 0, in [0, 1).
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.
        **kwargs: The arguments of ``Dropout``.

    Raises:
        ValueError: ``data_format`` is neither.

    Example:
        >>> SpatialDropout2D(0.5)(tf.ones((2, 5, 5, 3)), training=True).shape
        (2, 5, 5, 3)
    """

    _rank = 4

    def __init__(
        self,
        rate: float,
        data_format: str | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ):
        super().__init__(rate, **kwargs)
        self.data_format = format_argument(data_format)

    def _noise_shape(self, inputs: Tensor) -> Any:
        shape = tuple(inputs.shape)
        ones = (1,) * (self._rank - 2)
        if self.data_format == "channels_first":
            return (*shape[:2], *ones)
        return (shape[0], *ones, shape[-1])


class SpatialDropout3D(SpatialDropout2D):
    """Drops whole channels of volumes.

    The arguments are those of :class:`SpatialDropout2D`.

    Example:
        >>> SpatialDropout3D(0.5)(tf.ones((2, 5, 5, 5, 3)), training=True).shape
        (2, 5, 5, 5, 3)
    """

    _rank = 5


class ActivityRegularization(Layer):
    """Gives its input back, and adds a penalty on it to the loss.

    Args:
        l1: Factor of the sum of magnitudes, divided by the batch size.
        l2: Factor of the sum of squares, divided by the batch size.

    Example:
        >>> layer = ActivityRegularization(l1=0.5)
        >>> _ = layer(tf.constant([[2.0, -2.0]]))
        >>> [float(loss) for loss in layer.losses]
        [2.0]
    """

    def __init__(
        self, l1: float = 0.0, l2: float = 0.0, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        penalty = regularizers.L1L2(l1=l1, l2=l2)
        super().__init__(activity_regularizer=penalty, **kwargs)
        self.supports_masking = True
        self.l1 = l1
        self.l2 = l2

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return inputs


def _check_rate(layer: Layer, rate: Any) -> None:
    if not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise ValueError(
            f"`rate` of {type(layer).__name__} must be a number in [0, 1). "
            f"Received: rate={rate!r}."
        )


export(__name__)
