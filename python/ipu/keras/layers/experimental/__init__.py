# SPDX-License-Identifier: MIT
"""``keras.layers.experimental``: where Keras 2.6 keeps preprocessing layers."""

from __future__ import annotations

from ipu.keras import _names
from ipu.keras.layers.experimental import preprocessing

__all__ = ["preprocessing"]


__getattr__ = _names.missing(__name__, __all__)
