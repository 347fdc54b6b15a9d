# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.Adam`` (Kingma and Ba 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.tf._ops import updates

__all__ = ["Adam"]


class Adam(Optimizer):
    """Adam: steps scaled by running moments of the gradients.

    At step t, counted from 1: ``m += (g - m) (1 - beta_1)``,
    ``v += (g g - v) (1 - beta_2)``,
    ``w -= rate sqrt(1 - beta_2^t) / (1 - beta_1^t) m / (sqrt(v) + epsilon)``.

    Args:
        learning_rate: A number or a schedule.
        beta_1: Decay of the first moment, in [0, 1).
        beta_2: Decay of the second moment, in [0, 1).
        epsilon: Keeps the division finite.
        amsgrad: Whether the largest second moment so far is used (Reddi et al. 2018).
        name: A name.
        **kwargs: What ``Optimizer`` takes.

    Source: ``tf.keras.optimizers.Adam`` of Keras 2.6.

    Example:
        >>> from ipu import tf
        >>> w = tf.Variable([1.0, 1.0])
        >>> _ = Adam(0.1).apply_gradients([(tf.constant([0.5, -2.0]), w)])
        >>> [f"{x:.3f}" for x in w.numpy()]
        ['0.900', '1.100']
    """

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
        for key, value in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0 <= value < 1:
                raise ValueError(f"`{key}` must be in [0, 1). Received: {value!r}.")
        self._beta_1 = float(beta_1)
        self._beta_2 = float(beta_2)
        self._epsilon = float(1e-7 if epsilon is None else epsilon)
        self.amsgrad = bool(amsgrad)

    @property
    def beta_1(self) -> float:
        """Decay of the first moment."""
        return self._beta_1

    @beta_1.setter
    def beta_1(self, value: float) -> None:
        self._set_baked("_beta_1", float(value))

    @property
    def beta_2(self) -> float:
        """Decay of the second moment."""
        return self._beta_2

    @beta_2.setter
    def beta_2(self, value: float) -> None:
        self._set_baked("_beta_2", float(value))

    @property
    def epsilon(self) -> float:
        """What is added to the divisor."""
        return self._epsilon

    @epsilon.setter
    def epsilon(self, value: float) -> None:
        self._set_baked("_epsilon", float(value))

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        # all first moments, then all second ones: the order of Keras's weights
        for var in var_list:
            self.add_slot(var, "m")
        for var in var_list:
            self.add_slot(var, "v")
        for var in var_list if self.amsgrad else ():
            self.add_slot(var, "vhat")

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
            self._beta_1,
            self._beta_2,
            self._epsilon,
        )

    def _apply_amsgrad(self, grad: Tensor, var: Any, m: Any, v: Any) -> Any:
        step = tf.cast(self._current_step, "float32")
        rate = (
            self._current_rate
            * tf.sqrt(1.0 - tf.pow(self._beta_2, step))
            / (1.0 - tf.pow(self._beta_1, step))
        )
        first = m + (grad - m) * (1.0 - self._beta_1)
        second = v + (tf.square(grad) - v) * (1.0 - self._beta_2)
        largest = self.get_slot(var, "vhat")
        most = tf.maximum(largest, second)
        m.assign(first)
        v.assign(second)
        largest.assign(most)
        change = first / (tf.sqrt(most) + self._epsilon)
        return var.assign_sub(tf.cast(rate, var.dtype) * change)

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal optimizer."""
        return {
            **super().get_config(),
            "beta_1": self._beta_1,
            "beta_2": self._beta_2,
            "epsilon": self._epsilon,
            "amsgrad": self.amsgrad,
        }
