# SPDX-License-Identifier: MIT
"""The earlier place of ``ipu.distributed.popdist_strategy``."""

from ipu._text.exports import export
from ipu.distributed.popdist_strategy import PopDistStrategy as PopDistStrategy

__all__ = ["PopDistStrategy"]

export(__name__)
