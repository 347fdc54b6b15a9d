# SPDX-License-Identifier: MIT
"""``BatchNormalization`` and ``LayerNormalization``.

Source: ``tf.keras.layers`` of Keras 2.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras import constraints, initializers, regularizers
from ipu.keras._types import Tensor
from ipu.keras.layers.base_layer import InputSpec, Layer

__all__ = ["BatchNormalization", "LayerNormalization"]


class _Normalization(Layer):
    """Scale and shift along axes, which both layers have."""

    axis: Any

    def __init__(
        self,
        center: bool,
        scale: bool,
        initial: tuple[Any, Any],
        penalties: tuple[Any, Any],
        limits: tuple[Any, Any],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.center = center
        self.scale = scale
        self.beta_initializer, self.gamma_initializer = map(initializers.get, initial)
        self.beta_regularizer, self.gamma_regularizer = map(regularizers.get, penalties)
        self.beta_constraint, self.gamma_constraint = map(constraints.get, limits)
        self.beta: Any = None
        self.gamma: Any = None

    def _settle_axes(self, input_shape: Any) -> tuple[list[int], tuple[int, ...]]:
        """The axes from 0 on, in order, and their sizes."""
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

    def _add_scale_and_shift(self, sizes: tuple[int, ...]) -> None:
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                sizes,
                dtype=self._param_dtype,
                experimental_autocast=False,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta",
                sizes,
                dtype=self._param_dtype,
                experimental_autocast=False,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
            )

    @property
    def _param_dtype(self) -> Any:
        return self._dtype

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "axis": self.axis,
            "center": self.center,
            "scale": self.scale,
            "beta_initializer": initializers.serialize(self.beta_initializer),
            "gamma_initializer": initializers.serialize(self.gamma_initializer),
            "beta_regularizer": regularizers.serialize(self.beta_regularizer),
            "gamma_regularizer": regularizers.serialize(self.gamma_regularizer),
            "beta_constraint": constraints.serialize(self.beta_constraint),
            "gamma_constraint": constraints.serialize(self.gamma_constraint),
        }


def _spread(values: Any, axes: Sequence[int], rank: int) -> Any:
    """Values along some axes, with sizes of 1 in the others."""
    if values is None or list(axes) == [rank - 1]:
        return values
    shape = [1] * rank
    for axis, size in zip(axes, values.shape, strict=True):
        shape[axis] = size
    return tf.reshape(values, shape)


class BatchNormalization(_Normalization):
    """Brings each channel to mean 0 and variance 1, then scales and shifts it.

    In training mean and variance are those of the batch, and running averages of them
    are kept: ``moving = moving * momentum + batch * (1 - momentum)``. Otherwise, and
    where ``trainable`` is False, the running averages are used and stay as they are.

    Args:
        axis: The axis of the channels, or a list of axes.
        momentum: How much of the running averages stays at each step.
        epsilon: Added to the variance.
        center: Whether there is a shift, ``beta``.
        scale: Whether there is a factor, ``gamma``.
        beta_initializer: First values of the shift.
        gamma_initializer: First values of the factor.
        moving_mean_initializer: First values of the running mean.
        moving_variance_initializer: First values of the running variance.
        beta_regularizer: A penalty on the shift.
        gamma_regularizer: A penalty on the factor.
        beta_constraint: What is made of the shift after each update.
        gamma_constraint: What is made of the factor after each update.
        **kwargs: What ``Layer`` takes, and ``fused``: for images of four axes with the
            channels in axis 1 or 3 the running variance is the unbiased one, as in
            TensorFlow's fused kernel, unless ``fused`` is False.

    Raises:
        ValueError: An axis is out of range or of open size.

    Example:
        >>> layer = BatchNormalization(momentum=0.5, epsilon=0.0)
        >>> layer(tf.constant([[1.0], [3.0]]), training=True).numpy().tolist()
        [[-1.0], [1.0]]
        >>> layer.moving_mean.numpy().tolist()
        [1.0]
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = "zeros",
        gamma_initializer: Any = "ones",
        moving_mean_initializer: Any = "zeros",
        moving_variance_initializer: Any = "ones",
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        for name in ("renorm", "virtual_batch_size", "adjustment"):
            if kwargs.pop(name, None):
                raise tf.errors.UnimplementedError(
                    f"BatchNormalization with `{name}` is not there. Leave it out."
                )
        fused = kwargs.pop("fused", None)
        super().__init__(
            center,
            scale,
            (beta_initializer, gamma_initializer),
            (beta_regularizer, gamma_regularizer),
            (beta_constraint, gamma_constraint),
            **kwargs,
        )
        self.axis = axis if isinstance(axis, int) else list(axis)
        self.momentum = momentum
        self.epsilon = epsilon
        self.fused = fused
        self.moving_mean_initializer = initializers.get(moving_mean_initializer)
        self.moving_variance_initializer = initializers.get(moving_variance_initializer)
        self.moving_mean: Any = None
        self.moving_variance: Any = None
        self._axes: list[int] = []

    @property
    def _param_dtype(self) -> Any:
        # float16 has too few digits for averages that move by one part in a hundred
        return tf.float32 if self._dtype == tf.float16 else self._dtype

    def build(self, input_shape: Any) -> None:
        """Create factor, shift and running averages.

        Raises:
            ValueError: An axis is out of range or of open size.
        """
        self._axes, sizes = self._settle_axes(input_shape)
        self._add_scale_and_shift(sizes)
        self.moving_mean = self.add_weight(
            "moving_mean",
            sizes,
            dtype=self._param_dtype,
            experimental_autocast=False,
            initializer=self.moving_mean_initializer,
            trainable=False,
        )
        self.moving_variance = self.add_weight(
            "moving_variance",
            sizes,
            dtype=self._param_dtype,
            experimental_autocast=False,
            initializer=self.moving_variance_initializer,
            trainable=False,
        )
        is_image = len(input_shape) == 4 and self._axes in ([1], [3])
        if self.fused is None:
            self.fused = is_image
        self.built = True

    def call(
        self, inputs: Tensor, training: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Normalise; in training also move the running averages."""
        x = tf.cast(inputs, self._param_dtype)
        rank = len(x.shape)
        if training and self.trainable:
            others = [axis for axis in range(rank) if axis not in self._axes]
            mean, variance = tf.nn.moments(x, others)
            self._move(self.moving_mean, mean)
            count = math.prod(x.shape[axis] for axis in others)
            unbiased = variance * (count / (count - 1)) if count > 1 else variance
            self._move(self.moving_variance, unbiased if self.fused else variance)
        else:
            mean, variance = self.moving_mean.value(), self.moving_variance.value()
        beta = None if self.beta is None else self.beta.value()
        gamma = None if self.gamma is None else self.gamma.value()
        mean, variance, beta, gamma = (
            _spread(v, self._axes, rank) for v in (mean, variance, beta, gamma)
        )
        result = tf.nn.batch_normalization(x, mean, variance, beta, gamma, self.epsilon)
        return tf.cast(result, self._compute_kind)

    def _move(self, average: Any, value: Tensor) -> None:
        average.assign_sub((average - tf.stop_gradient(value)) * (1.0 - self.momentum))

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        return {
            **super().get_config(),
            "momentum": self.momentum,
            "epsilon": self.epsilon,
            "moving_mean_initializer": initializers.serialize(
                self.moving_mean_initializer
            ),
            "moving_variance_initializer": initializers.serialize(
                self.moving_variance_initializer
            ),
        }


class LayerNormalization(_Normalization):
    """Brings each sample to mean 0 and variance 1 over some axes.

    Args:
        axis: The axis, or a list of axes, that mean and variance are taken over; the
            last by default.
        epsilon: Added to the variance.
        center: Whether there is a shift, ``beta``, of the sizes of these axes.
        scale: Whether there is a factor, ``gamma``.
        beta_initializer: First values of the shift.
        gamma_initializer: First values of the factor.
        beta_regularizer: A penalty on the shift.
        gamma_regularizer: A penalty on the factor.
        beta_constraint: What is made of the shift after each update.
        gamma_constraint: What is made of the factor after each update.
        **kwargs: What ``Layer`` takes.

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
        **kwargs: Any,
    ) -> None:
        super().__init__(
            center,
            scale,
            (beta_initializer, gamma_initializer),
            (beta_regularizer, gamma_regularizer),
            (beta_constraint, gamma_constraint),
            **kwargs,
        )
        if not isinstance(axis, (int, list, tuple)):
            raise TypeError(
                "`axis` of LayerNormalization must be an integer or a list of them. "
                f"Received: axis={axis!r}."
            )
        self.axis = axis if isinstance(axis, int) else list(axis)
        self.epsilon = epsilon
        self._axes: list[int] = []

    def build(self, input_shape: Any) -> None:
        """Create factor and shift.

        Raises:
            ValueError: An axis is out of range or of open size.
        """
        self._axes, sizes = self._settle_axes(input_shape)
        self._add_scale_and_shift(sizes)
        self.built = True

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Normalise."""
        x = tf.cast(inputs, self._param_dtype)
        rank = len(x.shape)
        mean, variance = tf.nn.moments(x, self._axes, keepdims=True)
        beta = None if self.beta is None else self.beta.value()
        gamma = None if self.gamma is None else self.gamma.value()
        beta, gamma = (_spread(v, self._axes, rank) for v in (beta, gamma))
        result = tf.nn.batch_normalization(x, mean, variance, beta, gamma, self.epsilon)
        return tf.cast(result, self._compute_kind)

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal layer."""
        return {**super().get_config(), "epsilon": self.epsilon}
