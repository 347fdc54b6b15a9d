# SPDX-License-Identifier: MIT
"""Tensors as the core normalises them: ``[outer, rows, channels]``.

What a normalisation of any axes becomes; layers and functions are written with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._device.placement import current_device, on_host
from ipu.tf._ops.elementwise import rsqrt, square
from ipu.tf._ops.reductions import reduce_mean, reduce_sum
from ipu.tf._tensor.convert import Tensor, apply, axes_of, cast, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import float32, float64


@op
def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    keepdims: bool = False,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the mean and variance over ``axes``.

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
    """Return the mean and variance over ``axes``, where elements count by their
    weights.

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
    """Return the mean and variance from a count, a sum and a sum of squares.

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
    """Return what mean and variance are computed of; see :func:`normalize_moments`.

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
    """Return ``(x - mean) / sqrt(variance + epsilon) * scale + offset``.

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
    """Call :func:`batch_normalization` under its older name.

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
    """Return ``x`` divided by the root of its sum of squares (at least ``epsilon``).

    Example:
        >>> tf.math.l2_normalize([3.0, 4.0]).numpy().tolist()
        [0.6, 0.8]
    """
    value = Tensor(x)
    squares = reduce_sum(apply("square", (value,)), axis, keepdims=True)
    return value * apply("rsqrt", (apply("maximum", (squares, like(epsilon, value))),))


def statistics_dtype(dtype: Any) -> Any:
    """Return the dtype of means and variances: float32 for float16."""
    return float64 if dtype == float64 else float32


