# SPDX-License-Identifier: MIT
"""``ipu.keras``: a Keras-like face with the IPU extensions.

Names, defaults and numbers are those of Keras 2.6, where no other source is named.
Models run as programs of a simulated IPU: ``steps_per_execution`` steps of training are
one call into the core.

The examples of this package begin with ``from ipu import keras, tf`` and
``import numpy as np``.

Example:
    >>> model = keras.Sequential([
    ...     keras.layers.Flatten(input_shape=(28, 28)),
    ...     keras.layers.Dense(10),
    ... ])
    >>> model.count_params()
    7850
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu._text.exports import export
from ipu.keras import (
    activations,
    callbacks,
    constraints,
    initializers,
    layers,
    losses,
    metrics,
    optimizers,
    regularizers,
)
from ipu.keras.engine.model import Model
from ipu.keras.engine.pipelines.assignment import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipu.keras.engine.pipelines.ipu_options import ReplicatedMetricReductionMethod
from ipu.keras.engine.pipelines.pipeline_models import (
    PipelineModel,
    SequentialPipelineModel,
)
from ipu.keras.engine.pipelines.pipeline_stage import PipelineStage
from ipu.keras.engine.sequential import Sequential
from ipu.keras.layers import Input

if TYPE_CHECKING:
    from ipu.keras import (
        backend as backend,
        datasets as datasets,
        extensions as extensions,
        mixed_precision as mixed_precision,
        models as models,
        preprocessing as preprocessing,
        utils as utils,
    )

__all__ = [
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "Input",
    "Model",
    "ModelLayerPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "PipelineModel",
    "PipelineStage",
    "ReplicatedMetricReductionMethod",
    "Sequential",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
    "SequentialPipelineModel",
    "activations",
    "backend",
    "callbacks",
    "constraints",
    "datasets",
    "extensions",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "mixed_precision",
    "models",
    "optimizers",
    "preprocessing",
    "regularizers",
    "utils",
]


if not TYPE_CHECKING:
    # modules that models do without, some of which take long to import
    _LATER = "backend datasets extensions mixed_precision models preprocessing utils"
    _LAZY = {name: f"ipu.keras.{name}" for name in _LATER.split()}
    export(__name__, None, _LAZY)
