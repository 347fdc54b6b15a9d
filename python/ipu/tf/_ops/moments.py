# SPDX-License-Identifier: MIT
"""Means and variances, and what is normalised by them."""

from __future__ import annotations

from typing import Any

from ipu.tf._ops.reductions import reduce_mean, reduce_sum
from ipu.tf._tensor.convert import Tensor, apply, axes_of, like
from ipu.tf._tensor.dispatch import op


@op
def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over ``axes``.

    Args:
        x: A floating-point tensor.
        axes: A list of axes.
        shift: Accepted and not used.
        keepdims: Keep reduced axes, with size 1.

    Returns:
        ``(mean, variance)``; float16 is computed in float32.

    Example:
        >>> mean, variance = tf.nn.moments([[1.0, 3.0]], axes=[1])
        >>> mean.numpy().tolist(), variance.numpy().tolist()
        ([2.0], [1.0])
    """
    value = Tensor(x)
    narrow = value.dtype == "float16"
    wide = apply("cast", (value,), {"dtype": "float32"}) if narrow else value
    mean = reduce_mean(wide, axes, keepdims=True)
    centred = wide - apply("stop_gradient", (mean,))
    variance = reduce_mean(apply("square", (centred,)), axes, keepdims)
    if not keepdims:
        mean = apply("reshape", (mean,), {"shape": variance.shape})
    if narrow:
        mean, variance = (
            apply("cast", (t,), {"dtype": "float16"}) for t in (mean, variance)
        )
    return mean, variance


@op
def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over ``axes``, where elements count by their weights.

    Example:
        >>> mean, _ = tf.nn.weighted_moments([1.0, 3.0], [0], [3.0, 1.0])
        >>> float(mean)
        1.5
    """
    value = Tensor(x)
    weights = apply(
        "broadcast", (like(frequency_weights, value),), {"shape": value.shape}
    )
    total = reduce_sum(weights, axes, keepdims=True)
    mean = reduce_sum(value * weights, axes, keepdims=True) / total
    squares = apply("square", (value - mean,))
    variance = reduce_sum(squares * weights, axes, keepdims=True) / total
    if keepdims:
        return mean, variance
    gone = axes_of(axes, value.ndim)
    shape = [s for i, s in enumerate(value.shape) if i not in gone]
    return (
        apply("reshape", (mean,), {"shape": shape}),
        apply("reshape", (variance,), {"shape": shape}),
    )


@op
def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance from a count, a sum and a sum of squares.

    Example:
        >>> mean, variance = tf.nn.normalize_moments(2.0, 4.0, 10.0, None)
        >>> float(mean), float(variance)
        (2.0, 1.0)
    """
    count = Tensor(counts)
    mean = like(mean_ss, count) / count
    variance = like(variance_ss, count) / count - apply("square", (mean,))
    return (mean if shift is None else mean + shift), variance


@op
def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """What mean and variance are computed of; see :func:`normalize_moments`.

    Args:
        x: A floating-point tensor.
        axes: A list of axes.
        shift: Taken from ``x`` first, or None.
        keepdims: Keep reduced axes, with size 1.

    Returns:
        ``(count, sum, sum of squares, shift)``.

    Example:
        >>> count, total, squares, _ = tf.nn.sufficient_statistics([1.0, 3.0], [0])
        >>> float(count), float(total), float(squares)
        (2.0, 4.0, 10.0)
    """
    value = Tensor(x)
    count = 1
    for axis in axes_of(axes, value.ndim):
        count *= value.shape[axis]
    own = None if shift is None else like(shift, value)
    moved = value if own is None else value - own
    return (
        like(count, value),
        reduce_sum(moved, axes, keepdims),
        reduce_sum(apply("square", (moved,)), axes, keepdims),
        own,
    )


@op
def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon) * scale + offset``.

    Args:
        x: A floating-point tensor.
        mean: Of a shape that broadcasts to that of ``x``, as the next ones.
        variance: Not negative.
        offset: Added at the end, or None.
        scale: Multiplied with, or None.
        variance_epsilon: Added to the variance.

    Example:
        >>> tf.nn.batch_normalization([5.0], 1.0, 4.0, 0.0, 1.0, 0.0).numpy().tolist()
        [2.0]
    """
    value = Tensor(x)
    factor = apply("rsqrt", (like(variance, value) + variance_epsilon,))
    factor = factor if scale is None else factor * like(scale, value)
    shift = -like(mean, value) * factor
    shift = shift if offset is None else shift + like(offset, value)
    return value * factor + shift


@op
def batch_norm_with_global_normalization(
    input: Any,
    mean: Any,
    variance: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: float,
    scale_after_normalization: bool,
    name: str | None = None,
) -> Tensor:
    """:func:`batch_normalization` under its older name.

    Example:
        >>> x, mean, variance = [5.0], 1.0, 4.0
        >>> tf.nn.batch_norm_with_global_normalization(
        ...     x, mean, variance, 0.0, 3.0, 0.0, True
        ... ).numpy().tolist()
        [6.0]
    """
    scale = gamma if scale_after_normalization else None
    return batch_normalization(input, mean, variance, beta, scale, variance_epsilon)


@op
def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None
) -> Tensor:
    """``x`` divided by the root of its sum of squares (at least ``epsilon``).

    Example:
        >>> tf.math.l2_normalize([3.0, 4.0]).numpy().tolist()
        [0.6, 0.8]
    """
    value = Tensor(x)
    squares = reduce_sum(apply("square", (value,)), axis, keepdims=True)
    return value * apply("rsqrt", (apply("maximum", (squares, like(epsilon, value))),))
