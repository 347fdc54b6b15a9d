# SPDX-License-Identifier: MIT
"""Normalisation of each sample, and what it shares with ``BatchNormalization``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_number
from ipu.keras._arguments import keep, weight_of
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer
from ipu.tf._ops.normalizations import normalize_layer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["LayerNormalization", "RMSNormalization", "UnitNormalization"]


class NormalizationLayer(Layer):
    """Scale and shift along axes, which both layers have.

    Args:
        arguments: The ``locals()`` of a subclass's constructor.

    Raises:
        TypeError: ``axis`` is neither an integer nor a list of them.
    """

    axis: Any
    epsilon: float
    center: bool
    scale: bool
    beta_initializer: Any
    beta_regularizer: Any
    beta_constraint: Any
    gamma_initializer: Any
    gamma_regularizer: Any
    gamma_constraint: Any

    def __init__(self, arguments: Mapping[str, Any], /) -> None:
        super().__init__(**arguments["kwargs"])
        keep(self, arguments)
        self.axis = axis_argument(self, self.axis)
        self.supports_masking = True
        self.beta: Any = None
        self.gamma: Any = None
        self._axes: list[int] = []

    def settle_axes(self, input_shape: Any) -> tuple[list[int], tuple[int, ...]]:
        """Return the axes from 0 on, in order, and their sizes."""
        rank = len(input_shape)
        given = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        axes = []
        for axis in given:
            if not -rank <= axis < rank:
                raise ValueError(
                    f"Invalid axis of {type(self).__name__}: the input has {rank} "
                    f"axes. Received: axis={self.axis}."
                )
            axes.append(axis % rank)
        if len(set(axes)) != len(axes):
            raise ValueError(f"Duplicate axis: {tuple(axes)}.")
        sizes = tuple(input_shape[axis] for axis in axes)
        if None in sizes:
            raise ValueError(
                f"Axis {self.axis} of the input of {type(self).__name__} must have a "
                f"defined size. Received: input_shape={tuple(input_shape)}."
            )
        self.input_spec = InputSpec(ndim=rank, axes=dict(zip(axes, sizes, strict=True)))
        return axes, sizes

    def add_scale_and_shift(self, sizes: tuple[int, ...]) -> None:
        options = {"dtype": self._param_dtype, "experimental_autocast": False}
        if self.scale:
            self.gamma = weight_of(self, "gamma", sizes, **options)
        if self.center:
            self.beta = weight_of(self, "beta", sizes, **options)

    @property
    def _param_dtype(self) -> Any:
        return self._dtype


class LayerNormalization(NormalizationLayer):
    """Brings each sample to mean 0 and variance 1 over some axes.

    Args:
        axis: The axis, or a list of axes, that mean and variance are taken over; the
            last by default.
        epsilon: Added to the variance.
        center: Whether there is a shift, ``beta``, of the sizes of these axes.
        scale: Whether there is a factor, ``gamma``.
        beta_initializer, gamma_initializer: First values of shift and factor.
        beta_regularizer, gamma_regularizer: Penalties on shift and factor.
        beta_constraint, gamma_constraint: Their constraints after each update.

    Raises:
        ValueError: An axis is out of range or of open size.

    Example:
        >>> LayerNormalization(epsilon=0.0)(tf.constant([[1.0, 3.0]])).numpy().tolist()
        [[-1.0, 1.0]]
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(locals())

    def build(self, input_shape: Any) -> None:
        """Create factor and shift.

        Raises:
            ValueError: An axis is out of range or of open size.
        """
        self._axes, sizes = self.settle_axes(input_shape)
        self.add_scale_and_shift(sizes)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        x = tf.cast(inputs, self._compute_kind)
        beta = None if self.beta is None else self.beta.value()
        gamma = None if self.gamma is None else self.gamma.value()
        return normalize_layer(x, self._axes, gamma, beta, self.epsilon)


class RMSNormalization(NormalizationLayer):
    """Brings the mean square of each sample to 1 over some axes, and scales.

    Args:
        axis: The axis, or a list of axes, that the mean is taken over; the last by
            default.
        epsilon: Added to the mean square.

    Raises:
        TypeError: ``axis`` is neither an integer nor a list of them.
        ValueError: An axis is out of range or of open size; ``epsilon`` is not a number
            of 0 or more.

    Source: ``keras.layers.RMSNormalization`` of Keras 3, after arXiv:1910.07467.

    Example:
        >>> layer = RMSNormalization(epsilon=0.0)
        >>> layer(tf.constant([[1.0, -7.0]])).numpy().round(4).tolist()
        [[0.2, -1.4]]
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        epsilon: float = 1e-6,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        what = "a number of 0 or more"
        epsilon = checked_number("epsilon", epsilon, what, lambda e: e >= 0)
        super().__init__(locals())
        self.scale: Any = None

    def build(self, input_shape: Any) -> None:
        """Create the factor.

        Raises:
            ValueError: An axis is out of range or of open size.
        """
        axes, sizes = self.settle_axes(input_shape)
        size_of = dict(zip(axes, sizes, strict=True))
        self._axes = sorted(axes)
        sizes = tuple(size_of[axis] for axis in self._axes)
        options = {"dtype": self._param_dtype, "experimental_autocast": False}
        self.scale = self.add_weight("scale", sizes, initializer="ones", **options)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Divide by the root of the mean square, and multiply by the factor.

        Args:
            inputs: A float tensor.
            *args, **kwargs: Ignored.
        """
        x = tf.cast(inputs, "float32")  # squares of float16 leave its range
        mean = tf.reduce_mean(tf.square(x), axis=self._axes, keepdims=True)
        sizes = [n if i in self._axes else 1 for i, n in enumerate(x.shape)]
        scale = tf.cast(tf.reshape(self.scale.value(), sizes), "float32")
        result = x * tf.math.rsqrt(mean + self.epsilon) * scale
        return tf.cast(result, self._compute_kind)


class UnitNormalization(Layer):
    """Brings each sample to length 1 over some axes.

    Args:
        axis: The axis, or a list of axes, that the length is taken over.

    Raises:
        TypeError: ``axis`` is neither an integer nor a list of them.

    Source: ``tf.keras.layers`` of Keras 2.9.

    Example:
        >>> UnitNormalization()(tf.constant([[3.0, 4.0]])).numpy().round(3).tolist()
        [[0.6000000238418579, 0.800000011920929]]
    """

    def __init__(
        self, axis: int | Sequence[int] = -1, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.axis = axis_argument(self, axis)
        self.supports_masking = True

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Divide by the length.

        Args:
            inputs: A float tensor.
            *args, **kwargs: Ignored.
        """
        return tf.nn.l2_normalize(inputs, axis=self.axis)


def axis_argument(layer: Layer, axis: Any) -> int | list[int]:
    """Return an axis, or a list of axes.

    Raises:
        TypeError: It is neither an integer nor a list of them.
    """
    if not isinstance(axis, (int, list, tuple)):
        raise TypeError(
            f"`axis` of {type(layer).__name__} must be an integer or a list of them. "
            f"Received: axis={axis!r}."
        )
    return axis if isinstance(axis, int) else list(axis)
