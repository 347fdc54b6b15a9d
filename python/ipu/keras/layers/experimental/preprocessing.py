# SPDX-License-Identifier: MIT
"""``keras.layers.experimental.preprocessing``."""

from __future__ import annotations

from ipu.keras import _names
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
from ipu.keras.layers.preprocessing import (
    CenterCrop,
    Normalization,
    PreprocessingLayer,
    Rescaling,
    Resizing,
)

__all__ = [
    "CenterCrop",
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
]


__getattr__ = _names.missing(__name__, __all__)
