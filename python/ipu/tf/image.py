# SPDX-License-Identifier: MIT
"""``tf.image``: images [height, width, channels], or batches of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._text.faces import face
from ipu.tf._images.boxes import crop_and_resize, draw_bounding_boxes
from ipu.tf._images.changes import (
    random_brightness,
    random_contrast,
    random_crop,
    random_flip_left_right,
    random_flip_up_down,
    random_hue,
    random_saturation,
    stateless_random_brightness,
    stateless_random_contrast,
    stateless_random_crop,
    stateless_random_flip_left_right,
    stateless_random_flip_up_down,
    stateless_random_hue,
    stateless_random_saturation,
)
from ipu.tf._images.colors import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    convert_image_dtype,
    grayscale_to_rgb,
    hsv_to_rgb,
    rgb_to_grayscale,
    rgb_to_hsv,
    rgb_to_yiq,
    rgb_to_yuv,
    yiq_to_rgb,
    yuv_to_rgb,
)
from ipu.tf._images.combined_suppression import (
    combined_non_max_suppression,
)
from ipu.tf._images.measures import (
    extract_patches,
    image_gradients,
    psnr,
    sobel_edges,
    ssim,
    ssim_multiscale,
    total_variation,
)
from ipu.tf._images.non_max_suppression import (
    non_max_suppression,
    non_max_suppression_overlaps,
    non_max_suppression_padded,
    non_max_suppression_with_scores,
)
from ipu.tf._images.size import (
    ResizeMethod,
    as_float,
    central_crop,
    crop_to_bounding_box,
    height_axis,
    pad_to_bounding_box,
    resize,
    resize_with_crop_or_pad,
    resize_with_pad,
)
from ipu.tf._ops import shapes
from ipu.tf._ops.rearrange import reverse
from ipu.tf._ops.reductions import reduce_mean, reduce_variance
from ipu.tf._random import ops as random
from ipu.tf._tensor.convert import Tensor, apply, known_count, like
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import int32, uint8

if TYPE_CHECKING:
    from ipu.tf.io import (
        decode_bmp,
        decode_gif,
        decode_image,
        decode_jpeg,
        decode_png,
        encode_jpeg,
        encode_png,
    )

# loaded when they are used
_OF_FILES = (
    "decode_bmp decode_gif decode_image decode_jpeg decode_png encode_jpeg encode_png"
).split()

__all__ = [
    "ResizeMethod",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_jpeg_quality",
    "adjust_saturation",
    "central_crop",
    "combined_non_max_suppression",
    "convert_image_dtype",
    "crop_and_resize",
    "crop_to_bounding_box",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "draw_bounding_boxes",
    "encode_jpeg",
    "encode_png",
    "extract_patches",
    "flip_left_right",
    "flip_up_down",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "image_gradients",
    "non_max_suppression",
    "non_max_suppression_overlaps",
    "non_max_suppression_padded",
    "non_max_suppression_with_scores",
    "pad_to_bounding_box",
    "per_image_standardization",
    "psnr",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_hue",
    "random_jpeg_quality",
    "random_saturation",
    "resize",
    "resize_with_crop_or_pad",
    "resize_with_pad",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rgb_to_yiq",
    "rgb_to_yuv",
    "rot90",
    "sobel_edges",
    "ssim",
    "ssim_multiscale",
    "stateless_random_brightness",
    "stateless_random_contrast",
    "stateless_random_crop",
    "stateless_random_flip_left_right",
    "stateless_random_flip_up_down",
    "stateless_random_hue",
    "stateless_random_jpeg_quality",
    "stateless_random_saturation",
    "total_variation",
    "transpose",
    "yiq_to_rgb",
    "yuv_to_rgb",
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
    turns = known_count(k, "k") % 4
    if turns == 2:
        return reverse(value, [-3, -2])
    if turns == 1:
        return reverse(shapes.transpose(value, order), [-3])
    return shapes.transpose(reverse(value, [-3]), order) if turns == 3 else value


@op
def transpose(image: Any, name: str | None = None) -> Tensor:
    """Each image with rows and columns exchanged.

    Args:
        image: [height, width, channels], or a batch of them.

    Example:
        >>> tf.image.transpose([[[1], [2]], [[3], [4]]]).numpy().tolist()
        [[[1], [3]], [[2], [4]]]
    """
    value = Tensor(image)
    axis = height_axis(value)
    order = list(range(value.ndim))
    order[axis], order[axis + 1] = order[axis + 1], order[axis]
    return shapes.transpose(value, order)


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
def adjust_jpeg_quality(
    image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None
) -> Tensor:
    """An image as it comes back from a JPEG file.

    Needs Pillow (``pip install 'ipu[images]'``) and an image that is known: not one of
    a function that is being traced.

    Args:
        image: [height, width, channels], of one channel or three.
        jpeg_quality: From 0 to 100.
        dct_method: Accepted and not used.

    Example:
        >>> tf.image.adjust_jpeg_quality(tf.ones((8, 8, 3)), 75).shape
        (8, 8, 3)
    """
    from ipu.tf import io

    value = Tensor(image)
    plain = convert_image_dtype(value, uint8, saturate=True)
    quality = known_count(jpeg_quality, "jpeg_quality")
    file = io.encode_jpeg(plain, quality=quality)
    again = io.decode_jpeg(file, channels=value.shape[-1])
    return convert_image_dtype(again, value.dtype, saturate=True)


def _check_qualities(least: int, most: int) -> None:
    if not 0 <= least < most <= 100:
        raise ValueError(
            "jpeg encoding range must be between 0 and 100, and `min_jpeg_quality` "
            f"less than `max_jpeg_quality`. Received: {least}, {most}."
        )


@op
def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """:func:`adjust_jpeg_quality` by a number from [least, most).

    Example:
        >>> tf.image.random_jpeg_quality(tf.ones((8, 8, 3)), 75, 95).shape
        (8, 8, 3)
    """
    _check_qualities(min_jpeg_quality, max_jpeg_quality)
    drawn = random.uniform((), min_jpeg_quality, max_jpeg_quality, int32, seed)
    return adjust_jpeg_quality(image, drawn)


@op
def stateless_random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: Any
) -> Tensor:
    """As :func:`random_jpeg_quality`, from ``seed`` alone: two integers.

    Example:
        >>> image = tf.ones((8, 8, 3))
        >>> tf.image.stateless_random_jpeg_quality(image, 75, 95, (1, 2)).shape
        (8, 8, 3)
    """
    _check_qualities(min_jpeg_quality, max_jpeg_quality)
    drawn = random.stateless_uniform(
        (), seed, min_jpeg_quality, max_jpeg_quality, int32
    )
    return adjust_jpeg_quality(image, drawn)


if not TYPE_CHECKING:
    _LAZY = {name: f"ipu.tf.io:{name}" for name in _OF_FILES}
    __getattr__, __dir__ = face(__name__, __all__, _LAZY)
