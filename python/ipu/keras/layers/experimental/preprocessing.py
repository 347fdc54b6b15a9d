# SPDX-License-Identifier: MIT
"""``keras.layers.experimental.preprocessing``."""

from __future__ import annotations

from ipu._text.exports import export, offered
from ipu.keras.layers.category_encoding import *
from ipu.keras.layers.hashing import *
from ipu.keras.layers.image_augmentation import *
from ipu.keras.layers.image_movement import *
from ipu.keras.layers.index_lookup import *
from ipu.keras.layers.preprocessing import *
from ipu.keras.layers.preprocessing import PreprocessingLayer as PreprocessingLayer
from ipu.keras.layers.text_vectorization import *

export(__name__, offered(__name__))
