# SPDX-License-Identifier: MIT
"""Which pipeline stage each call of a layer is on, and the rules for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipu.keras.engine.keras_tensor import Node
    from ipu.keras.layers.base_layer import Layer

__all__ = [
    "FunctionalLayerPipelineStageAssignment",
    "SequentialLayerPipelineStageAssignment",
    "check_functional",
    "check_sequential",
]


class SequentialLayerPipelineStageAssignment:
    """The stage of a layer of a ``Sequential``.

    Args:
        layer: The layer.
        pipeline_stage: Its stage, None for none yet.

    Source: the IPU extensions of Keras, SDK 2.2 to 3.4.
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
        """Whether the layer is a model with stages of its own: False."""
        return False

    def __repr__(self) -> str:
        return f"Layer: {self._layer.name}, pipeline stage: {self.pipeline_stage}"


class FunctionalLayerPipelineStageAssignment(SequentialLayerPipelineStageAssignment):
    """The stage of one call of a layer in a functional model.

    Args:
        layer: The layer.
        node_index: Which of its calls, from 0.
        pipeline_stage: Its stage, None for none yet.

    Source: the IPU extensions of Keras, SDK 2.2 to 3.4.
    """

    def __init__(
        self, layer: Layer, node_index: int, pipeline_stage: int | None = None
    ) -> None:
        super().__init__(layer, pipeline_stage)
        self._node_index = node_index

    @property
    def node_index(self) -> int:
        """Which call of the layer it is."""
        return self._node_index

    @property
    def node(self) -> Node:
        """The call."""
        return self._layer._inbound_nodes[self._node_index]

    @property
    def inbound_layers(self) -> list[Layer]:
        """The layers whose results the call takes."""
        return self.node.inbound_layers

    def __repr__(self) -> str:
        return (
            f"Layer: {self._layer.name}, node index: {self._node_index}, "
            f"pipeline stage: {self.pipeline_stage}"
        )


def _stage_of(entry: Any) -> Any:
    return entry.pipeline_stage


def check_sequential(layers: list[Layer], given: Any) -> list[int]:
    """Check the stages of a ``Sequential``.

    Args:
        layers: Its layers, without the input's.
        given: A list of ints, or of assignments.

    Returns:
        The stage of each layer.

    Raises:
        ValueError: A rule is broken.
    """
    if not isinstance(given, list):
        raise ValueError(
            "`pipeline_stage_assignment` needs to be a list of integers or "
            "`SequentialLayerPipelineStageAssignment`s. "
            f"Received: {type(given).__name__}."
        )
    if len(given) != len(layers):
        raise ValueError(
            f"The length of the provided `pipeline_stage_assignment` ({len(given)}) "
            f"does not match the number of layers in the graph ({len(layers)}), which "
            f"are {[layer.name for layer in layers]}."
        )
    stages: list[int] = []
    previous = 0
    for index, (layer, entry) in enumerate(zip(layers, given, strict=True)):
        if isinstance(entry, SequentialLayerPipelineStageAssignment):
            if entry.layer is not layer:
                raise ValueError(
                    "The order of `pipeline_stage_assignment` does not match the order "
                    f"of layers. Received: {entry.layer.name!r} at place {index}, "
                    f"where layer {layer.name!r} is."
                )
            entry = entry.pipeline_stage
        if entry is None:
            raise ValueError(
                f"Layer {layer.name} has not been assigned a pipeline stage."
            )
        if isinstance(entry, bool) or not isinstance(entry, int):
            raise ValueError(
                "All elements of `pipeline_stage_assignment` must be integers or "
                f"`SequentialLayerPipelineStageAssignment`s. Received: {entry!r} at "
                f"place {index}."
            )
        if index == 0 and entry != 0:
            raise ValueError(
                f"The first layer in a Sequential model ({layer.name}) needs to be "
                f"assigned to the 0th pipeline stage, however it was assigned to stage "
                f"{entry}."
            )
        if entry not in (previous, previous + 1):
            raise ValueError(
                f"Layer {layer.name} has been assigned to pipeline stage {entry}, "
                f"however the previous layer is on stage {previous}. A layer in a "
                "Sequential model can only be assigned to the same pipeline stage as "
                "the previous layer or to the next."
            )
        stages.append(entry)
        previous = entry
    return stages


def check_functional(nodes: list[Node], given: Any) -> list[int]:
    """Check the stages of a functional model.

    Args:
        nodes: Its calls in the order in which they run, without inputs.
        given: A list of ``FunctionalLayerPipelineStageAssignment``.

    Returns:
        The stage of each call.

    Raises:
        ValueError: A rule is broken.
    """
    if not isinstance(given, list):
        raise ValueError(
            "`pipeline_stage_assignment` needs to be a list of "
            "`FunctionalLayerPipelineStageAssignment`s. "
            f"Received: {type(given).__name__}."
        )
    if len(given) != len(nodes):
        raise ValueError(
            f"The length of the provided `pipeline_stage_assignment` ({len(given)}) "
            f"does not match the number of layers in the graph ({len(nodes)})."
        )
    stages: dict[Node, int] = {}
    for index, (node, entry) in enumerate(zip(nodes, given, strict=True)):
        if not isinstance(entry, FunctionalLayerPipelineStageAssignment):
            raise ValueError(
                "All elements of `pipeline_stage_assignment` must be "
                "`FunctionalLayerPipelineStageAssignment`s. "
                f"Received: {entry!r} at place {index}."
            )
        if entry.layer is not node.layer or entry.node_index != node.index:
            raise ValueError(
                "The order of `pipeline_stage_assignment` does not match the "
                "post-order of the graph, which `get_pipeline_stage_assignment` gives. "
                f"Received: {entry!r} at place {index}, where {node.layer.name!r} is."
            )
        stage = _stage_of(entry)
        if stage is None:
            raise ValueError(
                f"Layer {node.layer.name} has not been assigned a pipeline stage."
            )
        for parent in node.parent_nodes:
            if stages.get(parent, 0) > stage:
                raise ValueError(
                    f"Layer {node.layer.name} in pipeline stage {stage} has a "
                    "dependency from a pipeline stage which has not yet been executed: "
                    f"{parent.layer.name} is in stage {stages[parent]}."
                )
        stages[node] = stage
    return [stages[node] for node in nodes]
