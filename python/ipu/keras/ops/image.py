# SPDX-License-Identifier: MIT
"""``ipu.keras.ops.image``: pictures, whose channels are where ``data_format`` says."""

from __future__ import annotations

from collections.abc import Callable as _Callable
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.exports import export, offered
from ipu.keras.ops import _bodies as b, _table as t
from ipu.keras.ops._table import op as _op


def _changed(x: Any, data_format: Any, change: _Callable[[Any], Any]) -> Any:
    """Change pictures, or one, in the layout of TensorFlow."""
    images = t.tensor(x)
    if images.ndim not in (3, 4):
        raise ValueError(
            "Images are [height, width, channels], or a batch of these. Received: "
            f"shape {tuple(images.shape)}."
        )
    whole = images if images.ndim == 4 else images[None]
    turned, back = b.layout(whole, data_format)
    made = back(change(turned))
    return made if images.ndim == 4 else made[0]


def _place(first: Any, last: Any, size: Any, whole: int, sign: int) -> tuple[int, int]:
    """Return where an axis begins and its size, of which two of three numbers are
    known.

    Args:
        first: The border in front, or None.
        last: The border after, or None.
        size: The size that is wanted, or None.
        whole: The size that there is.
        sign: -1 where borders are cut off, 1 where they are added.
    """
    if (first, last, size).count(None) != 1:
        raise ValueError(
            "Give two of these three: both borders and the target size. Received: "
            f"{first}, {last} and {size}."
        )
    start = sign * (size - whole) - last if first is None else first
    return start, whole + sign * (first + last) if size is None else size


def _crop_images(
    images: Any,
    top_cropping: Any = None,
    left_cropping: Any = None,
    bottom_cropping: Any = None,
    right_cropping: Any = None,
    target_height: Any = None,
    target_width: Any = None,
    data_format: Any = None,
) -> Any:
    def change(x: Any) -> Any:
        high, wide = x.shape[1:3]
        top, rows = _place(top_cropping, bottom_cropping, target_height, high, -1)
        left, columns = _place(left_cropping, right_cropping, target_width, wide, -1)
        return tf.image.crop_to_bounding_box(x, top, left, rows, columns)

    return _changed(images, data_format, change)


def _pad_images(
    images: Any,
    top_padding: Any = None,
    left_padding: Any = None,
    bottom_padding: Any = None,
    right_padding: Any = None,
    target_height: Any = None,
    target_width: Any = None,
    data_format: Any = None,
) -> Any:
    def change(x: Any) -> Any:
        high, wide = x.shape[1:3]
        top, rows = _place(top_padding, bottom_padding, target_height, high, 1)
        left, columns = _place(left_padding, right_padding, target_width, wide, 1)
        return tf.image.pad_to_bounding_box(x, top, left, rows, columns)

    return _changed(images, data_format, change)


def _resize(
    images: Any,
    size: Any,
    interpolation: str = "bilinear",
    antialias: bool = False,
    crop_to_aspect_ratio: bool = False,
    pad_to_aspect_ratio: bool = False,
    fill_mode: str = "constant",
    fill_value: float = 0.0,
    data_format: Any = None,
) -> Any:
    if crop_to_aspect_ratio or pad_to_aspect_ratio or fill_value:
        raise ValueError(
            "Here resizing keeps all of a picture. Use crop_images or pad_images for "
            "another aspect ratio."
        )

    def resized(x: Any) -> Any:
        made = tf.image.resize(x, size, interpolation, antialias=antialias)
        return (
            made if made.dtype == x.dtype else tf.saturate_cast(tf.round(made), x.dtype)
        )

    return _changed(images, data_format, resized)


def _patches(
    images: Any,
    size: Any,
    strides: Any = None,
    dilation_rate: Any = 1,
    padding: str = "valid",
    data_format: Any = None,
) -> Any:
    sizes, gaps = b.several(size, 2), b.several(dilation_rate, 2)
    steps = sizes if strides is None else b.several(strides, 2)

    def cut(x: Any) -> Any:
        window, step, gap = ([1, *one, 1] for one in (sizes, steps, gaps))
        return tf.image.extract_patches(x, window, step, gap, padding.upper())

    return _changed(images, data_format, cut)


# fmt: off
crop_images = _op(_crop_images, "Cut borders off", "image.crop_images([[[1], [2]]], 0, "
    "1, 0, 0).shape => (1, 1, 1)")
extract_patches = _op(_patches, "Give the windows of pictures, each laid flat",
    "image.extract_patches([[[1.0], [2.0]]], (1, 2)) -> [[[1.0, 2.0]]]")
hsv_to_rgb = _op(lambda images, data_format=None: _changed(t.floats(images),
    data_format, tf.image.hsv_to_rgb), "Turn hue, saturation and value into red, green "
    "and blue", "image.hsv_to_rgb([[[0.0, 0.0, 1.0]]]) -> [[[1.0, 1.0, 1.0]]]")
pad_images = _op(_pad_images, "Put borders of zeros around",
    "image.pad_images([[[1]]], 0, 1, 0, 0) -> [[[0], [1]]]")
resize = _op(_resize, "Give pictures in another size", "image.resize([[[1.0], [3.0]]], "
    "(1, 4), 'nearest') -> [[[1.0], [1.0], [3.0], [3.0]]]")
rgb_to_grayscale = _op(lambda images, data_format=None: _changed(images, data_format,
    tf.image.rgb_to_grayscale), "Give the brightness of colours",
    "image.rgb_to_grayscale([[[1.0, 1.0, 1.0]]]) -> [[[1.0]]]")
rgb_to_hsv = _op(lambda images, data_format=None: _changed(t.floats(images),
    data_format, tf.image.rgb_to_hsv), "Turn red, green and blue into hue, saturation "
    "and value", "image.rgb_to_hsv([[[1.0, 1.0, 1.0]]]) -> [[[0.0, 0.0, 1.0]]]")
# fmt: on

if not TYPE_CHECKING:
    export(__name__, offered(__name__))
