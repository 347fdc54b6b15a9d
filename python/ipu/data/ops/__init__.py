# SPDX-License-Identifier: MIT
"""``ipu.data.ops``: the module ``dataset_ops``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.exports import export

if TYPE_CHECKING:
    from ipu.data.ops import dataset_ops as dataset_ops

if not TYPE_CHECKING:
    __all__ = ["dataset_ops"]
    export(__name__, None, {"dataset_ops": "ipu.data.ops.dataset_ops"})
