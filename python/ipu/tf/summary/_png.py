# SPDX-License-Identifier: MIT
"""PNG files (ISO/IEC 15948), without a package for pictures."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
# by channels: grey, grey and opacity, RGB, RGB and opacity
_COLOURS = {1: 0, 2: 4, 3: 2, 4: 6}


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
