# SPDX-License-Identifier: MIT
"""``ipu.keras.callbacks``: what happens beside training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.exports import export, offered
from ipu.keras.callbacks.backup import *
from ipu.keras.callbacks.callback import *
from ipu.keras.callbacks.checkpoint import *
from ipu.keras.callbacks.history import *
from ipu.keras.callbacks.plateau import *
from ipu.keras.callbacks.progbar import *
from ipu.keras.callbacks.recorder import *
from ipu.keras.callbacks.simple import *
from ipu.keras.callbacks.stopping import *

if TYPE_CHECKING:
    from ipu.keras.callbacks.averages import *
    from ipu.keras.callbacks.tensorboard import *
else:
    _LAZY = {
        "SwapEMAWeights": "ipu.keras.callbacks.averages:SwapEMAWeights",
        "TensorBoard": "ipu.keras.callbacks.tensorboard:TensorBoard",
    }
    export(__name__, offered(__name__, _LAZY), _LAZY)
