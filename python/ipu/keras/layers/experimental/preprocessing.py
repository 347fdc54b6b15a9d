# SPDX-License-Identifier: MIT
"""``keras.layers.experimental.preprocessing``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.keras.layers.category_encoding import CategoryEncoding, Discretization
from ipu.keras.layers.hashing import HashedCrossing, Hashing
from ipu.keras.layers.image_augmentation import (
    RandomBrightness,
    RandomContrast,
    RandomCrop,
    RandomFlip,
    RandomHeight,
    RandomWidth,
)
from ipu.keras.layers.image_movement import (
    RandomRotation,
    RandomTranslation,
    RandomZoom,
)
from ipu.keras.layers.index_lookup import IntegerLookup, StringLookup
from ipu.keras.layers.preprocessing import (
    CenterCrop,
    Normalization,
    PreprocessingLayer,
    Rescaling,
    Resizing,
)
from ipu.keras.layers.text_vectorization import TextVectorization

__all__ = [
    "CategoryEncoding",
    "CenterCrop",
    "Discretization",
    "HashedCrossing",
    "Hashing",
    "IntegerLookup",
    "Normalization",
    "PreprocessingLayer",
    "RandomBrightness",
    "RandomContrast",
    "RandomCrop",
    "RandomFlip",
    "RandomHeight",
    "RandomRotation",
    "RandomTranslation",
    "RandomWidth",
    "RandomZoom",
    "Rescaling",
    "Resizing",
    "StringLookup",
    "TextVectorization",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
