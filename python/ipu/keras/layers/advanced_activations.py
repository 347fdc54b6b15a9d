# SPDX-License-Identifier: MIT
"""Activations with arguments or weights, as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_number
from ipu.keras import activations
from ipu.keras._arguments import keep, weight_of
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["ELU", "LeakyReLU", "PReLU", "ReLU", "Softmax", "ThresholdedReLU"]


class ReLU(Layer):
    """``max(x, 0)``, with a limit, a slope and a threshold.

    Args:
        max_value: The largest value of the result, not negative; None for no limit.
        negative_slope: The slope below the threshold, not negative.
        threshold: The value below which the slope is ``negative_slope``.

    Raises:
        ValueError: One of them is negative, or None where a number is needed.

    Example:
        >>> ReLU(max_value=1.0)(tf.constant([-1.0, 0.5, 2.0])).numpy().tolist()
        [0.0, 0.5, 1.0]
    """

    def __init__(
        self,
        max_value: float | None = None,
        negative_slope: float = 0.0,
        threshold: float = 0.0,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        numbers = {
            "max_value": 0.0 if max_value is None else max_value,
            "negative_slope": negative_slope,
            "threshold": threshold,
        }
        for name, value in numbers.items():
            _need_number(self, name, value)
            if value < 0:
                raise ValueError(
                    f"`{name}` of ReLU cannot be negative. Received: {name}={value}."
                )
        self.supports_masking = True
        self.max_value = None if max_value is None else float(max_value)
        self.negative_slope = float(negative_slope)
        self.threshold = float(threshold)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return activations.relu(
            inputs, self.negative_slope, self.max_value, self.threshold
        )


class LeakyReLU(Layer):
    """``x``, or ``alpha * x`` where that is negative.

    Args:
        alpha: The slope below 0, not negative.
        negative_slope: Its name in Keras 3.

    Raises:
        ValueError: ``alpha`` is None, or ``negative_slope`` is not a number.

    Example:
        >>> LeakyReLU(0.5)(tf.constant([-2.0, 2.0])).numpy().tolist()
        [-1.0, 2.0]
    """

    _left_out = ("negative_slope",)

    def __init__(
        self,
        alpha: float = 0.3,
        *,
        negative_slope: float | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        if negative_slope is not None:
            alpha = checked_number("negative_slope", negative_slope)
        _need_number(self, "alpha", alpha)
        self.supports_masking = True
        self.alpha = float(alpha)

    @property
    def negative_slope(self) -> float:
        """The slope below 0."""
        return self.alpha

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tf.nn.leaky_relu(inputs, self.alpha)


class ELU(Layer):
    """``x``, or ``alpha * (exp(x) - 1)`` where that is negative.

    Args:
        alpha: The limit far below 0, negated.

    Raises:
        ValueError: ``alpha`` is None.

    Example:
        >>> ELU()(tf.constant([0.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """

    def __init__(self, alpha: float = 1.0, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        _need_number(self, "alpha", alpha)
        self.supports_masking = True
        self.alpha = float(alpha)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return activations.elu(inputs, self.alpha)


class ThresholdedReLU(Layer):
    """``x`` where it is above ``theta``, else 0.

    Args:
        theta: The threshold, not negative.

    Raises:
        ValueError: ``theta`` is None or negative.

    Example:
        >>> ThresholdedReLU(1.0)(tf.constant([0.5, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """

    def __init__(self, theta: float = 1.0, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        _need_number(self, "theta", theta)
        if theta < 0:
            raise ValueError(
                "`theta` of ThresholdedReLU cannot be negative. "
                f"Received: theta={theta}."
            )
        self.supports_masking = True
        self.theta = float(theta)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        limit = tf.constant(self.theta, dtype=inputs.dtype)
        return tf.where(tf.greater(inputs, limit), inputs, tf.zeros_like(inputs))


class PReLU(Layer):
    """``x``, or ``alpha * x`` where that is negative, with a learned ``alpha``.

    Args:
        alpha_initializer: First values of the slopes, one for each input element.
        alpha_regularizer: A penalty on them.
        alpha_constraint: The constraint of them after each update.
        shared_axes: Axes, counted with the batch from 0, whose elements share a slope.

    Example:
        >>> PReLU(alpha_initializer="ones")(tf.constant([[-2.0, 2.0]])).numpy().tolist()
        [[-2.0, 2.0]]
    """

    def __init__(
        self,
        alpha_initializer: Any = "zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: Sequence[int] | int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        keep(self, locals())
        axes = [shared_axes] if isinstance(shared_axes, int) else shared_axes
        self.shared_axes = None if axes is None else list(axes)
        self.alpha: Any = None

    def build(self, input_shape: Any) -> None:
        """Create the slopes.

        Raises:
            ValueError: A size that is not shared is open.
        """
        sizes = list(input_shape[1:])
        for axis in self.shared_axes or ():
            sizes[axis - 1] = 1
        self.alpha = weight_of(self, "alpha", sizes)
        fixed = {
            axis: size
            for axis, size in enumerate(input_shape)
            if axis and axis not in (self.shared_axes or ())
        }
        self.input_spec = InputSpec(ndim=len(input_shape), axes=fixed)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tf.nn.relu(inputs) - self.alpha * tf.nn.relu(-inputs)


class Softmax(Layer):
    """``exp(x) / sum(exp(x))`` along an axis.

    Args:
        axis: The axis, or a list of axes, whose elements sum to one.

    Example:
        >>> Softmax()(tf.constant([[1.0, 1.0]])).numpy().tolist()
        [[0.5, 0.5]]
    """

    def __init__(
        self, axis: int | Sequence[int] = -1, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.axis = axis if isinstance(axis, int) else list(axis)

    def call(
        self, inputs: Tensor, mask: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Apply the function.

        Args:
            inputs: A float tensor.
            mask: True where an element counts, of a shape that broadcasts to the
                inputs'; the rest gets a probability of 0.
            *args, **kwargs: Ignored.
        """
        if mask is not None:
            absent = 1.0 - tf.cast(mask, inputs.dtype)
            inputs = inputs + absent * _lowest(inputs.dtype)
        if isinstance(self.axis, int):
            return activations.softmax(inputs, axis=self.axis)
        if len(self.axis) == 1:
            return activations.softmax(inputs, axis=self.axis[0])
        total = tf.reduce_logsumexp(inputs, axis=self.axis, keepdims=True)
        return tf.exp(inputs - total)


def _lowest(dtype: Any) -> float:
    """Return what makes an exponential vanish, and still is a number of the dtype."""
    return -65504.0 if tf.as_dtype(dtype).name == "float16" else -1e9


def _need_number(layer: Layer, name: str, value: Any) -> None:
    if not hasattr(value, "__float__"):
        raise ValueError(
            f"`{name}` of {type(layer).__name__} must be a number. "
            f"Received: {name}={value!r}."
        )
