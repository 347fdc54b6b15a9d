# SPDX-License-Identifier: MIT
"""``ipu.eager``: what the way back through a program can show."""

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.eager import backprop

__all__ = ["backprop"]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
