# SPDX-License-Identifier: MIT
"""Element-wise functions, reductions and products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_tensor
from ipu._text.exports import defined, like

abs = tf.abs
cos = tf.cos
equal = tf.equal
exp = tf.exp
greater = tf.greater
greater_equal = tf.greater_equal
less = tf.less
less_equal = tf.less_equal
log = tf.math.log
maximum = tf.maximum
minimum = tf.minimum
not_equal = tf.not_equal
round = tf.round
sign = tf.sign
sin = tf.sin
square = tf.square


def sqrt(x: Any) -> Any:
    """Return the square root, of negative numbers 0.

    Example:
        >>> sqrt(tf.constant([9.0, -1.0])).numpy().tolist()
        [3.0, 0.0]
    """
    return tf.sqrt(tf.maximum(x, tf.zeros_like(x)))


@like(tf.pow)
def pow(x: Any, a: Any) -> Any:
    return tf.pow(x, a)


def clip(x: Any, min_value: Any, max_value: Any) -> Any:
    """Put each element into [min_value, max_value]; None sets none.

    Example:
        >>> clip(tf.constant([-2.0, 5.0]), 0.0, None).numpy().tolist()
        [0.0, 5.0]
    """
    if isinstance(min_value, (int, float)) and isinstance(max_value, (int, float)):
        max_value = max_value if max_value >= min_value else min_value
    least = -float("inf") if min_value is None else min_value
    return tf.clip_by_value(x, least, float("inf") if max_value is None else max_value)


@like(tf.cast)
def cast(x: Any, dtype: Any) -> Any:
    return tf.cast(x, dtype)


# --- reductions -----------------------------------------------------------------------


@like(tf.reduce_sum)
def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.reduce_sum(x, axis, keepdims)


@like(tf.reduce_mean)
def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.reduce_mean(_number(x), axis, keepdims)


@like(tf.reduce_max)
def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.reduce_max(x, axis, keepdims)


@like(tf.reduce_min)
def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.reduce_min(x, axis, keepdims)


@like(tf.reduce_prod)
def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.reduce_prod(x, axis, keepdims)


@like(tf.math.reduce_std)
def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.math.reduce_std(_number(x), axis, keepdims)


@like(tf.math.reduce_variance)
def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.math.reduce_variance(_number(x), axis, keepdims)


@like(tf.reduce_any)
def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.reduce_any(tf.cast(x, tf.bool), axis, keepdims)


@like(tf.reduce_all)
def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return tf.reduce_all(tf.cast(x, tf.bool), axis, keepdims)


@like(tf.argmax)
def argmax(x: Any, axis: int = -1) -> Any:
    return tf.argmax(x, axis)


@like(tf.argmin)
def argmin(x: Any, axis: int = -1) -> Any:
    return tf.argmin(x, axis)


@like(tf.math.cumsum)
def cumsum(x: Any, axis: int = 0) -> Any:
    return tf.math.cumsum(x, axis)


@like(tf.math.cumprod)
def cumprod(x: Any, axis: int = 0) -> Any:
    return tf.math.cumprod(x, axis)


@like(tf.math.in_top_k)
def in_top_k(predictions: Any, targets: Any, k: int) -> Any:
    return tf.math.in_top_k(targets, predictions, k)


@like(tf.math.l2_normalize)
def l2_normalize(x: Any, axis: Any = None) -> Any:
    return tf.math.l2_normalize(x, axis)


def _number(x: Any) -> Any:
    x = tf.convert_to_tensor(x) if not hasattr(x, "dtype") else x
    return tf.cast(x, "float32") if x.dtype == tf.bool else x


# --- products -------------------------------------------------------------------------


def dot(x: Any, y: Any) -> Any:
    """Return the sum over the last axis of ``x`` and the last but one of ``y``.

    Example:
        >>> dot(tf.constant([[1.0, 2.0]]), tf.constant([[3.0], [4.0]])).numpy().tolist()
        [[11.0]]
        >>> dot(tf.ones((2, 3, 4)), tf.ones((5, 4, 6))).shape
        (2, 3, 5, 6)
    """
    checked_tensor("x", x), checked_tensor("y", y)
    axes = [[len(x.shape) - 1], [len(y.shape) - 2 if len(y.shape) > 1 else 0]]
    return tf.matmul(x, y) if len(x.shape) == 2 else tf.tensordot(x, y, axes)


def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """Multiply sample by sample: sum over one axis of each.

    Args:
        x, y: [batch, ...], of two axes or more.
        axes: The axis of each, or one for both; the last of ``x`` and the last but
            one of ``y`` by default, its last where it has two.

    Returns:
        The axes of ``x`` but the one summed, then those of ``y`` but the batch and the
        one summed; [batch, 1] where nothing else is left.

    Raises:
        ValueError: Fewer than two axes; the axis of the batch; sizes that differ.

    Example:
        >>> batch_dot(tf.ones((32, 20, 3)), tf.ones((32, 30, 20)), axes=(1, 2)).shape
        (32, 3, 30)
    """
    ranks = tuple(len(checked_tensor(*p).shape) for p in (("x", x), ("y", y)))
    if ranks[0] < 2 or ranks[1] < 2:
        raise ValueError(
            "batch_dot takes tensors with a batch and at least one other axis. "
            f"Received shapes: {tuple(x.shape)} and {tuple(y.shape)}."
        )
    if axes is None:
        axes = ranks[0] - 1, ranks[1] - (1 if ranks[1] == 2 else 2)
    pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
    first, second = (axis % rank for axis, rank in zip(pair, ranks, strict=True))
    if first == 0 or second == 0:
        raise ValueError(
            f"batch_dot cannot sum over the batch, axis 0. Received axes: {axes}."
        )
    if x.shape[first] != y.shape[second]:
        raise ValueError(
            f"batch_dot sums over axis {first} of {tuple(x.shape)} and axis {second} "
            f"of {tuple(y.shape)}: their sizes must be equal."
        )
    letters = iter("abcdefghijklmnopqrstuvwxy")
    left = ["z", *(next(letters) for _ in range(ranks[0] - 1))]
    right = ["z", *(next(letters) for _ in range(ranks[1] - 1))]
    right[second] = left[first]
    kept = [c for i, c in enumerate(left) if i != first]
    kept += [c for i, c in enumerate(right) if i not in (0, second)]
    found = tf.einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", x, y)
    return tf.expand_dims(found, 1) if len(kept) == 1 else found


# --- choices and loops ----------------------------------------------------------------


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """Choose by a condition, element by element or as a whole.

    Args:
        condition: A bool tensor: a scalar, or of the first axes of the values.
        then_expression: A tensor, or for a scalar condition a function that gives one.
        else_expression: The other one.

    Example:
        >>> switch(tf.constant([True, False]), tf.ones((2, 1)), tf.zeros((2, 1))).shape
        (2, 1)
    """
    if len(checked_tensor("condition", condition).shape) == 0:
        return tf.cond(
            condition,
            then_expression if callable(then_expression) else lambda: then_expression,
            else_expression if callable(else_expression) else lambda: else_expression,
        )
    chosen = then_expression() if callable(then_expression) else then_expression
    other = else_expression() if callable(else_expression) else else_expression
    missing = len(chosen.shape) - len(condition.shape)
    if missing > 0:
        condition = tf.reshape(condition, (*condition.shape, *(1,) * missing))
    return tf.where(tf.cast(condition, tf.bool), chosen, other)


@like(tf.map_fn)
def map_fn(fn: Any, elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    return tf.map_fn(fn, elems, dtype=dtype)


@like(tf.foldl)
def foldl(fn: Any, elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    return tf.foldl(fn, elems, initializer)


@like(tf.foldr)
def foldr(fn: Any, elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    return tf.foldr(fn, elems, initializer)


if not TYPE_CHECKING:
    _SAME = (
        "abs cos equal exp greater greater_equal less less_equal log "
        "maximum minimum not_equal round sign sin square"
    )
    __all__ = defined(__name__, _SAME.split())
