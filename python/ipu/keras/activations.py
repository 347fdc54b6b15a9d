# SPDX-License-Identifier: MIT
"""``ipu.keras.activations``: element-wise functions by name.

Each takes a float tensor ``x`` and gives one like it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import tf
from ipu._text.arguments import checked_int, checked_number, checked_tensor
from ipu._text.exports import export, like
from ipu.keras import _serialization
from ipu.keras._tensor_notes import remember_logits
from ipu.keras._types import Tensor
from ipu.tf._tensor.dispatch import composite


@composite
def linear(x: Tensor) -> Tensor:
    """Return the identity.

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
    *,
    negative_slope: float | None = None,
) -> Tensor:
    """Apply the rectified linear unit, ``max(x, 0)`` with the default arguments.

    Args:
        alpha: The slope below the threshold.
        max_value: The largest value of the result; None for no limit.
        threshold: The value below which the slope is ``alpha``.
        negative_slope: The name of ``alpha`` in Keras 3.

    Returns:
        A tensor like ``x``: ``max_value`` for ``x >= max_value``, ``x`` from the
        threshold on, ``alpha * (x - threshold)`` below it.

    Example:
        >>> relu(tf.constant([-1.0, 2.0])).numpy().tolist()
        [0.0, 2.0]
    """
    if negative_slope is not None:
        alpha = checked_number("negative_slope", negative_slope)
    if alpha == 0.0 and max_value is None and threshold == 0.0:
        return tf.nn.relu(x)
    below = alpha * (x - threshold) if alpha != 0.0 else tf.zeros_like(x)
    result = tf.where(tf.greater_equal(x, _like(threshold, x)), x, below)
    if max_value is not None:
        result = tf.minimum(result, _like(max_value, x))
    return result


@composite
def sigmoid(x: Tensor) -> Tensor:
    """Return ``1 / (1 + exp(-x))``.

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
    """Return the hyperbolic tangent.

    Returns:
        A tensor like ``x``, in (-1, 1).

    Example:
        >>> tanh(tf.constant([0.0])).numpy().tolist()
        [0.0]
    """
    return tf.nn.tanh(x)


@composite
def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` along an axis.

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
    """Return ``exp(x)``.

    Example:
        >>> exponential(tf.constant([0.0])).numpy().tolist()
        [1.0]
    """
    return tf.exp(x)


@composite
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Apply the exponential linear unit: ``x``, or ``alpha * (exp(x) - 1)`` below zero.

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
    """Apply the scaled exponential linear unit.

    Returns:
        ``1.05070098 * elu(x, 1.67326324)``.

    Example:
        >>> selu(tf.constant([0.0])).numpy().tolist()
        [0.0]
    """
    return tf.nn.selu(x)


@composite
def softplus(x: Tensor) -> Tensor:
    """Return ``log(1 + exp(x))``, also where ``exp(x)`` would overflow.

    Example:
        >>> round(float(softplus(tf.constant(0.0))), 4)
        0.6931
    """
    return tf.nn.softplus(x)


@composite
def softsign(x: Tensor) -> Tensor:
    """Return ``x / (1 + abs(x))``.

    Returns:
        A tensor like ``x``, in (-1, 1).

    Example:
        >>> softsign(tf.constant([1.0, -3.0])).numpy().tolist()
        [0.5, -0.75]
    """
    return x / (1.0 + tf.abs(x))


@composite
def swish(x: Tensor) -> Tensor:
    """Return ``x * sigmoid(x)``, also known as silu.

    Example:
        >>> swish(tf.constant([0.0])).numpy().tolist()
        [0.0]
    """
    return x * tf.nn.sigmoid(x)


@composite
def gelu(x: Tensor, approximate: bool = False) -> Tensor:
    """Apply the Gaussian error linear unit, ``0.5 x (1 + erf(x / sqrt(2)))``.

    Args:
        approximate: Use ``tanh(sqrt(2 / pi) (x + 0.044715 x^3))`` in place of ``erf``.

    Example:
        >>> gelu(tf.constant([0.0])).numpy().tolist()
        [0.0]
    """
    return tf.nn.gelu(x, approximate)


@composite
def hard_sigmoid(x: Tensor) -> Tensor:
    """Return the line ``0.2 x + 0.5``, cut at 0 and 1.

    Returns:
        A tensor like ``x``, in [0, 1].

    Example:
        >>> hard_sigmoid(tf.constant([0.0, 3.0])).numpy().tolist()
        [0.5, 1.0]
    """
    return tf.nn.hard_sigmoid(x)


@composite
def relu6(x: Tensor) -> Tensor:
    """Return ``max(x, 0)``, cut at 6.

    Example:
        >>> relu6(tf.constant([-1.0, 2.0, 9.0])).numpy().tolist()
        [0.0, 2.0, 6.0]
    """
    return tf.nn.relu6(x)


@composite
def leaky_relu(x: Tensor, negative_slope: float = 0.2) -> Tensor:
    """Return ``x``, or ``negative_slope * x`` below zero.

    Example:
        >>> leaky_relu(tf.constant([-1.0, 2.0])).numpy().tolist()
        [-0.2, 2.0]
    """
    slope = checked_number("negative_slope", negative_slope)
    return tf.nn.leaky_relu(x, slope)


@composite
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """Return ``x``, or ``alpha * (exp(x / alpha) - 1)`` below zero.

    Args:
        alpha: The limit far below zero, negated; not 0.

    Example:
        >>> celu(tf.constant([-0.5, 2.0]), 0.5).numpy().round(4).tolist()
        [-0.3161, 2.0]
    """
    alpha = checked_number("alpha", alpha, "a number other than 0", bool)
    x = tf.convert_to_tensor(x)
    zero = tf.zeros_like(x)
    below = alpha * tf.math.expm1(tf.minimum(x, zero) / alpha)
    return tf.where(tf.greater(x, zero), x, below)


@composite
def log_sigmoid(x: Tensor) -> Tensor:
    """Return ``log(1 / (1 + exp(-x)))``, also where ``exp(-x)`` would overflow.

    Example:
        >>> log_sigmoid(tf.constant([0.0, -200.0])).numpy().round(4).tolist()
        [-0.6931, -200.0]
    """
    return tf.math.log_sigmoid(x)


@composite
def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Return ``x - log(sum(exp(x)))`` along an axis.

    Args:
        x: A float tensor of one axis or more.
        axis: The axis of the sum.

    Example:
        >>> log_softmax(tf.constant([[1.0, 1.0]])).numpy().round(4).tolist()
        [[-0.6931, -0.6931]]
    """
    return tf.nn.log_softmax(x, axis=checked_int("axis", axis))


