# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.SGD``: gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from ipu.keras._types import Tensor
from ipu.keras.optimizers.optimizer import Baked, Optimizer
from ipu.tf._ops import updates

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent: ``w -= rate * g``.

    With momentum: ``v = momentum * v - rate * g; w += v``; in Nesterov's form
    ``w += momentum * v - rate * g`` with the new ``v``.

    Args:
        momentum: In [0, 1].
        nesterov: Whether Nesterov's form is used.

    Raises:
        ValueError: ``momentum`` is not in [0, 1].

    Example:
        >>> optimizer = SGD(learning_rate=0.1, momentum=0.9)
        >>> optimizer.learning_rate = 0.05
    """

    momentum = Baked("The part of the last change that is kept.")

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
        self.momentum = momentum
        self.nesterov = bool(nesterov)

    @property
    def _own_slots(self) -> tuple[str, ...]:
        return ("momentum",) if self.momentum else ()

    def _changed_by_rows(self, var: Any) -> list[Any]:
        return self._with_slots(var) if self.momentum else []

    def _resource_apply_dense(
        self, grad: Tensor, var: Any, apply_state: Any = None
    ) -> Any:
        velocity = self.get_slot(var, "momentum") if self.momentum else None
        return updates.sgd_update(
            var, grad, self._current_rate, self.momentum, velocity, self.nesterov
        )
