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

__all__ = [
    "event_of_graph",
    "event_of_summary",
    "event_of_version",
    "graph_of",
    "metadata_of",
    "tensor_of",
    "value_of",
]

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
    """A TensorProto.

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
    """A SummaryMetadata: which part of TensorBoard shows a value.

    Args:
        plugin: "scalars", "histograms", "images", "text" or another.
        description: Text in Markdown.
    """
    content = _block(1, _block(1, plugin.encode()))
    if description:
        content += _block(3, description.encode())
    data_class = _DATA_CLASSES.get(plugin)
    return content if data_class is None else content + _integer(4, data_class)


def value_of(tag: str, tensor: Any, metadata: bytes) -> bytes:
    """A Summary.Value: a tensor under a tag."""
    return _block(1, tag.encode()) + _block(8, tensor_of(tensor)) + _block(9, metadata)


def graph_of(nodes: Iterable[tuple[str, str, Sequence[str]]]) -> bytes:
    """A GraphDef.

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
    """The first event of a file."""
    return _double(1, time) + _block(3, _VERSION)


def event_of_summary(time: float, step: int, value: bytes) -> bytes:
    """An event with one value.

    Args:
        time: Seconds since 1970.
        step: The step.
        value: What :func:`value_of` gave.
    """
    return _double(1, time) + _integer(2, step) + _block(5, _block(1, value))


def event_of_graph(time: float, graph: bytes) -> bytes:
    """An event with a graph, as :func:`graph_of` gave it."""
    return _double(1, time) + _block(4, graph)
