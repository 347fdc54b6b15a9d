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

from ipu._text import exports as _exports
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
from ipu.keras._variable import Variable
from ipu.keras.engine.base_layer import InputSpec, Layer
from ipu.keras.engine.functional import Functional as Function
from ipu.keras.engine.layer.policy import Policy as DTypePolicy
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
from ipu.keras.engine.symbols.keras_tensor import KerasTensor
from ipu.keras.initializers import Initializer
from ipu.keras.layers import Input
from ipu.keras.losses import Loss
from ipu.keras.metrics import Metric
from ipu.keras.optimizers import Optimizer
from ipu.keras.regularizers import Regularizer
from ipu.tf import device, name_scope

if TYPE_CHECKING:
    from ipu.keras import (
        backend as backend,
        config as config,
        datasets as datasets,
        extensions as extensions,
        mixed_precision as mixed_precision,
        models as models,
        ops as ops,
        preprocessing as preprocessing,
        random as random,
        saving as saving,
        tree as tree,
        utils as utils,
    )

__all__ = [
    "DTypePolicy",
    "Function",
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "Initializer",
    "Input",
    "InputSpec",
    "KerasTensor",
    "Layer",
    "Loss",
    "Metric",
    "Model",
    "ModelLayerPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "Optimizer",
    "PipelineModel",
    "PipelineStage",
    "Regularizer",
    "ReplicatedMetricReductionMethod",
    "Sequential",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
    "SequentialPipelineModel",
    "Variable",
    "__version__",
    "activations",
    "backend",
    "callbacks",
    "config",
    "constraints",
    "datasets",
    "device",
    "extensions",
    "initializers",
    "layers",
    "losses",
    "metrics",
    "mixed_precision",
    "models",
    "name_scope",
    "ops",
    "optimizers",
    "preprocessing",
    "random",
    "regularizers",
    "saving",
    "tree",
    "utils",
    "version",
]

# the release of Keras whose names and numbers these are
__version__ = "2.6.0"


def version() -> str:
    """Return the release of Keras whose names and numbers these are.

    Example:
        >>> keras.version() == keras.__version__
        True
    """
    return __version__


if not TYPE_CHECKING:
    # modules that models do without, some of which take long to import
    _LATER = """
    backend config datasets extensions mixed_precision models ops preprocessing random
    saving tree utils
    """
    _LAZY = {name: f"ipu.keras.{name}" for name in _LATER.split()}
    _exports.export(__name__, None, _LAZY)
