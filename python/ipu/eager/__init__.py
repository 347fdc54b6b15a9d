# SPDX-License-Identifier: MIT
"""``ipu.eager``: what the way back through a program can show."""

from ipu._text.faces import face
from ipu.eager import backprop

__all__ = ["backprop"]


face(__name__)
