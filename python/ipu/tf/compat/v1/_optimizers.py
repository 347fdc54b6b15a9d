# SPDX-License-Identifier: MIT
"""The optimizers of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras import optimizers
from ipu.tf.compat.v1._optimizer import Optimizer


class GradientDescentOptimizer(Optimizer, optimizers.SGD):
    """Gradient descent.

    Args:
        learning_rate: The rate.
        use_locking: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.GradientDescentOptimizer(0.1).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    def __init__(
        self,
        learning_rate: Any,
        use_locking: bool = False,
        name: str = "GradientDescent",
    ) -> None:
        optimizers.SGD.__init__(self, learning_rate, name=name)


class MomentumOptimizer(Optimizer, optimizers.SGD):
    """Gradient descent with momentum.

    ``a = momentum a + g; w -= rate a``; in Nesterov's form
    ``w -= rate g + rate momentum a``. The slot ``a`` is free of the rate, so that a
    changed rate holds for what was gathered before as well.

    Args:
        learning_rate: The rate.
        momentum: In [0, 1], a number; in a graph also a tensor.
        use_locking: Accepted without effect.
        use_nesterov: Whether Nesterov's form is used.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.MomentumOptimizer(0.1, 0.9).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        momentum = momentum() if callable(momentum) else momentum
        is_number = isinstance(momentum, (int, float, np.number))
        number = float(momentum) if is_number else 0.0
        optimizers.SGD.__init__(self, learning_rate, number, use_nesterov, name=name)
        if not is_number:
            self._momentum = momentum

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self.add_slot(var, "momentum")

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var)

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        rate = tf.cast(self._current_rate, grad.dtype)
        kept: Any = tf.cast(tf.convert_to_tensor(self._momentum), grad.dtype)
        slot = self.get_slot(var, "momentum")
        gathered = kept * slot.value() + grad
        slot.assign(gathered)
        if self.nesterov:
            return var.assign_sub(rate * grad + rate * (kept * gathered))
        return var.assign_sub(rate * gathered)


class AdamOptimizer(Optimizer, optimizers.Adam):
    """Adam.

    Args:
        learning_rate: The rate.
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        epsilon: Added to the root of the second moment.
        use_locking: Accepted without effect.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.AdamOptimizer(0.001).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    _counts_updates = True

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        optimizers.Adam.__init__(self, learning_rate, beta1, beta2, epsilon, name=name)


class RMSPropOptimizer(Optimizer, optimizers.RMSprop):
    """Gradients divided by the root of their running mean square.

    ``r = decay r + (1 - decay) g g``, from one on; ``v = momentum v + rate g / sqrt(r +
    epsilon); w -= v``. With ``centered`` the square of the mean is taken off ``r``.

    Args:
        learning_rate: The rate.
        decay: Of the running means.
        momentum: The part of the last change that is kept.
        epsilon: Keeps the division finite.
        use_locking: Accepted without effect.
        centered: Whether the variance is used.

    Example:
        >>> with v1.Graph().as_default(), v1.Session() as session:
        ...     w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        ...     step = v1.train.RMSPropOptimizer(0.001).minimize(w * w)
        ...     session.run(v1.global_variables_initializer())
        ...     session.run(step)
        ...     print(bool(session.run(w) < 1.0))
        True
    """

    def __init__(
        self,
        learning_rate: Any,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        optimizers.RMSprop.__init__(
            self, learning_rate, decay, momentum, epsilon, centered, name=name
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self.add_slot(var, "rms", "ones")
            self.add_slot(var, "momentum")
            if self.centered:
                self.add_slot(var, "mg")

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var)

    def _resource_apply_dense(
        self, grad: Any, var: Any, apply_state: Any = None
    ) -> Any:
        rate = tf.cast(self._current_rate, grad.dtype)
        step = rate * grad / tf.sqrt(self._spread(grad, var) + self.epsilon)
        slot = self.get_slot(var, "momentum")
        change = self.momentum * slot.value() + step
        slot.assign(change)
        return var.assign_sub(change)
