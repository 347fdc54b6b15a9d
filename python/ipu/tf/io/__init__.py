# SPDX-License-Identifier: MIT
"""``tf.io``: files, records and images, read and written on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.tf._graph import mode
from ipu.tf.io._csv import decode_csv
from ipu.tf.io._files import decode_raw, matching_files, read_file, write_file
from ipu.tf.io._images import (
    decode_bmp,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
)
from ipu.tf.io._parsing import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    VarLenFeature,
    parse_example,
    parse_single_example,
)
from ipu.tf.io._records import TFRecordOptions, TFRecordWriter

__all__ = [
    "FixedLenFeature",
    "FixedLenSequenceFeature",
    "TFRecordOptions",
    "TFRecordWriter",
    "VarLenFeature",
    "decode_bmp",
    "decode_csv",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_raw",
    "encode_jpeg",
    "encode_png",
    "matching_files",
    "parse_example",
    "parse_single_example",
    "read_file",
    "write_file",
]


mode.texts_of_graphs(
    globals(), [name for name in __all__ if name != "write_file"], pure=False
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
