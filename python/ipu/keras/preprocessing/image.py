# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing.image``: pictures in files and arrays."""

from __future__ import annotations

from ipu.keras import _names
from ipu.keras._picture_folders import image_dataset_from_directory
from ipu.keras._pictures import (
    array_to_img,
    img_to_array,
    load_img,
    save_img,
    smart_resize,
)

__all__ = [
    "array_to_img",
    "image_dataset_from_directory",
    "img_to_array",
    "load_img",
    "save_img",
    "smart_resize",
]


__getattr__ = _names.missing(__name__, __all__)
