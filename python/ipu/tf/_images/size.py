# SPDX-License-Identifier: MIT
"""Images of another size: resized, cropped, padded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ipu.tf._ops.rearrange import pad
from ipu.tf._tensor.convert import Tensor, apply, cast, sizes_of
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import float32

Array = np.ndarray[Any, Any]


def _triangle(x: Array) -> Array:
    return np.maximum(1.0 - x, 0.0)


def _keys(x: Array) -> Array:
    near = (1.5 * x - 2.5) * x * x + 1.0
    far = ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _mitchell(x: Array) -> Array:
    near = (7.0 * x - 12.0) * x * x / 6.0 + 16.0 / 18.0
    far = ((-7.0 / 18.0 * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
    return np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))


def _gaussian(x: Array) -> Array:
    return np.where(x < 1.5, np.exp(-2.0 * x * x), 0.0)


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def kernel(x: Array) -> Array:
        return np.where(x <= radius, np.sinc(x) * np.sinc(x / radius), 0.0)

    return kernel


KERNELS: dict[str, Callable[[Array], Array]] = {
    "bilinear": _triangle,
    "bicubic": _keys,
    "mitchellcubic": _mitchell,
    "gaussian": _gaussian,
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
}
_STEPS = 1024  # of that table, from one pixel to the next


def kernel_weights(method: str, old: int, new: int, antialias: bool) -> Array:
    """Return the matrix [new, old] of a kernel around the centres of the new pixels.

    Args:
        method: A name of ``KERNELS``.
        antialias: Whether the kernel covers a new pixel where that is larger than an
            old one.

    Returns:
        Weights; those of a row sum up to 1: what lies outside has none.
    """
    scale = old / new
    width = max(scale, 1.0) if antialias else 1.0
    centres = (np.arange(new) + 0.5) * scale
    if method == "bicubic" and not antialias:  # TensorFlow looks weights up in a table
        centres = np.rint((centres - 0.5) * _STEPS) / _STEPS + 0.5
    away = np.abs(np.arange(old) + 0.5 - centres[:, None]) / width
    weights = KERNELS[method](away)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def area_weights(old: int, new: int) -> Array:
    """Return the matrix [new, old] of each old pixel's share in a new one."""
    return sampled_area_weights(old, new, old / new)


def sampled_area_weights(old: int, new: int, step: float) -> Array:
    """Return the matrix [new, old] of shares, where a new pixel covers so many old
    ones.

    Args:
        step: Old pixels that a new one covers, the first one from the first on.
    """
    edges = np.arange(new + 1) * step
    low, high = edges[:-1, None], edges[1:, None]
    pixels = np.arange(old)
    shared = np.minimum(high, pixels + 1.0) - np.maximum(low, pixels)
    return np.asarray(np.maximum(shared, 0.0) / step)


def sampled_cubic_weights(old: int, centres: Array, is_soft: bool) -> Array:
    """Return the matrix [new, old] of a cubic kernel whose border repeats.

    Args:
        centres: Where the new pixels are among the old ones.
        is_soft: Whether it is the kernel of TensorFlow 2, of Keys, which leaves out
            what lies outside; else that of TensorFlow 1, which overshoots more.
    """
    low = np.floor(centres)
    away = np.rint((centres - low) * _STEPS) / _STEPS
    a = -0.5 if is_soft else -0.75
    weights = np.zeros((len(centres), old))
    for offset in (-1, 0, 1, 2):
        x = np.abs(offset - away)
        near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
        far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
        share = np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))
        place = low + offset
        inside = (place >= 0) & (place < old)
        share = np.where(inside, share, 0.0) if is_soft else share
        column = np.clip(place, 0, old - 1).astype(int)
        np.add.at(weights, (np.arange(len(centres)), column), share)
    if is_soft:
        weights /= weights.sum(axis=1, keepdims=True)
    return weights


class ResizeMethod:
    """The names of the ways to resize.

    Example:
        >>> tf.image.ResizeMethod.BILINEAR
        'bilinear'
    """

    AREA = "area"
    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    GAUSSIAN = "gaussian"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    MITCHELLCUBIC = "mitchellcubic"
    NEAREST_NEIGHBOR = "nearest"


def height_axis(image: Tensor) -> int:
    """Return the axis of the rows of an image or of a batch of them."""
    if image.ndim not in (3, 4):
        raise ValueError(
            f"'image' must have either 3 or 4 dimensions. Received shape {image.shape}."
        )
    return image.ndim - 3


