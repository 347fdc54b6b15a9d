# SPDX-License-Identifier: MIT
"""The kinds of summaries: scalars, histograms, images, texts, any tensor."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ipu import _core
from ipu._device.thread_state import here
from ipu.tf import dtypes
from ipu.tf._functions.prints import tell_host
from ipu.tf._string_ops.tensors import to_bytes
from ipu.tf._tensor import convert
from ipu.tf.summary import _messages
from ipu.tf.summary._writer import should_record_summaries

_Make = Callable[[Sequence[Any]], Any]
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# by channels: grey, grey and opacity, RGB, RGB and opacity
_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}


def _step_of(step: Any) -> Any:
    step = here.summary_step if step is None else step
    if step is None:
        raise ValueError(
            "No step set. Please specify one either through the `step` argument or "
            "through tf.summary.experimental.set_step()."
        )
    return step


def _record(
    kind: str, tag: str, values: Sequence[Any], make: _Make, metadata: bytes, step: Any
) -> bool:
    """Write a summary, now or in each run of the function that is being traced.

    Returns:
        Whether there is somebody to write it, now or in runs.
    """
    writer = here.writer
    if writer is None:
        return False
    step = _step_of(step)
    condition = should_record_summaries()

    def tell(arrays: Sequence[Any]) -> None:
        *content, number, wanted = arrays
        if bool(wanted):
            value = _messages.value_of(tag, make(content), metadata)
            writer._add(value, int(number))

    if _core.open_trace() is not None:
        if isinstance(condition, (bool, np.bool_)) and not condition:
            return False
        wanted = convert.cast(condition, dtypes.int32)
        number = convert.cast(convert.convert_to_tensor(step), dtypes.int32)
        tell_host(f"tf.summary.{kind}", [*values, number, wanted], tell)
        return True
    if not bool(condition):
        return False
    tell([*(np.asarray(value) for value in values), step, True])
    return True


def scalar(
    name: str, data: Any, step: Any = None, description: str | None = None
) -> bool:
    """Write a number.

    Args:
        name: The tag.
        data: A scalar: a tensor or number; it becomes float32.
        step: A number or tensor; None: that of ``experimental.set_step``.
        description: Text in Markdown.

    Returns:
        Whether it is written: there is a writer, and ``record_if`` does not refuse.

    Raises:
        ValueError: There is no step, or ``data`` is not a scalar.

    Example:
        >>> tf.summary.scalar("loss", 0.5, step=1)  # there is no writer
        False
    """
    if here.writer is None:
        return False
    value = convert.cast(convert.convert_to_tensor(data), dtypes.float32)
    if value.shape.rank:
        raise ValueError(
            f"tf.summary.scalar takes a scalar. Received for {name!r}: a tensor of "
            f"shape {value.shape}. Use tf.reduce_mean, or tf.summary.histogram."
        )
    metadata = _messages.metadata_of("scalars", description)
    return _record("scalar", name, [value], lambda got: got[0], metadata, step)


def histogram(
    name: str,
    data: Any,
    step: Any = None,
    buckets: int | None = None,
    description: str | None = None,
) -> bool:
    """Write how values are distributed.

    Args:
        name: The tag.
        data: A tensor of any shape; what is not finite is left out.
        step: As for :func:`scalar`.
        buckets: How many parts of equal width there are between the smallest and the
            largest value. Default 30.
        description: Text in Markdown.

    Returns:
        As for :func:`scalar`.

    Raises:
        ValueError: There is no step.

    Example:
        >>> with tf.summary.create_noop_writer().as_default():
        ...     tf.summary.histogram("weights", tf.random.normal((100,)), step=1)
        True
    """
    if here.writer is None:
        return False
    count = 30 if buckets is None else int(buckets)
    metadata = _messages.metadata_of("histograms", description)
    value = convert.convert_to_tensor(data)
    return _record(
        "histogram", name, [value], lambda got: _buckets(got[0], count), metadata, step
    )


def _buckets(values: Any, count: int) -> np.ndarray[Any, Any]:
    """Return rows of left edge, right edge and number of values, as TensorBoard has
    them."""
    flat = np.asarray(values, np.float64).ravel()
    flat = flat[np.isfinite(flat)]
    if not flat.size or count == 0:
        return np.zeros((count, 3))
    least, most = flat.min(), flat.max()
    if least == most:
        numbers = np.zeros(count, np.int64)
        numbers[-1] = flat.size
        edges = np.full(count + 1, least)
    else:
        edges = np.linspace(least, most, count + 1)
        places = ((flat - least) / ((most - least) / count)).astype(np.int64)
        numbers = np.bincount(np.minimum(places, count - 1), minlength=count)
    return np.stack([edges[:-1], edges[1:], numbers], axis=1)


def image(
    name: str,
    data: Any,
    step: Any = None,
    max_outputs: int = 3,
    description: str | None = None,
) -> bool:
    """Write images.

    Args:
        name: The tag.
        data: ``(images, height, width, channels)`` with 1 to 4 channels: grey, grey
            and opacity, RGB, RGB and opacity. uint8, or floats from 0 to 1.
        step: As for :func:`scalar`.
        max_outputs: How many of the images are written.
        description: Text in Markdown.

    Returns:
        As for :func:`scalar`.

    Raises:
        ValueError: There is no step, or the shape is another.

    Example:
        >>> with tf.summary.create_noop_writer().as_default():
        ...     tf.summary.image("digits", tf.zeros((2, 28, 28, 1)), step=1)
        True
    """
    if here.writer is None:
        return False
    value = convert.convert_to_tensor(data)
    shape = value.shape
    if len(shape) != 4 or shape[3] not in (1, 2, 3, 4):
        raise ValueError(
            "tf.summary.image takes images of shape (images, height, width, channels) "
            f"with 1 to 4 channels. Received for {name!r}: shape {shape}."
        )
    metadata = _messages.metadata_of("images", description)

    def pictures(got: Sequence[Any]) -> list[bytes]:
        height, width = got[0].shape[1:3]
        files = [png_of(_as_bytes(one)) for one in got[0]]
        return [b"%d" % width, b"%d" % height, *files]

    return _record("image", name, [value[:max_outputs]], pictures, metadata, step)


def _as_bytes(picture: Any) -> np.ndarray[Any, Any]:
    """Return a picture as uint8; as ``tf.image.convert_image_dtype`` with
    ``saturate``."""
    if picture.dtype.kind != "f":
        scaled = picture
    else:
        scaled = np.nan_to_num(picture.astype(np.float32)) * np.float32(255.5)
    pixels: np.ndarray[Any, Any] = np.clip(scaled, 0, 255).astype(np.uint8)
    return pixels


def text(
    name: str, data: Any, step: Any = None, description: str | None = None
) -> bool:
    """Write text, which TensorBoard shows as Markdown.

    Args:
        name: The tag.
        data: A string, or a list of strings.
        step: As for :func:`scalar`.
        description: Text in Markdown.

    Returns:
        As for :func:`scalar`.

    Raises:
        ValueError: There is no step.

    Example:
        >>> with tf.summary.create_noop_writer().as_default():
        ...     tf.summary.text("note", "**better**", step=1)
        True
    """
    if isinstance(data, (str, bytes)) or np.ndim(data) == 0:
        content: Any = to_bytes(data)
    else:
        content = [to_bytes(one) for one in np.asarray(data, object).ravel()]
    metadata = _messages.metadata_of("text", description)
    return _record("text", name, [], lambda _: content, metadata, step)


def write(
    tag: str,
    tensor: Any,
    step: Any = None,
    metadata: Any = None,
    name: str | None = None,
) -> bool:
    """Write any tensor.

    Args:
        tag: The tag.
        tensor: The tensor, or a string.
        step: As for :func:`scalar`.
        metadata: None, or a ``SummaryMetadata`` message of TensorBoard's, which says
            who shows it.

    Returns:
        As for :func:`scalar`.

    Raises:
        ValueError: There is no step.

    Example:
        >>> with tf.summary.create_noop_writer().as_default():
        ...     tf.summary.write("parts", tf.constant([1, 2]), step=1)
        True
    """
    about = b"" if metadata is None else metadata.SerializeToString()
    if isinstance(tensor, (str, bytes)):
        content = to_bytes(tensor)
        return _record("write", tag, [], lambda _: content, about, step)
    if here.writer is None:
        return False
    value = convert.convert_to_tensor(tensor)
    return _record("write", tag, [value], lambda got: got[0], about, step)


def _chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def png_of(picture: np.ndarray[Any, Any]) -> bytes:
    """Encode a picture.

    Args:
        picture: uint8 of shape (height, width, channels), 1 to 4 channels.
    """
    height, width, channels = picture.shape
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOURS[channels], 0, 0, 0)
    # each line begins with its filter: none
    lines = np.zeros((height, 1 + width * channels), np.uint8)
    lines[:, 1:] = picture.reshape(height, -1)
    packed = zlib.compress(lines.tobytes())
    chunks = ((b"IHDR", head), (b"IDAT", packed), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(*chunk) for chunk in chunks)
