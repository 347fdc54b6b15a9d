# SPDX-License-Identifier: MIT
"""``keras.layers.experimental.preprocessing``."""

from __future__ import annotations

from ipu.keras import _names
from ipu.keras.layers.preprocessing import (
    CenterCrop,
    Normalization,
    PreprocessingLayer,
    Rescaling,
    Resizing,
)

__all__ = ["CenterCrop", "Normalization", "PreprocessingLayer", "Rescaling", "Resizing"]


__getattr__ = _names.missing(__name__, __all__)
