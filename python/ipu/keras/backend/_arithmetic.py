# SPDX-License-Identifier: MIT
"""Element-wise functions, reductions and products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_tensor
from ipu._text.faces import defined

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
    """Give the square root, of negative numbers 0.

    Example:
        >>> sqrt(tf.constant([9.0, -1.0])).numpy().tolist()
        [3.0, 0.0]
    """
    return tf.sqrt(tf.maximum(x, tf.zeros_like(x)))


def pow(x: Any, a: Any) -> Any:
    """Give the power of each element.

    Example:
        >>> pow(tf.constant([2.0, 3.0]), 2).numpy().tolist()
        [4.0, 9.0]
    """
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


def cast(x: Any, dtype: Any) -> Any:
    """Give a tensor of another dtype.

    Example:
        >>> cast(tf.constant([1.9, -1.9]), "int32").numpy().tolist()
        [1, -1]
    """
    return tf.cast(x, dtype)


# --- reductions -----------------------------------------------------------------------


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Add along axes, all by default.

    Example:
        >>> sum(tf.constant([[1.0, 2.0], [3.0, 4.0]]), axis=0).numpy().tolist()
        [4.0, 6.0]
    """
    return tf.reduce_sum(x, axis, keepdims)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Average along axes, all by default.

    Example:
        >>> mean(tf.constant([[1.0, 2.0], [3.0, 4.0]]), axis=1).numpy().tolist()
        [1.5, 3.5]
    """
    return tf.reduce_mean(_number(x), axis, keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Take the largest along axes, all by default.

    Example:
        >>> max(tf.constant([[1.0, 5.0], [3.0, 4.0]]), axis=1).numpy().tolist()
        [5.0, 4.0]
    """
    return tf.reduce_max(x, axis, keepdims)


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Take the smallest along axes, all by default.

    Example:
        >>> min(tf.constant([[1.0, 5.0], [3.0, 4.0]]), axis=0).numpy().tolist()
        [1.0, 4.0]
    """
    return tf.reduce_min(x, axis, keepdims)


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Multiply along axes, all by default.

    Example:
        >>> float(prod(tf.constant([2.0, 3.0, 4.0])))
        24.0
    """
    return tf.reduce_prod(x, axis, keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Give the standard deviation along axes, all by default: of all, not of a sample.

    Example:
        >>> float(std(tf.constant([1.0, 3.0])))
        1.0
    """
    return tf.math.reduce_std(_number(x), axis, keepdims)


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Give the variance along axes, all by default: of all, not of a sample.

    Example:
        >>> float(var(tf.constant([1.0, 3.0, 5.0, 7.0])))
        5.0
    """
    return tf.math.reduce_variance(_number(x), axis, keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Tell where some element along axes is not zero.

    Example:
        >>> any(tf.constant([[0.0, 2.0], [0.0, 0.0]]), axis=1).numpy().tolist()
        [True, False]
    """
    return tf.reduce_any(tf.cast(x, tf.bool), axis, keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Tell where no element along axes is zero.

    Example:
        >>> all(tf.constant([[1.0, 2.0], [3.0, 0.0]]), axis=1).numpy().tolist()
        [True, False]
    """
    return tf.reduce_all(tf.cast(x, tf.bool), axis, keepdims)


def argmax(x: Any, axis: int = -1) -> Any:
    """Give the index of the largest element along an axis.

    Example:
        >>> argmax(tf.constant([[0.1, 0.7, 0.2], [0.5, 0.3, 0.2]])).numpy().tolist()
        [1, 0]
    """
    return tf.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Any:
    """Give the index of the smallest element along an axis.

    Example:
        >>> argmin(tf.constant([[3.0, 1.0, 2.0]])).numpy().tolist()
        [1]
    """
    return tf.argmin(x, axis)


def cumsum(x: Any, axis: int = 0) -> Any:
    """Give the sums of all elements up to each.

    Example:
        >>> cumsum(tf.constant([1.0, 2.0, 3.0])).numpy().tolist()
        [1.0, 3.0, 6.0]
    """
    return tf.math.cumsum(x, axis)


def cumprod(x: Any, axis: int = 0) -> Any:
    """Give the products of all elements up to each.

    Example:
        >>> cumprod(tf.constant([1.0, 2.0, 3.0])).numpy().tolist()
        [1.0, 2.0, 6.0]
    """
    return tf.math.cumprod(x, axis)


def in_top_k(predictions: Any, targets: Any, k: int) -> Any:
    """Tell whether each sample's class is among the ``k`` largest predictions.

    Example:
        >>> scores = tf.constant([[0.1, 0.6, 0.3], [0.7, 0.2, 0.1]])
        >>> in_top_k(scores, tf.constant([2, 2]), k=2).numpy().tolist()
        [True, False]
    """
    return tf.math.in_top_k(targets, predictions, k)


def l2_normalize(x: Any, axis: Any = None) -> Any:
    """Divide by the length along axes.

    Example:
        >>> unit = l2_normalize(tf.constant([3.0, 4.0]))
        >>> [f"{x:.1f}" for x in unit.numpy()]
        ['0.6', '0.8']
    """
    return tf.math.l2_normalize(x, axis)


def _number(x: Any) -> Any:
    x = tf.convert_to_tensor(x) if not hasattr(x, "dtype") else x
    return tf.cast(x, "float32") if x.dtype == tf.bool else x


# --- products -------------------------------------------------------------------------


def dot(x: Any, y: Any) -> Any:
    """Sum over the last axis of ``x`` and the last but one of ``y``.

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


def map_fn(fn: Any, elems: Any, name: str | None = None, dtype: Any = None) -> Any:
    """Call a function with each row and put the results together.

    Example:
        >>> rows = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        >>> map_fn(lambda row: row[0] * row[1], rows).numpy().tolist()
        [2.0, 12.0]
    """
    return tf.map_fn(fn, elems, dtype=dtype)


def foldl(fn: Any, elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    """Combine rows from the first to the last: ``fn(so_far, row)``.

    Example:
        >>> float(foldl(lambda so_far, x: so_far - x, tf.constant([10.0, 1.0, 2.0])))
        7.0
    """
    return tf.foldl(fn, elems, initializer)


def foldr(fn: Any, elems: Any, initializer: Any = None, name: str | None = None) -> Any:
    """Combine rows from the last to the first: ``fn(so_far, row)``.

    Example:
        >>> float(foldr(lambda so_far, x: so_far - x, tf.constant([1.0, 2.0, 10.0])))
        7.0
    """
    return tf.foldr(fn, elems, initializer)


if not TYPE_CHECKING:
    _SAME = (
        "abs cos equal exp greater greater_equal less less_equal log "
        "maximum minimum not_equal round sign sin square"
    )
    __all__ = defined(__name__, _SAME.split())
