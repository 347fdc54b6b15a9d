# SPDX-License-Identifier: MIT
"""Pictures as strings and as tensors of pixels, by Pillow."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ipu import _core
from ipu._text.errors import InvalidArgumentError
from ipu._text.suggestions import refuse_unknown
from ipu._text.tracebacks import boundary
from ipu.tf._images.colors import convert_image_dtype
from ipu.tf._string_ops.tensors import to_bytes
from ipu.tf._tensor import varying_sizes
from ipu.tf._tensor.extras import extra
from ipu.tf.dtypes import as_dtype, uint8

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_FORMATS = ("BMP", "GIF", "JPEG", "PNG")


def pillow(what: str) -> Any:
    """Return Pillow's module ``PIL.Image``.

    Raises:
        ImportError: It is not installed.
    """
    return extra("PIL.Image", what, "images", "pillow")


def _reason(error: Exception) -> str:
    # Pillow says of what is not a picture at all where its object lies in memory
    return "" if "BytesIO object" in str(error) else f" ({error})"


def _opened(contents: Any, what: str, formats: tuple[str, ...]) -> Any:
    data = to_bytes(contents)
    try:
        image = pillow(what).open(io.BytesIO(data), formats=formats)
        image.load()
    except ImportError:
        raise
    except Exception as error:  # Pillow raises whatever its decoders raise
        raise InvalidArgumentError(
            f"{what}: {len(data)} bytes that are not a whole picture in one of the "
            f"formats {', '.join(formats)}{_reason(error)}."
        ) from error
    return image


def _frame(image: Any, channels: int) -> np.ndarray[Any, Any]:
    """Return pixels [height, width, channels]; 0: as many as the file has."""
    if channels == 0:
        has_alpha = "A" in image.mode or "transparency" in image.info
        gray = image.mode in ("1", "L", "LA", "I", "I;16", "F")
        channels = (2 if has_alpha else 1) if gray else (4 if has_alpha else 3)
    mode = _MODES[channels]
    # `convert` copies a picture that has the mode already
    pixels = np.asarray(image if image.mode == mode else image.convert(mode), np.uint8)
    return pixels.reshape(*pixels.shape[:2], channels)


def _decoded(
    contents: Any, what: str, formats: tuple[str, ...], channels: int, dtype: Any
) -> Any:
    if channels not in (0, 1, 3, 4):
        raise InvalidArgumentError(
            f"{what}: channels must be 0, 1, 3, or 4, got {channels}"
        )
    pixels = _frame(_opened(contents, what, formats), channels)
    axes = (0, 1) if channels else (0, 1, 2)
    return _as_dtype(varying_sizes.varying(pixels, *axes), dtype)


def _as_dtype(pixels: np.ndarray[Any, Any], dtype: Any) -> Any:
    tensor = _core.Tensor(np.ascontiguousarray(pixels))
    if as_dtype(dtype) == uint8:
        return tensor
    return convert_image_dtype(tensor, dtype)


@boundary
def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Any:
    """Read the pixels of a BMP, GIF, JPEG or PNG.

    Args:
        contents: The file's contents, one string.
        channels: 1, 3 or 4; None or 0: as many as the picture has.
        dtype: uint8, or a float type for numbers from 0 to 1.
        expand_animations: Whether a GIF gives [frames, height, width, 3] rather than
            its first frame.

    Returns:
        A tensor [height, width, channels].

    Raises:
        InvalidArgumentError: The contents are not a whole picture; a wrong number of
            channels.
        ImportError: The extra ``images`` is not installed.

    Example:
        >>> data = encode_png(np.zeros((2, 3, 1), np.uint8))
        >>> decode_image(data).shape
        (2, 3, 1)
    """
    if to_bytes(contents)[:3] == b"GIF":
        frames = decode_gif(contents)
        frames = frames if expand_animations else frames[0]
        return frames if as_dtype(dtype) == uint8 else _as_dtype(frames.numpy(), dtype)
    return _decoded(contents, "decode_image", _FORMATS, channels or 0, dtype)


_DECODING = frozenset(
    """
    acceptable_fraction channels dct_method fancy_upscaling name ratio
    try_recover_truncated
    """.split()
)
_ENCODING = frozenset(
    """
    chroma_downsampling density_unit format name optimize_size progressive quality
    x_density xmp_metadata y_density
    """.split()
)


@boundary
def decode_jpeg(contents: Any, channels: int = 0, *args: Any, **kwargs: Any) -> Any:
    """Read the pixels of a JPEG, or a PNG; see :func:`decode_image`.

    Args:
        contents: The file's contents, one string.
        channels: 1 or 3; 0: as many as the picture has.
        *args: How exactly to decode: accepted and not used.
        **kwargs: As ``args``.

    Returns:
        A uint8 tensor [height, width, channels].

    Raises:
        InvalidArgumentError: The contents are not a whole picture.

    Example:
        >>> image = tf.io.encode_jpeg(tf.zeros((4, 6, 3), tf.uint8))
        >>> tf.io.decode_jpeg(image).shape
        (4, 6, 3)
    """
    refuse_unknown("decode_jpeg", kwargs, _DECODING)
    return _decoded(contents, "decode_jpeg", ("JPEG", "PNG"), channels, uint8)


@boundary
def decode_png(
    contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None
) -> Any:
    """Read the pixels of a PNG, or a JPEG; see :func:`decode_image`.

    Example:
        >>> grey = tf.io.encode_png(tf.zeros((4, 6, 1), tf.uint8))
        >>> tf.io.decode_png(grey, channels=3).shape
        (4, 6, 3)
    """
    return _decoded(contents, "decode_png", ("PNG", "JPEG"), channels, dtype)


@boundary
def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Any:
    """Read the pixels of a BMP; see :func:`decode_image`.

    Example:
        >>> import io
        >>> import PIL.Image
        >>> file = io.BytesIO()
        >>> PIL.Image.new("RGB", (6, 4)).save(file, "BMP")
        >>> tf.io.decode_bmp(file.getvalue()).shape
        (4, 6, 3)
    """
    return _decoded(contents, "decode_bmp", ("BMP",), channels, uint8)


@boundary
def decode_gif(contents: Any, name: str | None = None) -> Any:
    """Read all frames of a GIF: uint8 [frames, height, width, 3].

    Example:
        >>> import io
        >>> import PIL.Image
        >>> file = io.BytesIO()
        >>> PIL.Image.new("RGB", (6, 4)).save(file, "GIF")
        >>> tf.io.decode_gif(file.getvalue()).shape
        (1, 4, 6, 3)
    """
    image = _opened(contents, "decode_gif", ("GIF",))
    frames = []
    for number in range(image.n_frames):
        image.seek(number)
        frames.append(_frame(image, 3))
    return _core.Tensor(varying_sizes.varying(np.stack(frames), 0, 1, 2))


def _encoded(image: Any, what: str, **options: Any) -> Any:
    from ipu.tf._string_ops.tensors import StringTensor

    pixels = np.asarray(image)
    if pixels.ndim != 3 or pixels.shape[2] not in _MODES or pixels.dtype != np.uint8:
        raise InvalidArgumentError(
            f"{what}: image must be uint8 of shape [height, width, channels], with 1 "
            f"to 4 channels. Received: {pixels.dtype} of shape {list(pixels.shape)}."
        )
    flat = pixels[..., 0] if pixels.shape[2] == 1 else pixels
    file = io.BytesIO()
    pillow(what).fromarray(np.ascontiguousarray(flat)).save(file, **options)
    return StringTensor(file.getvalue())


@boundary
def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Any:
    """Return a PNG of pixels.

    Args:
        image: uint8 [height, width, channels], 1 to 4 channels.
        compression: From 0 to 9; -1: the library's default.

    Returns:
        One string.

    Example:
        >>> red = tf.constant([[[255, 0, 0]]], tf.uint8)
        >>> tf.io.decode_png(tf.io.encode_png(red)).numpy().tolist()
        [[[255, 0, 0]]]
    """
    level = {} if compression == -1 else {"compress_level": compression}
    return _encoded(image, "encode_png", format="PNG", **level)


@boundary
def encode_jpeg(
    image: Any, format: str = "", quality: int = 95, *args: Any, **kwargs: Any
) -> Any:
    """Return a JPEG of pixels [height, width, 1 or 3]; see :func:`encode_png`.

    Args:
        image: uint8 pixels.
        format: Accepted and not used: the channels say it.
        quality: From 0 to 100.
        *args: How exactly to encode: accepted and not used.
        **kwargs: As ``args``.

    Returns:
        One string.

    Example:
        >>> image = tf.io.encode_jpeg(tf.zeros((4, 6, 3), tf.uint8))
        >>> tf.io.decode_image(image).shape
        (4, 6, 3)
    """
    refuse_unknown("encode_jpeg", kwargs, _ENCODING)
    return _encoded(image, "encode_jpeg", format="JPEG", quality=int(quality))
