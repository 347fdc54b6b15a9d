# SPDX-License-Identifier: MIT
"""Layers that move elements: permute, repeat, pad, crop, enlarge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ipu import tf
from ipu._text.arguments import checked_list
from ipu._text.exports import export
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.base_layer import InputSpec, Layer
from ipu.keras.layers._spatial import SpatialLayer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ipu.keras._options import PlainLayerOptions


class Permute(Layer):
    """Changes the order of the axes of each sample.

    Args:
        dims: The axes in their new order, counted from 1: the batch stays first.

    Raises:
        ValueError: ``dims`` is not an order of 1, 2, ...

    Example:
        >>> Permute((2, 1))(tf.zeros((5, 3, 4))).shape
        (5, 4, 3)
    """

    def __init__(
        self, dims: Sequence[int], **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.dims = tuple(checked_list("dims", dims))
        if sorted(self.dims) != list(range(1, len(self.dims) + 1)):
            raise ValueError(
                "Invalid permutation `dims` for Permute Layer: it must hold each of 1 "
                f"to {len(self.dims)} once. Received: dims={self.dims}."
            )
        self.input_spec = InputSpec(ndim=len(self.dims) + 1)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tf.transpose(inputs, [0, *self.dims])


class RepeatVector(Layer):
    """Repeats each sample: ``(batch, size)`` becomes ``(batch, n, size)``.

    Args:
        n: How often.

    Raises:
        TypeError: ``n`` is not an integer.

    Example:
        >>> RepeatVector(3)(tf.ones((2, 4))).shape
        (2, 3, 4)
    """

    def __init__(self, n: int, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        if not isinstance(n, int):
            raise TypeError(
                f"Expected an integer value for `n`, got {type(n).__name__}."
            )
        self.n = n
        self.input_spec = InputSpec(ndim=2)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tf.tile(tf.expand_dims(inputs, 1), [1, self.n, 1])


class Masking(Layer):
    """Masks the time steps whose features all have one value.

    Args:
        mask_value: That value. The masked steps become 0.

    Example:
        >>> layer = Masking()
        >>> layer.compute_mask(tf.constant([[[1.0], [0.0]]])).numpy().tolist()
        [[True, False]]
    """

    def __init__(
        self, mask_value: float = 0.0, **kwargs: Unpack[PlainLayerOptions]
    ) -> None:
        super().__init__(**kwargs)
        self.mask_value = mask_value

    def compute_mask(self, inputs: Nest, mask: Nest = None) -> Nest:
        """Return true for steps with another value in any feature."""
        del mask
        return tf.reduce_any(tf.not_equal(inputs, self.mask_value), axis=-1)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        kept = tf.reduce_any(
            tf.not_equal(inputs, self.mask_value), axis=-1, keepdims=True
        )
        return inputs * tf.cast(kept, inputs.dtype)


class _Spatial(SpatialLayer):
    """A layer that changes the sizes of the axes between batch and channels."""

    def _whole(self, spatial: Sequence[Any], rest: Any) -> list[Any]:
        """Return entries for all axes: ``rest`` for batch and channels."""
        spatial = spatial if self.rank > 1 else [spatial]
        if self._channels_first:
            return [rest, rest, *spatial]
        return [rest, *spatial, rest]

    def _pairs(self, name: str, value: Any) -> Any:
        """Return a pair of amounts, before and after, for each axis; of one axis the
        pair."""
        pairs = self._listed_pairs(name, value)
        return pairs if self.rank > 1 else pairs[0]

    def _listed_pairs(self, name: str, value: Any) -> tuple[tuple[int, int], ...]:
        rank = self.rank
        if isinstance(value, int):
            return ((value, value),) * rank
        items = list(checked_list(name, value))
        if rank == 1 and len(items) == 2 and all(isinstance(i, int) for i in items):
            return ((items[0], items[1]),)
        pairs = [(i, i) if isinstance(i, int) else tuple(i) for i in items]
        if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
            raise ValueError(
                f"`{name}` of {type(self).__name__} must be an integer, or have "
                f"{rank} entries, each an integer or a pair. Received: {value!r}."
            )
        return tuple((int(before), int(after)) for before, after in pairs)


class ZeroPadding2D(_Spatial):
    """Puts rows and columns of zeros around images.

    Args:
        padding: An integer, a number for each axis, or a pair of numbers, before and
            after, for each axis.
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.

    Raises:
        ValueError: ``padding`` has another value.

    Example:
        >>> ZeroPadding2D((1, 2))(tf.ones((2, 5, 5, 3))).shape
        (2, 7, 9, 3)
    """

    rank = 2

    def __init__(
        self,
        padding: Any = 1,
        data_format: str | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(data_format, **kwargs)
        self.padding = self._pairs("padding", padding)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tf.pad(inputs, self._whole(self.padding, (0, 0)))


class ZeroPadding1D(ZeroPadding2D):
    """Puts time steps of zeros before and after.

    Args:
        padding: An integer, or a pair of numbers, before and after.

    Example:
        >>> ZeroPadding1D(1)(tf.ones((1, 1, 1))).numpy().ravel().tolist()
        [0.0, 1.0, 0.0]
    """

    rank = 1
    _left_out = ("data_format",)

    def __init__(self, padding: Any = 1, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(padding, **kwargs)


class ZeroPadding3D(ZeroPadding2D):
    """Puts zeros around volumes; arguments as for ``ZeroPadding2D``.

    Example:
        >>> ZeroPadding3D(1)(tf.ones((2, 5, 5, 5, 3))).shape
        (2, 7, 7, 7, 3)
    """

    rank = 3


class Cropping2D(_Spatial):
    """Takes rows and columns away at the borders of images.

    Args:
        cropping: An integer, a number for each axis, or a pair of numbers, before and
            after, for each axis.
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.

    Raises:
        ValueError: ``cropping`` has another value, or nothing is left.

    Example:
        >>> Cropping2D(((0, 1), (1, 1)))(tf.ones((2, 5, 5, 3))).shape
        (2, 4, 3, 3)
    """

    rank = 2

    def __init__(
        self,
        cropping: Any = 0,
        data_format: str | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(data_format, **kwargs)
        self.cropping = self._pairs("cropping", cropping)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Crop.

        Raises:
            ValueError: Nothing is left.
        """
        shape = tuple(inputs.shape)
        pairs = self._whole(self.cropping, (0, 0))
        sizes = [
            size - before - after
            for size, (before, after) in zip(shape, pairs, strict=True)
        ]
        if any(size <= 0 for size in sizes):
            raise ValueError(
                f"`cropping` of {type(self).__name__} leaves nothing of the input. "
                f"Received: cropping={self.cropping}, input shape {shape}."
            )
        return tf.slice(inputs, [before for before, _ in pairs], sizes)


