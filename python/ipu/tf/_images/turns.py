# SPDX-License-Identifier: MIT
"""Images turned and mirrored."""

from __future__ import annotations

from typing import Any

from ipu.tf._images.size import height_axis
from ipu.tf._ops import shapes
from ipu.tf._ops.rearrange import reverse
from ipu.tf._tensor.convert import Tensor, known_count
from ipu.tf._tensor.dispatch import op


@op
def flip_left_right(image: Any) -> Tensor:
    """Return each image mirrored sideways.

    Example:
        >>> tf.image.flip_left_right([[[1], [2]]]).numpy().tolist()
        [[[2], [1]]]
    """
    return reverse(image, [-2])


@op
def flip_up_down(image: Any) -> Tensor:
    """Return each image upside down.

    Example:
        >>> tf.image.flip_up_down([[[1]], [[2]]]).numpy().tolist()
        [[[2]], [[1]]]
    """
    return reverse(image, [-3])


@op
def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Return each image turned anticlockwise by ``k`` quarters.

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
    """Return each image with rows and columns exchanged.

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
