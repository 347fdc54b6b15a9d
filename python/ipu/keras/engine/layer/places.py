# SPDX-License-Identifier: MIT
"""The part of ``Layer`` that knows its calls on symbolic values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipu.keras._types import Nest
from ipu.keras.engine.symbols.keras_tensor import Node


class LayerPlaces:
    """Inputs, outputs and their shapes where a layer is used in a functional model."""

    if TYPE_CHECKING:
        _inbound_nodes: list[Node]
        name: Any

    # --- places in a model --------------------------------------------------------

    def _only_node(self, what: str) -> Node:
        if len(self._inbound_nodes) != 1:
            count = len(self._inbound_nodes)
            raise AttributeError(
                f"The layer {self.name!r} has never been called on symbolic values "
                f"and thus has no defined {what}."
                if count == 0
                else f"Layer {self.name!r} has {count} inbound nodes, hence the notion "
                f"of its {what} is ill-defined. Use `get_{what.split()[0]}_at("
                "node_index)` instead."
            )
        return self._inbound_nodes[0]

    @property
    def inbound_nodes(self) -> list[Node]:
        """The calls of this layer on symbolic values."""
        return self._inbound_nodes

    @property
    def input(self) -> Nest:
        """The symbolic input of the only call."""
        inputs = self._only_node("input").keras_inputs
        if not inputs:
            return self._inbound_nodes[0].outputs
        return inputs[0] if len(inputs) == 1 else list(inputs)

    @property
    def output(self) -> Nest:
        """The symbolic result of the only call."""
        return self._only_node("output").outputs

    @property
    def input_shape(self) -> Any:
        """The shape of ``input``."""
        node = self._only_node("input shape")
        return node.input_shapes if node.keras_inputs else node.output_shapes

    @property
    def output_shape(self) -> Any:
        """The shape of ``output``."""
        return self._only_node("output shape").output_shapes

    def get_input_at(self, node_index: int) -> Nest:
        """Give the symbolic input of a call, counted from 0."""
        inputs = self._inbound_nodes[node_index].keras_inputs
        return inputs[0] if len(inputs) == 1 else list(inputs)

    def get_output_at(self, node_index: int) -> Nest:
        """Give the symbolic result of a call, counted from 0."""
        return self._inbound_nodes[node_index].outputs
