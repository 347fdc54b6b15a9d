# SPDX-License-Identifier: MIT
"""``tf.io``: files, records and images, read and written on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.exports import export, offered
from ipu.tf._graph import mode
from ipu.tf.io._csv import decode_csv as decode_csv
from ipu.tf.io._files import (
    decode_raw as decode_raw,
    matching_files as matching_files,
    read_file as read_file,
    write_file as write_file,
)
from ipu.tf.io._images import (
    decode_bmp as decode_bmp,
    decode_gif as decode_gif,
    decode_image as decode_image,
    decode_jpeg as decode_jpeg,
    decode_png as decode_png,
    encode_jpeg as encode_jpeg,
    encode_png as encode_png,
)
from ipu.tf.io._parsing import (
    FixedLenFeature as FixedLenFeature,
    FixedLenSequenceFeature as FixedLenSequenceFeature,
    VarLenFeature as VarLenFeature,
    parse_example as parse_example,
    parse_single_example as parse_single_example,
)
from ipu.tf.io._records import (
    TFRecordOptions as TFRecordOptions,
    TFRecordWriter as TFRecordWriter,
)

if not TYPE_CHECKING:
    __all__ = offered(__name__)
    mode.texts_of_graphs(globals(), {*__all__} - {"write_file"}, pure=False)
    export(__name__)
