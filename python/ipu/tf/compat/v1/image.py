# SPDX-License-Identifier: MIT
"""``tf.compat.v1.image``: that of TensorFlow 2, but that images are resized otherwise.

TensorFlow 2 lays the areas of two images over each other. In TensorFlow 1 the first
pixels coincide, and with ``align_corners`` the last ones as well.

Example:
    >>> from ipu import tf
    >>> from ipu.tf.compat import v1
    >>> row = tf.reshape([0.0, 2.0], (1, 2, 1))
    >>> v1.image.resize(row, (1, 4)).numpy().ravel().tolist()
    [0.0, 1.0, 2.0, 2.0]
    >>> tf.image.resize(row, (1, 4)).numpy().ravel().tolist()
    [0.0, 0.5, 1.5, 2.0]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu._text.exports import export
from ipu.tf import image as _image
from ipu.tf._images.size import (
    as_float,
    centres_of,
    height_axis,
    lerp,
    resized,
    sampled_area_weights,
    sampled_cubic_weights,
    weigh,
)
from ipu.tf._tensor.convert import Tensor, apply
from ipu.tf._tensor.dispatch import op
from ipu.tf.compat.v1._old_arguments import renamed

crop_and_resize = renamed(_image.crop_and_resize, box_ind="box_indices")
extract_image_patches = renamed(
    _image.extract_patches,
    "images ksizes strides rates padding name sizes",
    ksizes="sizes",
)

__all__ = [
    "ResizeMethod",
    "crop_and_resize",
    "extract_image_patches",
    "resize",
    "resize_area",
    "resize_bicubic",
    "resize_bilinear",
    "resize_images",
    "resize_nearest_neighbor",
]


class ResizeMethod:
    """The numbers of the ways to resize.

    Example:
        >>> ResizeMethod.NEAREST_NEIGHBOR
        1
    """

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def _centres(old: int, new: int, align_corners: bool, half_pixel_centers: bool) -> Any:
    if align_corners and half_pixel_centers:
        raise ValueError("If half_pixel_centers is True, align_corners must be False.")
    if half_pixel_centers:
        return centres_of(old, new)
    is_aligned = align_corners and new > 1
    return np.arange(new) * ((old - 1) / (new - 1) if is_aligned else old / new)


def _sampled(
    images: Any, size: Any, kind: int, align_corners: bool, half_pixel_centers: bool
) -> Tensor:
    image = Tensor(images)
    axis = height_axis(image)
    old, wanted = resized(image, size, False)
    if kind != ResizeMethod.NEAREST_NEIGHBOR:
        image = as_float(image)
    for at, before, new in zip((axis, axis + 1), old, wanted, strict=True):
        centres = _centres(before, new, align_corners, half_pixel_centers)
        if kind == ResizeMethod.BILINEAR:
            image = lerp(image, at, centres)
        elif kind == ResizeMethod.NEAREST_NEIGHBOR:
            if half_pixel_centers:
                centres = centres + 0.5
            near = np.floor(centres + 0.5) if align_corners else np.floor(centres)
            places = np.clip(near, 0, before - 1).astype(np.int32)
            image = apply("gather", (image, Tensor(places)), {"axis": at})
        elif kind == ResizeMethod.BICUBIC:
            is_soft = half_pixel_centers
            image = weigh(image, at, sampled_cubic_weights(before, centres, is_soft))
        else:
            is_aligned = align_corners and new > 1
            step = (before - 1) / (new - 1) if is_aligned else before / new
            image = weigh(image, at, sampled_area_weights(before, new, step))
    return image


@op
def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Any:
    """Return images of another size.

    Args:
        images: [height, width, channels], or a batch of them.
        size: ``(height, width)``.
        method: One of :class:`ResizeMethod`, or its name in lower case. All but
            ``NEAREST_NEIGHBOR`` give floats, unless the size stays.
        align_corners: Whether the last pixels coincide as well.
        preserve_aspect_ratio: Take the largest size within ``size`` that keeps the
            proportions.

    Raises:
        ValueError: There is no such method, or a size is not positive.

    Example:
        >>> resize_images([[[0.0], [2.0]]], (1, 3), align_corners=True)[0].numpy().T
        array([[0., 1., 2.]], dtype=float32)
    """
    image = Tensor(images)
    old, wanted = resized(image, size, preserve_aspect_ratio)
    kind = getattr(method, "value", method)
    if isinstance(kind, str):
        known = {"nearest": ResizeMethod.NEAREST_NEIGHBOR}
        kind = known.get(kind, getattr(ResizeMethod, kind.upper(), kind))
    if kind not in range(4):
        raise ValueError(f"Resize method is not implemented: {method}.")
    if tuple(old) == wanted:
        return image
    return _sampled(image, wanted, kind, align_corners, False)


resize = resize_images


def _resizing(kind: int, name: str, how: str, example: str) -> Callable[..., Any]:
    def function(
        images: Any,
        size: Any,
        align_corners: bool = False,
        name: str | None = None,
        half_pixel_centers: bool = False,
    ) -> Any:
        return _sampled(images, size, kind, align_corners, half_pixel_centers)

    row, result = example.split(" -> ")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Return images of another size, {how}.

    Args:
        images: A batch of images [batch, height, width, channels].
        size: ``(height, width)``.
        align_corners: Whether the last pixels coincide as well.
        half_pixel_centers: Whether areas are laid over each other, as in TensorFlow 2.

    Raises:
        ValueError: Both are asked for, or a size is not positive.

    Example:
        >>> {name}([[{row}]], (1, 4)).numpy().ravel().tolist()
        {result}
    """
    return op(function)


resize_bilinear = _resizing(
    ResizeMethod.BILINEAR,
    "resize_bilinear",
    "by linear interpolation",
    "[[0.0], [2.0]] -> [0.0, 1.0, 2.0, 2.0]",
)
resize_nearest_neighbor = _resizing(
    ResizeMethod.NEAREST_NEIGHBOR,
    "resize_nearest_neighbor",
    "of pixels that there are",
    "[[5], [6]] -> [5, 5, 6, 6]",
)
resize_bicubic = _resizing(
    ResizeMethod.BICUBIC,
    "resize_bicubic",
    "by cubic interpolation",
    "[[1.0], [1.0]] -> [1.0, 1.0, 1.0, 1.0]",
)


@op
def resize_area(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None
) -> Any:
    """Return images of another size, whose pixels are the mean of what they cover.

    Example:
        >>> resize_area([[[[0.0], [2.0]]]], (1, 1)).numpy().ravel().tolist()
        [1.0]
    """
    return _sampled(images, size, ResizeMethod.AREA, align_corners, False)


if TYPE_CHECKING:
    from ipu.tf.image import *  # type: ignore[assignment]  # noqa: F403
else:
    _LAZY = {n: f"ipu.tf.image:{n}" for n in dir(_image) if n not in __all__}
    _LAZY = {n: place for n, place in _LAZY.items() if not n.startswith("_")}
    export(__name__, [*__all__, *_LAZY], _LAZY)
