# SPDX-License-Identifier: MIT
"""Single pictures turned, moved, sheared, zoomed and lit, as arrays on the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu._device.generators import numpy_stream
from ipu.keras._pictures import array_to_img, img_to_array
from ipu.tf.io._images import pillow

_Array = np.ndarray[Any, Any]
_FILL_MODES = ("constant", "nearest", "reflect", "wrap")


def check_fill(fill_mode: str, order: int) -> None:
    """Raise ValueError for a mode or an order of interpolation that is not there."""
    if fill_mode not in _FILL_MODES:
        raise ValueError(
            f"`fill_mode` must be one of {', '.join(map(repr, _FILL_MODES))}. "
            f"Received: fill_mode={fill_mode!r}."
        )
    if order not in (0, 1):
        raise ValueError(
            "The order of interpolation must be 0, the nearest pixel, or 1, between "
            f"pixels. Received: {order!r}."
        )


def pair_of(name: str, value: Any) -> tuple[float, float]:
    """Return two numbers, or ValueError with the argument's name."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(
            f"`{name}` should be a tuple or list of two floats. Received: {value!r}."
        )
    return value[0], value[1]


def apply_affine_transform(
    x: Any,
    theta: float = 0,
    tx: float = 0,
    ty: float = 0,
    shear: float = 0,
    zx: float = 1,
    zy: float = 1,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    order: int = 1,
) -> _Array:
    """Return a picture turned, moved, sheared and zoomed, in this order, about its
    middle.

    Args:
        x: An array of three axes.
        theta: The angle in degrees; clockwise is positive.
        tx: By how many columns to the right the places are that pixels come from.
        ty: The same by rows, downwards.
        shear: The angle of the shear in degrees.
        zx: The part of the columns that is shown; above 1, the picture shrinks.
        zy: The same of the rows.
        row_axis: Which axis has the rows.
        col_axis: Which axis has the columns.
        channel_axis: Which axis has the channels, the first or the last one.
        fill_mode: The pixels outside: "nearest" (a a a a | a b c d | d d d d),
            "reflect" (d c b a | a b c d | d c b a), "wrap" (b c d | a b c d | b c d,
            where the ends are one) or "constant".
        cval: The value for "constant".
        order: 0 for the nearest pixel, 1 for linear interpolation.

    Returns:
        An array of the same shape and dtype.

    Raises:
        ValueError: The axes are not 0, 1 and 2; the mode or the order is unknown.

    Source: ``tf.keras.preprocessing.image.apply_affine_transform`` of Keras 2.9.

    Example:
        >>> row = np.arange(4.0).reshape(1, 1, 4)
        >>> apply_affine_transform(row, tx=1).ravel().tolist()
        [1.0, 2.0, 3.0, 3.0]
    """
    x, axes = np.asarray(x), (row_axis, col_axis, channel_axis)
    if x.ndim != 3 or sorted(axes) != [0, 1, 2] or channel_axis == 1:
        raise ValueError(
            "A picture has three axes: rows, columns, and channels before or after "
            f"them. Received: an array of shape {x.shape}, row_axis={row_axis}, "
            f"col_axis={col_axis}, channel_axis={channel_axis}."
        )
    check_fill(fill_mode, order)
    matrix = _matrix(theta, tx, ty, shear, zx, zy)
    if (matrix == np.eye(3)).all():
        return np.asarray(x)
    pixels: _Array = x.transpose(axes)
    height, width = pixels.shape[:2]
    middle = np.array([width - 1, height - 1]) / 2
    columns, rows = np.indices((width, height))
    flat = np.stack([columns.T.ravel(), rows.T.ravel()]) - middle[:, None]
    at = matrix[:2, :2] @ flat + matrix[:2, 2:] + middle[:, None]
    made = _sampled(pixels, at[1], at[0], fill_mode, cval, order)
    placed: _Array = made.reshape(pixels.shape).transpose(np.argsort(axes))
    return placed


