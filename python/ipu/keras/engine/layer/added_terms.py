# SPDX-License-Identifier: MIT
"""Layers that stand for what ``add_loss`` and ``add_metric`` of a functional model add.

They give their input as it is; a functional model runs them although none of its
outputs needs them.
"""

from __future__ import annotations

from typing import Any

from ipu import tf
from ipu.keras._types import Tensor
from ipu.keras.engine.base_layer import Layer


class AddLoss(Layer):
    """Adds its input to the loss of the model; of several values, the mean."""

    def call(self, inputs: Tensor) -> Tensor:
        """Add the loss; give the inputs."""
        self.add_loss(tf.reduce_mean(inputs))
        return inputs


class AddMetric(Layer):
    """Shows the mean of its input among the metrics of the model."""

    def __init__(self, metric_name: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metric_name = metric_name

    def call(self, inputs: Tensor) -> Tensor:
        """Take the metric in; give the inputs."""
        self.add_metric(inputs, self.metric_name)
        return inputs
