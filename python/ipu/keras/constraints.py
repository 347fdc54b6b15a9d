# SPDX-License-Identifier: MIT
"""``ipu.keras.constraints``: what is made of a weight after each of its updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._text.exports import export, like
from ipu.keras import _serialization
from ipu.keras._arguments import Configured
from ipu.keras._backend_state import state
from ipu.keras._types import Tensor


class Constraint(Configured):
    """A callable that gives the value which a weight takes in place of its own.

    Example:
        >>> issubclass(NonNeg, Constraint)
        True
    """

    def __call__(self, w: Tensor) -> Tensor:
        """Return the nearest allowed value of the weight ``w``."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(w).")


class NonNeg(Constraint):
    """No element below 0.

    Example:
        >>> NonNeg()(tf.constant([-1.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """

    def __call__(self, w: Tensor) -> Tensor:
        return tf.maximum(w, tf.zeros_like(w))


def _norms(w: Tensor, axis: Any) -> Tensor:
    return tf.sqrt(tf.reduce_sum(tf.square(w), axis=axis, keepdims=True))


class MaxNorm(Constraint):
    """No norm above a limit.

    Args:
        max_value: The limit.
        axis: The axes that a norm is taken over; 0 for the columns of a matrix.

    Example:
        >>> MaxNorm(1.0)(tf.constant([[3.0], [4.0]])).numpy().ravel().round(4)
        array([0.6, 0.8], dtype=float32)
    """

    def __init__(self, max_value: float = 2, axis: Any = 0) -> None:
        self.max_value = max_value
        self.axis = axis

    def __call__(self, w: Tensor) -> Tensor:
        norms = _norms(w, self.axis)
        return w * (tf.minimum(norms, float(self.max_value)) / (state.epsilon + norms))


class UnitNorm(Constraint):
    """Every norm is 1.

    Args:
        axis: The axes that a norm is taken over; 0 for the columns of a matrix.

    Example:
        >>> UnitNorm()(tf.constant([[3.0], [4.0]])).numpy().ravel().round(4)
        array([0.6, 0.8], dtype=float32)
    """

    def __init__(self, axis: Any = 0) -> None:
        self.axis = axis

    def __call__(self, w: Tensor) -> Tensor:
        return w / (state.epsilon + _norms(w, self.axis))


class MinMaxNorm(Constraint):
    """Every norm between two limits.

    Args:
        min_value: The lower one.
        max_value: The upper one.
        rate: How far it is gone at each update: 1 is all the way.
        axis: The axes that a norm is taken over; 0 for the columns of a matrix.

    Example:
        >>> MinMaxNorm(0.0, 1.0)(tf.constant([[3.0], [4.0]])).numpy().ravel().round(4)
        array([0.6, 0.8], dtype=float32)
    """

    def __init__(
        self,
        min_value: float = 0.0,
        max_value: float = 1.0,
        rate: float = 1.0,
        axis: Any = 0,
    ) -> None:
        self.min_value = min_value
        self.max_value = max_value
        self.rate = rate
        self.axis = axis

    def __call__(self, w: Tensor) -> Tensor:
        norms = _norms(w, self.axis)
        inside = tf.minimum(
            tf.maximum(norms, float(self.min_value)), float(self.max_value)
        )
        wanted = float(self.rate) * inside + (1.0 - float(self.rate)) * norms
        return w * (wanted / (state.epsilon + norms))


max_norm = MaxNorm
min_max_norm = MinMaxNorm
non_neg = NonNeg
unit_norm = UnitNorm

_TABLE: dict[str, Callable[[], Constraint]] = {
    "MaxNorm": MaxNorm,
    "MinMaxNorm": MinMaxNorm,
    "NonNeg": NonNeg,
    "UnitNorm": UnitNorm,
    "max_norm": MaxNorm,
    "min_max_norm": MinMaxNorm,
    "non_neg": NonNeg,
    "unit_norm": UnitNorm,
}


def get(identifier: Any) -> Callable[[Tensor], Tensor] | None:
    """Return the constraint that a layer's argument names.

    Args:
        identifier: None, a name, a configuration, a constraint or any callable of
            a weight.

    Returns:
        A callable, or None.

    Raises:
        ValueError: There is no constraint of that name.
        TypeError: It is neither None, a name nor callable.

    Example:
        >>> type(get("non_neg")).__name__
        'NonNeg'
    """
    wanted = "A constraint must be None, a name or a callable."
    found: Callable[[Tensor], Tensor] | None = _serialization.resolve(
        identifier, "constraint", _TABLE, wanted
    )
    return found


@like(_serialization.serialize_keras_object)
def serialize(constraint: Any) -> Any:
    return _serialization.serialize_keras_object(constraint)


@like(_serialization.deserialize_keras_object)
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


export(__name__)
