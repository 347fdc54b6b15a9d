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
from ipu.tf._ops.moments import batch_normalization
from ipu.tf._tensor.convert import Tensor, apply, cast
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import float32, float64


def statistics_dtype(dtype: Any) -> Any:
    """Give the dtype of means and variances: float32 for float16."""
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
    """The op on a view of ``x``; factors and shifts may be None."""
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
    """``x`` with these axes last, and the way back; None where they are."""
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
    """How many replicas share the statistics of a batch: what the configuration of the
    device says, in a program that is traced for it."""
    if _core.open_trace() is None or on_host():
        return 1
    return int((current_device().options or {}).get(_GROUP, 1))


def _over_replicas(
    x: Tensor, rank: int, scale: Any, offset: Any, epsilon: float, group: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as of the op, with the statistics of consecutive replicas."""
    from ipu import tf
    from ipu.ops.cross_replica_ops import cross_replica_mean

    kind = statistics_dtype(x.dtype)
    wide = cast(x, kind)
    axes = list(range(rank))
    own = tf.reduce_mean(wide, axes)
    spread = tf.reduce_mean(tf.square(wide - own), axes)
    mean = cross_replica_mean(own, group)
    variance = cross_replica_mean(spread + tf.square(own - mean), group)
    factor = tf.math.rsqrt(variance + epsilon)
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
