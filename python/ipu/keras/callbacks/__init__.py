# SPDX-License-Identifier: MIT
"""``ipu.keras.callbacks``: what happens beside training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.faces import face
from ipu.keras.callbacks.backup import BackupAndRestore
from ipu.keras.callbacks.callback import Callback, CallbackList
from ipu.keras.callbacks.checkpoint import ModelCheckpoint
from ipu.keras.callbacks.history import History
from ipu.keras.callbacks.plateau import ReduceLROnPlateau
from ipu.keras.callbacks.progbar import ProgbarLogger
from ipu.keras.callbacks.recorder import PipelineRecorder
from ipu.keras.callbacks.simple import (
    CSVLogger,
    LambdaCallback,
    LearningRateScheduler,
)
from ipu.keras.callbacks.stopping import EarlyStopping, TerminateOnNaN

if TYPE_CHECKING:
    from ipu.keras.callbacks.tensorboard import TensorBoard

__all__ = [
    "BackupAndRestore",
    "CSVLogger",
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "PipelineRecorder",
    "ProgbarLogger",
    "ReduceLROnPlateau",
    "TensorBoard",
    "TerminateOnNaN",
]


if not TYPE_CHECKING:
    _LAZY = {"TensorBoard": "ipu.keras.callbacks.tensorboard:TensorBoard"}
    __getattr__, __dir__ = face(__name__, __all__, _LAZY)
