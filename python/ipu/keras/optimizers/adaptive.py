# SPDX-License-Identifier: MIT
"""Optimizers with a rate for each weight: Adagrad, Adadelta, Adamax, Nadam, FTRL.

Each is written in ops, and the core fuses them. The formulas are those of Keras 2.6;
g is the gradient, t the step, counted from 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers.optimizer import (
    Optimizer,
    checked_decays,
    checked_epsilon,
)
from ipu.keras.optimizers.schedules import LearningRateSchedule
from ipu.tf._functions.tracing import init_scope

__all__ = ["Adadelta", "Adagrad", "Adamax", "Ftrl", "Nadam"]


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients (Duchi 2011).

    ``a += g g; w -= rate g / (sqrt(a) + epsilon)``.

    Args:
        initial_accumulator_value: The first value of ``a``.

    Raises:
        ValueError: ``initial_accumulator_value`` is negative.

    Example:
        >>> w = tf.Variable(1.0)
        >>> _ = Adagrad(0.1, 0.0).apply_gradients([(tf.constant(2.0), w)])
        >>> f"{float(w):.3f}"
        '0.900'
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        if initial_accumulator_value < 0:
            raise ValueError(
                "`initial_accumulator_value` must be non-negative. "
                f"Received: {initial_accumulator_value!r}."
            )
        super().__init__(learning_rate, name, **kwargs)
        self._initial_accumulator_value = float(initial_accumulator_value)
        self.epsilon = checked_epsilon(epsilon)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        from ipu.keras import initializers

        first = initializers.Constant(self._initial_accumulator_value)
        for var in var_list:
            self.add_slot(var, "accumulator", first)

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        accumulator = self.get_slot(var, "accumulator")
        total = accumulator.value() + tf.square(grad)
        accumulator.assign(total)
        change = self._decayed_lr(grad.dtype) * grad / (tf.sqrt(total) + self.epsilon)
        return var.assign_sub(change)


class Adadelta(Optimizer):
    """Steps scaled by running squares of steps and gradients (Zeiler 2012).

    ``a = rho a + (1 - rho) g g; d = sqrt(b + epsilon) / sqrt(a + epsilon) g;
    b = rho b + (1 - rho) d d; w -= rate d``.

    Args:
        rho: Decay of the running squares.

    Example:
        >>> w = tf.Variable(1.0)
        >>> _ = Adadelta(1.0).apply_gradients([(tf.constant(2.0), w)])
        >>> f"{float(w):.4f}"
        '0.9986'
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-7,
        name: str = "Adadelta",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        self.rho = float(rho)
        self.epsilon = checked_epsilon(epsilon)

    _own_slots = ("accum_grad", "accum_var")

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var)

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        gradients = self.get_slot(var, "accum_grad")
        steps = self.get_slot(var, "accum_var")
        before = steps.value()
        squares = self.rho * gradients.value() + (1.0 - self.rho) * tf.square(grad)
        change = tf.sqrt(before + self.epsilon) / tf.sqrt(squares + self.epsilon) * grad
        gradients.assign(squares)
        steps.assign(self.rho * before + (1.0 - self.rho) * tf.square(change))
        return var.assign_sub(self._decayed_lr(grad.dtype) * change)


class _TwoMoments(Optimizer):
    """What Adamax and Nadam share: two decays and the slots ``m`` and ``v``."""

    _own_slots = ("m", "v")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        self.beta_1, self.beta_2 = checked_decays(beta_1, beta_2)
        self.epsilon = checked_epsilon(epsilon)


class Adamax(_TwoMoments, name="Adamax"):
    """Adam with the largest gradient in place of the second moment (Kingma 2015).

    ``m = beta_1 m + (1 - beta_1) g; v = max(beta_2 v, |g|);
    w -= rate / (1 - beta_1^t) m / (v + epsilon)``.

    Args:
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the largest gradient, in [0, 1).

    Example:
        >>> w = tf.Variable(1.0)
        >>> _ = Adamax(0.1).apply_gradients([(tf.constant(2.0), w)])
        >>> f"{float(w):.3f}"
        '0.900'
    """

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var)

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        step = tf.cast(self._current_step, "float32")
        rate = self._current_rate / (1.0 - tf.pow(self.beta_1, step))
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        first = self.beta_1 * m.value() + (1.0 - self.beta_1) * grad
        largest = tf.maximum(self.beta_2 * v.value(), tf.abs(grad))
        m.assign(first)
        v.assign(largest)
        change = tf.cast(rate, grad.dtype) * first / (largest + self.epsilon)
        return var.assign_sub(change)


