# SPDX-License-Identifier: MIT
"""Images turned, mirrored, and changed at random.

Numbers are those of the program's stream, or of a seed alone.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu._text.suggestions import refuse_unknown
from ipu.tf._images.colors import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_saturation,
    convert_image_dtype,
)
from ipu.tf._images.size import height_axis
from ipu.tf._ops import shapes
from ipu.tf._ops.rearrange import reverse
from ipu.tf._random import ops as random
from ipu.tf._tensor.convert import Tensor, apply, known_count, sizes_of
from ipu.tf._tensor.dispatch import op
from ipu.tf.dtypes import uint8


class _Key(NamedTuple):
    """The seed of a stateless op, in the place of another op's own seed."""

    seed: Any


def _uniform(
    seed: Any, shape: Sequence[int], low: Any, high: Any, dtype: str = "float32"
) -> Tensor:
    if isinstance(seed, _Key):
        return random.stateless_uniform(shape, seed.seed, low, high, dtype)
    return random.uniform(shape, low, high, dtype, seed)


def _of_axis(seed: Any, axis: int) -> Any:
    """Return a seed that is told apart from those of other axes."""
    if isinstance(seed, _Key):
        return _Key(random.key_of(seed.seed) + Tensor([1, 0], "int32") * axis)
    return None if seed is None else seed + axis


