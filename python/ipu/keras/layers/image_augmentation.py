# SPDX-License-Identifier: MIT
"""Layers that change pictures at random in training: mirrored, cut, in other light.

Each image of a batch has random numbers of its own, but for `RandomCrop`, which cuts a
whole batch alike. Without ``training`` the pictures stay as they are. They are
``keras.layers.RandomFlip`` and so on, and also, as in Keras 2.6, in
``keras.layers.experimental.preprocessing``.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._pictures import smart_resize
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import Layer
from ipu.keras.layers.preprocessing import check_size

__all__ = [
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomFlip",
    "RandomHeight",
    "RandomWidth",
]


def span_of(name: str, factor: Any, least: float, most: float) -> tuple[float, float]:
    """The limits that a random factor is drawn from.

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

    def __init__(self, seed: int | None = None, **kwargs: Any) -> None:
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
        """The images [batch, height, width, channels] in training."""
        raise NotImplementedError(f"{type(self).__name__} must implement `_changed`.")

    def _kept(self, images: Tensor) -> Tensor:
        """The images otherwise."""
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
        **kwargs: Any,
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
        self, height: int, width: int, seed: int | None = None, **kwargs: Any
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

    def __init__(self, factor: Any, seed: int | None = None, **kwargs: Any) -> None:
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
        **kwargs: Any,
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
        **kwargs: Any,
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