@composite
def sparsemax(x: Tensor, axis: int = -1) -> Tensor:
    """Return the nearest point to ``x`` whose elements along an axis are shares of one.

    Other than those of :func:`softmax` many of them are 0 (arXiv:1602.02068).

    Args:
        x: A float tensor of one axis or more.
        axis: The axis whose elements sum to one.

    Example:
        >>> sparsemax(tf.constant([[2.0, 1.5, 0.0]])).numpy().tolist()
        [[0.75, 0.25, 0.0]]
    """
    x, axis = tf.convert_to_tensor(x), checked_int("axis", axis)
    if not -len(x.shape) <= axis < len(x.shape):
        raise ValueError(
            f"sparsemax cannot find axis {axis} of a tensor of shape {tuple(x.shape)}."
        )
    order = [1] * len(x.shape)
    order[axis] = -1
    largest = tf.sort(tf.stop_gradient(x), axis=axis, direction="DESCENDING")
    ranks = tf.reshape(tf.range(1, x.shape[axis] + 1), order)
    ranks = tf.cast(ranks, x.dtype)
    sums = tf.cumsum(largest, axis=axis)
    has_share = tf.cast(tf.greater(1.0 + ranks * largest, sums), x.dtype)
    count = tf.reduce_sum(has_share, axis=axis, keepdims=True)
    total = tf.reduce_sum(has_share * largest, axis=axis, keepdims=True)
    chosen = tf.cast(tf.greater(x, (total - 1.0) / count), x.dtype)
    mean = (tf.reduce_sum(chosen * x, axis=axis, keepdims=True) - 1.0) / count
    return tf.nn.relu(x - mean)


@composite
def glu(x: Tensor, axis: int = -1) -> Tensor:
    """Apply the gated linear unit: the first half of an axis, times sigmoids of the
    second.

    Args:
        x: A float tensor.
        axis: The axis that is halved, of an even size.

    Raises:
        ValueError: Its size is odd.

    Example:
        >>> glu(tf.constant([[3.0, 0.0]])).numpy().tolist()
        [[1.5]]
    """
    x, axis = tf.convert_to_tensor(x), checked_int("axis", axis)
    if not -len(x.shape) <= axis < len(x.shape) or x.shape[axis] % 2:
        raise ValueError(
            "glu halves an axis of an even size. Received: a tensor of shape "
            f"{tuple(x.shape)} and axis={axis}."
        )
    first, second = tf.split(x, 2, axis=axis)
    return first * tf.nn.sigmoid(second)


@composite
def mish(x: Tensor) -> Tensor:
    """Return ``x * tanh(softplus(x))``.

    Example:
        >>> mish(tf.constant([0.0, 1.0])).numpy().round(4).tolist()
        [0.0, 0.8651]
    """
    x = tf.convert_to_tensor(x)
    return x * tf.nn.tanh(softplus(x))


@composite
def hard_silu(x: Tensor) -> Tensor:
    """Return ``x * relu6(x + 3) / 6``.

    Example:
        >>> hard_silu(tf.constant([-3.0, 0.0, 3.0])).numpy().tolist()
        [0.0, 0.0, 3.0]
    """
    x = tf.convert_to_tensor(x)
    return x * tf.nn.relu6(x + 3.0) / 6.0


