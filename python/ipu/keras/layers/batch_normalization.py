# SPDX-License-Identifier: MIT
"""``BatchNormalization``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.refusals import refuse_given
from ipu.keras._types import Tensor
from ipu.keras.layers.normalization import NormalizationLayer
from ipu.tf._ops.normalizations import normalize_batch, replicas_of_a_batch

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import NormalizationOptions

__all__ = ["BatchNormalization"]


def _spread(values: Any, axes: Sequence[int], rank: int) -> Any:
    """Return values along some axes, with sizes of 1 in the others."""
    if values is None or list(axes) == [rank - 1]:
        return values
    shape = [1] * rank
    for axis, size in zip(axes, values.shape, strict=True):
        shape[axis] = size
    return tf.reshape(values, shape)


class BatchNormalization(NormalizationLayer):
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
        beta_initializer, gamma_initializer: First values of shift and factor.
        moving_mean_initializer, moving_variance_initializer: First values of the
            running mean and variance.
        beta_regularizer, gamma_regularizer: Penalties on shift and factor.
        beta_constraint, gamma_constraint: Their constraints after each update.
        renorm: Whether to correct the batch's mean and deviation towards running ones
            (Ioffe 2017): the normalised value times ``r`` plus ``d``, which count as
            constants.
        renorm_clipping: Limits of the correction: a dictionary with ``"rmin"``,
            ``"rmax"``, ``"dmax"`` or some of them.
        renorm_momentum: How much of the correction's averages stays at each
            step.
        **kwargs: The arguments of ``Layer``, and ``fused``: for images of four axes
            with the channels in axis 1 or 3 the running variance is the unbiased one,
            as in TensorFlow's fused kernel, unless ``fused`` is False.

    Raises:
        ValueError: An axis is out of range or of open size; a limit has another name;
            ``fused`` goes with ``renorm``.
        UnimplementedError: ``virtual_batch_size`` or ``adjustment`` is given.

    Example:
        >>> layer = BatchNormalization(momentum=0.5, epsilon=0.0)
        >>> layer(tf.constant([[1.0], [3.0]]), training=True).numpy().tolist()
        [[-1.0], [1.0]]
        >>> layer.moving_mean.numpy().tolist()
        [1.0]
    """

    momentum: float
    renorm: bool
    renorm_momentum: float
    moving_mean_initializer: Any
    moving_variance_initializer: Any

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
        renorm: bool = False,
        renorm_clipping: Mapping[str, float] | None = None,
        renorm_momentum: float = 0.99,
        **kwargs: Unpack[NormalizationOptions],
    ) -> None:
        arguments = locals()
        own = ("virtual_batch_size", "adjustment")
        given = {name: kwargs.pop(name, None) for name in own}  # type: ignore[misc]
        refuse_given(f"{__name__}.BatchNormalization", **given)
        fused = kwargs.pop("fused", None)
        super().__init__(arguments)
        self.renorm_clipping = dict(renorm_clipping or {})
        if renorm and fused:
            raise ValueError(
                "Passing both `fused=True` and `renorm=True` is unsupported. Leave one "
                "of them out."
            )
        if set(self.renorm_clipping) - {"rmin", "rmax", "dmax"}:
            raise ValueError(
                "`renorm_clipping` may have 'rmin', 'rmax' and 'dmax'. "
                f"Received: renorm_clipping={renorm_clipping!r}."
            )
        self.fused = False if renorm else fused
        self.moving_mean: Any = None
        self.moving_variance: Any = None
        self.renorm_mean: Any = None
        self.renorm_stddev: Any = None

    @property
    def _param_dtype(self) -> Any:
        # float16 has too few digits for averages that move by one part in a hundred
        return tf.float32 if self._dtype == tf.float16 else self._dtype

    def build(self, input_shape: Any) -> None:
        """Create factor, shift and running averages.

        Raises:
            ValueError: An axis is out of range or of open size.
        """
        self._axes, sizes = self.settle_axes(input_shape)
        self.add_scale_and_shift(sizes)
        self.moving_mean = self._add_average(
            "moving_mean", sizes, self.moving_mean_initializer
        )
        self.moving_variance = self._add_average(
            "moving_variance", sizes, self.moving_variance_initializer
        )
        if self.renorm:
            self.renorm_mean = self._add_average(
                "renorm_mean", sizes, self.moving_mean_initializer
            )
            self.renorm_stddev = self._add_average(
                "renorm_stddev",
                sizes,
                self._first_deviation,
            )
        is_image = len(input_shape) == 4 and self._axes in ([1], [3])
        if self.fused is None:
            self.fused = is_image

    def _first_deviation(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        make: Any = self.moving_variance_initializer
        return tf.sqrt(make(shape, dtype=dtype))

    def _add_average(self, name: str, sizes: tuple[int, ...], initial: Any) -> Any:
        return self.add_weight(
            name,
            sizes,
            dtype=self._param_dtype,
            experimental_autocast=False,
            initializer=initial,
            trainable=False,
        )

    def call(
        self, inputs: Tensor, training: Any = None, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Normalise; in training also move the running averages."""
        beta = None if self.beta is None else self.beta.value()
        gamma = None if self.gamma is None else self.gamma.value()
        if training and self.trainable:
            x = tf.cast(inputs, self._compute_kind)
            return self._by_the_batch(x, gamma, beta)
        x = tf.cast(inputs, self._param_dtype)
        mean, variance = self.moving_mean.value(), self.moving_variance.value()
        mean, variance, beta, gamma = (
            _spread(v, self._axes, len(x.shape)) for v in (mean, variance, beta, gamma)
        )
        result = tf.nn.batch_normalization(x, mean, variance, beta, gamma, self.epsilon)
        return tf.cast(result, self._compute_kind)

    def _by_the_batch(self, x: Tensor, gamma: Any, beta: Any) -> Tensor:
        """Normalise by the batch's own mean and variance, which move the averages."""
        if self.renorm:
            y, mean, variance = normalize_batch(x, self._axes, None, None, self.epsilon)
            y = self._corrected(y, mean, variance, gamma, beta)
        else:
            y, mean, variance = normalize_batch(
                x, self._axes, gamma, beta, self.epsilon
            )
        count = math.prod(x.shape) // max(math.prod(mean.shape), 1)
        count *= replicas_of_a_batch()
        unbiased = variance * (count / (count - 1)) if count > 1 else variance
        self._move(self.moving_mean, mean, self.momentum)
        self._move(
            self.moving_variance, unbiased if self.fused else variance, self.momentum
        )
        return y

    def _corrected(
        self, y: Tensor, mean: Tensor, variance: Tensor, gamma: Any, beta: Any
    ) -> Tensor:
        """Return ``(y * r + d) * gamma + beta``, by the averages before this batch."""
        deviation = tf.sqrt(variance + self.epsilon)
        least = math.sqrt(self.epsilon)
        usual = tf.maximum(self.renorm_stddev.value(), least)
        r = deviation / usual
        d = (mean - self.renorm_mean.value()) / usual
        limits = self.renorm_clipping
        if "rmin" in limits:
            r = tf.maximum(r, limits["rmin"])
        if "rmax" in limits:
            r = tf.minimum(r, limits["rmax"])
        if "dmax" in limits:
            d = tf.clip_by_value(d, -limits["dmax"], limits["dmax"])
        self._move(self.renorm_mean, mean, self.renorm_momentum)
        self._move(self.renorm_stddev, deviation, self.renorm_momentum)
        scale, shift = tf.stop_gradient(r), tf.stop_gradient(d)
        if gamma is not None:
            scale, shift = scale * gamma, shift * gamma
        shift = shift if beta is None else shift + beta
        scale, shift = (_spread(v, self._axes, len(y.shape)) for v in (scale, shift))
        wide = tf.cast(y, self._param_dtype) * scale + shift
        return tf.cast(wide, y.dtype)

    def _move(self, average: Any, value: Tensor, momentum: float) -> None:
        average.assign_sub((average - tf.stop_gradient(value)) * (1.0 - momentum))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        if not self.renorm:
            config = {key: config[key] for key in config if "renorm" not in key}
        return config
