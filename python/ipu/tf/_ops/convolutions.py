# SPDX-License-Identifier: MIT
"""Convolutions in one to three dimensions.

Each is one op of the core, ``conv``. What is here finds out the geometry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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


def _groups(function: str, channels: int, w: Tensor) -> int:
    depth = w.shape[-2]
    if depth == 0 or channels % depth != 0:
        raise ValueError(
            f"{function}: the channels of the input must be a multiple of those of the "
            f"filters. Received: an input of {channels} channels and filters of shape "
            f"{tuple(w.shape)}, for {depth}."
        )
    return channels // depth if channels else 1


def _convolve(
    function: str,
    value: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    layout: Format,
    dilations: Any,
) -> Tensor:
    x, w = operands_of(function, value, filters, layout.spatial)
    steps = sizes_of_window(function, "strides", strides, layout)
    spread = sizes_of_window(function, "dilations", dilations, layout)
    # more leading axes are one batch
    lead = list(x.shape[: x.ndim - layout.spatial - 1])
    inner = list(x.shape[len(lead) :])
    if len(lead) > 1:
        x = apply("reshape", (x,), {"shape": [_product(lead), *inner]})
    groups = _groups(function, x.shape[layout.channels], w)
    sizes = layout.inner(x.shape)
    window = list(w.shape[: layout.spatial])
    border = border_of(function, padding, layout, sizes, window, steps, spread)
    y = apply("conv", (x, w), attrs_of(steps, spread, border, groups, layout))
    if len(lead) > 1:
        y = apply("reshape", (y,), {"shape": [*lead, *y.shape[1:]]})
    return y


def _product(sizes: Sequence[int]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


@op
def convolution(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Slide filters over one to three spatial axes.

    ``y[b, o, f]`` is the sum of ``x[b, o * strides + k * dilations, c] * w[k, c, f]``
    over window positions k and channels c.

    Args:
        input: [batch, size..., channels], or [batch, channels, size...]; with the
            channels last there may be more leading axes.
        filters: [window..., channels, results], of the dtype of ``input``. Where its
            channels are a part of the input's, these fall into groups: each is seen by
            an equal share of the results alone.
        strides: A number, or one for each spatial axis; None is 1.
        padding: "SAME" puts zeros around, so that results are of ceil(size / stride);
            "VALID" puts none; or pairs of numbers for all axes.
        data_format: "NWC", "NHWC" or "NDHWC" (None stands for these), or "NCW", "NCHW",
            "NCDHW".
        dilations: Steps between the elements under the window, as ``strides``.

    Returns:
        The results in the place of the channels.

    Raises:
        ValueError: An argument has not the form that is said above.
        TypeError: The dtypes differ, or are not floating-point.
        InvalidArgumentError: The window is larger than the padded input.

    Example:
        >>> x = tf.reshape(tf.range(4.0), (1, 4, 1))
        >>> tf.nn.convolution(x, tf.ones((2, 1, 1)))[0, :, 0].numpy().tolist()
        [1.0, 3.0, 5.0]
    """
    spatial = like(filters, Tensor(input)).ndim - 2
    if spatial not in (1, 2, 3):
        raise ValueError(
            "`filters` of convolution must have 3 to 5 dimensions: the window, "
            f"channels, results. Received: {spatial + 2} dimensions."
        )
    layout = format_of("convolution", data_format, spatial)
    return _convolve("convolution", input, filters, strides, padding, layout, dilations)


@op
def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Slide filters over sequences: :func:`convolution` of one spatial axis.

    Example:
        >>> tf.nn.conv1d(tf.ones((1, 3, 2)), tf.ones((2, 2, 1)), 1, "SAME").shape
        (1, 3, 1)
    """
    layout = format_of("conv1d", data_format, 1)
    return _convolve("conv1d", input, filters, stride, padding, layout, dilations)


@op
def conv2d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Slide filters over images: :func:`convolution` of two spatial axes.

    Example:
        >>> tf.nn.conv2d(tf.ones((1, 8, 8, 3)), tf.ones((3, 3, 3, 16)), 2, "SAME").shape
        (1, 4, 4, 16)
    """
    layout = format_of("conv2d", data_format, 2)
    return _convolve("conv2d", input, filters, strides, padding, layout, dilations)


