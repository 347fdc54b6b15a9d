# SPDX-License-Identifier: MIT
"""``tf.raw_ops``: the few that programs call by these names. Keyword arguments only."""

from __future__ import annotations

from typing import Any

from ipu._text.exports import export
from ipu.tf._images.transforms import projective_transform
from ipu.tf._tensor.convert import Tensor, apply, pair
from ipu.tf._tensor.dispatch import op

__all__ = ["ImageProjectiveTransformV3", "ReluGrad", "SigmoidGrad", "TanhGrad"]


@op
def ReluGrad(*, gradients: Any, features: Any, name: str | None = None) -> Tensor:
    """Return the gradient of relu: ``gradients`` where ``features`` is above 0, else 0.

    Args:
        gradients: With respect to relu's result.
        features: Its input or its result.

    Example:
        >>> tf.raw_ops.ReluGrad(gradients=[1.0, 1.0], features=[-1.0, 2.0]).numpy()
        array([0., 1.], dtype=float32)
    """
    return apply("relu_grad", pair(features, gradients))


@op
def TanhGrad(*, y: Any, dy: Any, name: str | None = None) -> Tensor:
    """Return the gradient of tanh in terms of its result ``y``: ``dy * (1 - y * y)``.

    Example:
        >>> tf.raw_ops.TanhGrad(y=[0.5], dy=[2.0]).numpy().tolist()
        [1.5]
    """
    return apply("tanh_grad", pair(y, dy))


@op
def SigmoidGrad(*, y: Any, dy: Any, name: str | None = None) -> Tensor:
    """Return the gradient of sigmoid in terms of its result ``y``: ``dy * y * (1 -
    y)``.

    Example:
        >>> tf.raw_ops.SigmoidGrad(y=[0.5], dy=[2.0]).numpy().tolist()
        [0.5]
    """
    return apply("sigmoid_grad", pair(y, dy))


@op
def ImageProjectiveTransformV3(
    *,
    images: Any,
    transforms: Any,
    output_shape: Any,
    fill_value: float,
    interpolation: str,
    fill_mode: str = "CONSTANT",
    name: str | None = None,
) -> Tensor:
    """Return each pixel (x, y) of the result from the place (x', y') of its image.

    With k = c0 x + c1 y + 1 the place is x' = (a0 x + a1 y + a2) / k and
    y' = (b0 x + b1 y + b2) / k; x counts columns, y counts rows.

    Args:
        images: [batch, height, width, channels].
        transforms: [batch, 8] or [1, 8]: a0, a1, a2, b0, b1, b2, c0, c1 of each image.
        output_shape: (height, width) of the result.
        fill_value: The value for "CONSTANT".
        interpolation: "BILINEAR" or "NEAREST".
        fill_mode: The pixels outside of an image: "REFLECT" (d c b a | a b c d |
            d c b a), "WRAP" (a b c d | a b c d | a b c d), "NEAREST" (a a a a | a b c d
            | d d d d) or "CONSTANT".

    Raises:
        ValueError: There is no such interpolation or mode, or a shape does not fit.

    Example:
        >>> image = tf.reshape(tf.range(3.0), (1, 1, 3, 1))
        >>> tf.raw_ops.ImageProjectiveTransformV3(
        ...     images=image, transforms=[[1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]],
        ...     output_shape=(1, 2), fill_value=9.0, interpolation="NEAREST",
        ... ).numpy().ravel().tolist()
        [1.0, 2.0]
    """
    return projective_transform(
        images,
        transforms,
        output_shape,
        interpolation.lower(),
        fill_mode.lower(),
        fill_value,
    )


export(__name__)
