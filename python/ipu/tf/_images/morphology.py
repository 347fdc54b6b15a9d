# SPDX-License-Identifier: MIT
"""Dilation and erosion of grey images: the largest or least of sums under a window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu.tf._ops.rearrange import pad, reverse
from ipu.tf._ops.reductions import reduce_max
from ipu.tf._ops.shapes import stack
from ipu.tf._ops.window import windows_along
from ipu.tf._tensor.convert import Tensor, apply, like
from ipu.tf._tensor.dispatch import op


@op
def dilation2d(
    input: Any,
    filters: Any,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
    name: str | None = None,
) -> Tensor:
    """Return the largest sum of a pixel and the filter's element above it.

    Args:
        input: [batch, height, width, channels].
        filters: [height, width, channels].
        strides: [1, down, right, 1].
        padding: "VALID", or "SAME": what is around the image is not a candidate.
        data_format: "NHWC".
        dilations: [1, down, right, 1]: from one element of the filter to the next.

    Raises:
        ValueError: An argument is not as said.

    Example:
        >>> image = tf.reshape(tf.range(4.0), (1, 2, 2, 1))
        >>> filters = tf.zeros((2, 2, 1))
        >>> ones = [1, 1, 1, 1]
        >>> tf.nn.dilation2d(image, filters, ones, "VALID", "NHWC", ones).numpy()
        array([[[[3.]]]], dtype=float32)
    """
    value, kernel = Tensor(input), Tensor(filters)
    if data_format != "NHWC" or padding not in ("SAME", "VALID"):
        raise ValueError(
            "`data_format` must be 'NHWC', and `padding` 'SAME' or 'VALID'. Received: "
            f"data_format={data_format!r}, padding={padding!r}."
        )
    if value.ndim != 4 or kernel.ndim != 3 or value.shape[3] != kernel.shape[2]:
        raise ValueError(
            "The input must be [batch, height, width, channels] and the filters "
            f"[height, width, channels]. Received shapes {value.shape} and "
            f"{kernel.shape}."
        )
    down, right = (
        windows_along(
            value.shape[k], kernel.shape[k - 1], strides[k], dilations[k], padding
        )
        for k in (1, 2)
    )
    least = float(value.dtype.min)
    ends = [(0, 0), down[1:], right[1:], (0, 0)]
    around = pad(value, ends, constant_values=least)
    sums = []
    for y in range(kernel.shape[0]):
        for x in range(kernel.shape[1]):
            top, left = y * dilations[1], x * dilations[2]
            bounds = {
                "begin": [0, top, left, 0],
                "size": [value.shape[0], down[0], right[0], value.shape[3]],
                "strides": [1, strides[1], strides[2], 1],
            }
            sums.append(apply("slice", (around,), bounds) + kernel[y, x])
    return reduce_max(stack(sums, 0), 0)


@op
def erosion2d(
    value: Any,
    filters: Any,
    strides: Sequence[int],
    padding: str,
    data_format: str,
    dilations: Sequence[int],
    name: str | None = None,
) -> Tensor:
    """Return the least difference of a pixel and the filter's element above it.

    The arguments are those of :func:`dilation2d`; the filters are turned around.

    Example:
        >>> image = tf.reshape(tf.range(4.0), (1, 2, 2, 1))
        >>> filters = tf.zeros((2, 2, 1))
        >>> ones = [1, 1, 1, 1]
        >>> tf.nn.erosion2d(image, filters, ones, "VALID", "NHWC", ones).numpy()
        array([[[[0.]]]], dtype=float32)
    """
    image = Tensor(value)
    kernel = reverse(like(filters, image), [0, 1])
    return -dilation2d(-image, kernel, strides, padding, data_format, dilations)
