# SPDX-License-Identifier: MIT
"""``keras.layers.experimental``: where Keras 2.6 keeps preprocessing layers."""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras.layers.experimental import preprocessing

__all__ = ["preprocessing"]


export(__name__)