def _size(sizes: Sequence[int]) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def _normalized(
    x: Tensor,
    view: tuple[int, int, int],
    scale: Any,
    offset: Any,
    attrs: dict[str, Any],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the op on a view of ``x``; factors and shifts may be None."""
    kind = statistics_dtype(x.dtype)
    parts = [
        Tensor(np.full(view[2], default), kind.name)
        if given is None
        else apply("reshape", (cast(given, kind),), {"shape": [view[2]]})
        for given, default in ((scale, 1.0), (offset, 0.0))
    ]
    flat = apply("reshape", (x,), {"shape": list(view)})
    y, mean, variance = _core.apply("normalize", (flat, *parts), attrs)
    return apply("reshape", (y,), {"shape": list(x.shape)}), mean, variance


def _to_the_end(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, list[int] | None]:
    """Return ``x`` with these axes last, and the way back; None where they are."""
    others = [axis for axis in range(x.ndim) if axis not in axes]
    order = [*others, *axes]
    if order == list(range(x.ndim)):
        return x, None
    back = [order.index(axis) for axis in range(x.ndim)]
    return apply("transpose", (x,), {"perm": order}), back


def _back(x: Tensor, order: list[int] | None) -> Tensor:
    return x if order is None else apply("transpose", (x,), {"perm": order})


_GROUP = "norms.experimental.distributed_batch_norm_replica_group_size"


def replicas_of_a_batch() -> int:
    """Return how many replicas share the statistics of a batch: what the configuration
    of the device says, in a program that is traced for it."""
    if _core.open_trace() is None or on_host():
        return 1
    return int((current_device().options or {}).get(_GROUP, 1))


def _over_replicas(
    x: Tensor, rank: int, scale: Any, offset: Any, epsilon: float, group: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same as of the op, with the statistics of consecutive replicas."""
    from ipu.ops.cross_replica_ops import cross_replica_mean

    kind = statistics_dtype(x.dtype)
    wide = cast(x, kind)
    axes = list(range(rank))
    own = reduce_mean(wide, axes)
    spread = reduce_mean(square(wide - own), axes)
    mean = cross_replica_mean(own, group)
    variance = cross_replica_mean(spread + square(own - mean), group)
    factor = rsqrt(variance + epsilon)
    if scale is not None:
        factor = factor * apply("reshape", (cast(scale, kind),), {"shape": own.shape})
    y = (wide - mean) * factor
    if offset is not None:
        y = y + apply("reshape", (cast(offset, kind),), {"shape": own.shape})
    return cast(y, x.dtype), mean, variance


@op
def normalize_batch(
    x: Any, axes: Sequence[int], scale: Any, offset: Any, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Bring each channel to mean 0 and variance 1 over all other axes.

    Args:
        x: A floating-point tensor.
        axes: The axes of the channels, from 0 on.
        scale: A factor for each channel, or None.
        offset: Added to each channel, or None.

    Returns:
        The result; mean and variance, the biased one, of the sizes of ``axes``, float32
        for float16.
    """
    value, back = _to_the_end(Tensor(x), axes)
    rank = value.ndim - len(axes)
    sizes = list(value.shape[rank:])
    group = replicas_of_a_batch()
    if group > 1:
        y, mean, variance = _over_replicas(value, rank, scale, offset, epsilon, group)
        return _back(y, back), mean, variance
    view = (1, _size(value.shape[:rank]), _size(sizes))
    attrs = {"groups": max(view[2], 1), "epsilon": float(epsilon)}
    y, *found = _normalized(value, view, scale, offset, attrs)
    mean, variance = (apply("reshape", (t,), {"shape": sizes}) for t in found)
    return _back(y, back), mean, variance


@op
def normalize_layer(
    x: Any, axes: Sequence[int], scale: Any, offset: Any, epsilon: float
) -> Tensor:
    """Bring each sample to mean 0 and variance 1 over ``axes``.

    Args:
        x: A floating-point tensor.
        axes: The axes, from 0 on, that mean and variance are taken over.
        scale: Factors of the sizes of these axes, or None.
    """
    value, back = _to_the_end(Tensor(x), axes)
    rank = value.ndim - len(axes)
    view = (_size(value.shape[:rank]), 1, _size(value.shape[rank:]))
    y, *_ = _normalized(
        value, view, scale, offset, {"groups": 1, "epsilon": float(epsilon)}
    )
    return _back(y, back)


@op
def normalize_groups(
    x: Any,
    axis: int,
    groups: int,
    strided: bool,
    scale: Any,
    offset: Any,
    epsilon: float,
) -> Tensor:
    """Bring each group of channels of a sample to mean 0 and variance 1.

    Args:
        x: A floating-point tensor, the samples along the first axis.
        axis: That of the channels, from 1 on.
        groups: How many; they divide the channels.
        strided: Whether channel ``c`` is in group ``c % groups``; else groups are
            neighbouring channels.
        scale: A factor for each channel, or None.
        offset: Added to each channel, or None.

    Raises:
        InvalidArgumentError: The groups do not divide the channels.
    """
    value, back = _to_the_end(Tensor(x), [axis])
    shape = value.shape
    view = (int(shape[0]), _size(shape[1:-1]), int(shape[-1]))
    attrs = {"groups": groups, "strided": strided, "epsilon": float(epsilon)}
    y, *_ = _normalized(value, view, scale, offset, attrs)
    return _back(y, back)


@op
def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalisation of images, and the running averages.

    Args:
        x: ``[batch, height, width, channels]``.
        scale: A factor for each channel.
        offset: Added to each channel.
        mean: The running mean; needed where it is used.
        variance: The running variance, likewise.
        epsilon: Added to the variance.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        is_training: Whether mean and variance are those of the batch; else the running
            ones.
        exponential_avg_factor: The weight of the batch in the running averages.

    Returns:
        ``(result, mean, variance)``: in training the running averages after this batch,
        of the unbiased variance.

    Raises:
        ValueError: The format is neither, or an average is missing.

    Example:
        >>> x = tf.reshape([1.0, 3.0], [2, 1, 1, 1])
        >>> y, mean, variance = tf.nn.fused_batch_norm(x, [1.0], [0.0])
        >>> float(mean), float(variance)
        (2.0, 2.0)
    """
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(
            f"`data_format` must be 'NHWC' or 'NCHW'. Received: {data_format!r}."
        )
    value = Tensor(x)
    if value.ndim != 4:
        raise ValueError(f"The input must have 4 axes. Received shape {value.shape}.")
    given = mean is not None and variance is not None
    if not given and (not is_training or exponential_avg_factor != 1.0):
        raise ValueError(
            "`mean` and `variance` are needed where is_training is False or "
            "exponential_avg_factor is not 1.0."
        )
    axis = 3 if data_format == "NHWC" else 1
    kind = statistics_dtype(value.dtype)
    if not is_training:
        averages = [cast(t, kind) for t in (mean, variance)]
        sizes = [1] * 4
        sizes[axis] = int(value.shape[axis])
        middle, spread, shift, factor = (
            apply("reshape", (cast(t, kind),), {"shape": sizes})
            for t in (*averages, offset, scale)
        )
        wide = cast(value, kind)
        y = batch_normalization(wide, middle, spread, shift, factor, epsilon)
        return cast(y, value.dtype), averages[0], averages[1]
    y, now, spread = normalize_batch(value, [axis], scale, offset, epsilon)
    count = _size(value.shape) // max(int(value.shape[axis]), 1) * replicas_of_a_batch()
    spread = spread * (count / max(count - 1, 1))
    if exponential_avg_factor != 1.0:
        old = 1.0 - exponential_avg_factor
        now = cast(mean, kind) * old + now * exponential_avg_factor
        spread = cast(variance, kind) * old + spread * exponential_avg_factor
    return y, now, spread
