# SPDX-License-Identifier: MIT
"""``ipu.data``: data sets of the IPU's extensions of ``tf.data``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.exports import export

if TYPE_CHECKING:
    from ipu.data import ops as ops

if not TYPE_CHECKING:
    __all__ = ["ops"]
    export(__name__, None, {"ops": "ipu.data.ops"})
