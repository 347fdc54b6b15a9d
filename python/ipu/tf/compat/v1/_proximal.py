# SPDX-License-Identifier: MIT
"""Optimizers of TensorFlow 1 with penalties that make weights exactly zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.tf.compat.v1._optimizers import Optimizer


def _nearer_zero(value: Any, by: Any) -> Any:
    """Move values towards zero, not past it."""
    return tf.sign(value) * tf.maximum(tf.abs(value) - by, 0.0)


class _Penalised(Optimizer):
    """An optimizer with a rate and two penalties."""

    _start = 0.0

    def __init__(self, learning_rate: Any, l1: float, l2: float, name: str) -> None:
        Optimizer.__init__(self, name=name)
        self.learning_rate = learning_rate
        self._l1, self._l2 = l1, l2

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var)

    def _summed(self, var: Any, slot_name: str, value: Any) -> Any:
        """Add to a slot, and give the sum."""
        slot = self.get_slot(var, slot_name)
        total = slot.value() + value
        slot.assign(total)
        return total

    def _started(self, shape: Any, dtype: Any) -> Any:
        return tf.fill(shape, tf.cast(self._start, dtype))

    def _rate_for(self, grad: Any) -> Any:
        return tf.cast(self._current_rate, grad.dtype)

    def _moved(self, var: Any, grad: Any, rate: Any) -> Any:
        """Return step, then go towards zero as the penalties say."""
        value = var.value() - rate * grad
        if self._l1 > 0:
            value = _nearer_zero(value, rate * self._l1)
        return var.assign(value / (1.0 + self._l2 * rate))


class ProximalGradientDescentOptimizer(_Penalised):
    """Gradient descent with penalties of absolute values and squares.

    ``v = w - rate g; w = sign(v) max(abs(v) - rate l1, 0) / (1 + rate l2)``.

    Args:
        learning_rate: The rate.
        l1_regularization_strength: Of the absolute values.
        l2_regularization_strength: Of the squares.
        use_locking: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     optimizer = v1.train.ProximalGradientDescentOptimizer(0.1, 10.0)
        ...     step = optimizer.minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(session.run(w))
        0.0
    """

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(
            learning_rate, l1_regularization_strength, l2_regularization_strength, name
        )

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._moved(var, grad, self._rate_for(grad))


class ProximalAdagradOptimizer(_Penalised):
    """Adagrad with penalties of absolute values and squares.

    ``a += g g``, and the rate of :class:`ProximalGradientDescentOptimizer` is divided
    by the root of ``a``.

    Args:
        learning_rate: The rate.
        initial_accumulator_value: The first value of the sum.
        l1_regularization_strength: Of the absolute values.
        l2_regularization_strength: Of the squares.
        use_locking: Accepted without effect.

    Raises:
        ValueError: ``initial_accumulator_value`` is not positive.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.ProximalAdagradOptimizer(0.1).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        super().__init__(
            learning_rate, l1_regularization_strength, l2_regularization_strength, name
        )
        self._start = _positive("initial_accumulator_value", initial_accumulator_value)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self.add_slot(var, "accumulator", self._started)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        squares = self._summed(var, "accumulator", grad * grad)
        return self._moved(var, grad, self._rate_for(grad) / tf.sqrt(squares))


class AdagradDAOptimizer(_Penalised):
    """Adagrad by dual averages: weights are made of the sum of all gradients.

    ``s += g; a += g g; w = -rate s / (l2 t rate + sqrt(a))``, for step ``t`` from 1 on;
    with ``l1``, ``s`` is ``sign(s) max(abs(s) - l1 t, 0)`` there.

    Args:
        learning_rate: The rate.
        global_step: A variable that counts steps.
        initial_gradient_squared_accumulator_value: The first value of the sum of
        squares.
        l1_regularization_strength: Of the absolute values.
        l2_regularization_strength: Of the squares.
        use_locking: Accepted without effect.

    Raises:
        ValueError: The first sum is not positive.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     count = v1.train.get_or_create_global_step()
        ...     optimizer = v1.train.AdagradDAOptimizer(1.0, count)
        ...     step = optimizer.minimize(w * w, global_step=count)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(round(float(session.run(w)), 3))
        -0.988
    """

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ) -> None:
        super().__init__(
            learning_rate, l1_regularization_strength, l2_regularization_strength, name
        )
        self._start = _positive(
            "initial_gradient_squared_accumulator_value",
            initial_gradient_squared_accumulator_value,
        )
        self._step = global_step

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self.add_slot(var, "gradient_accumulator")
            self.add_slot(var, "gradient_squared_accumulator", self._started)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        step = tf.cast(tf.convert_to_tensor(self._step), grad.dtype) + 1.0
        rate = self._rate_for(grad)
        total = self._summed(var, "gradient_accumulator", grad)
        squares = self._summed(var, "gradient_squared_accumulator", grad * grad)
        if self._l1 > 0:
            total = _nearer_zero(total, self._l1 * step)
        below = self._l2 * step * rate + tf.sqrt(squares)
        return var.assign(-rate * total / below)


def _positive(name: str, value: float) -> float:
    if value <= 0.0:
        raise ValueError(f"{name} must be positive. Received: {value}.")
    return float(value)
