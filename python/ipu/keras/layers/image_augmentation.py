# SPDX-License-Identifier: MIT
"""Layers that change pictures at random in training: mirrored, cut, in other light.

Each image of a batch has random numbers of its own, but for `RandomCrop`, which cuts a
whole batch alike. Without ``training`` the pictures stay as they are. They are
``keras.layers.RandomFlip`` and so on, and also, as in Keras 2.6, in
``keras.layers.experimental.preprocessing``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_list, checked_number
from ipu.keras._pictures import smart_resize
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import Layer
from ipu.keras.layers.preprocessing import check_size

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = [
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomErasing",
    "RandomFlip",
    "RandomHeight",
    "RandomWidth",
    "Solarization",
]


def span_of(name: str, factor: Any, least: float, most: float) -> tuple[float, float]:
    """Return the limits that a random factor is drawn from.

    Args:
        name: The argument's name, for messages.
        factor: A number f for (-f, f), or a pair.
        least: The least limit that is allowed.
        most: The largest one.

    Raises:
        ValueError: It is neither, the first is above the second, or one is beyond the
            limits.
    """
    is_pair = isinstance(factor, (tuple, list))
    try:
        lower, upper = map(float, factor if is_pair else (-factor, factor))
    except (TypeError, ValueError):
        raise ValueError(
            f"`{name}` must be a number, or a pair (lower, upper). "
            f"Received: {factor!r}."
        ) from None
    if not lower <= upper:
        raise ValueError(
            f"`{name}` cannot have an upper bound below the lower one; a single number "
            f"f means (-f, f). Received: {factor!r}."
        )
    if lower < least or upper > most:
        raise ValueError(
            f"`{name}` must lie in [{least:g}, {most:g}]. Received: {factor!r}."
        )
    return lower, upper


class ImageAugmentation(Layer):
    """Base class: ``_changed(images)`` is what happens in training.

    Args:
        seed: An integer for a random sequence of the layer's own.
    """

    def __init__(
        self, seed: int | None = None, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.seed = seed

    def call(
        self, inputs: Tensor, training: Any = True, *args: Any, **kwargs: Any
    ) -> Tensor:
        """Change the pictures where ``training`` is true, as it is unless said.

        Raises:
            ValueError: ``inputs`` is not [height, width, channels] or a batch of such.
        """
        images = tf.cast(inputs, self._compute_kind)
        if len(images.shape) not in (3, 4):
            raise ValueError(
                f"{type(self).__name__} takes images [height, width, channels] or "
                f"batches of them. Received: shape {tuple(images.shape)}."
            )
        change = self._changed if training else self._kept
        return change(images) if len(images.shape) == 4 else change(images[None])[0]

    def _changed(self, images: Tensor) -> Tensor:
        """Return the images [batch, height, width, channels] in training."""
        raise NotImplementedError(f"{type(self).__name__} must implement `_changed`.")

    def _kept(self, images: Tensor) -> Tensor:
        """Return the images otherwise."""
        return images

    def _uniform(self, shape: Any, lower: float = 0.0, upper: float = 1.0) -> Tensor:
        return tf.random.uniform(shape, lower, upper, seed=self.seed)


class RandomFlip(ImageAugmentation):
    """Mirrors images, each with even chances.

    Args:
        mode: "horizontal" (left and right), "vertical" (top and bottom) or
            "horizontal_and_vertical".
        seed: An integer for a random sequence of the layer's own.

    Raises:
        ValueError: There is no such mode.

    Example:
        >>> image = tf.constant([[[[1.0], [2.0]]]])
        >>> RandomFlip("horizontal")(image, training=False)[0, 0, :, 0].numpy().tolist()
        [1.0, 2.0]
    """

    def __init__(
        self,
        mode: str = "horizontal_and_vertical",
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(seed, **kwargs)
        if mode not in ("horizontal", "vertical", "horizontal_and_vertical"):
            raise ValueError(
                "`mode` of RandomFlip must be 'horizontal', 'vertical' or "
                f"'horizontal_and_vertical'. Received: mode={mode!r}."
            )
        self.mode = mode

    def _changed(self, images: Tensor) -> Tensor:
        drawn = self._uniform((2, images.shape[0], 1, 1, 1))
        for axis, word, number in ((2, "horizontal", 0), (1, "vertical", 1)):
            if word in self.mode:
                turned = tf.reverse(images, [axis])
                images = tf.where(drawn[number] < 0.5, turned, images)
        return images


class RandomCrop(ImageAugmentation):
    """A part of the images from a random place, the same for a whole batch.

    Without ``training``, and where the images are smaller than the part, it is the
    largest middle part of those proportions, resized.

    Args:
        height: The rows of the part.
        width: The columns of the part.
        seed: An integer for a random sequence of the layer's own.

    Raises:
        ValueError: A size is not positive.

    Example:
        >>> RandomCrop(2, 3)(tf.ones((4, 8, 8, 1))).shape
        (4, 2, 3, 1)
    """

    def __init__(
        self,
        height: int,
        width: int,
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(seed, **kwargs)
        check_size("RandomCrop", height, width)
        self.height = height
        self.width = width

    def _changed(self, images: Tensor) -> Tensor:
        batch, rows, columns, channels = images.shape
        if rows < self.height or columns < self.width:
            return self._kept(images)
        size = (batch, self.height, self.width, channels)
        return tf.image.random_crop(images, size, self.seed)

    def _kept(self, images: Tensor) -> Tensor:
        return smart_resize(images, (self.height, self.width))


class RandomContrast(ImageAugmentation):
    """``(x - mean) * factor + mean``, with each channel's own mean over an image.

    Args:
        factor: (lower, upper), or a number for both: the factor is drawn from
            [1 - lower, 1 + upper).
        seed: An integer for a random sequence of the layer's own.

    Raises:
        ValueError: A limit is negative, or the lower one above 1.

    Example:
        >>> RandomContrast(0.5)(tf.ones((1, 2, 2, 1)))[0, 0, 0].numpy().tolist()
        [1.0]
    """

    def __init__(
        self, factor: Any, seed: int | None = None, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(seed, **kwargs)
        pair = factor if isinstance(factor, (tuple, list)) else (factor, factor)
        if len(pair) != 2 or min(pair) < 0 or pair[0] > 1:
            raise ValueError(
                "`factor` of RandomContrast must be a pair (lower, upper) of numbers "
                "from 0, the lower one at most 1, or a number for both. "
                f"Received: factor={factor!r}."
            )
        self.factor = factor
        self.lower, self.upper = map(float, pair)

    def _changed(self, images: Tensor) -> Tensor:
        shape = (images.shape[0], 1, 1, 1)
        factor = self._uniform(shape, 1.0 - self.lower, 1.0 + self.upper)
        mean = tf.reduce_mean(images, axis=(1, 2), keepdims=True)
        return (images - mean) * tf.cast(factor, images.dtype) + mean


class RandomBrightness(ImageAugmentation):
    """Adds a random number to all pixels of an image.

    Args:
        factor: (lower, upper), or a number f for (-f, f), in [-1, 1]: the share of the
            range of values that is added.
        value_range: The least and the largest value of a pixel; results are cut off
            there.
        seed: An integer for a random sequence of the layer's own.

    Raises:
        ValueError: ``factor`` or ``value_range`` is not such a pair.

    Source: ``keras.layers.RandomBrightness`` of Keras 2.9.

    Example:
        >>> RandomBrightness((1.0, 1.0))(tf.ones((1, 1, 1, 3))).numpy().ravel().tolist()
        [255.0, 255.0, 255.0]
    """

    def __init__(
        self,
        factor: Any,
        value_range: Any = (0, 255),
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(seed, **kwargs)
        self.factor = factor
        self._span = span_of("factor", factor, -1.0, 1.0)
        if len(value_range) != 2 or not value_range[0] < value_range[1]:
            raise ValueError(
                "`value_range` must be a pair of the least and the largest value. "
                f"Received: value_range={value_range!r}."
            )
        self.value_range = tuple(value_range)

    def _changed(self, images: Tensor) -> Tensor:
        least, most = map(float, self.value_range)
        shares = self._uniform((images.shape[0], 1, 1, 1), *self._span)
        added = tf.cast(shares * (most - least), images.dtype)
        return tf.clip_by_value(images + added, least, most)

    def get_config(self) -> dict[str, Any]:
        own = {"factor": self.factor, "value_range": list(self.value_range)}
        return {**super().get_config(), **own}


class _RandomSize(ImageAugmentation):
    """Images of a random size along one axis, drawn on the host."""

    _axis = 0
    _instead = ""

    def __init__(
        self,
        factor: Any,
        interpolation: str = "bilinear",
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(seed, **kwargs)
        self.factor = factor
        self._span = span_of("factor", factor, -1.0, float("inf"))
        self.interpolation = interpolation

    def _changed(self, images: Tensor) -> Tensor:
        if not tf.executing_eagerly():
            raise NotImplementedError(
                f"{type(self).__name__} gives images of another size at each call, "
                "which no program of the device can have: its shapes are fixed. Use "
                f"{self._instead}, which keeps the size, or change the size of the "
                "images before they come to the model."
            )
        share = float(self._uniform((), *self._span).numpy())
        size = list(images.shape[1:3])
        size[self._axis] = max(1, int(size[self._axis] * (1.0 + share)))
        made = tf.image.resize(images, size, self.interpolation)
        return tf.cast(made, images.dtype)


class RandomHeight(_RandomSize):
    """Images with a random number of rows; where a layer is called by itself only.

    Programs of the device have fixed shapes: there, and so in the training of models,
    ``RandomZoom(factor, 0.0)`` does what can be done.

    Args:
        factor: (lower, upper), or a number f for (-f, f): rows are added or taken by
            that share.
        interpolation: A method of ``tf.image.resize``.
        seed: An integer for a random sequence of the layer's own.

    Raises:
        ValueError: ``factor`` is not such a pair, or a limit is below -1.
        NotImplementedError: In a call with ``training`` in a program.

    Example:
        >>> RandomHeight((0.5, 0.5))(tf.ones((1, 4, 4, 3))).shape
        (1, 6, 4, 3)
    """

    _instead = "RandomZoom(factor, 0.0)"


class RandomWidth(_RandomSize):
    """Images with a random number of columns; as ``RandomHeight``.

    The arguments are those of :class:`RandomHeight`.

    Raises:
        ValueError: ``factor`` is not such a pair, or a limit is below -1.
        NotImplementedError: In a call with ``training`` in a program.

    Example:
        >>> RandomWidth((0.5, 0.5))(tf.ones((1, 4, 4, 3))).shape
        (1, 4, 6, 3)
    """

    _axis = 1
    _instead = "RandomZoom(0.0, factor)"


class _OfValues(ImageAugmentation):
    """A layer that changes values, which lie in a range that the user says."""

    def __init__(
        self, value_range: Any, seed: int | None, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(seed, **kwargs)
        pair = checked_list("value_range", value_range)
        limits = [checked_number("value_range", one, "two numbers") for one in pair]
        if len(limits) != 2 or limits[0] >= limits[1]:
            raise ValueError(
                "`value_range` must be two numbers, the least value of the images and "
                f"the largest one. Received: value_range={value_range!r}."
            )
        self.value_range = tuple(limits)


class Solarization(_OfValues):
    """Turns light into dark where images are lighter than a threshold.

    First a random number is added to each image.

    Args:
        addition_factor: The largest number that is added, or the range of it, a pair;
            as parts of the range of values.
        threshold_factor: The largest threshold, or its range, likewise. With 0, the
            default, whole images are turned.
        value_range: The least and the largest value of images.
        seed: An integer for a random sequence of the layer's own.

    Raises:
        TypeError: ``value_range`` is not a list.
        ValueError: A factor is not in [0, 1]; ``value_range`` is not two numbers.

    Source: ``keras.layers.Solarization`` of Keras 3.

    Example:
        >>> image = tf.constant([[[0.0], [55.0], [255.0]]])
        >>> Solarization()(image).numpy().ravel().tolist()
        [255.0, 200.0, 0.0]
    """

    def __init__(
        self,
        addition_factor: Any = 0.0,
        threshold_factor: Any = 0.0,
        value_range: Any = (0, 255),
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(value_range, seed, **kwargs)
        self.addition_factor = _part_of("addition_factor", addition_factor)
        self.threshold_factor = _part_of("threshold_factor", threshold_factor)

    def _changed(self, images: Tensor) -> Tensor:
        low, high = (float(limit) for limit in self.value_range)
        shape = (images.shape[0], 1, 1, 1)
        parts = (images - low) / (high - low)
        parts = parts + self._uniform(shape, *self.addition_factor)
        parts = tf.clip_by_value(parts, 0.0, 1.0)
        threshold = self._uniform(shape, *self.threshold_factor)
        parts = tf.where(tf.less(parts, threshold), parts, 1.0 - parts)
        return parts * (high - low) + low


class RandomErasing(_OfValues):
    """Puts noise, or one value, in the place of a rectangle of each image.

    Args:
        factor: The largest chance that an image is changed, or the range of it, a pair.
        scale: The least and the largest of what is drawn for each side: the square
            root of it is the part of the image's side.
        fill_value: The rectangle's contents, a number or one for each channel; None
            for noise.
        value_range: The least and the largest value of images.
        seed: An integer for a random sequence of the layer's own.

    Raises:
        TypeError: ``value_range`` is not a list.
        ValueError: A factor is not in [0, 1]; ``value_range`` is not two numbers;
            ``fill_value`` is neither.

    Source: ``keras.layers.RandomErasing`` of Keras 3, after arXiv:1708.04896.

    Example:
        >>> image = tf.ones((4, 4, 1))
        >>> layer = RandomErasing((1.0, 1.0), scale=(0.25, 0.25), fill_value=0.0)
        >>> float(tf.reduce_sum(layer(image)))
        12.0
    """

    def __init__(
        self,
        factor: Any = 1.0,
        scale: Any = (0.02, 0.33),
        fill_value: Any = None,
        value_range: Any = (0, 255),
        seed: int | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(value_range, seed, **kwargs)
        self.factor = _part_of("factor", factor)
        self.scale = _part_of("scale", scale)
        several = fill_value if isinstance(fill_value, (list, tuple)) else (fill_value,)
        if fill_value is not None:
            for one in several:
                checked_number("fill_value", one, "a number, a list of them, or None")
        self.fill_value = fill_value

    def _changed(self, images: Tensor) -> Tensor:
        count, height, width, _ = tuple(images.shape)
        sides = tf.sqrt(self._uniform((2, count), *self.scale))
        places = self._uniform((2, count)) * (1.0 - sides)
        inside = tf.less(
            self._uniform((count, 1, 1, 1)),
            self._uniform((count, 1, 1, 1), *self.factor),
        )
        for axis, size in ((0, height), (1, width)):
            shape = (1, size, 1, 1) if axis == 0 else (1, 1, size, 1)
            steps = tf.reshape(tf.range(size), shape)
            step = (tf.cast(steps, images.dtype) + 0.5) / float(size)
            first = tf.reshape(places[axis], (count, 1, 1, 1))
            end = first + tf.reshape(sides[axis], (count, 1, 1, 1))
            within = tf.logical_and(step >= first, step < end)
            inside = tf.logical_and(inside, within)
        low, high = (float(limit) for limit in self.value_range)
        if self.fill_value is None:
            noise = tf.random.normal(tuple(images.shape), seed=self.seed) * high
            filled = tf.cast(noise, images.dtype)
        else:
            filled = tf.zeros_like(images) + tf.constant(
                self.fill_value, dtype=images.dtype
            )
        return tf.where(inside, tf.clip_by_value(filled, low, high), images)


def _part_of(name: str, factor: Any) -> tuple[float, float]:
    """Return the limits of a part in [0, 1]: (0, f) for a number f."""
    is_pair = isinstance(factor, (tuple, list))
    return span_of(name, factor if is_pair else (0.0, factor), 0.0, 1.0)
