# SPDX-License-Identifier: MIT
"""``ipu.keras.regularizers``: penalties on weights, added to the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._text.arguments import checked_number
from ipu._text.exports import export, like
from ipu.keras import _serialization
from ipu.keras._arguments import Configured
from ipu.keras._types import Tensor


class Regularizer(Configured):
    """A callable that gives the penalty of a weight as a scalar.

    Example:
        >>> issubclass(L2, Regularizer)
        True
    """

    def __call__(self, x: Tensor) -> Tensor:
        """Return the penalty of the weight ``x``."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(x).")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make an equal regularizer."""
        raise NotImplementedError(f"{type(self).__name__} must define get_config().")


class L1L2(Regularizer):
    """``l1 * sum(abs(x)) + l2 * sum(x * x)``.

    Args:
        l1: Factor of the sum of magnitudes.
        l2: Factor of the sum of squares.

    Example:
        >>> float(L1L2(0.5, 0.5)(tf.constant([1.0, -2.0])))
        4.0
    """

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1 = 0.0 if l1 is None else float(l1)
        self.l2 = 0.0 if l2 is None else float(l2)

    get_config = Configured.get_config

    def __call__(self, x: Tensor) -> Tensor:
        value = tf.convert_to_tensor(x)
        terms = []
        if self.l1:
            terms.append(self.l1 * tf.reduce_sum(tf.abs(value)))
        if self.l2:
            terms.append(self.l2 * tf.reduce_sum(tf.square(value)))
        if not terms:
            return tf.constant(0.0, dtype=value.dtype)
        return terms[0] if len(terms) == 1 else terms[0] + terms[1]


class L1(L1L2):
    """``l1 * sum(abs(x))``.

    Args:
        l1: The factor.

    Example:
        >>> float(L1(0.5)(tf.constant([1.0, -2.0])))
        1.5
    """

    def __init__(self, l1: float = 0.01) -> None:
        super().__init__(l1=l1)


class L2(L1L2):
    """``l2 * sum(x * x)``.

    Args:
        l2: The factor.

    Example:
        >>> float(L2(0.5)(tf.constant([1.0, -2.0])))
        2.5
    """

    def __init__(self, l2: float = 0.01) -> None:
        super().__init__(l2=l2)


class OrthogonalRegularizer(Regularizer):
    """The mean magnitude of the cosines between the rows of a matrix, or its columns.

    Args:
        factor: A factor of it.
        mode: ``"rows"`` or ``"columns"``: which of them are to stand at right angles.

    Raises:
        ValueError: An argument has another value; when called, the weight is not a
            matrix.

    Example:
        >>> penalty = OrthogonalRegularizer(0.5)
        >>> round(float(penalty(tf.constant([[3.0, 4.0], [1.0, 0.0]]))), 4)
        0.3
    """

    def __init__(self, factor: float = 0.01, mode: str = "rows") -> None:
        self.factor = checked_number("factor", factor)
        if mode not in ("rows", "columns"):
            raise ValueError(
                f"`mode` must be 'rows' or 'columns'. Received: mode={mode!r}."
            )
        self.mode = mode

    get_config = Configured.get_config

    def __call__(self, x: Tensor) -> Tensor:
        x = tf.convert_to_tensor(x)
        if len(x.shape) != 2:
            raise ValueError(
                "OrthogonalRegularizer needs a matrix. Received: a weight of shape "
                f"{tuple(x.shape)}."
            )
        rows = x if self.mode == "rows" else tf.transpose(x)
        count = int(rows.shape[0])
        if count < 2:
            return tf.constant(0.0, dtype=x.dtype)
        rows = tf.math.l2_normalize(rows, axis=1)
        cosines = tf.matmul(rows, rows, transpose_b=True)
        others = tf.abs(cosines * (1.0 - tf.eye(count, dtype=x.dtype)))
        return tf.reduce_sum(others) * (self.factor / (count * (count - 1)))


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """Return an ``L1L2`` with both factors 0.01 by default.

    Example:
        >>> float(l1_l2(0.5, 0.5)(tf.constant([1.0, -2.0])))
        4.0
    """
    return L1L2(l1=l1, l2=l2)


l1 = L1
l2 = L2
orthogonal_regularizer = OrthogonalRegularizer

_TABLE: dict[str, Callable[[], Regularizer]] = {
    "L1": L1,
    "L2": L2,
    "L1L2": l1_l2,
    "l1_l2": l1_l2,
    "OrthogonalRegularizer": OrthogonalRegularizer,
    "orthogonal_regularizer": OrthogonalRegularizer,
}


def get(identifier: Any) -> Callable[[Tensor], Tensor] | None:
    """Return the regularizer that a layer's argument names.

    Args:
        identifier: None, a name, a configuration, a regularizer or any callable of
            a weight.

    Returns:
        A callable, or None.

    Raises:
        ValueError: There is no regularizer of that name.
        TypeError: It is neither None, a name nor callable.

    Example:
        >>> type(get("l2")).__name__
        'L2'
    """
    wanted = "A regularizer must be None, a name or a callable."
    found: Any = _serialization.resolve(identifier, "regularizer", _TABLE, wanted)
    made: Callable[[Tensor], Tensor] | None = l1_l2() if found is l1_l2 else found
    return made


@like(_serialization.serialize_keras_object)
def serialize(regularizer: Any) -> Any:
    return _serialization.serialize_keras_object(regularizer)


@like(_serialization.deserialize_keras_object)
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(config)


export(__name__)
