# SPDX-License-Identifier: MIT
"""Transposed convolutions in one to three dimensions.

Each is one op of the core, ``conv_grad_input``: the gradient of a convolution with
respect to its input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu.tf._ops.window import (
    Format,
    attrs_of,
    border_of,
    format_of,
    operands_of,
    sizes_of_window,
)
from ipu.tf._tensor.convert import Tensor, apply, like, sizes_of
from ipu.tf._tensor.dispatch import op


def _transpose(
    function: str,
    value: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any,
    layout: Format,
    dilations: Any,
) -> Tensor:
    y, w = operands_of(function, value, filters, layout.spatial)
    steps = sizes_of_window(function, "strides", strides, layout)
    spread = sizes_of_window(function, "dilations", dilations, layout)
    shape = sizes_of(output_shape)
    if len(shape) == layout.spatial:
        channels = w.shape[-2]
        rest = [channels, *shape] if layout.channels_first else [*shape, channels]
        shape = [y.shape[0], *rest]
    if len(shape) != layout.spatial + 2 or y.ndim != len(shape):
        raise ValueError(
            f"`output_shape` of {function} must have {layout.spatial + 2} entries, as "
            f"the input. Received: output_shape={shape} for an input of shape "
            f"{tuple(y.shape)}."
        )
    sizes = layout.inner(shape)
    window = list(w.shape[: layout.spatial])
    border = border_of(function, padding, layout, sizes, window, steps, spread)
    _check_sizes(function, y, w, shape, layout, steps, spread, border)
    attrs = attrs_of(steps, spread, border, 1, layout)
    return apply("conv_grad_input", (y, w), {**attrs, "shape": shape})


def _check_sizes(
    function: str,
    y: Tensor,
    w: Tensor,
    shape: Sequence[int],
    layout: Format,
    steps: Sequence[int],
    spread: Sequence[int],
    border: Sequence[int],
) -> None:
    """Whether a convolution of the result would have the size of the input."""
    channels = layout.channels
    if (y.shape[channels], shape[channels]) != (w.shape[-1], w.shape[-2]):
        raise ValueError(
            f"{function}: filters of shape {tuple(w.shape)} make {w.shape[-2]} "
            f"channels of {w.shape[-1]}. Received: an input of shape {tuple(y.shape)} "
            f"and output_shape={list(shape)}."
        )
    wanted = [y.shape[0]]
    for i, size in enumerate(layout.inner(shape)):
        reach = (w.shape[i] - 1) * spread[i] + 1
        room = size + border[2 * i] + border[2 * i + 1] - reach
        wanted.append(room // steps[i] + 1)
    if wanted != [shape[0], *layout.inner(y.shape)] or y.shape[0] != shape[0]:
        raise ValueError(
            f"{function}: a result of shape {list(shape)} belongs to an input of batch "
            f"{shape[0]} and spatial sizes {wanted[1:]} with these strides and this "
            f"padding. Received: an input of shape {tuple(y.shape)}."
        )


@op
def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """The gradient of a :func:`tf.nn.convolution` with respect to its input.

    So it leads from the shape of the results to that of the input.

    Args:
        input: [batch, size..., results], or as ``data_format`` says.
        filters: [window..., channels, results], of the same dtype.
        output_shape: The shape of the result, or its spatial sizes.
        strides: Those of the convolution.
        padding: The same.
        data_format: As that of :func:`tf.nn.convolution`.
        dilations: Those of the convolution.

    Returns:
        A tensor of ``output_shape``.

    Raises:
        ValueError: A convolution of that shape would not give the input's.

    Example:
        >>> y, w = tf.ones((1, 4, 4, 8)), tf.ones((3, 3, 5, 8))
        >>> tf.nn.conv_transpose(y, w, (8, 8), strides=2).shape
        (1, 8, 8, 5)
    """
    spatial = like(filters, Tensor(input)).ndim - 2
    if spatial not in (1, 2, 3):
        raise ValueError(
            "`filters` of conv_transpose must have 3 to 5 dimensions: the window, "
            f"channels, results. Received: {spatial + 2} dimensions."
        )
    layout = format_of("conv_transpose", data_format, spatial)
    return _transpose(
        "conv_transpose",
        *(input, filters, output_shape, strides, padding, layout, dilations),
    )


@op
def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """:func:`conv_transpose` of one spatial axis.

    Example:
        >>> y, w = tf.ones((1, 4, 8)), tf.ones((3, 5, 8))
        >>> tf.nn.conv1d_transpose(y, w, (1, 8, 5), 2).shape
        (1, 8, 5)
    """
    layout = format_of("conv1d_transpose", data_format, 1)
    return _transpose(
        "conv1d_transpose",
        *(input, filters, output_shape, strides, padding, layout, dilations),
    )


@op
def conv2d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """:func:`conv_transpose` of two spatial axes.

    Example:
        >>> y, w = tf.ones((1, 4, 4, 8)), tf.ones((3, 3, 5, 8))
        >>> tf.nn.conv2d_transpose(y, w, (1, 8, 8, 5), 2).shape
        (1, 8, 8, 5)
    """
    layout = format_of("conv2d_transpose", data_format, 2)
    return _transpose(
        "conv2d_transpose",
        *(input, filters, output_shape, strides, padding, layout, dilations),
    )


@op
def conv3d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """:func:`conv_transpose` of three spatial axes.

    Example:
        >>> y, w = tf.ones((1, 2, 2, 2, 4)), tf.ones((2, 2, 2, 3, 4))
        >>> tf.nn.conv3d_transpose(y, w, (1, 4, 4, 4, 3), 2).shape
        (1, 4, 4, 4, 3)
    """
    layout = format_of("conv3d_transpose", data_format, 3)
    return _transpose(
        "conv3d_transpose",
        *(input, filters, output_shape, strides, padding, layout, dilations),
    )


@op
def atrous_conv2d_transpose(
    value: Any,
    filters: Any,
    output_shape: Any,
    rate: int,
    padding: Any,
    name: str | None = None,
) -> Tensor:
    """The gradient of :func:`tf.nn.atrous_conv2d` with respect to its input.

    Example:
        >>> y, w = tf.ones((1, 5, 5, 1)), tf.ones((3, 3, 1, 1))
        >>> tf.nn.atrous_conv2d_transpose(y, w, (1, 9, 9, 1), 2, "VALID").shape
        (1, 9, 9, 1)
    """
    layout = Format(2, False)
    return _transpose(
        "atrous_conv2d_transpose",
        *(value, filters, output_shape, 1, padding, layout, rate),
    )
