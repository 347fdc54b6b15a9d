# SPDX-License-Identifier: MIT
"""Boxes in images: cut out and drawn.

A box is [y1, x1, y2, x2]: two corners that lie opposite to each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu.tf._ops.clip import clip_by_value
from ipu.tf._ops.shapes import reshape
from ipu.tf._tensor.convert import Tensor, apply, cast, like, sizes_of
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import float32, int32

# --- cut out --------------------------------------------------------------------------


def _centres(low: Tensor, high: Tensor, pixels: int, size: int) -> Tensor:
    """Return where the pixels of an axis come from, [boxes, pixels]."""
    last = float(size - 1)
    if pixels == 1:
        return ((low + high) * (0.5 * last))[:, None]
    steps = Tensor(np.arange(pixels, dtype=np.float32))
    step = (high - low) * (last / (pixels - 1))
    return (low * last)[:, None] + step[:, None] * steps


@op
def crop_and_resize(
    image: Any,
    boxes: Any,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Boxes cut out of images, all of them brought to one size.

    Args:
        image: [batch, height, width, channels], of any dtype of numbers.
        boxes: [boxes, 4] of float32, in shares of the image: [0, 0, 1, 1] is all of it.
            A box with y1 > y2 is turned over.
        box_indices: Integers [boxes]: the image of each box.
        crop_size: (height, width) of the results.
        method: "bilinear" or "nearest".
        extrapolation_value: What lies outside of an image.

    Returns:
        [boxes, height, width, channels] of float32.

    Raises:
        ValueError: A shape, a size or the method is not as said.
        InvalidArgumentError: There is no such image.

    Example:
        >>> image = tf.reshape(tf.range(9.0), (1, 3, 3, 1))
        >>> part = tf.image.crop_and_resize(image, [[0.0, 0.0, 1.0, 0.5]], [0], (3, 2))
        >>> part[0, ..., 0].numpy().tolist()
        [[0.0, 1.0], [3.0, 4.0], [6.0, 7.0]]
    """
    source = cast(Tensor(image), float32)
    places, own = Tensor(boxes, "float32"), Tensor(box_indices)
    rows, columns = sizes_of(crop_size)
    if source.ndim != 4 or places.ndim != 2 or places.shape[1:] != (4,):
        raise ValueError(
            "crop_and_resize takes images [batch, height, width, channels] and boxes "
            f"[boxes, 4]. Received shapes {source.shape} and {places.shape}."
        )
    if own.shape != places.shape[:1]:
        raise ValueError(
            f"box_indices must have the shape {places.shape[:1]}. Received shape "
            f"{own.shape}."
        )
    if method not in ("bilinear", "nearest"):
        raise ValueError(
            f"`method` must be 'bilinear' or 'nearest'. Received: method={method!r}."
        )
    if min(rows, columns) < 1:
        raise ValueError(f"crop dimensions must be positive. Received: {crop_size}.")
    height, width = source.shape[1:3]
    y1, x1, y2, x2 = (places[:, k] for k in range(4))
    y, x = _centres(y1, y2, rows, height), _centres(x1, x2, columns, width)
    pixels = _Pixels(source, own)
    if method == "nearest":
        result = pixels.at(_away(y), _away(x))
    else:
        top, left = apply("floor", (y,)), apply("floor", (x,))
        down = (y - top)[:, :, None, None]
        right = (x - left)[:, None, :, None]
        above, below = (
            pixels.at(r, left) * (1.0 - right) + pixels.at(r, left + 1.0) * right
            for r in (top, top + 1.0)
        )
        result = above * (1.0 - down) + below * down
    inside_y = _within(y, height)[:, :, None, None]
    inside_x = _within(x, width)[:, None, :, None]
    inside = apply("logical_and", (inside_y, inside_x))
    return apply("select", (inside, result, like(extrapolation_value, result)))


def _within(place: Tensor, size: int) -> Tensor:
    return apply("logical_and", (place >= 0.0, place <= float(size - 1)))


