# SPDX-License-Identifier: MIT
"""``keras.layers.experimental``: where Keras 2.6 keeps preprocessing layers."""

from __future__ import annotations

from ipu._text.faces import face
from ipu.keras.layers.experimental import preprocessing

__all__ = ["preprocessing"]


face(__name__)
