# SPDX-License-Identifier: MIT
"""``ipu.keras.activations``: element-wise functions by name.

Each takes a float tensor ``x`` and gives one like it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._text.arguments import checked_tensor
from ipu._text.exports import export, like
from ipu.keras import _serialization
from ipu.keras._tensor_notes import remember_logits
from ipu.keras._types import Tensor
from ipu.tf._tensor.dispatch import composite


@composite
def linear(x: Tensor) -> Tensor:
    """The identity.

    Args:
        x: Any tensor.

    Returns:
        ``x``.

    Example:
        >>> linear(tf.constant([2.0])).numpy().tolist()
        [2.0]
    """
    return x


@composite
def relu(
    x: Tensor,
    alpha: float = 0.0,
    max_value: float | None = None,
    threshold: float = 0.0,
) -> Tensor:
    """Rectified linear unit, ``max(x, 0)`` with the default arguments.

    Args:
        alpha: The slope below the threshold.
        max_value: The largest value of the result; None for no limit.
        threshold: The value below which the slope is ``alpha``.

    Returns:
        A tensor like ``x``: ``max_value`` for ``x >= max_value``, ``x`` from the
        threshold on, ``alpha * (x - threshold)`` below it.

    Example:
        >>> relu(tf.constant([-1.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """
    if alpha == 0.0 and max_value is None and threshold == 0.0:
        return tf.nn.relu(x)
    below = alpha * (x - threshold) if alpha != 0.0 else tf.zeros_like(x)
    result = tf.where(tf.greater_equal(x, _like(threshold, x)), x, below)
    if max_value is not None:
        result = tf.minimum(result, _like(max_value, x))
    return result


@composite
def sigmoid(x: Tensor) -> Tensor:
    """``1 / (1 + exp(-x))``.

    Returns:
        A tensor like ``x``, in (0, 1).

    Example:
        >>> sigmoid(tf.constant([0.0])).numpy().tolist()
        [0.5]
    """
    result = tf.nn.sigmoid(x)
    remember_logits(result, x, "sigmoid")
    return result


@composite
def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent.

    Returns:
        A tensor like ``x``, in (-1, 1).

    Example:
        >>> tanh(tf.constant([0.0])).numpy().tolist()
        [0.0]
    """
    return tf.nn.tanh(x)


@composite
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along an axis.

    Args:
        x: A float tensor of two axes or more.
        axis: The axis whose elements sum to one; the last by default.

    Raises:
        ValueError: ``x`` has fewer than two axes.

    Example:
        >>> softmax(tf.constant([[1.0, 1.0]])).numpy().tolist()
        [[0.5, 0.5]]
    """
    rank = len(checked_tensor("x", x).shape)
    if rank < 2:
        raise ValueError(
            f"Cannot apply softmax to a tensor that is 1D. Received input: {x}. "
            "Give it a batch axis, for example with tf.expand_dims(x, 0)."
        )
    axis = axis % rank
    if axis == rank - 1:
        result = tf.nn.softmax(x)
        remember_logits(result, x, "softmax")
        return result
    order = [i for i in range(rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(rank)]
    return tf.transpose(tf.nn.softmax(tf.transpose(x, order)), back)


@composite
def exponential(x: Tensor) -> Tensor:
    """``exp(x)``.

    Example:
        >>> exponential(tf.constant([0.0])).numpy().tolist()
        [1.0]
    """
    return tf.exp(x)


@composite
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Exponential linear unit: ``x``, or ``alpha * (exp(x) - 1)`` below zero.

    Args:
        alpha: The limit far below zero, negated.

    Example:
        >>> elu(tf.constant([0.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """
    if alpha == 1.0:
        return tf.nn.elu(x)
    unit = tf.nn.elu(x)
    return tf.where(tf.greater(x, tf.zeros_like(x)), unit, alpha * unit)


@composite
def selu(x: Tensor) -> Tensor:
    """Scaled exponential linear unit.

    Returns:
        ``1.05070098 * elu(x, 1.67326324)``.

    Example:
        >>> selu(tf.constant([0.0])).numpy().tolist()
        [0.0]
    """
    return tf.nn.selu(x)


@composite
def softplus(x: Tensor) -> Tensor:
    """``log(1 + exp(x))``, also where ``exp(x)`` would overflow.

    Example:
        >>> round(float(softplus(tf.constant(0.0))), 4)
        0.6931
    """
    return tf.maximum(x, tf.zeros_like(x)) + tf.math.log(1.0 + tf.exp(-tf.abs(x)))


@composite
def softsign(x: Tensor) -> Tensor:
    """``x / (1 + abs(x))``.

    Returns:
        A tensor like ``x``, in (-1, 1).

    Example:
        >>> softsign(tf.constant([1.0, -3.0])).numpy().tolist()
        [0.5, -0.75]
    """
    return x / (1.0 + tf.abs(x))


@composite
def swish(x: Tensor) -> Tensor:
    """``x * sigmoid(x)``, also known as silu.

    Example:
        >>> swish(tf.constant([0.0])).numpy().tolist()
        [0.0]
    """
    return x * tf.nn.sigmoid(x)


@composite
def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """Gaussian error linear unit, ``0.5 x (1 + erf(x / sqrt(2)))``.

    Args:
        approximate: Use ``tanh(sqrt(2 / pi) (x + 0.044715 x^3))`` in place of ``erf``.

    Example:
        >>> gelu(tf.constant([0.0])).numpy().tolist()
        [0.0]
    """
    return tf.nn.gelu(x, approximate)


@composite
def hard_sigmoid(x: Tensor) -> Tensor:
    """The line ``0.2 x + 0.5``, cut at 0 and 1.

    Returns:
        A tensor like ``x``, in [0, 1].

    Example:
        >>> hard_sigmoid(tf.constant([0.0, 3.0])).numpy().tolist()
        [0.5, 1.0]
    """
    line = 0.2 * x + 0.5
    return tf.minimum(tf.maximum(line, tf.zeros_like(x)), tf.ones_like(x))


def _like(value: float, x: Tensor) -> Tensor:
    return tf.constant(value, dtype=x.dtype)


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "elu": elu,
    "exponential": exponential,
    "gelu": gelu,
    "hard_sigmoid": hard_sigmoid,
    "linear": linear,
    "relu": relu,
    "selu": selu,
    "sigmoid": sigmoid,
    "silu": swish,
    "softmax": softmax,
    "softplus": softplus,
    "softsign": softsign,
    "swish": swish,
    "tanh": tanh,
}


def get(identifier: Any) -> Callable[..., Any]:
    """Give the function that a layer's ``activation`` argument names.

    Args:
        identifier: None (linear), a name such as ``"relu"``, or a callable.

    Returns:
        A function of one tensor.

    Raises:
        ValueError: There is no activation of that name; the nearest is offered.
        TypeError: It is neither a name nor callable.

    Example:
        >>> get("relu") is relu
        True
    """
    if identifier is None:
        return linear
    if isinstance(identifier, str):
        found: Callable[..., Any] = _serialization.find(
            "activation function", identifier, _FUNCTIONS
        )
        return found
    if _serialization.is_config(identifier):
        from ipu.keras import layers

        layer: Callable[..., Any] = layers.deserialize(identifier)
        return layer
    if callable(identifier):
        function: Callable[..., Any] = identifier
        return function
    raise TypeError(
        "activation must be None, a name or a callable. "
        f"Received: {identifier!r} ({type(identifier).__name__})."
    )


def serialize(activation: Callable[..., Any]) -> Any:
    """Give the name of an activation function, for a layer's configuration.

    Args:
        activation: A function of this module, or the user's own.

    Returns:
        Its name, or the configuration of a layer.

    Example:
        >>> serialize(relu)
        'relu'
    """
    for name, function in _FUNCTIONS.items():
        if function is activation:
            return name
    return _serialization.serialize_keras_object(activation)


@like(_serialization.deserialize_keras_object)
def deserialize(name: Any, custom_objects: Any = None) -> Callable[..., Any]:
    with _serialization.CustomObjectScope(custom_objects or {}):
        return get(name)


export(__name__)
