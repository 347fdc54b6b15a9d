# SPDX-License-Identifier: MIT
"""Layers that move, turn and zoom pictures at random in training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.layers.image_augmentation import ImageAugmentation, span_of
from ipu.tf._images.transforms import FILL_MODES, INTERPOLATIONS, projective_transform

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions

__all__ = ["RandomRotation", "RandomTranslation", "RandomZoom"]


class _RandomMovement(ImageAugmentation):
    """Images whose pixels come from other places: ``_rows`` says which."""

    def __init__(
        self,
        fill_mode: str,
        interpolation: str,
        seed: int | None,
        fill_value: float,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(seed, **kwargs)
        for name, value, known in (
            ("fill_mode", fill_mode, FILL_MODES),
            ("interpolation", interpolation, INTERPOLATIONS),
        ):
            if value not in known:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(map(repr, known))}. "
                    f"Received: {name}={value!r}."
                )
        self.fill_mode = fill_mode
        self.interpolation = interpolation
        self.fill_value = fill_value

    def _changed(self, images: Tensor) -> Tensor:
        count, height, width, _ = images.shape
        rows = self._rows(count, float(height), float(width))
        zeros = tf.zeros((count,), "float32")
        transforms = tf.stack([zeros + one for one in rows], axis=1)
        return projective_transform(
            images,
            transforms,
            None,
            self.interpolation,
            self.fill_mode,
            self.fill_value,
        )

    def _rows(self, count: int, height: float, width: float) -> list[Any]:
        """Return the eight numbers of ``projective_transform``, each [count] or one
        number."""
        raise NotImplementedError(f"{type(self).__name__} must implement `_rows`.")

    def _pairs(self, count: int, *spans: tuple[float, float]) -> list[Tensor]:
        """Return random numbers of each span, [count]."""
        drawn = self._uniform((len(spans), count))
        return [low + (high - low) * drawn[k] for k, (low, high) in enumerate(spans)]


class RandomTranslation(_RandomMovement):
    """Moves images up or down, left or right.

    Args:
        height_factor: (lower, upper), or a number f for (-f, f), in [-1, 1]: the share
            of the height by which an image moves; down is positive.
        width_factor: The share of the width; right is positive.
        fill_mode: "reflect", "wrap", "constant" or "nearest": what comes in from
            outside; see ``tf.raw_ops.ImageProjectiveTransformV3``.
        interpolation: "bilinear" or "nearest".
        seed: An integer for a random sequence of the layer's own.
        fill_value: The value for "constant".

    Raises:
        ValueError: A factor, the mode or the interpolation has another value.

    Example:
        >>> image = tf.reshape(tf.range(4.0), (1, 4, 1, 1))
        >>> down = RandomTranslation((0.25, 0.25), 0.0, fill_mode="constant")
        >>> down(image).numpy().ravel().tolist()
        [0.0, 0.0, 1.0, 2.0]
    """

    def __init__(
        self,
        height_factor: Any,
        width_factor: Any,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: int | None = None,
        fill_value: float = 0.0,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(fill_mode, interpolation, seed, fill_value, **kwargs)
        self.height_factor = height_factor
        self.width_factor = width_factor
        self._spans = (
            span_of("height_factor", height_factor, -1.0, 1.0),
            span_of("width_factor", width_factor, -1.0, 1.0),
        )

    def _rows(self, count: int, height: float, width: float) -> list[Any]:
        down, right = self._pairs(count, *self._spans)
        return [1.0, 0.0, right * -width, 0.0, 1.0, down * -height, 0.0, 0.0]


class RandomRotation(_RandomMovement):
    """Turns images about their middle.

    Args:
        factor: (lower, upper), or a number f for (-f, f): the angle as a share of a
            full turn; anticlockwise is positive.

    The other arguments are those of :class:`RandomTranslation`.

    Raises:
        ValueError: ``factor``, the mode or the interpolation has another value.

    Example:
        >>> image = tf.constant([[[[1.0], [2.0]], [[3.0], [4.0]]]])
        >>> quarter = RandomRotation((0.25, 0.25), interpolation="nearest")
        >>> quarter(image)[0, :, :, 0].numpy().tolist()
        [[2.0, 4.0], [1.0, 3.0]]
    """

    def __init__(
        self,
        factor: Any,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: int | None = None,
        fill_value: float = 0.0,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(fill_mode, interpolation, seed, fill_value, **kwargs)
        self.factor = factor
        self._span = span_of("factor", factor, -math.inf, math.inf)

    def _rows(self, count: int, height: float, width: float) -> list[Any]:
        [turns] = self._pairs(count, self._span)
        angle = turns * (2.0 * math.pi)
        cos, sin = tf.cos(angle), tf.sin(angle)
        right, bottom = width - 1.0, height - 1.0
        x = (right - (cos * right - sin * bottom)) / 2.0
        y = (bottom - (sin * right + cos * bottom)) / 2.0
        return [cos, -sin, x, sin, cos, y, 0.0, 0.0]


class RandomZoom(_RandomMovement):
    """Shows more of images, smaller, or less of them, larger.

    Args:
        height_factor: (lower, upper), or a number f for (-f, f), in [-1, 1]: a share of
            0.2 shows 1.2 times the height, -0.2 shows 0.8 times.
        width_factor: The same for the width; None: the height's number, which keeps the
            proportions.

    The other arguments are those of :class:`RandomTranslation`.

    Raises:
        ValueError: A factor, the mode or the interpolation has another value.

    Example:
        >>> image = tf.reshape(tf.range(3.0), (1, 1, 3, 1))
        >>> RandomZoom(0.0, (-0.5, -0.5))(image).numpy().ravel().tolist()
        [0.5, 1.0, 1.5]
    """

    def __init__(
        self,
        height_factor: Any,
        width_factor: Any = None,
        fill_mode: str = "reflect",
        interpolation: str = "bilinear",
        seed: int | None = None,
        fill_value: float = 0.0,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(fill_mode, interpolation, seed, fill_value, **kwargs)
        self.height_factor = height_factor
        self.width_factor = width_factor
        self._spans = [span_of("height_factor", height_factor, -1.0, 1.0)]
        if width_factor is not None:
            self._spans.append(span_of("width_factor", width_factor, -1.0, 1.0))

    def _rows(self, count: int, height: float, width: float) -> list[Any]:
        zooms = [1.0 + drawn for drawn in self._pairs(count, *self._spans)]
        tall, wide = zooms[0], zooms[-1]
        x = (1.0 - wide) * ((width - 1.0) / 2.0)
        y = (1.0 - tall) * ((height - 1.0) / 2.0)
        return [wide, 0.0, x, 0.0, tall, y, 0.0, 0.0]