def as_float(image: Tensor) -> Tensor:
    """Return the image as floats."""
    return image if image.dtype.is_floating else cast(image, float32)


def centres_of(old: int, new: int) -> Any:
    """Return where the centres of new pixels are among those of the old ones."""
    return (np.arange(new) + 0.5) * (old / new) - 0.5


def lerp(image: Tensor, axis: int, centres: Any) -> Tensor:
    """Return one axis by linear interpolation between the two nearest pixel centres."""
    old, size = image.shape[axis], len(centres)
    low = np.floor(centres)
    places = [np.clip(low + k, 0, old - 1).astype(np.int32) for k in (0, 1)]
    share = (centres - low).reshape([size] + [1] * (image.ndim - axis - 1))
    first, second = (
        apply("gather", (image, Tensor(p)), {"axis": axis}) for p in places
    )
    return first + (second - first) * Tensor(share, image.dtype_name)


def weigh(image: Tensor, axis: int, weights: Any) -> Tensor:
    """Return one axis by a matrix of what its new pixels are made of."""
    shape = list(image.shape)
    outer, inner = (
        int(np.prod(part, dtype=np.int64)) for part in (shape[:axis], shape[axis + 1 :])
    )
    flat = apply("reshape", (image,), {"shape": [outer, shape[axis], inner]})
    rows = np.broadcast_to(weights, (outer, *weights.shape)).copy()
    result = apply("matmul", (Tensor(rows, image.dtype_name), flat))
    shape[axis] = weights.shape[0]
    return apply("reshape", (result,), {"shape": shape})


def resized(image: Tensor, size: Any, keeps_ratio: bool) -> tuple[Any, tuple[int, int]]:
    """Return the height and width of an image, and those that it is to have."""
    axis = height_axis(image)
    old = image.shape[axis : axis + 2]
    if 0 in old:
        raise ValueError(f"An image needs pixels. Received shape {image.shape}.")
    sizes = sizes_of(size)
    if len(sizes) != 2:
        raise ValueError(f"`size` is [height, width]. Received: size={size}.")
    height, width = sizes
    if keeps_ratio:
        scale = min(height / old[0], width / old[1])
        height, width = (max(round(n * scale), 1) for n in old)
    if height < 1 or width < 1:
        raise ValueError(f"`size` must be positive. Received: size={size}.")
    return old, (height, width)


