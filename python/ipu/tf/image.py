# SPDX-License-Identifier: MIT
"""``tf.image``: images [height, width, channels], or batches of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu.tf import _random_ops as random
from ipu.tf import _shapes
from ipu.tf._convert import Tensor, apply, cast, known_value, like, sizes_of
from ipu.tf._dispatch import op
from ipu.tf._elementwise import saturate_cast
from ipu.tf._image_size import (
    ResizeMethod,
    as_float,
    central_crop,
    crop_to_bounding_box,
    height_axis,
    pad_to_bounding_box,
    resize,
    resize_with_crop_or_pad,
)
from ipu.tf._rearrange import reverse
from ipu.tf._reductions import reduce_mean, reduce_sum, reduce_variance
from ipu.tf.dtypes import as_dtype, float32

__all__ = [
    "ResizeMethod",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "central_crop",
    "convert_image_dtype",
    "crop_to_bounding_box",
    "flip_left_right",
    "flip_up_down",
    "grayscale_to_rgb",
    "pad_to_bounding_box",
    "per_image_standardization",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "resize",
    "resize_with_crop_or_pad",
    "rgb_to_grayscale",
    "rot90",
    "total_variation",
    "transpose",
]


# --- turned ---------------------------------------------------------------------------


@op
def flip_left_right(image: Any) -> Tensor:
    """Each image mirrored sideways.

    Example:
        >>> tf.image.flip_left_right([[[1], [2]]]).numpy().tolist()
        [[[2], [1]]]
    """
    return reverse(image, [-2])


@op
def flip_up_down(image: Any) -> Tensor:
    """Each image upside down.

    Example:
        >>> tf.image.flip_up_down([[[1]], [[2]]]).numpy().tolist()
        [[[2]], [[1]]]
    """
    return reverse(image, [-3])


@op
def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Each image turned anticlockwise by ``k`` quarters.

    Example:
        >>> tf.image.rot90([[[1], [2]]])[..., 0].numpy().tolist()
        [[2], [1]]
    """
    value = Tensor(image)
    axis = height_axis(value)
    order = list(range(value.ndim))
    order[axis], order[axis + 1] = order[axis + 1], order[axis]
    turns = int(known_value(k, "k")) % 4
    if turns == 2:
        return reverse(value, [-3, -2])
    if turns == 1:
        return reverse(_shapes.transpose(value, order), [-3])
    return _shapes.transpose(reverse(value, [-3]), order) if turns == 3 else value


@op
def transpose(image: Any, name: str | None = None) -> Tensor:
    """Each image with rows and columns exchanged.

    Args:
        image: [height, width, channels], or a batch of them.
        name: Accepted and not used.

    Example:
        >>> tf.image.transpose([[[1], [2]], [[3], [4]]]).numpy().tolist()
        [[[1], [3]], [[2], [4]]]
    """
    value = Tensor(image)
    axis = height_axis(value)
    order = list(range(value.ndim))
    order[axis], order[axis + 1] = order[axis + 1], order[axis]
    return _shapes.transpose(value, order)


def _maybe(image: Any, axis: int, seed: int | None) -> Tensor:
    value = Tensor(image)
    count = value.shape[0] if height_axis(value) else 1
    shape = [count, 1, 1, 1] if value.ndim == 4 else [1, 1, 1]
    flips = random.uniform(shape, seed=seed) < 0.5
    return apply("select", (flips, reverse(value, [axis]), value))


@op
def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Each image mirrored sideways, or not.

    Example:
        >>> tf.image.random_flip_left_right(tf.ones((2, 2, 3))).shape
        (2, 2, 3)
    """
    return _maybe(image, -2, seed)


@op
def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Each image upside down, or not.

    Example:
        >>> tf.image.random_flip_up_down(tf.ones((2, 2, 3))).shape
        (2, 2, 3)
    """
    return _maybe(image, -3, seed)


@op
def random_crop(
    value: Any, size: Any, seed: int | None = None, name: str | None = None
) -> Tensor:
    """A part of the given size from a random place.

    Args:
        value: Any tensor.
        size: The size of each axis; the whole axis keeps its place.
        seed: The op's own seed, or None.
        name: Accepted and not used.

    Example:
        >>> tf.image.random_crop(tf.ones((5, 5, 3)), (2, 2, 3)).shape
        (2, 2, 3)
    """
    part = Tensor(value)
    for axis, (whole, wanted) in enumerate(
        zip(part.shape, sizes_of(size), strict=True)
    ):
        if wanted > whole:
            raise ValueError(f"Need value.shape >= size, got {part.shape}, {size}")
        if wanted < whole:
            own = None if seed is None else seed + axis
            start = random.uniform((), 0, whole - wanted + 1, dtype="int32", seed=own)
            places = start + Tensor(np.arange(wanted, dtype=np.int32))
            part = apply("gather", (part, places), {"axis": axis})
    return part


