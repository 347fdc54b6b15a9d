# SPDX-License-Identifier: MIT
"""``tf.bitwise``: integers bit by bit."""

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.tf._ops.elementwise import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    invert,
    left_shift,
    right_shift,
)

__all__ = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
]


if not TYPE_CHECKING:
    __getattr__, __dir__ = face(__name__, __all__)
