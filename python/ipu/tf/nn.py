# SPDX-License-Identifier: MIT
"""``tf.nn``: activations, losses, convolutions, normalisation, dropout, embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import _core
from ipu._text.faces import face
from ipu.tf._images.morphology import dilation2d, erosion2d
from ipu.tf._ops.activations import (
    crelu,
    elu,
    gelu,
    hard_sigmoid,
    leaky_relu,
    relu6,
    selu,
    silu,
    softsign,
    swish,
)
from ipu.tf._ops.convolutions import (
    atrous_conv2d,
    conv1d,
    conv2d,
    conv3d,
    convolution,
    depthwise_conv2d,
    separable_conv2d,
)
from ipu.tf._ops.ctc_decoders import ctc_beam_search_decoder, ctc_greedy_decoder
from ipu.tf._ops.ctc_losses import ctc_loss
from ipu.tf._ops.elementwise import relu, sigmoid, softplus, tanh
from ipu.tf._ops.nn_losses import (
    compute_average_loss,
    l2_loss,
    log_poisson_loss,
    log_softmax,
    scale_regularization_loss,
    sigmoid_cross_entropy_with_logits,
    softmax,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
)
from ipu.tf._ops.normalizations import fused_batch_norm
from ipu.tf._ops.pooling import (
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_with_argmax,
    pool,
)
from ipu.tf._ops.reductions import reduce_mean, reduce_sum, zero_fraction
from ipu.tf._ops.selection import gather, in_top_k, top_k
from ipu.tf._ops.space import (
    depth_to_space,
    local_response_normalization,
    lrn,
    space_to_batch,
    space_to_depth,
)
from ipu.tf._ops.transposed_convolutions import (
    atrous_conv2d_transpose,
    conv1d_transpose,
    conv2d_transpose,
    conv3d_transpose,
    conv_transpose,
)
from ipu.tf._tensor.convert import Tensor, apply, axes_of, like
from ipu.tf._tensor.dispatch import op

__all__ = [
    "atrous_conv2d",
    "atrous_conv2d_transpose",
    "avg_pool",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm_with_global_normalization",
    "batch_normalization",
    "bias_add",
    "compute_average_loss",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "conv_transpose",
    "convolution",
    "crelu",
    "ctc_beam_search_decoder",
    "ctc_greedy_decoder",
    "ctc_loss",
    "depth_to_space",
    "depthwise_conv2d",
    "dilation2d",
    "dropout",
    "elu",
    "embedding_lookup",
    "erosion2d",
    "fused_batch_norm",
    "gelu",
    "hard_sigmoid",
    "in_top_k",
    "l2_loss",
    "l2_normalize",
    "leaky_relu",
    "local_response_normalization",
    "log_poisson_loss",
    "log_softmax",
    "lrn",
    "max_pool",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_pool_with_argmax",
    "moments",
    "normalize_moments",
    "pool",
    "relu",
    "relu6",
    "scale_regularization_loss",
    "selu",
    "separable_conv2d",
    "sigmoid",
    "sigmoid_cross_entropy_with_logits",
    "silu",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "softplus",
    "softsign",
    "space_to_batch",
    "space_to_depth",
    "sparse_softmax_cross_entropy_with_logits",
    "sufficient_statistics",
    "swish",
    "tanh",
    "top_k",
    "weighted_cross_entropy_with_logits",
    "weighted_moments",
    "zero_fraction",
]


@op
def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """``value + bias`` along the channels.

    Args:
        value: A tensor of at least two axes.
        bias: A vector as long as the channels.
        data_format: "NC..." puts the channels at axis 1; they are the last axis
            otherwise.

    Example:
        >>> tf.nn.bias_add([[1.0, 2.0]], [10.0, 20.0]).numpy().tolist()
        [[11.0, 22.0]]
    """
    x = Tensor(value)
    b = like(bias, x)
    if b.ndim != 1:
        raise ValueError(f"The bias must be a vector. Received shape {b.shape}.")
    if data_format is not None and data_format.startswith("NC"):
        b = apply("reshape", (b,), {"shape": [*b.shape] + [1] * (x.ndim - 2)})
    return apply("add", (x, b))


@op
def dropout(
    x: Any,
    rate: float,
    noise_shape: Any = None,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Set a share ``rate`` of the elements to 0 and scale the others by 1 / (1 - rate).

    Args:
        x: A floating-point tensor.
        rate: In [0, 1).
        noise_shape: The shape in which decisions are drawn; it broadcasts to ``x``.
        seed: The op's own seed, or None.

    Raises:
        ValueError: The rate is not in [0, 1), or the noise shape does not fit.

    Example:
        >>> tf.nn.dropout([1.0, 1.0], rate=0.0).numpy().tolist()
        [1.0, 1.0]
    """
    value = Tensor(x)
    attrs = {"rate": float(rate), "seed": seed}
    if noise_shape is None:
        kept: Tensor = _core.apply("dropout", (value,), attrs)[0]
        return kept
    sizes = [
        size if wanted is None else int(wanted)
        for wanted, size in zip(noise_shape, value.shape, strict=True)
    ]
    if any(s not in (1, whole) for s, whole in zip(sizes, value.shape, strict=True)):
        raise ValueError(
            f"noise_shape {tuple(sizes)} must be 1 or the size of the input "
            f"{value.shape} in each axis."
        )
    ones = apply("broadcast", (like(1, value),), {"shape": sizes})
    return value * _core.apply("dropout", (ones,), attrs)[0]


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


