# SPDX-License-Identifier: MIT
"""Images as the hardware's convolutions like them: ``ipu.image_ops``."""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu._core import Tensor
from ipu._text.exports import export
from ipu.tf._tensor.dispatch import op

__all__ = ["normalise_image"]


@op
def normalise_image(
    image: Any,
    channel_offsets: Any,
    channel_scales: Any,
    scale: float = 1,
    name: str | None = None,
) -> Tensor:
    """Scale and shift the three channels of images, and add a fourth one of zeros.

    Args:
        image: ``[..., 3]`` of uint8, float16 or float32.
        channel_offsets: Three numbers.
        channel_scales: Three numbers.
        scale: A factor that the image is multiplied by first.

    Returns:
        ``[..., 4]``: ``(image * scale - channel_offsets) * channel_scales``, and 0.
        float16 for uint8, else the image's dtype.

    Raises:
        TypeError: Another dtype.
        ValueError: Not three channels, offsets or scales.

    Example:
        >>> normalise_image([[1.0, 2.0, 3.0]], [1.0] * 3, [2.0] * 3).numpy().tolist()
        [[0.0, 2.0, 4.0, 0.0]]
    """
    pixels = tf.convert_to_tensor(image)
    if pixels.dtype not in (tf.uint8, tf.float16, tf.float32):
        raise TypeError(
            "normalise_image takes images of uint8, float16 or float32. Received: "
            f"{pixels.dtype.name}."
        )
    result = tf.float16 if pixels.dtype == tf.uint8 else pixels.dtype
    offsets, scales = (
        tf.cast(tf.convert_to_tensor(value, tf.float32), result)
        for value in (channel_offsets, channel_scales)
    )
    shapes = {
        "image": pixels.shape[-1:],
        "channel_offsets": offsets.shape,
        "channel_scales": scales.shape,
    }
    for what, shape in shapes.items():
        if tuple(shape) != (3,):
            raise ValueError(
                f"normalise_image needs three channels. Received: {what} with "
                f"{tuple(shape)}."
            )
    scaled = (tf.cast(pixels, result) * tf.cast(scale, result) - offsets) * scales
    return tf.concat([scaled, tf.zeros_like(scaled[..., :1])], -1)


export(__name__)
