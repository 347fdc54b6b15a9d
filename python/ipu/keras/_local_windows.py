# SPDX-License-Identifier: MIT
"""Windows with filters of their own: what ``LocallyConnected2D`` computes."""

from __future__ import annotations

import math
from typing import Any

from ipu import tf
from ipu._text.arguments import checked_tensor
from ipu.keras._backend_state import is_channels_first


def local_conv(
    inputs: Any,
    kernel: Any,
    kernel_size: Any,
    strides: Any,
    output_shape: Any = None,
    data_format: str | None = None,
) -> Any:
    """Apply filters of their own to each window of inputs of one or two spatial axes.

    Args:
        inputs: ``(batch, spatial axes, channels)``, or the channels after the batch.
        kernel: ``(windows, elements of a window, filters)``; where channels come first
            in the inputs they come first in a window, too, as Keras has it.
        kernel_size: The size of a window, for each spatial axis.
        strides: The steps from a window to the next, for each spatial axis.
        output_shape: Accepted and not used: it follows from the others.
        data_format: Where the channels are; None for ``image_data_format()``.

    Returns:
        ``(batch, windows of each axis, filters)``, or the filters after the batch.

    Raises:
        ValueError: The kernel has not as many windows, or elements of one.

    Source: ``tf.keras.backend.local_conv``.

    Example:
        >>> x, kernel = tf.ones((2, 4, 4, 3)), tf.ones((9, 12, 5))
        >>> local_conv(x, kernel, (2, 2), (1, 1)).shape
        (2, 3, 3, 5)
    """
    del output_shape
    inputs, kernel = checked_tensor("inputs", inputs), checked_tensor("kernel", kernel)
    is_first = is_channels_first(data_format)
    rank = len(kernel_size)
    x = tf.transpose(inputs, [0, *range(2, rank + 2), 1]) if is_first else inputs
    channels = x.shape[-1]
    if rank == 1:
        x = tf.expand_dims(x, 1)
    ones = [1] * (2 - rank)
    found = tf.image.extract_patches(
        x, [1, *ones, *kernel_size, 1], [1, *ones, *strides, 1], [1] * 4, "VALID"
    )
    places = found.shape[3 - rank : 3]
    count, depth = math.prod(places), found.shape[-1]
    if tuple(kernel.shape)[:2] != (count, depth):
        raise ValueError(
            f"A kernel of {count} windows of {depth} elements is needed: of shape "
            f"({count}, {depth}, filters). Received shape: {tuple(kernel.shape)}."
        )
    if is_first:
        parts = tf.reshape(found, [-1, count, depth // channels, channels])
        rows = tf.reshape(tf.transpose(parts, [1, 0, 3, 2]), [count, -1, depth])
    else:
        rows = tf.transpose(tf.reshape(found, [-1, count, depth]), [1, 0, 2])
    product = tf.transpose(tf.matmul(rows, kernel), [1, 0, 2])
    result = tf.reshape(product, [-1, *places, kernel.shape[-1]])
    if is_first:
        result = tf.transpose(result, [0, rank + 1, *range(1, rank + 1)])
    return result


def local_conv1d(
    inputs: Any,
    kernel: Any,
    kernel_size: Any,
    strides: Any,
    data_format: str | None = None,
) -> Any:
    """Apply filters of their own to each window of series, see ``local_conv``.

    Source: ``tf.keras.backend.local_conv1d``.

    Example:
        >>> x, kernel = tf.ones((2, 4, 3)), tf.ones((3, 6, 5))
        >>> local_conv1d(x, kernel, (2,), (1,)).shape
        (2, 3, 5)
    """
    return local_conv(inputs, kernel, kernel_size, strides, None, data_format)


local_conv2d = local_conv
