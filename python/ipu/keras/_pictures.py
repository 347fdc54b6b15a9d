# SPDX-License-Identifier: MIT
"""Single pictures between files, Pillow's objects and arrays."""

from __future__ import annotations

import io
import os
from typing import Any

import numpy as np

from ipu import tf
from ipu.keras._backend_state import state
from ipu.tf.io._images import pillow

_COLOR_MODES = {"grayscale": "L", "rgb": "RGB", "rgba": "RGBA"}
_METHODS = ("bicubic", "bilinear", "box", "hamming", "lanczos", "nearest")


def load_img(
    path: Any,
    grayscale: bool = False,
    color_mode: str = "rgb",
    target_size: tuple[int, int] | None = None,
    interpolation: str = "nearest",
    keep_aspect_ratio: bool = False,
) -> Any:
    """Read a picture.

    Args:
        path: A file's name, or an ``io.BytesIO``.
        grayscale: Older spelling of ``color_mode="grayscale"``.
        color_mode: "grayscale", "rgb" or "rgba".
        target_size: (height, width) that it is brought to; None: its own.
        interpolation: "nearest", "bilinear", "bicubic", "box", "hamming", "lanczos".
        keep_aspect_ratio: Whether what does not fit is cut off before, at both sides.

    Returns:
        A ``PIL.Image.Image``.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is not a picture; an unknown mode or interpolation.
        ImportError: The extra ``images`` is not installed.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "black.png")
        >>> keras.preprocessing.image.save_img(path, np.zeros((4, 6, 3), "float32"))
        >>> keras.preprocessing.image.load_img(path, target_size=(8, 8)).size
        (8, 8)
    """
    module = pillow("load_img")
    color_mode = "grayscale" if grayscale else color_mode
    if color_mode not in _COLOR_MODES:
        raise ValueError(
            'color_mode must be "grayscale", "rgb", or "rgba". '
            f"Received: {color_mode!r}."
        )
    if interpolation not in _METHODS:
        raise ValueError(
            f"interpolation must be one of {', '.join(_METHODS)}. "
            f"Received: {interpolation!r}."
        )
    source = path if isinstance(path, io.BytesIO) else os.fspath(path)
    try:
        with module.open(source) as file:
            image = file.convert(_COLOR_MODES[color_mode])
    except FileNotFoundError:
        raise
    except Exception as error:  # Pillow raises whatever its decoders raise
        raise ValueError(
            f"{source!r} is not a picture that can be read: {error}"
        ) from error
    if target_size is None or image.size == (target_size[1], target_size[0]):
        return image
    height, width = target_size
    box = None
    if keep_aspect_ratio:
        rows, columns = middle_part(image.size[::-1], target_size)
        box = (columns.start, rows.start, columns.stop, rows.stop)
    method = getattr(module.Resampling, interpolation.upper())
    return image.resize((width, height), method, box)