class Cropping1D(Cropping2D):
    """Takes time steps away at the beginning and the end.

    Args:
        cropping: An integer, or a pair of numbers, before and after.

    Example:
        >>> Cropping1D(1)(tf.ones((2, 5, 3))).shape
        (2, 3, 3)
    """

    rank = 1
    _left_out = ("data_format",)

    def __init__(self, cropping: Any = 1, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(cropping, **kwargs)


class Cropping3D(Cropping2D, cropping=1):
    """Takes the borders of volumes away; arguments as for ``Cropping2D``.

    Example:
        >>> Cropping3D(1)(tf.ones((2, 5, 5, 5, 3))).shape
        (2, 3, 3, 3, 3)
    """

    rank = 3


class _UpSampling(_Spatial):
    def __init__(
        self,
        size: Any = 2,
        data_format: str | None = None,
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(data_format, **kwargs)
        self.size = self._sizes("size", size)

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        for axis, factor in enumerate(self._whole(self.size, 1)):
            if factor != 1:
                inputs = tf.repeat(inputs, factor, axis=axis)
        return inputs


class UpSampling2D(_UpSampling):
    """Enlarges images.

    Args:
        size: By how much, an integer or one for each axis.
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.
        interpolation: ``"nearest"`` or ``"bilinear"``.

    Raises:
        ValueError: ``interpolation`` is neither, or ``size`` has other entries or is
            not positive.

    Example:
        >>> UpSampling2D((2, 3))(tf.ones((2, 5, 5, 3))).shape
        (2, 10, 15, 3)
    """

    rank = 2

    def __init__(
        self,
        size: Any = 2,
        data_format: str | None = None,
        interpolation: str = "nearest",
        **kwargs: Unpack[PlainLayerOptions],
    ) -> None:
        super().__init__(size, data_format, **kwargs)
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError(
                '`interpolation` argument should be one of "nearest" or "bilinear". '
                f"Received: interpolation={interpolation!r}."
            )
        self.interpolation = interpolation

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if self.interpolation == "nearest":
            return super().call(inputs)
        is_first = self._channels_first
        image = tf.transpose(inputs, [0, 2, 3, 1]) if is_first else inputs
        sizes = [
            n * factor for n, factor in zip(image.shape[1:3], self.size, strict=True)
        ]
        image = tf.image.resize(image, sizes, method="bilinear")
        return tf.transpose(image, [0, 3, 1, 2]) if is_first else image


class UpSampling1D(_Spatial):
    """Repeats each time step.

    Args:
        size: How often.

    Example:
        >>> UpSampling1D(2)(tf.constant([[[1.0], [2.0]]])).numpy().ravel().tolist()
        [1.0, 1.0, 2.0, 2.0]
    """

    rank = 1
    _left_out = ("data_format",)

    def __init__(self, size: int = 2, **kwargs: Unpack[PlainLayerOptions]) -> None:
        super().__init__(**kwargs)
        [self.size] = self._sizes("size", int(size))

    def call(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return tf.repeat(inputs, self.size, axis=1)


class UpSampling3D(_UpSampling):
    """Repeats the elements of volumes along each axis.

    Args:
        size: How often, an integer or one for each axis.
        data_format: ``"channels_last"`` (the default) or ``"channels_first"``.

    Example:
        >>> UpSampling3D(2)(tf.ones((1, 2, 2, 2, 3))).shape
        (1, 4, 4, 4, 3)
    """

    rank = 3


export(__name__)
