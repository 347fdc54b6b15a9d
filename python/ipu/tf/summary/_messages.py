# SPDX-License-Identifier: MIT
"""The messages of event files, in protobuf's wire format.

A field is its number with its kind, then its value: a varint (kind 0), eight bytes (1),
a length and as many bytes (2), or four bytes (5). Numbers are those of TensorBoard's
``event.proto``, ``summary.proto``, ``tensor.proto``, ``tensor_shape.proto`` and
``graph.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

_VERSION = b"brain.Event:2"
_STRING = 7
_DTYPES = {
    "float32": 1,
    "float64": 2,
    "int32": 3,
    "uint8": 4,
    "int16": 5,
    "int8": 6,
    "int64": 9,
    "bool": 10,
    "float16": 19,
}
# what TensorBoard's front end does with a plugin's data (SummaryMetadata.data_class)
_DATA_CLASSES = {"scalars": 1, "histograms": 2, "text": 2, "images": 3}


def _varint(number: int) -> bytes:
    rest, parts = number & (1 << 64) - 1, bytearray()
    while rest >= 0x80:
        parts.append(rest & 0x7F | 0x80)
        rest >>= 7
    parts.append(rest)
    return bytes(parts)


def _integer(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _double(field: int, value: float) -> bytes:
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def _block(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def tensor_of(value: Any) -> bytes:
    """Return a TensorProto.

    Args:
        value: An array of numbers, or bytes, or a list of bytes.

    Raises:
        TypeError: There is no such dtype in event files.
    """
    if isinstance(value, (bytes, list)):
        texts = [value] if isinstance(value, bytes) else value
        sizes: Sequence[int] = () if isinstance(value, bytes) else (len(texts),)
        kind, content = _STRING, b"".join(_block(8, text) for text in texts)
    else:
        array = np.ascontiguousarray(value)
        if array.dtype.name not in _DTYPES:
            raise TypeError(f"Summaries have no values of dtype {array.dtype}.")
        sizes, kind = np.shape(value), _DTYPES[array.dtype.name]
        content = _block(4, array.astype(array.dtype.newbyteorder("<")).tobytes())
    shape = b"".join(_block(2, _integer(1, size)) for size in sizes)
    return _integer(1, kind) + _block(2, shape) + content


def metadata_of(plugin: str, description: str | None = None) -> bytes:
    """Return a SummaryMetadata: which part of TensorBoard shows a value.

    Args:
        plugin: "scalars", "histograms", "images", "text" or another.
    """
    content = _block(1, _block(1, plugin.encode()))
    if description:
        content += _block(3, description.encode())
    data_class = _DATA_CLASSES.get(plugin)
    return content if data_class is None else content + _integer(4, data_class)


def value_of(tag: str, tensor: Any, metadata: bytes) -> bytes:
    """Return a Summary.Value: a tensor under a tag."""
    return _block(1, tag.encode()) + _block(8, tensor_of(tensor)) + _block(9, metadata)


def summary_of(tag: str, content: bytes) -> bytes:
    """Return a Summary of one value.

    Args:
        content: What one of the next four functions gave.
    """
    return _block(1, _block(1, tag.encode()) + content)


def number_of(value: float) -> bytes:
    """Return the content of a value: a number as float32."""
    return _varint(2 << 3 | 5) + struct.pack("<f", value)


def text_of(tensor: bytes, plugin: str = "text") -> bytes:
    """Return the content of a value: texts, which :func:`tensor_of` gave."""
    return _block(8, tensor) + _block(9, _block(1, _block(1, plugin.encode())))


def image_of(shape: Sequence[int], file: bytes) -> bytes:
    """Return the content of a value: a picture."""
    sizes = b"".join(_integer(1 + axis, size) for axis, size in enumerate(shape))
    return _block(4, sizes + _block(4, file))


def _limits() -> np.ndarray[Any, Any]:
    """Return upper limits of the parts of a histogram: from 1e-12 on each is 1.1 times
    the one before (``histogram.cc``)."""
    positive = [1.0e-12]
    while positive[-1] * 1.1 < 1.0e20:
        positive.append(positive[-1] * 1.1)
    positive.append(float(np.finfo(np.float64).max))
    return np.array([*(-limit for limit in reversed(positive)), 0.0, *positive])


def histogram_of(values: Any) -> bytes:
    """Return the content of a value: a HistogramProto of finite numbers.

    A row of empty parts is written as one.
    """
    flat = np.asarray(values, np.float64).ravel()
    limits = _limits()
    places = np.searchsorted(limits, flat, side="right")
    counts = np.bincount(places, minlength=len(limits))
    # the last of a row of empty parts, and all that are not empty
    kept = (counts > 0) | np.append(counts[1:] > 0, True)
    if not flat.size:
        kept = np.arange(len(limits)) == len(limits) - 1
    highest = float(np.finfo(np.float64).max)
    numbers = [
        float(flat.min()) if flat.size else highest,
        float(flat.max()) if flat.size else -highest,
        float(flat.size),
        float(np.cumsum(flat)[-1]) if flat.size else 0.0,
        float(np.cumsum(flat * flat)[-1]) if flat.size else 0.0,
    ]
    content = b"".join(
        _double(1 + field, number) for field, number in enumerate(numbers) if number
    )
    content += _block(6, limits[kept].astype("<f8").tobytes())
    return _block(5, content + _block(7, counts[kept].astype("<f8").tobytes()))


def graph_of(nodes: Iterable[tuple[str, str, Sequence[str]]]) -> bytes:
    """Return a GraphDef.

    Args:
        nodes: The name of each node, what it is, and the names of its inputs.
    """
    made = [
        _block(1, name.encode())
        + _block(2, kind.encode())
        + b"".join(_block(3, one.encode()) for one in inputs)
        for name, kind, inputs in nodes
    ]
    return b"".join(_block(1, node) for node in made)


def event_of_version(time: float) -> bytes:
    """Return the first event of a file."""
    return _double(1, time) + _block(3, _VERSION)


def event_of_summary(time: float, step: int, value: bytes) -> bytes:
    """Return an event with one value.

    Args:
        time: Seconds since 1970.
        value: What :func:`value_of` gave.
    """
    return event_of_values(time, step, _block(1, value))


def event_of_values(time: float, step: int, summary: bytes) -> bytes:
    """Return the same with a whole Summary, of any number of values."""
    return _double(1, time) + _integer(2, step) + _block(5, summary)


def event_of_graph(time: float, graph: bytes) -> bytes:
    """Return an event with a graph, as :func:`graph_of` gave it."""
    return _double(1, time) + _block(4, graph)
