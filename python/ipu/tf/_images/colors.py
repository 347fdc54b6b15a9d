# SPDX-License-Identifier: MIT
"""The colours of images: dtypes, brightness and contrast, other colour spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu.tf._images.size import as_float, height_axis
from ipu.tf._ops.clip import clip_by_value
from ipu.tf._ops.elementwise import divide_no_nan, saturate_cast
from ipu.tf._ops.reductions import (
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_sum,
    reduce_variance,
)
from ipu.tf._ops.shapes import stack
from ipu.tf._tensor.convert import Tensor, apply, cast, known_value, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import as_dtype, float32


@op
def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Tensor:
    """Convert to another dtype, with values scaled: floats in [0, 1], integers in their
    range.

    Args:
        image: Anything that converts to a tensor.
        dtype: The wanted dtype.
        saturate: Values out of range become the least or largest one.

    Example:
        >>> pixel = tf.constant([255], tf.uint8)
        >>> tf.image.convert_image_dtype(pixel, tf.float32).numpy().tolist()
        [1.0]
    """
    value, wanted = Tensor(image), as_dtype(dtype)
    own = value.dtype
    convert = saturate_cast if saturate else cast
    if own == wanted:
        return value
    if own.is_integer and wanted.is_integer:
        wide, narrow = own.max, wanted.max
        if wide > narrow:
            scale = (int(wide) + 1) // (int(narrow) + 1)
            return convert(value // like(scale, value), wanted)
        grown = convert(value, wanted)
        return grown * like((int(narrow) + 1) // (int(wide) + 1), grown)
    if own.is_floating and wanted.is_floating:
        return cast(value, wanted)
    if own.is_integer:
        scaled = cast(value, wanted)
        return scaled * (1.0 / float(own.max))
    return convert(value * (float(wanted.max) + 0.5), wanted)


def _in_float(
    image: Any, change: Callable[[Tensor], Tensor], saturate: bool = True
) -> Tensor:
    value = Tensor(image)
    own = value.dtype
    if own.is_floating:
        return change(value)
    changed = change(convert_image_dtype(value, float32))
    return convert_image_dtype(changed, own, saturate=saturate)


@op
def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Return ``delta`` added to every pixel; of integer images as a share of their
    range.

    Example:
        >>> tf.image.adjust_brightness([[[0.5]]], 0.25).numpy().tolist()
        [[[0.75]]]
    """
    return _in_float(image, lambda x: x + like(delta, x))


@op
def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Multiply distances from each channel's mean by ``contrast_factor``.

    Example:
        >>> tf.image.adjust_contrast([[[0.0], [1.0]]], 0.5).numpy().tolist()
        [[[0.25], [0.75]]]
    """

    def change(x: Tensor) -> Tensor:
        mean = reduce_mean(x, [-3, -2], keepdims=True)
        return (x - mean) * like(contrast_factor, x) + mean

    return _in_float(images, change)


@op
def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """Return ``gain * pixel ** gamma``.

    Example:
        >>> tf.image.adjust_gamma([[[0.5]]], 2.0).numpy().tolist()
        [[[0.25]]]
    """
    return _in_float(image, lambda x: apply("pow", (x, like(gamma, x))) * like(gain, x))


# --- one channel and three ------------------------------------------------------------


def _of_three_channels(images: Any) -> Tensor:
    value = Tensor(images)
    if value.ndim < 1 or value.shape[-1] != 3:
        raise ValueError(
            f"Images must have three channels in the last axis. Received shape "
            f"{value.shape}."
        )
    return value


@op
def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Return one channel: how light each pixel is.

    Example:
        >>> tf.image.rgb_to_grayscale([[[1.0, 1.0, 1.0]]]).numpy().tolist()
        [[[1.0]]]
    """

    value = _of_three_channels(images)

    def change(x: Tensor) -> Tensor:
        weights = Tensor([0.2989, 0.5870, 0.1140], x.dtype_name)
        return reduce_sum(x * weights, -1, keepdims=True)

    return _in_float(value, change)


