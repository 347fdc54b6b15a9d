# SPDX-License-Identifier: MIT
"""Images turned, moved and zoomed: each pixel is taken from a place in the source."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu.tf._ops.clip import clip_by_value
from ipu.tf._tensor.convert import Tensor, apply, cast, sizes_of
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import int32

FILL_MODES = ("constant", "nearest", "reflect", "wrap")
INTERPOLATIONS = ("bilinear", "nearest")


@op
def projective_transform(
    images: Any,
    transforms: Any,
    output_shape: Any = None,
    interpolation: str = "bilinear",
    fill_mode: str = "reflect",
    fill_value: float = 0.0,
) -> Tensor:
    """Return each pixel (x, y) of the result from the place (x', y') of its image.

    With k = c0 x + c1 y + 1 the place is x' = (a0 x + a1 y + a2) / k and
    y' = (b0 x + b1 y + b2) / k; x counts columns, y counts rows.

    Args:
        images: [batch, height, width, channels].
        transforms: [batch, 8] or [1, 8]: a0, a1, a2, b0, b1, b2, c0, c1 of each image.
        output_shape: (height, width) of the result; None: that of the images.
        interpolation: "bilinear", or "nearest", which keeps the values.
        fill_mode: The pixels outside of an image: "reflect" (d c b a | a b c d |
            d c b a), "wrap" (a b c d | a b c d | a b c d), "nearest" (a a a a | a b c d
            | d d d d) or "constant".
        fill_value: The value for "constant".

    Returns:
        [batch, height, width, channels] of the images' dtype.

    Raises:
        ValueError: There is no such interpolation or mode, or a shape does not fit.

    Source: ``ImageProjectiveTransformV3`` of TensorFlow.

    Example:
        >>> image = tf.reshape(tf.range(3.0), (1, 1, 3, 1))
        >>> left = [[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]]
        >>> projective_transform(image, left, fill_mode="nearest").numpy().ravel()
        array([1., 2., 2.], dtype=float32)
    """
    source, rows = Tensor(images), Tensor(transforms, "float32")
    _check(source, rows, interpolation, fill_mode)
    height, width = (
        source.shape[1:3] if output_shape is None else sizes_of(output_shape)
    )
    own_height, own_width = source.shape[1:3]
    y, x = _places(rows, height, width)
    y, x = _inside(y, own_height, fill_mode), _inside(x, own_width, fill_mode)
    if interpolation == "nearest":
        result = _read(source, _nearest(y), _nearest(x), fill_mode, fill_value)
    else:
        result = _between(source, y, x, fill_mode, fill_value)
    return apply(
        "reshape",
        (result,),
        {"shape": [source.shape[0], height, width, source.shape[3]]},
    )


def _check(source: Tensor, rows: Tensor, interpolation: str, fill_mode: str) -> None:
    if source.ndim != 4:
        raise ValueError(
            "'images' must be [batch, height, width, channels]. Received shape "
            f"{source.shape}."
        )
    if (
        rows.ndim != 2
        or rows.shape[0] not in (1, source.shape[0])
        or rows.shape[1] != 8
    ):
        raise ValueError(
            f"'transforms' must have the shape ({source.shape[0]}, 8) or (1, 8). "
            f"Received shape {rows.shape}."
        )
    for name, value, known in (
        ("interpolation", interpolation, INTERPOLATIONS),
        ("fill_mode", fill_mode, FILL_MODES),
    ):
        if value not in known:
            raise ValueError(
                f"`{name}` must be one of {', '.join(map(repr, known))}. "
                f"Received: {name}={value!r}."
            )


def _places(rows: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return where each pixel comes from: y' and x', [batch, height * width]."""
    grid = np.indices((height, width), np.float32).reshape(2, 1, height * width)
    y, x = (Tensor(axis) for axis in grid)
    a0, a1, a2, b0, b1, b2, c0, c1 = (rows[:, k : k + 1] for k in range(8))
    scale = c0 * x + c1 * y + 1.0
    return (b0 * x + b1 * y + b2) / scale, (a0 * x + a1 * y + a2) / scale


def _inside(place: Tensor, size: int, fill_mode: str) -> Tensor:
    """Return places outside of an axis brought to where their value is."""
    if fill_mode == "constant":
        return place
    if fill_mode == "reflect":
        there_and_back = place % (2.0 * size)
        back = 2.0 * size - 1.0 - there_and_back
        place = apply("select", (there_and_back < size, there_and_back, back))
    elif fill_mode == "wrap" and size > 1:
        # how many widths away it is counts, as in TensorFlow, from centre to centre
        under = size * (apply("floor", (place / (1.0 - size),)) + 1.0)
        over = -size * apply("floor", (place / (size - 1.0),))
        over = apply("select", (place > size - 1.0, over, place * 0.0))
        place = place + apply("select", (place < 0.0, under, over))
    return clip_by_value(place, 0.0, size - 1.0)


def _nearest(place: Tensor) -> Tensor:
    """Round to the nearest; halves go away from 0, as C's `round` has them."""
    up, down = (place + 0.5), (0.5 - place)
    floors = apply("floor", (up,)), -apply("floor", (down,))
    return apply("select", (place >= 0.0, *floors))


def _between(
    source: Tensor, y: Tensor, x: Tensor, fill_mode: str, fill_value: float
) -> Tensor:
    """Return the four neighbours, each with its share."""
    top, left = apply("floor", (y,)), apply("floor", (x,))
    down, right = (cast(part, source.dtype)[..., None] for part in (y - top, x - left))

    def row(at: Tensor) -> Tensor:
        first = _read(source, at, left, fill_mode, fill_value)
        second = _read(source, at, left + 1.0, fill_mode, fill_value)
        return (1.0 - right) * first + right * second

    return (1.0 - down) * row(top) + down * row(top + 1.0)


def _read(
    source: Tensor, y: Tensor, x: Tensor, fill_mode: str, fill_value: float
) -> Tensor:
    """Return the pixels at whole places, [batch, places, channels]."""
    batch, height, width, channels = source.shape
    row = clip_by_value(y, 0.0, height - 1.0)
    column = clip_by_value(x, 0.0, width - 1.0)
    at = cast(row, int32) * width + cast(column, int32)
    if at.shape[0] != batch:
        at = at + Tensor(np.zeros((batch, 1), np.int32))
    flat = apply("reshape", (source,), {"shape": [batch, height * width, channels]})
    pixels = apply("gather", (flat, at), {"axis": 1, "batch_dims": 1})
    if fill_mode != "constant":
        return pixels
    is_outside = apply("logical_or", (row != y, column != x))
    fill = Tensor(fill_value, source.dtype_name)
    return apply("select", (is_outside[..., None], fill, pixels))