def _look_up(params: Any, ids: Any, max_norm: float | None, strategy: str) -> Tensor:
    """As :func:`embedding_lookup`.

    Args:
        params: As there.
        ids: As there.
        max_norm: As there.
        strategy: How rows are spread over several tables: "div" or "mod".
    """
    from ipu.tf._ops.clip import clip_by_norm

    if strategy not in ("div", "mod"):
        raise ValueError(
            f"Unrecognized partition strategy: {strategy}. Must be one of either `mod` "
            "or `div`."
        )
    is_several = isinstance(params, (list, tuple)) and hasattr(params[0], "shape")
    table, places = params, ids
    if is_several and len(params) == 1:
        table = params[0]
    elif is_several:
        tables = [Tensor(one) for one in params]
        table = apply("concat", tuple(tables), {"axis": 0})
        places = _places([one.shape[0] for one in tables], Tensor(ids), strategy)
    rows = gather(table, places, axis=0)
    if max_norm is None:
        return rows
    first = Tensor(ids).ndim
    return clip_by_norm(rows, max_norm, axes=list(range(first, rows.ndim)))


def _places(sizes: list[int], ids: Tensor, strategy: str) -> Tensor:
    """Where rows are among those of several tables, one after the other."""
    total, parts = sum(sizes), len(sizes)
    number = np.arange(total)
    if strategy == "mod":
        part, row = number % parts, number // parts
    else:
        few, more = divmod(total, parts)
        part = np.maximum(number // (few + 1), (number - more) // max(few, 1))
        row = np.where(part < more, number % (few + 1), (number - more) % max(few, 1))
    begins = np.cumsum([0, *sizes[:-1]])
    # a row that its table does not have is not a row of all of them
    places = np.where(row < np.asarray(sizes)[part], begins[part] + row, total)
    return gather(Tensor(places.astype(np.int32)), ids, axis=0)


@op
def embedding_lookup(
    params: Any, ids: Any, max_norm: float | None = None, name: str | None = None
) -> Tensor:
    """Rows of a table.

    Args:
        params: The table [rows, ...], or a list of tables that are parts of one: the
            first rows are in the first of them, and so on.
        ids: Integers of any shape.
        max_norm: Rows whose Euclidean norm is larger are scaled down to it.

    Raises:
        InvalidArgumentError: An id is not a row of the table.

    Example:
        >>> tf.nn.embedding_lookup([[1.0, 2.0], [3.0, 4.0]], [1, 0]).numpy().tolist()
        [[3.0, 4.0], [1.0, 2.0]]
    """
    return _look_up(params, ids, max_norm, "div")


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