@op
def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Repeat the channel three times.

    Example:
        >>> tf.image.grayscale_to_rgb([[[5]]]).numpy().tolist()
        [[[5, 5, 5]]]
    """
    value = Tensor(images)
    if value.shape[-1] != 1:
        raise ValueError("Last dimension of a grayscale image should be size 1.")
    return apply("broadcast", (value,), {"shape": [*value.shape[:-1], 3]})


# --- hue, saturation, value -----------------------------------------------------------


def _channels(images: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return the three channels of images of floats."""
    value = Tensor(images)
    if not value.dtype.is_floating:
        raise TypeError(
            "Images in other colour spaces are floats. Received dtype "
            f"{value.dtype.name}. Use tf.image.convert_image_dtype."
        )
    _of_three_channels(value)
    first, second, third = (value[..., k] for k in range(3))
    return first, second, third


def _hue(channels: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the hue in [0, 1), the largest channel and how far it is above the least.

    Source: Smith, "Color gamut transform pairs", 1978.
    """
    red, green, blue = channels
    pixels = stack(channels, -1)
    value = reduce_max(pixels, -1)
    spread = value - reduce_min(pixels, -1)
    from_red = divide_no_nan(green - blue, spread)
    from_green = divide_no_nan(blue - red, spread) + 2.0
    from_blue = divide_no_nan(red - green, spread) + 4.0
    others = apply("select", (green == value, from_green, from_blue))
    turn = apply("select", (red == value, from_red, others)) * (1.0 / 6.0)
    turn = apply("select", (spread > 0.0, turn, turn * 0.0))
    return apply("select", (turn < 0.0, turn + 1.0, turn)), value, spread


def _of_hue(hue: Tensor, value: Tensor, spread: Tensor) -> Tensor:
    """Undo :func:`_hue`."""
    sixth = hue * 6.0
    red = clip_by_value(abs(sixth - 3.0) - 1.0, 0.0, 1.0)
    green = clip_by_value(2.0 - abs(sixth - 2.0), 0.0, 1.0)
    blue = clip_by_value(2.0 - abs(sixth - 4.0), 0.0, 1.0)
    least = value - spread
    return stack([least + spread * share for share in (red, green, blue)], -1)


@op
def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """Convert red, green and blue into hue, saturation and value.

    Args:
        images: [..., 3] of floats in [0, 1].

    Returns:
        The same shape: hue, saturation and value in [0, 1]; 0 is red, 1/3 is green.

    Raises:
        TypeError: The images are not floats.
        ValueError: They do not have three channels.

    Example:
        >>> tf.image.rgb_to_hsv([[0.0, 1.0, 0.5]]).numpy().tolist()
        [[0.4167, 1.0, 1.0]]
    """
    hue, value, spread = _hue(_channels(images))
    saturation = apply("select", (value > 0.0, divide_no_nan(spread, value), hue * 0.0))
    return stack([hue, saturation, value], -1)


@op
def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Convert hue, saturation and value into red, green and blue: undoes
    :func:`rgb_to_hsv`.

    Example:
        >>> tf.image.hsv_to_rgb([[0.0, 0.5, 1.0]]).numpy().tolist()
        [[1.0, 0.5, 0.5]]
    """
    hue, saturation, value = _channels(images)
    return _of_hue(hue, value, saturation * value)


@op
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Return the hue of each pixel turned by ``delta``, where 1 is a whole turn.

    Args:
        image: [..., 3], floats or integers.
        delta: A number in [-1, 1].

    Raises:
        ValueError: ``delta`` is out of range, or there are not three channels.

    Example:
        >>> tf.image.adjust_hue([[[1.0, 0.0, 0.0]]], 1 / 3).numpy().tolist()
        [[[0.0, 1.0, 0.0]]]
    """
    turn = Tensor(delta)
    if not turn.is_symbolic and not -1.0 <= float(known_value(turn, "delta")) <= 1.0:
        raise ValueError(f"delta must be in the interval [-1, 1]. Received: {delta}.")

    def change(x: Tensor) -> Tensor:
        hue, value, spread = _hue(_channels(x))
        return _of_hue((hue + cast(turn, x.dtype)) % 1.0, value, spread)

    return _in_float(image, change, saturate=False)


@op
def adjust_saturation(
    image: Any, saturation_factor: Any, name: str | None = None
) -> Tensor:
    """Return the saturation of each pixel times a factor, at most 1.

    Args:
        image: [..., 3], floats or integers.
        saturation_factor: A number; 0 gives grey.

    Raises:
        ValueError: There are not three channels.

    Example:
        >>> tf.image.adjust_saturation([[[1.0, 0.0, 0.0]]], 0.5).numpy().tolist()
        [[[1.0, 0.5, 0.5]]]
    """

    def change(x: Tensor) -> Tensor:
        hue, value, spread = _hue(_channels(x))
        share = divide_no_nan(spread, value) * like(saturation_factor, x)
        return _of_hue(hue, value, clip_by_value(share, 0.0, 1.0) * value)

    return _in_float(image, change, saturate=False)


# --- one channel of light, two of colour ----------------------------------------------

_YIQ = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_OF_YIQ = [
    [1.0, 1.0, 1.0],
    [0.95598634, -0.27201283, -1.10674021],
    [0.6208248, -0.64720424, 1.70423049],
]
_YUV = [
    [0.299, -0.14714119, 0.61497538],
    [0.587, -0.28886916, -0.51496512],
    [0.114, 0.43601035, -0.10001026],
]
_OF_YUV = [
    [1.0, 1.0, 1.0],
    [0.0, -0.394642334, 2.03206185],
    [1.13988303, -0.58062185, 0.0],
]


def _mixed(images: Any, matrix: list[list[float]]) -> Tensor:
    first, second, third = (channel[..., None] for channel in _channels(images))
    a, b, c = (like(row, first) for row in matrix)
    return first * a + second * b + third * c


@op
def rgb_to_yiq(images: Any) -> Tensor:
    """Convert red, green and blue into NTSC's Y, I and Q.

    Args:
        images: [..., 3] of floats in [0, 1].

    Raises:
        TypeError: The images are not floats.
        ValueError: They do not have three channels.

    Example:
        >>> tf.image.rgb_to_yiq([[1.0, 0.0, 0.0]]).numpy().tolist()
        [[0.299, 0.596, 0.212]]
    """
    return _mixed(images, _YIQ)


@op
def yiq_to_rgb(images: Any) -> Tensor:
    """Undo :func:`rgb_to_yiq`.

    Example:
        >>> tf.image.yiq_to_rgb([[0.5, 0.0, 0.0]]).numpy().tolist()
        [[0.5, 0.5, 0.5]]
    """
    return _mixed(images, _OF_YIQ)


@op
def rgb_to_yuv(images: Any) -> Tensor:
    """Convert red, green and blue into PAL's Y, U and V.

    Args:
        images: [..., 3] of floats in [0, 1].

    Raises:
        TypeError: The images are not floats.
        ValueError: They do not have three channels.

    Example:
        >>> tf.image.rgb_to_yuv([[1.0, 0.0, 0.0]]).numpy().tolist()
        [[0.299, -0.147, 0.615]]
    """
    return _mixed(images, _YUV)


@op
def yuv_to_rgb(images: Any) -> Tensor:
    """Undo :func:`rgb_to_yuv`.

    Example:
        >>> tf.image.yuv_to_rgb([[0.5, 0.0, 0.0]]).numpy().tolist()
        [[0.5, 0.5, 0.5]]
    """
    return _mixed(images, _OF_YUV)


@op
def per_image_standardization(image: Any) -> Tensor:
    """Return each image with mean 0 and variance 1; a flat one is divided by less.

    Example:
        >>> tf.image.per_image_standardization([[[1.0], [3.0]]]).numpy().tolist()
        [[[-1.0], [1.0]]]
    """
    value = as_float(Tensor(image))
    height_axis(value)
    count = int(np.prod(value.shape[-3:]))
    mean = reduce_mean(value, [-3, -2, -1], keepdims=True)
    deviation = apply("sqrt", (reduce_variance(value, [-3, -2, -1], keepdims=True),))
    least = like(1.0 / np.sqrt(count), value)
    return (value - mean) / apply("maximum", (deviation, least))