@op
def resize(
    images: Any,
    size: Any,
    method: str = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Tensor:
    """Return images of another size.

    Args:
        images: [height, width, channels], or a batch of them.
        size: ``(height, width)``.
        method: "bilinear", "bicubic", "area", "gaussian", "lanczos3", "lanczos5" or
            "mitchellcubic", which give floats; or "nearest", which keeps the dtype.
        preserve_aspect_ratio: Take the largest size within ``size`` that keeps the
            proportions.
        antialias: Whether what is made smaller is smoothed: each new pixel is made of
            all that it covers. "nearest" and "area" take no notice.

    Raises:
        ValueError: There is no such method, or a size is not positive.

    Example:
        >>> image = tf.reshape(tf.range(4.0), (2, 2, 1))
        >>> tf.image.resize(image, (2, 4), "nearest")[..., 0].numpy().tolist()
        [[0.0, 0.0, 1.0, 1.0], [2.0, 2.0, 3.0, 3.0]]
    """
    image = Tensor(images)
    axis = height_axis(image)
    old, (height, width) = resized(image, size, preserve_aspect_ratio)
    kind = getattr(method, "value", method)
    if kind == "nearest":
        for k, new in enumerate((height, width)):
            places = np.floor((np.arange(new) + 0.5) * (old[k] / new)).astype(np.int32)
            image = apply("gather", (image, Tensor(places)), {"axis": axis + k})
        return image
    if kind != "area" and kind not in KERNELS:
        raise ValueError(
            "tf.image.resize knows 'nearest', 'area' and "
            f"{', '.join(map(repr, KERNELS))}. Received: method={method!r}."
        )
    image = as_float(image)
    for k, new in enumerate((height, width)):
        if new == old[k]:
            continue
        if kind == "bilinear" and not antialias:
            image = lerp(image, axis + k, centres_of(old[k], new))
        elif kind == "area":
            image = weigh(image, axis + k, area_weights(old[k], new))
        else:
            weights = kernel_weights(kind, old[k], new, antialias)
            image = weigh(image, axis + k, weights)
    return image


@op
def crop_to_bounding_box(
    image: Any,
    offset_height: int,
    offset_width: int,
    target_height: int,
    target_width: int,
) -> Tensor:
    """Return a part of each image.

    Example:
        >>> tf.image.crop_to_bounding_box(tf.ones((4, 4, 3)), 1, 1, 2, 3).shape
        (2, 3, 3)
    """
    value = Tensor(image)
    axis = height_axis(value)
    height, width = value.shape[axis : axis + 2]
    top, left = int(offset_height), int(offset_width)
    bottom, right = top + int(target_height), left + int(target_width)
    if min(top, left) < 0 or bottom > height or right > width:
        raise ValueError(
            f"height and width must be >= target + offset: {height}, {width} for "
            f"rows {top} to {bottom} and columns {left} to {right}."
        )
    part: Tensor = value[(..., slice(top, bottom), slice(left, right), slice(None))]
    return part


@op
def pad_to_bounding_box(
    image: Any,
    offset_height: int,
    offset_width: int,
    target_height: int,
    target_width: int,
) -> Tensor:
    """Return each image within a larger one of zeros.

    Example:
        >>> tf.image.pad_to_bounding_box(tf.ones((2, 2, 3)), 1, 1, 4, 5).shape
        (4, 5, 3)
    """
    value = Tensor(image)
    axis = height_axis(value)
    height, width = value.shape[axis : axis + 2]
    below = target_height - offset_height - height
    right = target_width - offset_width - width
    if min(offset_height, offset_width, below, right) < 0:
        raise ValueError("The target must hold the image at its offset.")
    ends = [(offset_height, below), (offset_width, right), (0, 0)]
    return pad(value, [*[(0, 0)] * axis, *ends])


@op
def resize_with_crop_or_pad(
    image: Any, target_height: int, target_width: int
) -> Tensor:
    """Cut or padded evenly to a size.

    Example:
        >>> tf.image.resize_with_crop_or_pad(tf.ones((5, 2, 3)), 3, 4).shape
        (3, 4, 3)
    """
    value = Tensor(image)
    axis = height_axis(value)
    height, width = value.shape[axis : axis + 2]
    down = max(height - target_height, 0) // 2, max(width - target_width, 0) // 2
    kept = min(height, target_height), min(width, target_width)
    value = crop_to_bounding_box(value, *down, *kept)
    up = max(target_height - height, 0) // 2, max(target_width - width, 0) // 2
    return pad_to_bounding_box(value, *up, target_height, target_width)


@op
def resize_with_pad(
    image: Any,
    target_height: int,
    target_width: int,
    method: str = "bilinear",
    antialias: bool = False,
) -> Tensor:
    """Resize within a size, with the same proportions, and zeros around.

    Args:
        image: [height, width, channels], or a batch of them.
        target_height, target_width: Of the result.
        method: As in :func:`resize`.
        antialias: As there.

    Raises:
        ValueError: A size is not positive.

    Example:
        >>> tf.image.resize_with_pad(tf.ones((2, 4, 3)), 4, 4)[:, 0, 0].numpy().tolist()
        [0.0, 1.0, 1.0, 0.0]
    """
    value = Tensor(image)
    axis = height_axis(value)
    height, width = value.shape[axis : axis + 2]
    wanted = int(target_height), int(target_width)
    if min(wanted) < 1:
        raise ValueError(
            f"target_height and target_width must be > 0. Received: {wanted}."
        )
    ratio = max(height / wanted[0], width / wanted[1])
    exact = height / ratio, width / ratio
    small = resize(value, [int(n) for n in exact], method, antialias=antialias)
    top, left = (int((w - n) / 2) for w, n in zip(wanted, exact, strict=True))
    return pad_to_bounding_box(small, top, left, *wanted)


@op
def central_crop(image: Any, central_fraction: float) -> Tensor:
    """Return the middle of each image, by the share of its sides.

    Example:
        >>> tf.image.central_crop(tf.ones((4, 4, 3)), 0.5).shape
        (2, 2, 3)
    """
    share = float(central_fraction)
    if not 0.0 < share <= 1.0:
        raise ValueError("central_fraction must be within (0, 1]")
    value = Tensor(image)
    axis = height_axis(value)
    height, width = value.shape[axis : axis + 2]
    top = int((height - height * share) / 2)
    left = int((width - width * share) / 2)
    return crop_to_bounding_box(value, top, left, height - 2 * top, width - 2 * left)