class Nadam(_TwoMoments):
    """Adam with Nesterov's momentum (Dozat 2015).

    The momentum of step t is ``u_t = beta_1 (1 - 0.96^(0.004 t) / 2)``, and ``U_t`` the
    product of all so far. ``w -= rate n / (sqrt(v / (1 - beta_2^t)) + epsilon)`` with
    ``n = (1 - u_t) g / (1 - U_t) + u_(t+1) m / (1 - U_t u_(t+1))``.

    Args:
        learning_rate: A number.
        beta_1, beta_2: Decays of the first and the second moment, in [0, 1).
        **kwargs: The arguments of ``Optimizer``, and ``schedule_decay``, which takes
            the place of 0.004. ``decay`` has no effect, as in Keras.

    Raises:
        ValueError: The learning rate is a schedule.

    Example:
        >>> w = tf.Variable(1.0)
        >>> _ = Nadam(0.1).apply_gradients([(tf.constant(2.0), w)])
        >>> f"{float(w):.3f}"
        '0.894'
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        name: str = "Nadam",
        **kwargs: Any,
    ) -> None:
        if isinstance(learning_rate, LearningRateSchedule):
            raise ValueError(
                "The Nadam optimizer does not support LearningRateSchedules as the "
                f"learning rate. Received: learning_rate={learning_rate!r}."
            )
        self._schedule_decay = float(kwargs.pop("schedule_decay", 0.004))
        kwargs.pop("decay", None)
        self._product: Any = None  # of the momenta so far
        super().__init__(learning_rate, beta_1, beta_2, epsilon, name, **kwargs)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        # before the moments: the order of Keras's weights
        if self._product is None:
            with init_scope():
                self._product = tf.Variable(
                    np.float32(1), trainable=False, name=f"{self._name}/momentum_cache"
                )
            self._slot_order.append(self._product)
        super()._create_slots(var_list)

    def _momentum(self, step: Tensor) -> Tensor:
        return self.beta_1 * (1.0 - 0.5 * tf.pow(0.96, self._schedule_decay * step))

    def _update(self, gradients: list[Any], variables: list[Any]) -> Any:
        step = tf.cast(self.iterations.value(), "float32") + 1.0
        self._now = self._momentum(step)
        self._next = self._momentum(step + 1.0)
        self._until_now = self._product.value() * self._now
        self._product.assign(self._until_now)
        try:
            return super()._update(gradients, variables)
        finally:
            self._now = self._next = self._until_now = None

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return [var]  # the moments decay in all rows

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        kind = grad.dtype
        step = tf.cast(self._current_step, "float32")
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        first = self.beta_1 * m.value() + (1.0 - self.beta_1) * grad
        second = self.beta_2 * v.value() + (1.0 - self.beta_2) * tf.square(grad)
        m.assign(first)
        v.assign(second)
        for_gradient = (1.0 - self._now) / (1.0 - self._until_now)
        for_moment = self._next / (1.0 - self._until_now * self._next)
        mean = tf.cast(for_gradient, kind) * grad + tf.cast(for_moment, kind) * first
        correction = tf.cast(1.0 - tf.pow(self.beta_2, step), kind)
        spread = tf.sqrt(second / correction) + self.epsilon
        return var.assign_sub(self._decayed_lr(kind) * mean / spread)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "schedule_decay": self._schedule_decay}


class Ftrl(Optimizer):
    """Follow the regularized leader (McMahan 2013).

    With ``s(a) = a^(-learning_rate_power)``: ``z += g' - (s(a + g g) - s(a)) / rate w;
    a += g g; w = (sign(z) l1 - z) / ((beta + s(a)) / rate + 2 l2)`` where ``|z| > l1``,
    else 0; ``g'`` is ``g + 2 l2_shrinkage w``.

    Args:
        learning_rate_power: At most 0; -0.5 is Adagrad's.
        initial_accumulator_value: The first value of ``a``.
        l1_regularization_strength: l1, at least 0.
        l2_regularization_strength: l2, at least 0.
        l2_shrinkage_regularization_strength: l2_shrinkage, at least 0.
        beta: The beta of the paper.

    Raises:
        ValueError: A number that is out of its range.

    Example:
        >>> w = tf.Variable(1.0)
        >>> _ = Ftrl(0.1).apply_gradients([(tf.constant(2.0), w)])
        >>> f"{float(w):.4f}"
        '0.7451'
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        name: str = "Ftrl",
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ) -> None:
        for key, value in (
            ("initial_accumulator_value", initial_accumulator_value),
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            (
                "l2_shrinkage_regularization_strength",
                l2_shrinkage_regularization_strength,
            ),
            ("-learning_rate_power", -learning_rate_power),
        ):
            if value < 0:
                raise ValueError(f"`{key}` must be at least 0. Received: {value!r}.")
        super().__init__(learning_rate, name, **kwargs)
        self._learning_rate_power = float(learning_rate_power)
        self._initial_accumulator_value = float(initial_accumulator_value)
        self._l1_regularization_strength = float(l1_regularization_strength)
        self._l2_regularization_strength = float(l2_regularization_strength)
        shrinkage = float(l2_shrinkage_regularization_strength)
        self._l2_shrinkage_regularization_strength = shrinkage
        self._beta = float(beta)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        from ipu.keras import initializers

        first = initializers.Constant(self._initial_accumulator_value)
        for var in var_list:
            self.add_slot(var, "accumulator", first)
            self.add_slot(var, "linear")

    def _scale(self, accumulator: Tensor) -> Tensor:
        if self._learning_rate_power == -0.5:
            return tf.sqrt(accumulator)
        return tf.pow(accumulator, -self._learning_rate_power)

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var)

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        rate = self._decayed_lr(grad.dtype)
        accumulator = self.get_slot(var, "accumulator")
        linear = self.get_slot(var, "linear")
        weight, before = var.value(), accumulator.value()
        after = before + tf.square(grad)
        l1, l2 = self._l1_regularization_strength, self._l2_regularization_strength
        shrinkage = self._l2_shrinkage_regularization_strength
        shrunk = grad + 2.0 * shrinkage * weight if shrinkage else grad
        z = (
            linear.value()
            + shrunk
            - (self._scale(after) - self._scale(before)) / (rate) * weight
        )
        divisor = (self._beta + self._scale(after)) / rate + 2.0 * l2
        accumulator.assign(after)
        linear.assign(z)
        moved = (tf.sign(z) * l1 - z) / divisor
        return var.assign(tf.where(tf.abs(z) > l1, moved, tf.zeros_like(z)))
