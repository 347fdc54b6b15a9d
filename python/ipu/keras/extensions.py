# SPDX-License-Identifier: MIT
"""``ipu.keras.extensions``: what the IPU adds to models, by the names of its parts.

All models of ``ipu.keras`` have the methods, in the scope of a strategy and outside.

Example:
    >>> model = keras.Sequential([keras.layers.Dense(2)])
    >>> isinstance(model, ModelExtension), isinstance(model, FunctionalExtension)
    (True, True)
"""

from __future__ import annotations

from ipu._text.exports import export
from ipu.keras.engine.functional import Functional as FunctionalExtension
from ipu.keras.engine.pipelines.assignment import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipu.keras.engine.pipelines.ipu_options import (
    IPUOptions as ModelExtension,
    ReplicatedMetricReductionMethod,
)
from ipu.keras.engine.pipelines.pipeline_stage import PipelineStage
from ipu.keras.engine.sequential import Sequential as SequentialExtension

__all__ = [
    "FunctionalExtension",
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "ModelExtension",
    "ModelLayerPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "PipelineStage",
    "ReplicatedMetricReductionMethod",
    "SequentialExtension",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
]


export(__name__)