# --- colours --------------------------------------------------------------------------


@op
def convert_image_dtype(
    image: Any, dtype: Any, saturate: bool = False, name: str | None = None
) -> Tensor:
    """Another dtype, with values scaled: floats in [0, 1], integers in their range.

    Args:
        image: Anything that converts to a tensor.
        dtype: The wanted dtype.
        saturate: Values out of range become the least or largest one.
        name: Accepted and not used.

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


def _in_float(image: Any, change: Any) -> Tensor:
    value = Tensor(image)
    own = value.dtype
    if own.is_floating:
        result: Tensor = change(value)
        return result
    changed = change(convert_image_dtype(value, float32))
    return convert_image_dtype(changed, own, saturate=True)


@op
def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """``delta`` added to every pixel; of integer images as a share of their range.

    Example:
        >>> tf.image.adjust_brightness([[[0.5]]], 0.25).numpy().tolist()
        [[[0.75]]]
    """
    return _in_float(image, lambda x: x + like(delta, x))


@op
def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Distances from each channel's mean times ``contrast_factor``.

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
    """``gain * pixel ** gamma``.

    Example:
        >>> tf.image.adjust_gamma([[[0.5]]], 2.0).numpy().tolist()
        [[[0.25]]]
    """
    return _in_float(image, lambda x: apply("pow", (x, like(gamma, x))) * like(gain, x))


@op
def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """:func:`adjust_brightness` by a number from [-max_delta, max_delta).

    Example:
        >>> tf.image.random_brightness(tf.ones((2, 2, 3)), 0.1).shape
        (2, 2, 3)
    """
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(
        image, random.uniform((), -max_delta, max_delta, seed=seed)
    )


@op
def random_contrast(
    image: Any, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """:func:`adjust_contrast` by a factor from [lower, upper).

    Example:
        >>> tf.image.random_contrast(tf.ones((2, 2, 3)), 0.5, 1.5).shape
        (2, 2, 3)
    """
    if not 0 <= lower < upper:
        raise ValueError("upper must be > lower, and lower must be non-negative.")
    return adjust_contrast(image, random.uniform((), lower, upper, seed=seed))


@op
def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """One channel: how light each pixel is.

    Example:
        >>> tf.image.rgb_to_grayscale([[[1.0, 1.0, 1.0]]]).numpy().tolist()
        [[[1.0]]]
    """

    def change(x: Tensor) -> Tensor:
        weights = Tensor([0.2989, 0.5870, 0.1140], x.dtype_name)
        return reduce_sum(x * weights, -1, keepdims=True)

    return _in_float(images, change)


@op
def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Three channels that are all alike.

    Example:
        >>> tf.image.grayscale_to_rgb([[[5]]]).numpy().tolist()
        [[[5, 5, 5]]]
    """
    value = Tensor(images)
    if value.shape[-1] != 1:
        raise ValueError("Last dimension of a grayscale image should be size 1.")
    return apply("broadcast", (value,), {"shape": [*value.shape[:-1], 3]})


@op
def per_image_standardization(image: Any) -> Tensor:
    """Each image with mean 0 and variance 1; a flat one is divided by less.

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


@op
def total_variation(images: Any, name: str | None = None) -> Tensor:
    """The sum of the distances between neighbouring pixels of each image.

    Example:
        >>> float(tf.image.total_variation([[[1.0], [3.0]]]))
        2.0
    """
    value = Tensor(images)
    axis = height_axis(value)
    whole = slice(None)
    down = value[(..., slice(1, None), whole, whole)]
    down = down - value[(..., slice(None, -1), whole, whole)]
    across = value[(..., slice(1, None), whole)] - value[(..., slice(None, -1), whole)]
    axes = [axis, axis + 1, axis + 2]
    return reduce_sum(abs(down), axes) + reduce_sum(abs(across), axes)


_OF_FILES = (
    "decode_bmp decode_gif decode_image decode_jpeg decode_png encode_jpeg encode_png"
).split()


def __getattr__(name: str) -> Any:
    if name in _OF_FILES:
        from ipu.tf import io

        return getattr(io, name)
    if name.startswith("__"):
        raise AttributeError(name)
    from ipu._missing import MissingNameError

    raise MissingNameError(f"tf.image.{name}", __all__)
