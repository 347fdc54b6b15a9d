# SPDX-License-Identifier: MIT
"""Blocks of pixels into channels or into the batch and back, and sums over channels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu.tf._ops.rearrange import pad
from ipu.tf._ops.shapes import reshape, transpose
from ipu.tf._tensor.convert import Tensor, apply, like, sizes_of
from ipu.tf._tensor.dispatch import op


def _is_channels_first(value: Tensor, block_size: int, data_format: str) -> bool:
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(
            f"`data_format` must be 'NHWC' or 'NCHW'. Received: {data_format!r}."
        )
    if len(value.shape) != 4:
        raise ValueError(f"The input must have rank 4. Received shape {value.shape}.")
    if block_size < 2:
        raise ValueError(f"`block_size` must be at least 2. Received: {block_size}.")
    return data_format == "NCHW"


def _check_divides(size: int, by: int, what: str) -> None:
    if size % by != 0:
        raise ValueError(f"{what} of {size} is not a multiple of {by}.")


@op
def space_to_depth(
    input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Move blocks of pixels into channels.

    Args:
        input: Pictures, [batch, height, width, channels].
        block_size: The edge of a block, at least 2.
        data_format: ``"NHWC"``, or ``"NCHW"`` for [batch, channels, height, width].

    Raises:
        ValueError: A size or format that is not as said, or edges that blocks do not
            divide.

    Example:
        >>> tf.nn.space_to_depth(tf.ones((1, 4, 4, 3)), 2).shape
        (1, 2, 2, 12)
    """
    value = Tensor(input)
    b = block_size
    is_first = _is_channels_first(value, b, data_format)
    h, w = value.shape[2:] if is_first else value.shape[1:3]
    for edge in (h, w):
        _check_divides(edge, b, "An edge")
    n = value.shape[0]
    if is_first:
        c = value.shape[1]
        parts = reshape(value, [n, c, h // b, b, w // b, b])
        moved = transpose(parts, [0, 3, 5, 1, 2, 4])
        return reshape(moved, [n, b * b * c, h // b, w // b])
    c = value.shape[3]
    parts = reshape(value, [n, h // b, b, w // b, b, c])
    return reshape(transpose(parts, [0, 1, 3, 2, 4, 5]), [n, h // b, w // b, b * b * c])


@op
def depth_to_space(
    input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Move channels into blocks of pixels; undoes :func:`space_to_depth`.

    Args:
        input, block_size, data_format: As for :func:`space_to_depth`.

    Raises:
        ValueError: A size or format that is not as said, or channels that are no
            multiple of a block.

    Example:
        >>> tf.nn.depth_to_space(tf.ones((1, 2, 2, 12)), 2).shape
        (1, 4, 4, 3)
    """
    value = Tensor(input)
    b = block_size
    is_first = _is_channels_first(value, b, data_format)
    c = value.shape[1] if is_first else value.shape[3]
    _check_divides(c, b * b, "A number of channels")
    n, own = value.shape[0], c // (b * b)
    if is_first:
        h, w = value.shape[2:]
        parts = reshape(value, [n, b, b, own, h, w])
        moved = transpose(parts, [0, 3, 4, 1, 5, 2])
        return reshape(moved, [n, own, h * b, w * b])
    h, w = value.shape[1:3]
    parts = reshape(value, [n, h, w, b, b, own])
    return reshape(transpose(parts, [0, 1, 3, 2, 4, 5]), [n, h * b, w * b, own])


def _blocks(value: Tensor, block_shape: Any, ends: Any, argument: str) -> Any:
    """Return the block's edges, and two numbers for each."""
    block = sizes_of(block_shape)
    if any(edge < 1 for edge in block) or len(block) + 1 > len(value.shape):
        raise ValueError(
            f"`block_shape` must be positive, for some of the {len(value.shape) - 1} "
            f"axes after the batch. Received: {block}."
        )
    pairs = np.asarray(ends.numpy() if isinstance(ends, Tensor) else ends, np.int64)
    if pairs.shape != (len(block), 2) or (pairs < 0).any():
        raise ValueError(
            f"`{argument}` must be two numbers from 0 on for each of the {len(block)} "
            f"axes of a block. Received: {pairs.tolist()}."
        )
    return block, pairs.tolist()


@op
def space_to_batch_nd(
    input: Any, block_shape: Any, paddings: Any, name: str | None = None
) -> Tensor:
    """Make every k-th element along some axes a batch of its own.

    Args:
        input: [batch, the axes of a block, further axes].
        block_shape: The block's edges.
        paddings: For each of these axes how many zeros are put before and after it.

    Returns:
        [batch x product of the edges, each axis through its edge, further axes].

    Raises:
        ValueError: Numbers that do not fit, or an axis that its edge does not divide.

    Example:
        >>> x = tf.reshape(tf.range(4.0), [1, 2, 2, 1])
        >>> tf.space_to_batch_nd(x, [2, 2], [[0, 0], [0, 0]]).shape
        (4, 1, 1, 1)
    """
    value = Tensor(input)
    block, pairs = _blocks(value, block_shape, paddings, "paddings")
    count = len(block)
    further = len(value.shape) - 1 - count
    value = pad(value, [[0, 0], *pairs, *[[0, 0]] * further])
    batch, sizes, rest = (
        value.shape[0],
        value.shape[1 : 1 + count],
        value.shape[1 + count :],
    )
    shape = [batch]
    for size, edge in zip(sizes, block, strict=True):
        _check_divides(size, edge, "An axis with its padding")
        shape += [size // edge, edge]
    order = [2 * k + 2 for k in range(count)] + [0] + [2 * k + 1 for k in range(count)]
    order += range(2 * count + 1, 2 * count + 1 + further)
    outer = [size // edge for size, edge in zip(sizes, block, strict=True)]
    moved = transpose(reshape(value, [*shape, *rest]), order)
    return reshape(moved, [batch * math.prod(block), *outer, *rest])


@op
def batch_to_space_nd(
    input: Any, block_shape: Any, crops: Any, name: str | None = None
) -> Tensor:
    """Return batches between each other's elements; undoes :func:`space_to_batch_nd`.

    Args:
        input: [batch, the axes of a block, further axes].
        block_shape: The block's edges.
        crops: For each of these axes how many elements are cut off at each end.

    Raises:
        ValueError: Numbers that do not fit, or a batch that a block does not divide.

    Example:
        >>> x = tf.reshape(tf.range(4.0), [4, 1, 1, 1])
        >>> tf.batch_to_space(x, [2, 2], [[0, 0], [0, 1]]).numpy().ravel().tolist()
        [0.0, 2.0]
    """
    value = Tensor(input)
    block, pairs = _blocks(value, block_shape, crops, "crops")
    count = len(block)
    _check_divides(value.shape[0], math.prod(block), "A batch")
    batch = value.shape[0] // math.prod(block)
    sizes, rest = value.shape[1 : 1 + count], value.shape[1 + count :]
    order = [count]
    for k in range(count):
        order += [count + 1 + k, k]
    order += range(2 * count + 1, 2 * count + 1 + len(rest))
    moved = transpose(reshape(value, [*block, batch, *sizes, *rest]), order)
    outer = [size * edge for size, edge in zip(sizes, block, strict=True)]
    whole = reshape(moved, [batch, *outer, *rest])
    kept = [n - before - after for n, (before, after) in zip(outer, pairs, strict=True)]
    if any(size < 0 for size in kept):
        raise ValueError(f"`crops` of {pairs} leave nothing of axes of {outer}.")
    attrs = {
        "begin": [0, *(before for before, _ in pairs), *(0 for _ in rest)],
        "size": [batch, *kept, *rest],
        "strides": [1] * len(whole.shape),
    }
    return apply("slice", (whole,), attrs)


@op
def space_to_batch(
    input: Any, block_shape: Any, paddings: Any, name: str | None = None
) -> Tensor:
    """Work like :func:`space_to_batch_nd`: its name in TensorFlow 2.

    Example:
        >>> tf.space_to_batch(tf.ones((1, 4, 3)), [2], [[0, 0]]).shape
        (2, 2, 3)
    """
    return space_to_batch_nd(input, block_shape, paddings)


@op
def batch_to_space(
    input: Any, block_shape: Any, crops: Any, name: str | None = None
) -> Tensor:
    """Work like :func:`batch_to_space_nd`: its name in TensorFlow 2.

    A single number as ``block_shape`` stands for both axes of pictures.

    Example:
        >>> tf.batch_to_space(tf.ones((4, 1, 1, 3)), 2, [[0, 0], [0, 0]]).shape
        (1, 2, 2, 3)
    """
    is_number = np.ndim(block_shape) == 0
    return batch_to_space_nd(
        input, [block_shape] * 2 if is_number else block_shape, crops
    )


@op
def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Return each channel through a power of the squares around it (Krizhevsky 2012).

    ``input / (bias + alpha * sum of squares) ** beta``, where the sum goes over the
    channels at most ``depth_radius`` away.

    Args:
        input: [batch, height, width, channels].
        depth_radius: How far the sum goes, 0 or more.
        bias: The number that is added to it.
        alpha: Its factor.
        beta: The power.

    Raises:
        ValueError: Another rank, or a negative radius.

    Example:
        >>> x = tf.reshape(tf.constant([1.0, 2.0, 2.0]), [1, 1, 1, 3])
        >>> y = tf.nn.local_response_normalization(x, 1, 0.0)
        >>> [round(c, 3) for c in y[0, 0, 0].numpy().tolist()]
        [0.447, 0.667, 0.707]
    """
    value = Tensor(input)
    if len(value.shape) != 4:
        raise ValueError(f"The input must have rank 4. Received shape {value.shape}.")
    if depth_radius < 0:
        raise ValueError(
            f"`depth_radius` must not be negative. Received: {depth_radius}."
        )
    places = np.arange(value.shape[3])
    is_near = np.abs(places[:, None] - places) <= depth_radius
    squares = reshape(value * value, [math.prod(value.shape[:3]), value.shape[3]])
    attrs = {"transpose_a": False, "transpose_b": False}
    near = apply("matmul", (squares, like(is_near.astype(np.float32), value)), attrs)
    scale = reshape(near, value.shape) * alpha + bias
    return value * apply("pow", (scale, like(-beta, value)), {})


lrn = local_response_normalization
