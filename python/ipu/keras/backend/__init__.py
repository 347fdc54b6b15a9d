# SPDX-License-Identifier: MIT
"""``ipu.keras.backend``: settings, and the functions that layers and losses call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face, offered
from ipu.keras.backend._arithmetic import *
from ipu.keras.backend._networks import *
from ipu.keras.backend._settings import *
from ipu.keras.backend._shapes import *
from ipu.keras.backend._values import *
from ipu.tf import name_scope as name_scope

if not TYPE_CHECKING:
    __all__ = offered(__name__)
    __getattr__, __dir__ = face(__name__, __all__)
