# SPDX-License-Identifier: MIT
"""``tf.bitwise``: integers bit by bit."""

from ipu.tf._elementwise import (
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