def _matrix(
    theta: float, tx: float, ty: float, shear: float, zx: float, zy: float
) -> _Array:
    """Return the matrix from places (x, y, 1) of the result to those of the source."""
    turn, slant = math.radians(theta), math.radians(shear)
    cos, sin = math.cos(turn), math.sin(turn)
    turned = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    moved = np.array([[1, 0, tx], [0, 1, ty], [0, 0, 1]])
    sheared = np.array([[1, -math.sin(slant), 0], [0, math.cos(slant), 0], [0, 0, 1]])
    product: _Array = turned @ moved @ sheared @ np.diag([zx, zy, 1])
    return product


def _sampled(
    pixels: _Array, y: _Array, x: _Array, mode: str, cval: float, order: int
) -> _Array:
    """Return the values at places, [places, channels], of the pixels' dtype."""
    height, width = pixels.shape[:2]
    is_outside = (y < 0) | (y > height - 1) | (x < 0) | (x > width - 1)
    y, x = _extended(y, height, mode), _extended(x, width, mode)
    if order == 0:
        made = pixels[np.floor(y + 0.5).astype(int), np.floor(x + 0.5).astype(int)]
    else:
        top, left = np.floor(y).astype(int), np.floor(x).astype(int)
        bottom, right = np.minimum(top + 1, height - 1), np.minimum(left + 1, width - 1)
        down, over = (y - top)[:, None], (x - left)[:, None]
        above = pixels[top, left] * (1 - over) + pixels[top, right] * over
        below = pixels[bottom, left] * (1 - over) + pixels[bottom, right] * over
        made = above * (1 - down) + below * down
    if mode == "constant":
        made = np.where(is_outside[:, None], cval, made)
    return np.asarray(made, pixels.dtype)


def _extended(at: _Array, size: int, mode: str) -> _Array:
    """Return places outside of an axis brought to where their value is."""
    if mode == "reflect":
        at = np.mod(at, 2 * size)
        at = np.where(at < size, at, 2 * size - 1 - at)
    elif mode == "wrap" and size > 1:
        at = np.where((at < 0) | (at > size - 1), np.mod(at, size - 1), at)
    return np.clip(at, 0, size - 1)


def apply_channel_shift(x: Any, intensity: float, channel_axis: int = 0) -> _Array:
    """Return ``intensity`` added to all channels, within the picture's range of values.

    Args:
        x: An array of three axes.
        intensity: The number that is added.
        channel_axis: Not used: all channels are shifted alike.

    Example:
        >>> apply_channel_shift(np.array([[[0.0, 4.0, 9.0]]]), 2.0).ravel().tolist()
        [2.0, 6.0, 9.0]
    """
    del channel_axis
    shifted: _Array = np.clip(x + intensity, np.min(x), np.max(x))
    return shifted


def apply_brightness_shift(x: Any, brightness: float, scale: bool = True) -> _Array:
    """Return a picture made lighter or darker by Pillow.

    Args:
        x: An array of three axes.
        brightness: 0 for black, 1 for the same picture, more for a lighter one.
        scale: Whether the numbers are brought to the range from 0 to 255 first. What
            is not in that range is, and is brought back.

    Returns:
        float32 pixels.

    Raises:
        ImportError: The extra ``images`` is not installed.

    Example:
        >>> apply_brightness_shift(np.full((1, 1, 3), 100.0), 0.5, False).tolist()
        [[[50.0, 50.0, 50.0]]]
    """
    pillow("apply_brightness_shift")
    from PIL import ImageEnhance

    low, high = float(np.min(x)), float(np.max(x))
    is_beyond = low < 0 or high > 255
    picture = array_to_img(x, scale=is_beyond or scale)
    made = img_to_array(ImageEnhance.Brightness(picture).enhance(brightness))
    return made / 255 * (high - low) + low if is_beyond and not scale else made


# --- drawn from NumPy's global generator ----------------------------------------------


