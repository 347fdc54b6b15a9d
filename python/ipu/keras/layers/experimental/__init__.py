# SPDX-License-Identifier: MIT
"""``keras.layers.experimental``: where Keras 2.6 keeps preprocessing layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.keras.layers.experimental import preprocessing

__all__ = ["preprocessing"]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
