# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing.image``: pictures in files and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.keras._picture_folders import image_dataset_from_directory
from ipu.keras._pictures import (
    array_to_img,
    img_to_array,
    load_img,
    save_img,
    smart_resize,
)
from ipu.keras.preprocessing._affine import (
    apply_affine_transform,
    apply_brightness_shift,
    apply_channel_shift,
    random_brightness,
    random_channel_shift,
    random_rotation,
    random_shear,
    random_shift,
    random_zoom,
)
from ipu.keras.preprocessing._batches import (
    DirectoryIterator,
    Iterator,
    NumpyArrayIterator,
)
from ipu.keras.preprocessing._frame_batches import DataFrameIterator
from ipu.keras.preprocessing._image_data_generator import ImageDataGenerator

__all__ = [
    "DataFrameIterator",
    "DirectoryIterator",
    "ImageDataGenerator",
    "Iterator",
    "NumpyArrayIterator",
    "apply_affine_transform",
    "apply_brightness_shift",
    "apply_channel_shift",
    "array_to_img",
    "image_dataset_from_directory",
    "img_to_array",
    "load_img",
    "random_brightness",
    "random_channel_shift",
    "random_rotation",
    "random_shear",
    "random_shift",
    "random_zoom",
    "save_img",
    "smart_resize",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
