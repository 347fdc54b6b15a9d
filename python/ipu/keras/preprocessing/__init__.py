# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing``: data brought into shape on the host."""

from __future__ import annotations

from ipu.keras import _names
from ipu.keras._picture_folders import image_dataset_from_directory
from ipu.keras.preprocessing import image, sequence, text

__all__ = ["image", "image_dataset_from_directory", "sequence", "text"]


__getattr__ = _names.missing(__name__, __all__)
