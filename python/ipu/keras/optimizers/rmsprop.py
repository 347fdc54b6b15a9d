# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.RMSprop`` (Tieleman and Hinton 2012)."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.optimizers.optimizer import Optimizer, checked_epsilon

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Steps divided by a running root mean square of the gradients.

    ``r = rho r + (1 - rho) g g; w -= rate g / (sqrt(r) + epsilon)``. Centered: the
    square of a running mean of ``g`` is taken off ``r``. With momentum:
    ``v = momentum v + rate g / sqrt(r + epsilon); w -= v``.

    Args:
        rho: Decay of the running mean, in [0, 1].
        momentum: The part of the last change that is kept.
        centered: Whether the variance is used.

    Example:
        >>> w = tf.Variable(1.0)
        >>> _ = RMSprop(0.1, rho=0.75).apply_gradients([(tf.constant(2.0), w)])
        >>> f"{float(w):.3f}"
        '0.800'
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        name: str = "RMSprop",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        if not 0 <= momentum <= 1:
            raise ValueError(
                f"`momentum` must be between [0, 1]. Received: momentum={momentum!r}."
            )
        self.rho = float(rho)
        self.momentum = float(momentum)
        self.epsilon = checked_epsilon(epsilon)
        self.centered = bool(centered)

    @property
    def _own_slots(self) -> tuple[str, ...]:
        momentum = ("momentum",) if self.momentum else ()
        return ("rms", *momentum, "mg") if self.centered else ("rms", *momentum)

    def _spread(self, grad: Tensor, var: Any) -> Tensor:
        """Take a gradient into the running means; what it is divided by the root of."""
        rms = self.get_slot(var, "rms")
        mean_square = self.rho * rms.value() + (1.0 - self.rho) * tf.square(grad)
        rms.assign(mean_square)
        spread = mean_square
        if self.centered:
            mg = self.get_slot(var, "mg")
            mean = self.rho * mg.value() + (1.0 - self.rho) * grad
            mg.assign(mean)
            spread = mean_square - tf.square(mean)
        return spread

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var) if self.momentum else []

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        rate = self._current_rate
        if tf.as_dtype(grad.dtype).name != "float32":
            rate = tf.cast(rate, grad.dtype)
        spread = self._spread(grad, var)
        if not self.momentum:
            return var.assign_sub(rate * grad / (tf.sqrt(spread) + self.epsilon))
        slot = self.get_slot(var, "momentum")
        change = self.momentum * slot.value() + rate * grad / tf.sqrt(
            spread + self.epsilon
        )
        slot.assign(change)
        return var.assign_sub(change)
