# SPDX-License-Identifier: MIT
"""The rate that an optimizer with a schedule has now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras.optimizers.schedules import LearningRateSchedule

if TYPE_CHECKING:
    from ipu.keras.optimizers.optimizer import Optimizer

Tensor = tf.Tensor


class CurrentRate(LearningRateSchedule):
    """A schedule as an optimizer's ``learning_rate``.

    Keras 2 gives the schedule there, Keras 3 the rate of the next step. This is both:
    it is called and asked for its arguments as the schedule, and it is a number where
    one is asked for.

    Args:
        schedule: The schedule.
        optimizer: Counts the steps.

    Example:
        >>> schedules = keras.optimizers.schedules
        >>> optimizer = keras.optimizers.SGD(schedules.ExponentialDecay(0.5, 10, 0.5))
        >>> float(optimizer.learning_rate), float(optimizer.learning_rate(10))
        (0.5, 0.25)
        >>> optimizer.learning_rate.decay_rate
        0.5
    """

    _schedule: LearningRateSchedule
    _optimizer: Optimizer

    def __init__(self, schedule: LearningRateSchedule, optimizer: Optimizer) -> None:
        self._schedule, self._optimizer = schedule, optimizer

    def __getattr__(self, name: str) -> Any:
        if name in ("_schedule", "_optimizer"):
            raise AttributeError(name)
        return getattr(self._schedule, name)

    @property  # type: ignore[misc]
    def __class__(self) -> type[LearningRateSchedule]:  # type: ignore[override]
        return type(self._schedule)

    def __reduce__(self) -> Any:
        return _itself, (self._schedule,)

    def __eq__(self, other: object) -> bool:
        return unwrapped(other) is self._schedule

    def __hash__(self) -> int:
        return hash(self._schedule)

    def __repr__(self) -> str:
        return repr(self._schedule)

    def __call__(self, step: Any) -> Tensor:
        rate: Tensor = self._schedule(step)
        return rate

    def get_config(self) -> dict[str, Any]:
        return self._schedule.get_config()

    def numpy(self) -> np.float32:
        """Return the rate of the next step."""
        rate: np.float32 = self._optimizer._decayed_rate().numpy()
        return rate

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.numpy(), dtype)

    def __float__(self) -> float:
        return float(self.numpy())

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)


def _itself(schedule: LearningRateSchedule) -> LearningRateSchedule:
    return schedule


def unwrapped(rate: Any) -> Any:
    """Return the schedule of what an optimizer gave as its rate; else what is given.

    Args:
        rate: Anything.
    """
    return rate._schedule if type(rate) is CurrentRate else rate


def is_number(rate: Any) -> bool:
    """Return whether a rate is a number that may be set anew, and not a schedule's.

    Args:
        rate: What an optimizer gives as its rate.
    """
    return hasattr(rate, "numpy") and not isinstance(rate, LearningRateSchedule)
