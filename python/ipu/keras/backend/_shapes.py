# SPDX-License-Identifier: MIT
"""Tensors of the same values in other shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_tensor
from ipu._text.exports import defined, like
from ipu.keras._backend_state import is_channels_first

gather = tf.gather
reshape = tf.reshape
shape = tf.shape
slice = tf.slice
squeeze = tf.squeeze
stack = tf.stack
stop_gradient = tf.stop_gradient


@like(tf.ones_like)
def ones_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    return tf.ones_like(x, dtype)


@like(tf.zeros_like)
def zeros_like(x: Any, dtype: Any = None, name: str | None = None) -> Any:
    return tf.zeros_like(x, dtype)


@like(tf.expand_dims)
def expand_dims(x: Any, axis: int = -1) -> Any:
    return tf.expand_dims(x, axis)


def flatten(x: Any) -> Any:
    """Return all elements in one axis.

    Example:
        >>> flatten(tf.constant([[1, 2], [3, 4]])).numpy().tolist()
        [1, 2, 3, 4]
    """
    return tf.reshape(x, (-1,))


def batch_flatten(x: Any) -> Any:
    """Return all axes but the first as one.

    Example:
        >>> batch_flatten(tf.ones((2, 3, 4))).shape
        (2, 12)
    """
    rest = 1
    for size in checked_tensor("x", x).shape[1:]:
        rest *= size
    return tf.reshape(x, (-1, rest))


@like(tf.concat)
def concatenate(tensors: Any, axis: int = -1) -> Any:
    return tf.concat(tensors, axis)


def transpose(x: Any) -> Any:
    """Reverse the axes.

    Example:
        >>> transpose(tf.ones((2, 3, 4))).shape
        (4, 3, 2)
    """
    return tf.transpose(x)


@like(tf.transpose)
def permute_dimensions(x: Any, pattern: Sequence[int]) -> Any:
    return tf.transpose(x, pattern)


@like(tf.one_hot)
def one_hot(indices: Any, num_classes: int) -> Any:
    return tf.one_hot(indices, num_classes)


def reverse(x: Any, axes: Any) -> Any:
    """Turn axes around.

    Example:
        >>> reverse(tf.constant([[1, 2], [3, 4]]), axes=0).numpy().tolist()
        [[3, 4], [1, 2]]
    """
    return tf.reverse(x, [axes] if isinstance(axes, int) else list(axes))


@like(tf.tile)
def tile(x: Any, n: Any) -> Any:
    return tf.tile(x, [n] if isinstance(n, int) else list(n))


def repeat(x: Any, n: int) -> Any:
    """Give each sample of [batch, features] ``n`` times: [batch, n, features].

    Raises:
        ValueError: ``x`` does not have two axes.

    Example:
        >>> repeat(tf.constant([[1, 2]]), 3).numpy().tolist()
        [[[1, 2], [1, 2], [1, 2]]]
    """
    if len(checked_tensor("x", x).shape) != 2:
        raise ValueError(
            f"repeat takes [batch, features]. Received a shape of {tuple(x.shape)}."
        )
    return tf.tile(tf.expand_dims(x, 1), (1, n, 1))


@like(tf.repeat)
def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    return tf.repeat(x, rep, axis=axis)


# --- images and sequences -------------------------------------------------------------


def _padded(x: Any, padding: Any, data_format: str | None) -> Any:
    pairs = [list(pair) for pair in padding]
    none = [0, 0]
    if is_channels_first(data_format):
        return tf.pad(x, [none, none, *pairs])
    return tf.pad(x, [none, *pairs, none])


def temporal_padding(x: Any, padding: tuple[int, int] = (1, 1)) -> Any:
    """Add zeros before and after the steps of [batch, steps, features].

    Example:
        >>> temporal_padding(tf.ones((2, 5, 3)), (1, 2)).shape
        (2, 8, 3)
    """
    return _padded(x, [padding], "channels_last")


def spatial_2d_padding(
    x: Any, padding: Any = ((1, 1), (1, 1)), data_format: str | None = None
) -> Any:
    """Add zeros around images; a pair for the rows and one for the columns.

    Example:
        >>> spatial_2d_padding(tf.ones((1, 4, 4, 3)), ((1, 1), (0, 2))).shape
        (1, 6, 6, 3)
    """
    return _padded(x, padding, data_format)


def spatial_3d_padding(
    x: Any, padding: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None
) -> Any:
    """Add zeros around volumes; a pair for each of the three axes.

    Example:
        >>> spatial_3d_padding(tf.ones((1, 4, 4, 4, 3)), ((1, 1), (0, 2), (0, 0))).shape
        (1, 6, 6, 4, 3)
    """
    return _padded(x, padding, data_format)


def resize_images(
    x: Any,
    height_factor: int,
    width_factor: int,
    data_format: str | None,
    interpolation: str = "nearest",
) -> Any:
    """Make images larger by whole factors.

    Args:
        x: [batch, height, width, channels], or channels first as ``data_format`` says.
        height_factor: How many times as high.
        width_factor: How many times as wide.
        data_format: ``"channels_last"``, ``"channels_first"``, or None for the setting.
        interpolation: ``"nearest"`` or ``"bilinear"``.

    Example:
        >>> resize_images(tf.ones((1, 2, 3, 4)), 2, 3, "channels_last").shape
        (1, 4, 9, 4)
    """
    is_first = is_channels_first(data_format)
    x = tf.transpose(x, (0, 2, 3, 1)) if is_first else x
    size = (x.shape[1] * height_factor, x.shape[2] * width_factor)
    made = tf.image.resize(x, size, method=interpolation)
    return tf.transpose(made, (0, 3, 1, 2)) if is_first else made


def resize_volumes(
    x: Any,
    depth_factor: int,
    height_factor: int,
    width_factor: int,
    data_format: str | None,
) -> Any:
    """Repeat the elements of volumes along their three axes.

    Example:
        >>> resize_volumes(tf.ones((1, 2, 3, 4, 1)), 2, 2, 2, "channels_last").shape
        (1, 4, 6, 8, 1)
    """
    start = 2 if is_channels_first(data_format) else 1
    for axis, factor in enumerate((depth_factor, height_factor, width_factor), start):
        x = tf.repeat(x, factor, axis=axis)
    return x


if not TYPE_CHECKING:
    _SAME = "gather reshape shape slice squeeze stack stop_gradient "
    __all__ = defined(__name__, _SAME.split())