@composite
def hard_tanh(x: Tensor) -> Tensor:
    """Return ``x``, cut at -1 and 1.

    Example:
        >>> hard_tanh(tf.constant([-2.0, 0.5, 2.0])).numpy().tolist()
        [-1.0, 0.5, 1.0]
    """
    return tf.clip_by_value(tf.convert_to_tensor(x), -1.0, 1.0)


@composite
def tanh_shrink(x: Tensor) -> Tensor:
    """Return ``x - tanh(x)``.

    Example:
        >>> tanh_shrink(tf.constant([0.0, 1.0])).numpy().round(4).tolist()
        [0.0, 0.2384]
    """
    return tf.convert_to_tensor(x) - tf.nn.tanh(x)


@composite
def hard_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Return ``x`` where its magnitude is above a threshold, else 0.

    Args:
        threshold: Not negative.

    Example:
        >>> hard_shrink(tf.constant([-1.0, 0.25, 2.0])).numpy().tolist()
        [-1.0, 0.0, 2.0]
    """
    x, limit = tf.convert_to_tensor(x), _checked_limit(threshold)
    return tf.where(tf.greater(tf.abs(x), _like(limit, x)), x, tf.zeros_like(x))


@composite
def soft_shrink(x: Tensor, threshold: float = 0.5) -> Tensor:
    """Return ``x``, nearer to 0 by a threshold, which it does not cross.

    Args:
        threshold: Not negative.

    Example:
        >>> soft_shrink(tf.constant([-1.0, 0.25, 2.0])).numpy().tolist()
        [-0.5, 0.0, 1.5]
    """
    x, limit = tf.convert_to_tensor(x), _checked_limit(threshold)
    kept = tf.nn.relu(tf.abs(x) - limit)
    return tf.where(tf.less(x, tf.zeros_like(x)), -kept, kept)


def _checked_limit(threshold: Any) -> float:
    what = "a number of 0 or more"
    return checked_number("threshold", threshold, what, lambda limit: limit >= 0)


@composite
def threshold(x: Tensor, threshold: float, default_value: float) -> Tensor:
    """Return ``x`` where it is above a threshold, else another value.

    Args:
        threshold: The threshold.
        default_value: The value at it and below.

    Example:
        >>> threshold(tf.constant([-1.0, 2.0]), 0.0, 9.0).numpy().tolist()
        [9.0, 2.0]
    """
    x = tf.convert_to_tensor(x)
    limit = _like(checked_number("threshold", threshold), x)
    other = _like(checked_number("default_value", default_value), x)
    return tf.where(tf.greater(x, limit), x, other)


@composite
def sparse_plus(x: Tensor) -> Tensor:
    """Return 0 up to -1, ``x`` from 1 on, and ``(x + 1) ** 2 / 4`` between.

    Example:
        >>> sparse_plus(tf.constant([-2.0, 0.0, 2.0])).numpy().tolist()
        [0.0, 0.25, 2.0]
    """
    x = tf.convert_to_tensor(x)
    return tf.square(sparse_sigmoid(x)) + tf.nn.relu(x - 1.0)


@composite
def sparse_sigmoid(x: Tensor) -> Tensor:
    """Return the line ``(x + 1) / 2``, cut at 0 and 1.

    Example:
        >>> sparse_sigmoid(tf.constant([-2.0, 0.0, 2.0])).numpy().tolist()
        [0.0, 0.5, 1.0]
    """
    return tf.clip_by_value(0.5 * (tf.convert_to_tensor(x) + 1.0), 0.0, 1.0)


@composite
def squareplus(x: Tensor, b: float = 4.0) -> Tensor:
    """Return ``(x + sqrt(x * x + b)) / 2``.

    Args:
        b: How smooth it is near 0, not negative.

    Example:
        >>> squareplus(tf.constant([0.0, 1.5])).numpy().tolist()
        [1.0, 2.0]
    """
    b = checked_number("b", b, "a number of 0 or more", lambda b: b >= 0)
    x = tf.convert_to_tensor(x)
    return 0.5 * (x + tf.sqrt(tf.square(x) + b))


silu = swish
hard_swish = hard_silu


def _like(value: float, x: Tensor) -> Tensor:
    return tf.constant(value, dtype=x.dtype)


_FUNCTIONS: dict[str, Callable[..., Any]] = {"silu": swish} | {
    one.__name__: one
    for one in (
        celu,
        elu,
        exponential,
        gelu,
        glu,
        hard_shrink,
        hard_sigmoid,
        hard_silu,
        hard_tanh,
        leaky_relu,
        linear,
        log_sigmoid,
        log_softmax,
        mish,
        relu,
        relu6,
        selu,
        sigmoid,
        soft_shrink,
        softmax,
        softplus,
        softsign,
        sparse_plus,
        sparse_sigmoid,
        sparsemax,
        squareplus,
        swish,
        tanh,
        tanh_shrink,
        threshold,
    )
}
_FUNCTIONS["hard_swish"] = hard_silu


def get(identifier: Any) -> Callable[..., Any]:
    """Return the function that a layer's ``activation`` argument names.

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
    """Return the name of an activation function, for a layer's configuration.

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