def _away(place: Tensor) -> Tensor:
    """The nearest whole number; halves go away from 0, as C's `round` has them."""
    size = apply("floor", (abs(place) + 0.5,))
    return size * apply("sign", (place,))


class _Pixels:
    """Reads rows and columns of the image of each box."""

    def __init__(self, source: Tensor, own: Tensor) -> None:
        batch, self._height, self._width, channels = source.shape
        rows = reshape(source, [batch, self._height * self._width, channels])
        self._rows = apply("gather", (rows, own), {"axis": 0})

    def at(self, y: Tensor, x: Tensor) -> Tensor:
        """[boxes, rows, columns, channels]; the nearest pixel where there is none."""
        row = cast(clip_by_value(y, 0.0, self._height - 1.0), int32)
        column = cast(clip_by_value(x, 0.0, self._width - 1.0), int32)
        flat = row[:, :, None] * self._width + column[:, None, :]
        return apply("gather", (self._rows, flat), {"axis": 1, "batch_dims": 1})


# --- drawn ----------------------------------------------------------------------------

# the colours of TensorFlow, one after the other
_COLORS = [
    [1, 1, 0, 1],
    [0, 0, 1, 1],
    [1, 0, 0, 1],
    [0, 1, 0, 1],
    [0.5, 0, 0.5, 1],
    [0.5, 0.5, 0, 1],
    [0.5, 0, 0, 1],
    [0, 0, 0.5, 1],
    [0, 1, 1, 1],
    [1, 0, 1, 1],
]


@op
def draw_bounding_boxes(
    images: Any, boxes: Any, colors: Any, name: str | None = None
) -> Tensor:
    """Return images with the edges of boxes, one pixel wide.

    Args:
        images: [batch, height, width, channels] of floats, of 1, 3 or 4 channels.
        boxes: [batch, boxes, 4], in shares of the image.
        colors: [colours, channels], of which boxes take one after the other; None: ten
            of them.

    Raises:
        ValueError: A shape is not as said.

    Example:
        >>> image = tf.zeros((1, 3, 3, 1))
        >>> box = [[[0.0, 0.0, 1.0, 1.0]]]
        >>> made = tf.image.draw_bounding_boxes(image, box, [[1.0]])
        >>> made[0, ..., 0].numpy().tolist()
        [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    picture = Tensor(images)
    places = Tensor(boxes, "float32")
    if picture.ndim != 4 or places.ndim != 3 or places.shape[2] != 4:
        raise ValueError(
            "draw_bounding_boxes takes images [batch, height, width, channels] and "
            f"boxes [batch, boxes, 4]. Received shapes {picture.shape} and "
            f"{places.shape}."
        )
    _, height, width, channels = picture.shape
    if colors is None:
        table = np.array(_COLORS)[:, :channels]
        colors = np.ones_like(table) if channels == 1 else table
    palette = like(colors, picture)
    scale = Tensor(np.array([height - 1, width - 1] * 2, np.float32))
    edges = cast(places * scale, int32)
    row = Tensor(np.arange(height, dtype=np.int32)[None, :, None])
    column = Tensor(np.arange(width, dtype=np.int32)[None, None, :])
    for k in range(places.shape[1]):
        y1, x1, y2, x2 = (edges[:, k, i][:, None, None] for i in range(4))
        rows = apply("logical_and", (row >= y1, row <= y2))
        columns = apply("logical_and", (column >= x1, column <= x2))
        level = apply("logical_or", (row == y1, row == y2))
        upright = apply("logical_or", (column == x1, column == x2))
        border = apply(
            "logical_or",
            (
                apply("logical_and", (level, columns)),
                apply("logical_and", (upright, rows)),
            ),
        )
        border = apply("logical_and", (border, y1 <= y2))
        border = apply("logical_and", (border, x1 <= x2))
        color = palette[k % palette.shape[0]]
        picture = apply("select", (border[..., None], color, picture))
    return picture
