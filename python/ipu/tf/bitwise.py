# SPDX-License-Identifier: MIT
"""``tf.bitwise``: integers bit by bit."""

from ipu._text.exports import export, offered
from ipu.tf._ops.elementwise import (
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    invert as invert,
    left_shift as left_shift,
    right_shift as right_shift,
)

export(__name__, offered(__name__))