def _stateless(drawn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make the op that does the same with numbers that follow from its seed alone."""
    change = inspect.unwrap(drawn)
    whole = inspect.signature(change)
    parameters = {
        key: one.replace(default=one.empty, annotation="Any") if key == "seed" else one
        for key, one in whole.parameters.items()
    }
    signature = whole.replace(parameters=list(parameters.values()))
    name, place = f"stateless_{change.__name__}", list(parameters).index("seed")

    def function(*args: Any, **kwargs: Any) -> Tensor:
        if kwargs or not place < len(args) <= len(parameters):
            refuse_unknown(name, kwargs, parameters)
            try:
                args = signature.bind(*args, **kwargs).args
            except TypeError as error:
                raise TypeError(f"{name}() {error}.") from None
        made: Tensor = change(*args[:place], _Key(args[place]), *args[place + 1 :])
        return made

    example = inspect.cleandoc(change.__doc__ or "").partition("Example:")[2]
    example = example.replace(change.__name__, name)
    example = example.replace(").shape", ", seed=(1, 2)).shape")
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Work like :func:`{change.__name__}`, from ``seed`` alone: two integers.\n\n"
        f"Example:{example}"
    )
    return op(function)


# --- turned over ----------------------------------------------------------------------


def _maybe(image: Any, axis: int, seed: Any) -> Tensor:
    value = Tensor(image)
    count = value.shape[0] if height_axis(value) else 1
    shape = [count, 1, 1, 1] if value.ndim == 4 else [1, 1, 1]
    flips = _uniform(seed, shape, 0.0, 1.0) < 0.5
    return apply("select", (flips, reverse(value, [axis]), value))


@op
def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Return each image mirrored sideways, or not.

    Example:
        >>> tf.image.random_flip_left_right(tf.ones((2, 2, 3))).shape
        (2, 2, 3)
    """
    return _maybe(image, -2, seed)


@op
def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Return each image upside down, or not.

    Example:
        >>> tf.image.random_flip_up_down(tf.ones((2, 2, 3))).shape
        (2, 2, 3)
    """
    return _maybe(image, -3, seed)


# --- cut out --------------------------------------------------------------------------


def _crop(value: Any, size: Any, seed: Any) -> Tensor:
    part = Tensor(value)
    sizes = sizes_of(size)
    if len(sizes) != part.ndim:
        raise ValueError(
            f"`size` has one number for each of the {part.ndim} axes of `value`. "
            f"Received: size={size}."
        )
    for axis, (whole, wanted) in enumerate(zip(part.shape, sizes, strict=True)):
        if wanted > whole:
            raise ValueError(f"Need value.shape >= size, got {part.shape}, {size}")
        if wanted < whole:
            own = _of_axis(seed, axis)
            start = _uniform(own, (), 0, whole - wanted + 1, "int32")
            places = start + Tensor(np.arange(wanted, dtype=np.int32))
            part = apply("gather", (part, places), {"axis": axis})
    return part


@op
def random_crop(
    value: Any, size: Any, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Return a part of the given size from a random place.

    Args:
        value: Any tensor.
        size: The size of each axis; the whole axis keeps its place.
        seed: The op's own seed, or None.

    Raises:
        ValueError: An axis is shorter than wanted.

    Example:
        >>> tf.image.random_crop(tf.ones((5, 5, 3)), (2, 2, 3)).shape
        (2, 2, 3)
    """
    return _crop(value, size, seed)


# --- colours --------------------------------------------------------------------------


def _check_delta(max_delta: float, largest: float | None = None) -> None:
    if largest is not None and max_delta > largest:
        raise ValueError(f"max_delta must be <= {largest}. Received: {max_delta}.")
    if max_delta < 0:
        raise ValueError(f"max_delta must be non-negative. Received: {max_delta}.")


def _check_factors(lower: float, upper: float) -> None:
    if not 0 <= lower < upper:
        raise ValueError(
            "upper must be > lower, and lower must be non-negative. Received: "
            f"lower={lower}, upper={upper}."
        )


@op
def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Call :func:`adjust_brightness` with a number from [-max_delta, max_delta).

    Example:
        >>> tf.image.random_brightness(tf.ones((2, 2, 3)), 0.1).shape
        (2, 2, 3)
    """
    _check_delta(max_delta)
    delta = _uniform(seed, (), -max_delta, max_delta)
    return adjust_brightness(image, delta)


@op
def random_contrast(
    image: Any, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """Call :func:`adjust_contrast` with a factor from [lower, upper).

    Example:
        >>> tf.image.random_contrast(tf.ones((2, 2, 3)), 0.5, 1.5).shape
        (2, 2, 3)
    """
    _check_factors(lower, upper)
    return adjust_contrast(image, _uniform(seed, (), lower, upper))


@op
def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Call :func:`adjust_hue` with a number from [-max_delta, max_delta).

    Args:
        image: [..., 3], floats or integers.
        max_delta: In [0, 0.5].
        seed: The op's own seed, or None.

    Raises:
        ValueError: ``max_delta`` is out of range.

    Example:
        >>> tf.image.random_hue(tf.ones((2, 2, 3)), 0.1).shape
        (2, 2, 3)
    """
    _check_delta(max_delta, 0.5)
    return adjust_hue(image, _uniform(seed, (), -max_delta, max_delta))


@op
def random_saturation(
    image: Any, lower: float, upper: float, seed: int | None = None
) -> Tensor:
    """Call :func:`adjust_saturation` with a factor from [lower, upper).

    Args:
        image: [..., 3], floats or integers.
        lower: Not negative.
        upper: More than ``lower``.
        seed: The op's own seed, or None.

    Raises:
        ValueError: The factors are not as said.

    Example:
        >>> tf.image.random_saturation(tf.ones((2, 2, 3)), 0.5, 1.5).shape
        (2, 2, 3)
    """
    _check_factors(lower, upper)
    return adjust_saturation(image, _uniform(seed, (), lower, upper))


# --- as they come back from JPEG files ------------------------------------------------


@op
def adjust_jpeg_quality(
    image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None
) -> Tensor:
    """Return an image as it comes back from a JPEG file.

    Needs Pillow (``pip install 'ipu[images]'``) and an image that is known: not one of
    a function that is being traced.

    Args:
        image: [height, width, channels], of one channel or three.
        jpeg_quality: From 0 to 100.
        dct_method: Accepted and not used.

    Example:
        >>> tf.image.adjust_jpeg_quality(tf.ones((8, 8, 3)), 75).shape
        (8, 8, 3)
    """
    from ipu.tf import io

    value = Tensor(image)
    plain = convert_image_dtype(value, uint8, saturate=True)
    quality = known_count(jpeg_quality, "jpeg_quality")
    file = io.encode_jpeg(plain, quality=quality)
    again = io.decode_jpeg(file, channels=value.shape[-1])
    return convert_image_dtype(again, value.dtype, saturate=True)


def _check_qualities(least: int, most: int) -> None:
    if not 0 <= least < most <= 100:
        raise ValueError(
            "jpeg encoding range must be between 0 and 100, and `min_jpeg_quality` "
            f"less than `max_jpeg_quality`. Received: {least}, {most}."
        )


@op
def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """Call :func:`adjust_jpeg_quality` with a number from [least, most).

    Example:
        >>> tf.image.random_jpeg_quality(tf.ones((8, 8, 3)), 75, 95).shape
        (8, 8, 3)
    """
    _check_qualities(min_jpeg_quality, max_jpeg_quality)
    drawn = _uniform(seed, (), min_jpeg_quality, max_jpeg_quality, "int32")
    return adjust_jpeg_quality(image, drawn)


stateless_random_flip_left_right = _stateless(random_flip_left_right)
stateless_random_flip_up_down = _stateless(random_flip_up_down)
stateless_random_crop = _stateless(random_crop)
stateless_random_brightness = _stateless(random_brightness)
stateless_random_contrast = _stateless(random_contrast)
stateless_random_hue = _stateless(random_hue)
stateless_random_saturation = _stateless(random_saturation)
stateless_random_jpeg_quality = _stateless(random_jpeg_quality)


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
