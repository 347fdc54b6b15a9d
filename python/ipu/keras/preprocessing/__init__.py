# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing``: data brought into shape on the host."""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras._folders import image_dataset_from_directory, text_dataset_from_directory
from ipu.keras._series import timeseries_dataset_from_array
from ipu.keras.preprocessing import image, sequence, text

__all__ = [
    "image",
    "image_dataset_from_directory",
    "sequence",
    "text",
    "text_dataset_from_directory",
    "timeseries_dataset_from_array",
]


export(__name__)