def middle_part(size: tuple[int, int], wanted: tuple[int, int]) -> tuple[slice, slice]:
    """Return the largest part of an image that has other proportions.

    Args:
        size: (height, width) of the image.
        wanted: (height, width) with the proportions of the part.

    Returns:
        The rows and the columns of the part.

    Example:
        >>> middle_part((4, 8), (2, 2))
        (slice(0, 4, None), slice(2, 6, None))
    """
    height, width = size
    part = (
        max(1, min(height, int(width * wanted[0] / wanted[1]))),
        max(1, min(width, int(height * wanted[1] / wanted[0]))),
    )
    starts = [(whole - own) // 2 for whole, own in zip(size, part, strict=True)]
    rows, columns = (
        slice(start, start + own) for start, own in zip(starts, part, strict=True)
    )
    return rows, columns


def smart_resize(x: Any, size: tuple[int, int], interpolation: str = "bilinear") -> Any:
    """Return images of another size and of the same proportions: the rest is cut off.

    Args:
        x: [height, width, channels] or a batch of such: a tensor or an array.
        size: (height, width) of the result.
        interpolation: A method of ``tf.image.resize``.

    Returns:
        The images: a tensor of a tensor, an array of an array.

    Raises:
        ValueError: ``size`` is not a pair of positive numbers, or the number of axes is
            another one.

    Example:
        >>> smart_resize(np.ones((4, 8, 3), np.float32), (2, 2)).shape
        (2, 2, 3)
    """
    if len(size) != 2 or min(size) < 1:
        raise ValueError(
            "`size` must be a pair of positive numbers (height, width). "
            f"Received: {size!r}."
        )
    shape = tuple(x.shape)
    if len(shape) not in (3, 4):
        raise ValueError(
            "smart_resize takes images [height, width, channels] or batches of them. "
            f"Received: shape {shape}."
        )
    rows, columns = middle_part(shape[-3:-1], size)
    made = tf.image.resize(x[..., rows, columns, :], size, interpolation)
    return made.numpy() if isinstance(x, np.ndarray) else tf.cast(made, x.dtype)


def img_to_array(
    img: Any, data_format: str | None = None, dtype: Any = None
) -> np.ndarray[Any, Any]:
    """Return the pixels of a picture.

    Args:
        img: A ``PIL.Image.Image``, or an array [height, width(, channels)].
        data_format: "channels_last" or "channels_first"; None: the backend's.
        dtype: None: the backend's ``floatx``.

    Returns:
        An array [height, width, channels], or with the channels first.

    Raises:
        ValueError: Another number of axes, or an unknown format.

    Example:
        >>> img_to_array(np.zeros((2, 3), np.uint8)).shape
        (2, 3, 1)
    """
    array = np.asarray(img, dtype or state.floatx)
    if array.ndim not in (2, 3):
        raise ValueError(
            f"A picture has 2 or 3 axes. Received: an array of shape {array.shape}."
        )
    array = array[..., None] if array.ndim == 2 else array
    return array.transpose(2, 0, 1) if _channels_first(data_format) else array


def array_to_img(
    x: Any, data_format: str | None = None, scale: bool = True, dtype: Any = None
) -> Any:
    """Return a picture of pixels.

    Args:
        x: An array [height, width, channels], or with the channels first.
        data_format: As for :func:`img_to_array`.
        scale: Whether the numbers are brought to the range from 0 to 255.
        dtype: Of the computation; None: the backend's ``floatx``.

    Returns:
        A ``PIL.Image.Image``.

    Raises:
        ValueError: Another number of axes or of channels.
        ImportError: The extra ``images`` is not installed.

    Example:
        >>> array_to_img = keras.preprocessing.image.array_to_img
        >>> array_to_img(np.zeros((4, 6, 3), "float32")).size
        (6, 4)
    """
    module = pillow("array_to_img")
    array = np.array(x, dtype or state.floatx)
    if array.ndim != 3:
        raise ValueError(
            "Expected image array to have rank 3 (single image). "
            f"Received: an array of shape {array.shape}."
        )
    if _channels_first(data_format):
        array = array.transpose(1, 2, 0)
    if scale:
        array = array - np.min(array)
        largest = np.max(array)
        array = array / largest * 255 if largest else array
    if array.shape[2] == 1:
        if np.max(array) > 255:
            return module.fromarray(array[..., 0].astype(np.int32))
        return module.fromarray(array[..., 0].astype(np.uint8))
    if array.shape[2] not in (3, 4):
        raise ValueError(
            f"A picture has 1, 3 or 4 channels. Received: {array.shape[2]}."
        )
    return module.fromarray(array.astype(np.uint8))


def save_img(
    path: Any,
    x: Any,
    data_format: str | None = None,
    file_format: str | None = None,
    scale: bool = True,
    **kwargs: Any,
) -> None:
    """Write pixels to a file.

    Args:
        path: The file's name.
        x, data_format: As for :func:`array_to_img`.
        file_format: Such as "png"; None: what the name ends with.
        scale: As for :func:`array_to_img`.
        **kwargs: For Pillow's ``save``.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "black.png")
        >>> keras.preprocessing.image.save_img(path, np.zeros((4, 6, 3), "float32"))
        >>> keras.preprocessing.image.load_img(path).size
        (6, 4)
    """
    image = array_to_img(x, data_format, scale)
    if image.mode == "RGBA" and str(file_format or path).lower().endswith(
        ("jpg", "jpeg")
    ):
        image = image.convert("RGB")
    image.save(path, format=file_format, **kwargs)


def _channels_first(data_format: str | None) -> bool:
    name = data_format or state.image_data_format
    if name not in ("channels_first", "channels_last"):
        raise ValueError(
            "data_format must be 'channels_last' or 'channels_first'. "
            f"Received: {data_format!r}."
        )
    return name == "channels_first"
