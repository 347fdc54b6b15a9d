# SPDX-License-Identifier: MIT
"""``ipu.keras.optimizers.schedules``: learning rates that follow the step number.

A schedule is traced into the training program, so the rate changes at every step of an
execution. All take the step as a number or an int32 scalar and give a float32 scalar.
``initial_learning_rate`` is the rate at step 0, and ``name`` has no effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ipu import tf
from ipu._text.exports import export, like
from ipu.keras import _serialization
from ipu.keras._types import Tensor


class LearningRateSchedule:
    """Base class: a subclass defines ``__call__(step)``.

    Example:
        >>> class Halving(LearningRateSchedule):
        ...     def __call__(self, step):
        ...         return 0.5**step
        ...
        >>> float(Halving()(3))
        0.125
    """

    def __call__(self, step: Any) -> Tensor:
        """Return the rate at a step, counted from 0."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(step).")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal schedule."""
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRateSchedule:
        """Make one from what ``get_config`` gave."""
        return cls(**config)


@dataclass(eq=False, repr=False)
class ExponentialDecay(LearningRateSchedule):
    """``initial_learning_rate * decay_rate ** (step / decay_steps)``.

    Args:
        decay_steps: After how many steps the rate is multiplied once.
        decay_rate: By what.
        staircase: Whether the exponent is rounded down.

    Example:
        >>> float(ExponentialDecay(0.5, 10, 0.5)(10))
        0.25
    """

    initial_learning_rate: float
    decay_steps: float
    decay_rate: float
    staircase: bool = False
    name: str | None = None

    def __call__(self, step: Any) -> Tensor:
        exponent = _float(step) / float(self.decay_steps)
        if self.staircase:
            exponent = tf.math.floor(exponent)
        base = tf.constant(self.decay_rate, dtype="float32")
        return self.initial_learning_rate * tf.pow(base, exponent)


@dataclass(eq=False, repr=False)
class InverseTimeDecay(LearningRateSchedule):
    """``initial_learning_rate / (1 + decay_rate * step / decay_steps)``.

    Args:
        decay_steps: How many steps count as one.
        decay_rate: The speed of the decay.
        staircase: Whether ``step / decay_steps`` is rounded down.

    Example:
        >>> rate = InverseTimeDecay(1.0, decay_steps=10, decay_rate=1.0)
        >>> [float(rate(step)) for step in (0, 10, 30)]
        [1.0, 0.5, 0.25]
    """

    initial_learning_rate: float
    decay_steps: float
    decay_rate: float
    staircase: bool = False
    name: str | None = None

    def __call__(self, step: Any) -> Tensor:
        part = _float(step) / float(self.decay_steps)
        if self.staircase:
            part = tf.math.floor(part)
        return self.initial_learning_rate / (1.0 + self.decay_rate * part)


@dataclass(eq=False, repr=False)
class PiecewiseConstantDecay(LearningRateSchedule):
    """One rate up to each boundary, and one after the last.

    Args:
        boundaries: Increasing step numbers; each belongs to the part before it.
        values: The rates, one more than boundaries.

    Raises:
        ValueError: The numbers of boundaries and values do not fit.

    Example:
        >>> rate = PiecewiseConstantDecay([10, 20], [1.0, 0.5, 0.25])
        >>> [float(rate(step)) for step in (0, 10, 11, 21)]
        [1.0, 1.0, 0.5, 0.25]
    """

    boundaries: Sequence[float]
    values: Sequence[float]
    name: str | None = None

    def __post_init__(self) -> None:
        if len(self.boundaries) != len(self.values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values. "
                f"Received: {len(self.boundaries)} boundaries and {len(self.values)} "
                "values."
            )
        self.boundaries = list(self.boundaries)
        self.values = list(self.values)

    def __call__(self, step: Any) -> Tensor:
        now = _float(step)
        rate = tf.constant(self.values[0], dtype="float32")
        for boundary, value in zip(self.boundaries, self.values[1:], strict=True):
            after = tf.greater(now, tf.constant(float(boundary), dtype="float32"))
            rate = tf.where(after, tf.constant(value, dtype="float32"), rate)
        return rate


@dataclass(eq=False, repr=False)
class PolynomialDecay(LearningRateSchedule):
    """From one rate to another along ``(1 - step / decay_steps) ** power``.

    Args:
        decay_steps: The step at which the end is reached.
        end_learning_rate: The rate from there on.
        power: The exponent, 1 for a line.
        cycle: Whether ``decay_steps`` grows to its next multiple instead.

    Example:
        >>> rate = PolynomialDecay(1.0, decay_steps=4, end_learning_rate=0.0)
        >>> [float(rate(step)) for step in (0, 1, 2, 9)]
        [1.0, 0.75, 0.5, 0.0]
    """

    initial_learning_rate: float
    decay_steps: float
    end_learning_rate: float = 0.0001
    power: float = 1.0
    cycle: bool = False
    name: str | None = None

    def __call__(self, step: Any) -> Tensor:
        now = _float(step)
        steps = tf.constant(float(self.decay_steps), dtype="float32")
        if self.cycle:
            rounds = -tf.math.floor(-(now / steps))  # rounded up
            steps = steps * tf.maximum(rounds, tf.ones_like(rounds))
        else:
            now = tf.minimum(now, steps)
        left = 1.0 - now / steps
        if self.power != 1.0:
            left = tf.pow(left, tf.constant(float(self.power), dtype="float32"))
        span = self.initial_learning_rate - self.end_learning_rate
        return span * left + self.end_learning_rate


@dataclass(eq=False, repr=False)
class CosineDecay(LearningRateSchedule):
    """Half a cosine from ``initial_learning_rate`` to ``alpha`` times it.

    With ``warmup_target`` the rate first grows to that, along a line, and the cosine
    begins there.

    Args:
        decay_steps: How many steps the cosine takes.
        alpha: The end, as a part of the rate that the cosine begins with.
        warmup_target: The rate after the first steps; None for no such steps.
        warmup_steps: How many they are.

    Raises:
        ValueError: There is a ``warmup_target`` and ``warmup_steps`` is not above 0.

    Example:
        >>> rate = CosineDecay(1.0, decay_steps=100, alpha=0.2)
        >>> [f"{float(rate(step)):.2f}" for step in (0, 50, 100, 500)]
        ['1.00', '0.60', '0.20', '0.20']
        >>> rate = CosineDecay(0.0, 100, warmup_target=1.0, warmup_steps=10)
        >>> [f"{float(rate(step)):.2f}" for step in (0, 5, 10, 60, 110)]
        ['0.00', '0.50', '1.00', '0.50', '0.00']
    """

    initial_learning_rate: float
    decay_steps: float
    alpha: float = 0.0
    name: str | None = None
    warmup_target: float | None = None
    warmup_steps: float = 0

    def __post_init__(self) -> None:
        if self.warmup_target is not None and self.warmup_steps <= 0:
            raise ValueError(
                "`warmup_steps` must be above 0 where `warmup_target` is given. "
                f"Received: warmup_target={self.warmup_target}, warmup_steps="
                f"{self.warmup_steps}."
            )

    def __call__(self, step: Any) -> Tensor:
        steps = tf.constant(float(self.decay_steps), dtype="float32")
        first, target = self.initial_learning_rate, self.warmup_target
        done = _float(step)
        if target is not None:
            done = tf.maximum(done - float(self.warmup_steps), 0.0)
        part = tf.minimum(done, steps) / steps
        decayed = 0.5 * (1.0 + _cos_pi(part))
        factor = (1.0 - self.alpha) * decayed + self.alpha
        if target is None:
            return first * factor
        share = tf.minimum(_float(step) / float(self.warmup_steps), 1.0)
        line = first + (target - first) * share
        return tf.where(share < 1.0, line, target * factor)


@dataclass(eq=False, repr=False)
class CosineDecayRestarts(LearningRateSchedule):
    """Half cosines one after another, each from its own height to ``alpha``.

    Args:
        first_decay_steps: The length of the first half cosine.
        t_mul: The length of each of the next, in lengths of the one before; at least 1.
        m_mul: The height of each of the next, in heights of the one before.
        alpha: The lowest rate, as a part of the first.

    Raises:
        ValueError: ``t_mul`` is less than 1.

    Example:
        >>> rate = CosineDecayRestarts(1.0, 10)
        >>> [round(float(rate(step)), 3) for step in (0, 5, 10)]
        [1.0, 0.5, 1.0]
    """

    initial_learning_rate: float
    first_decay_steps: float
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0
    name: str | None = None

    def __post_init__(self) -> None:
        if self.t_mul < 1.0:
            raise ValueError(
                "`t_mul` of CosineDecayRestarts must be at least 1. "
                f"Received: t_mul={self.t_mul}."
            )

    def __call__(self, step: Any) -> Tensor:
        done = _float(step) / float(self.first_decay_steps)
        if self.t_mul == 1.0:
            restarts = tf.math.floor(done)
            part = done - restarts
        else:
            ratio = float(self.t_mul)
            restarts = tf.math.floor(
                tf.math.log(1.0 - done * (1.0 - ratio)) / math.log(ratio)
            )
            length = tf.pow(tf.constant(ratio), restarts)
            part = (done - (1.0 - length) / (1.0 - ratio)) / length
        height = tf.pow(tf.constant(float(self.m_mul)), restarts)
        decayed = 0.5 * height * (1.0 + _cos_pi(part))
        return self.initial_learning_rate * ((1.0 - self.alpha) * decayed + self.alpha)


_TABLE = {
    kind.__name__: kind
    for kind in (
        CosineDecay,
        CosineDecayRestarts,
        ExponentialDecay,
        InverseTimeDecay,
        PiecewiseConstantDecay,
        PolynomialDecay,
    )
}


@like(_serialization.serialize_keras_object)
def serialize(learning_rate_schedule: Any) -> Any:
    return _serialization.serialize_keras_object(learning_rate_schedule)


@like(_serialization.deserialize_keras_object)
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    with _serialization.CustomObjectScope(custom_objects or {}):
        if _serialization.is_config(config):
            return _serialization.make("learning rate schedule", config, _TABLE)
        return config


def _cos_pi(x: Tensor) -> Tensor:
    """Return ``cos(pi x)`` for x in [0, 1], to a unit of the last place of float32.

    There is no cosine among the ops: ``cos(pi x) = -sin(pi (x - 1/2))``, whose Taylor
    series up to the 15th power errs by less than 1e-10 for arguments within pi / 2.
    """
    angle = math.pi * (x - 0.5)
    square = angle * angle
    total = tf.zeros_like(x)
    for power in (15, 13, 11, 9, 7, 5, 3, 1):
        sign = -1.0 if power % 4 == 3 else 1.0
        total = total * square + sign / math.factorial(power)
    return -(total * angle)


def _float(step: Any) -> Tensor:
    return tf.cast(tf.convert_to_tensor(step), "float32")


export(__name__)
