# SPDX-License-Identifier: MIT
"""``ipu.keras.models``: the classes of models."""

from __future__ import annotations

from ipu.keras.engine.functional import Functional
from ipu.keras.engine.model import Model
from ipu.keras.engine.sequential import Sequential

__all__ = ["Functional", "Model", "Sequential"]

CLASSES = ("Functional", "Model", "Sequential")
