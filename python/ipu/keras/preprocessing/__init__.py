# SPDX-License-Identifier: MIT
"""``ipu.keras.preprocessing``: data brought into shape on the host."""

from __future__ import annotations

from ipu.keras import _names
from ipu.keras.preprocessing import sequence, text

__all__ = ["sequence", "text"]


__getattr__ = _names.missing(__name__, __all__)
