# SPDX-License-Identifier: MIT
"""``ipu.keras.layers``: the building blocks of models."""

from __future__ import annotations

from ipu.keras import _names
from ipu.keras.layers.base_layer import InputSpec, Layer
from ipu.keras.layers.core import (
    Activation,
    Dense,
    Dropout,
    Flatten,
    Lambda,
    Reshape,
)
from ipu.keras.layers.input_layer import Input, InputLayer
from ipu.keras.layers.merge import Add, Concatenate, add, concatenate

__all__ = [
    "Activation",
    "Add",
    "Concatenate",
    "Dense",
    "Dropout",
    "Flatten",
    "Input",
    "InputLayer",
    "InputSpec",
    "Lambda",
    "Layer",
    "Reshape",
    "add",
    "concatenate",
]


__getattr__ = _names.missing(__name__, __all__)
