# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.SGD``: gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu.keras._types import Tensor
from ipu.keras.optimizers.optimizer import Optimizer
from ipu.tf._ops import updates

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent: ``w -= rate * g``.

    With momentum: ``v = momentum * v - rate * g; w += v``; in Nesterov's form
    ``w += momentum * v - rate * g`` with the new ``v``.

    Args:
        learning_rate: A number or a schedule.
        momentum: In [0, 1].
        nesterov: Whether Nesterov's form is used.
        name: A name.
        **kwargs: What ``Optimizer`` takes.

    Raises:
        ValueError: ``momentum`` is not in [0, 1].

    Source: ``tf.keras.optimizers.SGD`` of Keras 2.6.

    Example:
        >>> optimizer = SGD(learning_rate=0.1, momentum=0.9)
        >>> optimizer.learning_rate = 0.05
    """

    def __init__(
        self,
        learning_rate: Any = 0.01,
        momentum: float = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate, name, **kwargs)
        if not isinstance(momentum, (int, float)) or not 0 <= momentum <= 1:
            raise ValueError(
                f"`momentum` must be between [0, 1]. Received: momentum={momentum!r}."
            )
        self._momentum = float(momentum)
        self.nesterov = bool(nesterov)

    @property
    def momentum(self) -> float:
        """The part of the last change that is kept."""
        return self._momentum

    @momentum.setter
    def momentum(self, value: float) -> None:
        self._set_baked("_momentum", float(value))

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        if self._momentum:
            for var in var_list:
                self.add_slot(var, "momentum")

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var) if self._momentum else []

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        velocity = self.get_slot(var, "momentum") if self._momentum else None
        return updates.sgd_update(
            var, grad, self._current_rate, self._momentum, velocity, self.nesterov
        )

    def get_config(self) -> dict[str, Any]:
        """Give the arguments that make an equal optimizer."""
        return {
            **super().get_config(),
            "momentum": self._momentum,
            "nesterov": self.nesterov,
        }
