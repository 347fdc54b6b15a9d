# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.Adam`` (Kingma and Ba 2015)."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers.optimizer import (
    Baked,
    Optimizer,
    checked_decays,
    checked_epsilon,
)
from ipu.tf._ops import updates

__all__ = ["Adam"]


class Adam(Optimizer):
    """Adam: steps scaled by running moments of the gradients.

    At step t, counted from 1: ``m += (g - m) (1 - beta_1)``,
    ``v += (g g - v) (1 - beta_2)``,
    ``w -= rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon)``.

    Args:
        beta_1, beta_2: Decays of the first and the second moment, in [0, 1).
        amsgrad: Whether the largest second moment so far is used (Reddi et al. 2018).

    Example:
        >>> w = tf.Variable([1.0, 1.0])
        >>> _ = Adam(0.1).apply_gradients([(tf.constant([0.5, -2.0]), w)])
        >>> [f"{x:.3f}" for x in w.numpy()]
        ['0.900', '1.100']
    """

    beta_1 = Baked("Decay of the first moment.")
    beta_2 = Baked("Decay of the second moment.")
    epsilon = Baked("What is added to the divisor.")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        self.beta_1, self.beta_2 = checked_decays(beta_1, beta_2)
        self.epsilon = checked_epsilon(epsilon)
        self.amsgrad = bool(amsgrad)

    @property
    def _own_slots(self) -> tuple[str, ...]:
        return ("m", "v", "vhat") if self.amsgrad else ("m", "v")

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        if self.amsgrad:
            return self._apply_amsgrad(grad, var, m, v)
        return updates.adam_update(
            var,
            grad,
            self._current_rate,
            self._current_step,
            m,
            v,
            self.beta_1,
            self.beta_2,
            self.epsilon,
        )

    def _apply_amsgrad(self, grad: Tensor, var: Any, m: Any, v: Any) -> Any:
        step = tf.cast(self._current_step, "float32")
        rate = (
            self._current_rate
            * tf.sqrt(1.0 - tf.pow(self.beta_2, step))
            / (1.0 - tf.pow(self.beta_1, step))
        )
        first = m + (grad - m) * (1.0 - self.beta_1)
        second = v + (tf.square(grad) - v) * (1.0 - self.beta_2)
        largest = self.get_slot(var, "vhat")
        most = tf.maximum(largest, second)
        m.assign(first)
        v.assign(second)
        largest.assign(most)
        change = first / (tf.sqrt(most) + self.epsilon)
        return var.assign_sub(tf.cast(rate, var.dtype) * change)