@op
def conv3d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Slide filters over volumes: :func:`convolution` of three spatial axes.

    Example:
        >>> x, w = tf.ones((1, 4, 4, 4, 2)), tf.ones((2, 2, 2, 2, 5))
        >>> tf.nn.conv3d(x, w, 1, "VALID").shape
        (1, 3, 3, 3, 5)
    """
    layout = format_of("conv3d", data_format, 3)
    return _convolve("conv3d", input, filters, strides, padding, layout, dilations)


@op
def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: Any, name: str | None = None
) -> Tensor:
    """Call :func:`conv2d` with strides of 1 and dilations of ``rate``.

    Example:
        >>> x, w = tf.ones((1, 9, 9, 1)), tf.ones((3, 3, 1, 1))
        >>> tf.nn.atrous_conv2d(x, w, 2, "VALID").shape
        (1, 5, 5, 1)
    """
    layout = Format(2, False)
    return _convolve("atrous_conv2d", value, filters, 1, padding, layout, rate)


@op
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Slide filters over the channels of images, each channel by itself.

    Args:
        input: [batch, height, width, channels], or as ``data_format`` says.
        filter: [window height, window width, channels, multiplier].
        strides: As those of :func:`convolution`.
        padding: The same.
        data_format: "NHWC" (None stands for it) or "NCHW".
        dilations: As those of :func:`convolution`.

    Returns:
        ``channels * multiplier`` results: those of the first channel come first.

    Raises:
        ValueError: The filter is not for as many channels, or an argument is not of the
            form that :func:`convolution` says.

    Example:
        >>> x, w = tf.ones((1, 4, 4, 3)), tf.ones((3, 3, 3, 2))
        >>> tf.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME").shape
        (1, 4, 4, 6)
    """
    layout = format_of("depthwise_conv2d", data_format, 2)
    x, w = operands_of("depthwise_conv2d", input, filter, 2)
    channels = x.shape[x.ndim - 3 if layout.channels_first else x.ndim - 1]
    if w.shape[2] != channels:
        raise ValueError(
            "`filter` of depthwise_conv2d must be for as many channels as the input "
            f"has: {channels}. Received: shape {tuple(w.shape)}."
        )
    flat = [*w.shape[:2], 1, w.shape[2] * w.shape[3]]
    w = apply("reshape", (w,), {"shape": flat})
    return _convolve("depthwise_conv2d", x, w, strides, padding, layout, dilations)


@op
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Call :func:`depthwise_conv2d`, then a :func:`conv2d` of a window of one element.

    Args:
        input: As that of :func:`depthwise_conv2d`.
        depthwise_filter: The same.
        pointwise_filter: [1, 1, channels * multiplier, results].
        strides, padding: Of the first step.
        data_format: "NHWC" (None stands for it) or "NCHW".
        dilations: Of the first step.

    Example:
        >>> x, depth = tf.ones((1, 4, 4, 3)), tf.ones((3, 3, 3, 2))
        >>> tf.nn.separable_conv2d(x, depth, tf.ones((1, 1, 6, 5)), 1, "VALID").shape
        (1, 2, 2, 5)
    """
    middle = depthwise_conv2d(
        input, depthwise_filter, strides, padding, data_format, dilations
    )
    return conv2d(middle, pointwise_filter, 1, "VALID", data_format)


@op
def bias_add(
    value: Any, bias: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Return ``value + bias`` along the channels.

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


# --- transposed -----------------------------------------------------------------------


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
    """Check that a convolution of the result would have the size of the input."""
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
    """Return the gradient of a :func:`tf.nn.convolution` with respect to its input.

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


def _transposed(spatial: int, data_format: str, example: str) -> Callable[..., Tensor]:
    default = data_format

    def function(
        input: Any,
        filters: Any,
        output_shape: Any,
        strides: Any,
        padding: Any = "SAME",
        data_format: str | None = default,
        dilations: Any = None,
        name: str | None = None,
    ) -> Tensor:
        layout = format_of(called, data_format, spatial)
        return _transpose(
            called, input, filters, output_shape, strides, padding, layout, dilations
        )

    sizes, result, axes = example.split(" -> ")
    called = function.__name__ = function.__qualname__ = f"conv{spatial}d_transpose"
    function.__doc__ = f"""Call :func:`conv_transpose` for {axes}.

    Example:
        >>> y, w = tf.ones(({sizes}, 8)), tf.ones(({"3, " * spatial}5, 8))
        >>> tf.nn.{called}(y, w, {result}, 2).shape
        {result}
    """
    return op(function)


conv1d_transpose = _transposed(1, "NWC", "1, 4 -> (1, 8, 5) -> one spatial axis")
conv2d_transpose = _transposed(2, "NHWC", "1, 4, 4 -> (1, 8, 8, 5) -> two spatial axes")
conv3d_transpose = _transposed(
    3, "NDHWC", "1, 2, 2, 2 -> (1, 4, 4, 4, 5) -> three spatial axes"
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
    """Return the gradient of :func:`tf.nn.atrous_conv2d` with respect to its input.

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
