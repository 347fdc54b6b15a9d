# SPDX-License-Identifier: MIT
"""``tf.lookup``: tables from words to numbers and back, on the host.

A table answers eager tensors: before a program is called, or in the function of a
``Dataset.map``.
"""

from __future__ import annotations

from ipu._text.exports import export, offered
from ipu.tf.lookup import experimental as experimental
from ipu.tf.lookup._tables import (
    KeyValueTensorInitializer as KeyValueTensorInitializer,
    StaticHashTable as StaticHashTable,
    StaticVocabularyTable as StaticVocabularyTable,
    TextFileIndex as TextFileIndex,
    TextFileInitializer as TextFileInitializer,
)

export(__name__, offered(__name__, ["experimental"]))
