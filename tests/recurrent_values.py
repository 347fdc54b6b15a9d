# SPDX-License-Identifier: MIT
"""Inputs and weights of recurrent layers."""

from __future__ import annotations

import numpy as np
from op_cases.model import Array

from ipu import keras

L = keras.layers


def wave(*shape: int, scale: float = 0.6, phase: float = 0.0) -> Array:
    numbers = scale * np.sin(1.7 * np.arange(np.prod(shape)) + phase)
    return np.asarray(numbers.reshape(shape), np.float32)


X = wave(2, 4, 3, scale=1.2)
MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0]], bool)
H, C = wave(2, 2, phase=1.0), wave(2, 2, phase=2.0)
