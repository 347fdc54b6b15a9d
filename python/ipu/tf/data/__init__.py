# SPDX-License-Identifier: MIT
"""``ipu.tf.data``: input pipelines, TensorFlow's ``tf.data`` on the C core.

A :class:`Dataset` describes a stream of elements; reading it, from Python or by the
thread that feeds a device, runs in C without Python, except for the generators that
``from_generator`` calls.
"""

from typing import TYPE_CHECKING

from ipu._text.exports import export, offered
from ipu.tf.data._dataset import (
    AUTOTUNE as AUTOTUNE,
    INFINITE_CARDINALITY as INFINITE_CARDINALITY,
    UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY,
    Dataset as Dataset,
)
from ipu.tf.data._iterator import Iterator as Iterator, NumpyIterator as NumpyIterator
from ipu.tf.data._options import Options as Options
from ipu.tf.data._packed import DatasetSpec as DatasetSpec

if TYPE_CHECKING:
    from ipu.tf.data import experimental as experimental
    from ipu.tf.data._readers import (
        FixedLengthRecordDataset as FixedLengthRecordDataset,
        TextLineDataset as TextLineDataset,
        TFRecordDataset as TFRecordDataset,
    )
else:
    # of files: what reads them takes long to import
    _READERS = "FixedLengthRecordDataset TFRecordDataset TextLineDataset".split()
    _LAZY = {name: f"ipu.tf.data._readers:{name}" for name in _READERS}
    _LAZY["experimental"] = "ipu.tf.data.experimental"
    export(__name__, offered(__name__, _LAZY), _LAZY)
