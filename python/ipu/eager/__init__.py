# SPDX-License-Identifier: MIT
"""``ipu.eager``: what the way back through a program can show."""

from ipu._text.exports import export
from ipu.eager import backprop

__all__ = ["backprop"]


export(__name__)
