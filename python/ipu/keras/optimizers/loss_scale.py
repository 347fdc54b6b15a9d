# SPDX-License-Identifier: MIT
"""``LossScaleOptimizer``: a factor that keeps float16 gradients away from zero."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers._wrapping import ScalingOptimizer
from ipu.keras.optimizers.optimizer import Optimizer

__all__ = ["LossScaleOptimizer"]

_INITIAL_SCALE = 2.0**15
_GROWTH_STEPS = 2000
_MULTIPLIER = 2.0


class LossScaleOptimizer(ScalingOptimizer):
    """An optimizer whose gradients are computed of a loss that is multiplied by a
    factor, and divided by it before the update.

    With a dynamic factor a step whose gradients are not all finite changes no weight
    and halves it; so many finite steps that follow each other double it.

    Args:
        inner_optimizer: The optimizer that updates the weights.
        dynamic: Whether the factor changes.
        initial_scale: The first factor, or the only one. Default 32768 where it
            changes.
        dynamic_growth_steps: After how many finite steps it is doubled. Default 2000.

    Raises:
        TypeError: ``inner_optimizer`` is not an optimizer, or is one of this class;
            ``dynamic`` is not a bool.
        ValueError: No ``initial_scale``, or ``dynamic_growth_steps``, for a factor that
            does not change; a factor below 1.

    Source: ``tf.keras.mixed_precision.LossScaleOptimizer`` of Keras 2.6; Micikevicius
    et al., "Mixed Precision Training", 2018.

    Example:
        >>> opt = LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=8.0)
        >>> float(opt.get_scaled_loss(2.0))
        16.0
    """

    _argument = "inner_optimizer"

    def __init__(
        self,
        inner_optimizer: Optimizer,
        dynamic: bool = True,
        initial_scale: float | None = None,
        dynamic_growth_steps: int | None = None,
    ) -> None:
        if not isinstance(inner_optimizer, Optimizer):
            raise TypeError(
                '"inner_optimizer" must be an instance of '
                f"`tf.keras.optimizers.Optimizer`, but got: {inner_optimizer!r}."
            )
        if isinstance(inner_optimizer, LossScaleOptimizer):
            raise TypeError(
                "LossScaleOptimizer cannot wrap another LossScaleOptimizer, but got: "
                f"{inner_optimizer!r}."
            )
        if not isinstance(dynamic, bool):
            raise TypeError(
                '"dynamic" argument to LossScaleOptimizer.__init__ must be a bool, but '
                f"got: {dynamic!r}."
            )
        if not dynamic and initial_scale is None:
            raise ValueError('"initial_scale" must be specified if "dynamic" is False.')
        if not dynamic and dynamic_growth_steps is not None:
            raise ValueError(
                '"dynamic_growth_steps" must be None if "dynamic" is False, but got: '
                f"{dynamic_growth_steps}."
            )
        scale = _INITIAL_SCALE if initial_scale is None else float(initial_scale)
        if scale < 1:
            raise ValueError(f'"initial_scale" must be at least 1. Received: {scale}.')
        self._dynamic = dynamic
        self._initial_scale = scale
        self._growth_steps = (
            _GROWTH_STEPS if dynamic_growth_steps is None else int(dynamic_growth_steps)
        )
        super().__init__(inner_optimizer, "LossScaleOptimizer")

    @property
    def inner_optimizer(self) -> Optimizer:
        """The optimizer that updates the weights."""
        return self._inner

    @property
    def dynamic(self) -> bool:
        """Whether the factor changes."""
        return self._dynamic

    @property
    def initial_scale(self) -> float:
        """The first factor."""
        return self._initial_scale

    @property
    def dynamic_growth_steps(self) -> int | None:
        """After how many finite steps the factor is doubled; None where it is not."""
        return self._growth_steps if self._dynamic else None

    @property
    def loss_scale(self) -> Tensor:
        """The factor, a float32 scalar."""
        return self._factor()

    @property
    def dynamic_counter(self) -> Any:
        """How many finite steps there were since the factor changed; None where it does
        not."""
        return self._state_variable("counter", np.int32(0)) if self._dynamic else None

    def _factor(self) -> Tensor:
        if not self._dynamic:
            return tf.constant(self._initial_scale, dtype="float32")
        value: Tensor = self._scale_variable().value()
        return value

    def _scale_variable(self) -> Any:
        return self._state_variable("loss_scale", np.float32(self._initial_scale))

    def _make_state(self) -> None:
        if self._dynamic:
            _ = self._scale_variable(), self.dynamic_counter

    def get_unscaled_gradients(self, grads: list[Any]) -> list[Any]:
        """Divide gradients by the factor.

        Args:
            grads: Tensors, or None.

        Returns:
            A list as long.
        """
        rate = 1.0 / self._factor()
        return self._changed(lambda g: g * tf.cast(rate, g.dtype), grads)

    def _finished(self, gradients: list[Any]) -> list[Any]:
        return self.get_unscaled_gradients(gradients)

    def _trace_apply(self, gradients: list[Any], variables: list[Any]) -> Any:
        self._inner._rows = self._rows
        if not self._dynamic:
            return self._inner._trace_apply(gradients, variables)
        is_finite = tf.constant(True)
        for gradient in gradients:
            all_of_it = tf.reduce_all(tf.math.is_finite(gradient))
            is_finite = tf.logical_and(is_finite, all_of_it)

        def update() -> Tensor:
            self._inner._trace_apply(gradients, variables)
            done = self.dynamic_counter.value() + 1
            is_due = done >= self._growth_steps
            grown = self._factor() * _MULTIPLIER
            may_grow = tf.logical_and(is_due, tf.math.is_finite(grown))
            self._scale_variable().assign(tf.where(may_grow, grown, self._factor()))
            self.dynamic_counter.assign(tf.where(is_due, 0, done))
            return self.iterations.value()

        def skip() -> Tensor:
            less = tf.maximum(self._factor() / _MULTIPLIER, 1.0)
            self._scale_variable().assign(less)
            self.dynamic_counter.assign(tf.constant(0))
            return self.iterations.value()

        return tf.cond(is_finite, update, skip)

    def get_config(self) -> dict[str, Any]:
        return {
            self._argument: super().get_config()[self._argument],
            "dynamic": self._dynamic,
            "initial_scale": self._initial_scale,
            "dynamic_growth_steps": self.dynamic_growth_steps,
        }
