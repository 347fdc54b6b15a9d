# SPDX-License-Identifier: MIT
"""Objects that say which pipeline stage each call of a layer is on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipu.keras.engine.base_layer import Layer
    from ipu.keras.engine.symbols.keras_tensor import Node


class LayerAssignment:
    """The stage of a layer, or of one of its calls.

    Args:
        layer: The layer.
        pipeline_stage: Its stage, None for none yet; may be set later.
    """

    def __init__(self, layer: Layer, pipeline_stage: int | None = None) -> None:
        self._layer = layer
        self.pipeline_stage = pipeline_stage

    @property
    def layer(self) -> Layer:
        """The layer."""
        return self._layer

    @property
    def is_nested_model(self) -> bool:
        """Whether this is a model whose layers have stages of their own: False."""
        return False

    def __repr__(self) -> str:
        return f"Layer: {self._layer.name}, pipeline stage: {self.pipeline_stage}"


class NestedAssignment:
    """The stages of the layers of a model inside a model.

    Args:
        nested_model: The inner model.
        pipeline_stage_assignments: An assignment for each of its layers or calls.
    """

    def __init__(
        self, nested_model: Layer, pipeline_stage_assignments: Sequence[Any]
    ) -> None:
        self._model = nested_model
        self._assignments = list(pipeline_stage_assignments)

    @property
    def layer(self) -> Layer:
        """The inner model."""
        return self._model

    @property
    def nested_model(self) -> Layer:
        """The inner model."""
        return self._model

    @property
    def is_nested_model(self) -> bool:
        """Whether this is a model whose layers have stages of their own: True."""
        return True

    @property
    def pipeline_stage_assignments(self) -> list[Any]:
        """The assignments of its layers or calls, in a new list."""
        return list(self._assignments)

    def __repr__(self) -> str:
        inner = "".join(f"\n  {one!r}" for one in self._assignments)
        return f"Model: {self._model.name}, pipeline stages:{inner}"


class _OfCall:
    """Adds which call of a layer it is."""

    _node_index: int

    if TYPE_CHECKING:

        @property
        def layer(self) -> Layer: ...

    @property
    def node_index(self) -> int:
        """Which call of the layer it is."""
        return self._node_index

    @property
    def node(self) -> Node:
        """The call."""
        return self.layer._inbound_nodes[self._node_index]

    @property
    def inbound_layers(self) -> list[Layer]:
        """The layers whose results the call takes."""
        return self.node.inbound_layers


class SequentialLayerPipelineStageAssignment(LayerAssignment):
    """The stage of a layer of a ``Sequential``.

    Args:
        layer: The layer.
        pipeline_stage: Its stage, None for none yet; may be set later.

    Source: the IPU extensions of Keras, SDK 2.2 to 3.4.

    Example:
        >>> from ipu import keras
        >>> Dense = keras.layers.Dense
        >>> model = keras.Sequential([Dense(4, input_shape=(3,)), Dense(2)])
        >>> first, second = model.get_pipeline_stage_assignment()
        >>> first.pipeline_stage, second.pipeline_stage = 0, 1
        >>> model.set_pipeline_stage_assignment([first, second])
        >>> model.get_pipeline_stage_assignment()[1].pipeline_stage
        1
    """


class SequentialNestedModelPipelineStageAssignment(NestedAssignment):
    """The stages of the layers of a model that is a layer of a ``Sequential``.

    Args:
        nested_model: The inner model.
        pipeline_stage_assignments: An assignment for each of its layers or calls.

    Source: the IPU extensions of Keras, SDK 3.0 to 3.4.
    """


class ModelLayerPipelineStageAssignment(_OfCall, LayerAssignment):
    """The stage of one call of a layer in a subclass of ``Model``.

    Args:
        layer: The layer.
        node_index: Which of its calls, from 0.
        pipeline_stage: Its stage, None for none yet; may be set later.

    Source: the IPU extensions of Keras, SDK 2.5 to 3.4.
    """

    def __init__(
        self, layer: Layer, node_index: int, pipeline_stage: int | None = None
    ) -> None:
        super().__init__(layer, pipeline_stage)
        self._node_index = node_index

    def __repr__(self) -> str:
        return (
            f"Layer: {self._layer.name}, node index: {self._node_index}, "
            f"pipeline stage: {self.pipeline_stage}"
        )


class FunctionalLayerPipelineStageAssignment(ModelLayerPipelineStageAssignment):
    """The stage of one call of a layer in a functional model.

    Args:
        layer: The layer.
        node_index: Which of its calls, from 0.
        pipeline_stage: Its stage, None for none yet; may be set later.

    Source: the IPU extensions of Keras, SDK 2.2 to 3.4.

    Example:
        >>> from ipu import keras
        >>> x = keras.Input((3,))
        >>> model = keras.Model(x, keras.layers.Dense(2)(keras.layers.Dense(4)(x)))
        >>> stages = model.get_pipeline_stage_assignment()
        >>> for i, stage in enumerate(stages):
        ...     stage.pipeline_stage = i
        ...
        >>> model.set_pipeline_stage_assignment(stages)
        >>> [one.pipeline_stage for one in model.get_pipeline_stage_assignment()]
        [0, 1]
    """


class NestedModelPipelineStageAssignment(_OfCall, NestedAssignment):
    """The stages of the layers of one call of a model in a subclass of ``Model``.

    Args:
        nested_model: The inner model.
        node_index: Which of its calls, from 0.
        pipeline_stage_assignments: An assignment for each of its layers or calls.

    Source: the IPU extensions of Keras, SDK 3.0 to 3.4.
    """

    def __init__(
        self,
        nested_model: Layer,
        node_index: int,
        pipeline_stage_assignments: Sequence[Any],
    ) -> None:
        super().__init__(nested_model, pipeline_stage_assignments)
        self._node_index = node_index

    def __repr__(self) -> str:
        inner = "".join(f"\n  {one!r}" for one in self._assignments)
        return (
            f"Model: {self._model.name}, node index: {self._node_index}, "
            f"pipeline stages:{inner}"
        )


class FunctionalNestedModelPipelineStageAssignment(NestedModelPipelineStageAssignment):
    """The stages of the layers of one call of a model in a functional model.

    Args:
        nested_model: The inner model.
        node_index: Which of its calls, from 0.
        pipeline_stage_assignments: An assignment for each of its layers or calls.

    Source: the IPU extensions of Keras, SDK 3.0 to 3.4.
    """
