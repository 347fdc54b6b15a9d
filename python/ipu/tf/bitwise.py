# SPDX-License-Identifier: MIT
"""``tf.bitwise``: integers bit by bit."""

from typing import TYPE_CHECKING

from ipu._text.faces import face, offered
from ipu.tf._ops.elementwise import (
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    invert as invert,
    left_shift as left_shift,
    right_shift as right_shift,
)

if not TYPE_CHECKING:
    __all__ = offered(__name__)
    __getattr__, __dir__ = face(__name__, __all__)
