# SPDX-License-Identifier: MIT
"""``tf.lookup``: tables from words to numbers and back, on the host.

A table answers eager tensors: before a program is called, or in the function of a
``Dataset.map``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.tf.lookup import experimental
from ipu.tf.lookup._initializers import (
    KeyValueTensorInitializer,
    TextFileIndex,
    TextFileInitializer,
)
from ipu.tf.lookup._tables import StaticHashTable, StaticVocabularyTable

__all__ = [
    "KeyValueTensorInitializer",
    "StaticHashTable",
    "StaticVocabularyTable",
    "TextFileIndex",
    "TextFileInitializer",
    "experimental",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
