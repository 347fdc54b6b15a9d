# SPDX-License-Identifier: MIT
"""``tensorflow.python.ipu.keras`` as the first SDK generation had it.

Its models are subclasses of those of ``ipu.keras`` that count, restrict and return as
the originals did. They are served to old programs only.
"""

from __future__ import annotations

from ipu.drop_in.first_keras.models import Model, Sequential
from ipu.drop_in.first_keras.pipelines import (
    PipelinedModel,
    PipelineModel,
    PipelineSequential,
    SequentialPipelineModel,
)

__all__ = [
    "Model",
    "PipelineModel",
    "PipelineSequential",
    "PipelinedModel",
    "Sequential",
    "SequentialPipelineModel",
]