def random_rotation(
    x: Any,
    rg: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> _Array:
    """Return a picture turned by an angle from [-rg, rg) degrees.

    Args:
        rg: The largest angle.

    The other arguments are those of :func:`apply_affine_transform`.

    Example:
        >>> random_rotation(np.ones((3, 4, 4)), 20).shape
        (3, 4, 4)
    """
    theta = numpy_stream().uniform(-rg, rg)
    axes = (row_axis, col_axis, channel_axis)
    fill = (fill_mode, cval, interpolation_order)
    return apply_affine_transform(x, theta, 0, 0, 0, 1, 1, *axes, *fill)


def random_shift(
    x: Any,
    wrg: float,
    hrg: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> _Array:
    """Return a picture moved by random shares of its width and height.

    Args:
        wrg: The largest share of the width.
        hrg: The largest share of the height.

    The other arguments are those of :func:`apply_affine_transform`.

    Example:
        >>> random_shift(np.ones((3, 4, 4)), 0.2, 0.2).shape
        (3, 4, 4)
    """
    ty = numpy_stream().uniform(-hrg, hrg) * x.shape[row_axis]
    tx = numpy_stream().uniform(-wrg, wrg) * x.shape[col_axis]
    axes = (row_axis, col_axis, channel_axis)
    fill = (fill_mode, cval, interpolation_order)
    return apply_affine_transform(x, 0, tx, ty, 0, 1, 1, *axes, *fill)


def random_shear(
    x: Any,
    intensity: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> _Array:
    """Return a picture sheared by an angle from [-intensity, intensity) degrees.

    Args:
        intensity: The largest angle.

    The other arguments are those of :func:`apply_affine_transform`.

    Example:
        >>> random_shear(np.ones((3, 4, 4)), 20).shape
        (3, 4, 4)
    """
    shear = numpy_stream().uniform(-intensity, intensity)
    axes = (row_axis, col_axis, channel_axis)
    fill = (fill_mode, cval, interpolation_order)
    return apply_affine_transform(x, 0, 0, 0, shear, 1, 1, *axes, *fill)


def random_zoom(
    x: Any,
    zoom_range: Any,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> _Array:
    """Return a picture of which random parts of columns and rows are shown.

    Args:
        zoom_range: The least and the largest part.

    The other arguments are those of :func:`apply_affine_transform`.

    Raises:
        ValueError: ``zoom_range`` is not a pair.

    Example:
        >>> random_zoom(np.ones((3, 4, 4)), (0.5, 1.5)).shape
        (3, 4, 4)
    """
    low, high = pair_of("zoom_range", zoom_range)
    zx, zy = (1, 1) if low == high == 1 else numpy_stream().uniform(low, high, 2)
    axes = (row_axis, col_axis, channel_axis)
    fill = (fill_mode, cval, interpolation_order)
    return apply_affine_transform(x, 0, 0, 0, 0, zx, zy, *axes, *fill)


def random_channel_shift(
    x: Any, intensity_range: float, channel_axis: int = 0
) -> _Array:
    """Return a number from [-intensity_range, intensity_range) added to all channels.

    Args:
        x: An array of three axes.
        intensity_range: The largest number.
        channel_axis: Not used.

    Example:
        >>> random_channel_shift(np.ones((3, 4, 4)), 5.0).shape
        (3, 4, 4)
    """
    intensity = numpy_stream().uniform(-intensity_range, intensity_range)
    return apply_channel_shift(x, intensity, channel_axis)


def random_brightness(x: Any, brightness_range: Any, scale: bool = True) -> _Array:
    """Return a picture made lighter or darker by a random number of a range.

    Args:
        x: An array of three axes.
        brightness_range: The least and the largest number for
            :func:`apply_brightness_shift`.
        scale: As there.

    Raises:
        ValueError: ``brightness_range`` is not a pair.
        ImportError: The extra ``images`` is not installed.

    Example:
        >>> random_brightness(np.ones((4, 4, 3)), (0.5, 1.5)).shape
        (4, 4, 3)
    """
    low, high = pair_of("brightness_range", brightness_range)
    return apply_brightness_shift(x, numpy_stream().uniform(low, high), scale)
