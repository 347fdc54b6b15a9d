# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing.image``: pictures in files and arrays."""

from __future__ import annotations

from ipu._text.exports import export, offered
from ipu.keras._folders import (
    image_dataset_from_directory as image_dataset_from_directory,
)
from ipu.keras._pictures import (
    array_to_img as array_to_img,
    img_to_array as img_to_array,
    load_img as load_img,
    save_img as save_img,
    smart_resize as smart_resize,
)
from ipu.keras.preprocessing._affine import (
    apply_affine_transform as apply_affine_transform,
    apply_brightness_shift as apply_brightness_shift,
    apply_channel_shift as apply_channel_shift,
    random_brightness as random_brightness,
    random_channel_shift as random_channel_shift,
    random_rotation as random_rotation,
    random_shear as random_shear,
    random_shift as random_shift,
    random_zoom as random_zoom,
)
from ipu.keras.preprocessing._batches import (
    DirectoryIterator as DirectoryIterator,
    Iterator as Iterator,
    NumpyArrayIterator as NumpyArrayIterator,
)
from ipu.keras.preprocessing._frame_batches import (
    DataFrameIterator as DataFrameIterator,
)
from ipu.keras.preprocessing._image_data_generator import (
    ImageDataGenerator as ImageDataGenerator,
)

export(__name__, offered(__name__))
