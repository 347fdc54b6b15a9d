# SPDX-License-Identifier: MIT
"""``ipu.tf.data``: input pipelines, TensorFlow's ``tf.data`` on the C core.

A :class:`Dataset` describes a stream of elements; reading it, from Python or by the
thread that feeds a device, runs in C without Python, except for the generators that
``from_generator`` calls.
"""

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.tf.data._dataset import (
    AUTOTUNE,
    INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY,
    Dataset,
)
from ipu.tf.data._iterator import Iterator, NumpyIterator
from ipu.tf.data._options import Options
from ipu.tf.data._packed import DatasetSpec

if TYPE_CHECKING:
    from ipu.tf.data import experimental as experimental
    from ipu.tf.data._readers import (
        FixedLengthRecordDataset,
        TextLineDataset,
        TFRecordDataset,
    )

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "NumpyIterator",
    "Options",
    "TFRecordDataset",
    "TextLineDataset",
    "experimental",
]


if not TYPE_CHECKING:
    # of files: what reads them takes long to import
    _READERS = "FixedLengthRecordDataset TFRecordDataset TextLineDataset".split()
    _LAZY = {name: f"ipu.tf.data._readers:{name}" for name in _READERS}
    _LAZY["experimental"] = "ipu.tf.data.experimental"
    __getattr__, __dir__ = face(__name__, __all__, _LAZY)
