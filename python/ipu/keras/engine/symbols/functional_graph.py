# SPDX-License-Identifier: MIT
"""From the outputs of a functional model back to its nodes and layers, in order.

The depth of a node is its longest distance from an output. Nodes run from the deepest
to depth 0; layers are listed by depth too, and where that is equal in the order in
which a walk from the outputs meets them. This is Keras's order, so ``get_weights``
agrees.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ipu.keras.engine.symbols.keras_tensor import KerasTensor, Node

if TYPE_CHECKING:
    from ipu.keras.engine.base_layer import Layer


class Graph(NamedTuple):
    """The nodes in the order in which they run, and the layers in Keras's order."""

    nodes: list[Node]
    layers: list[Layer]
    node_depths: dict[Node, int]


def map_graph(inputs: Sequence[KerasTensor], outputs: Sequence[KerasTensor]) -> Graph:
    """Find what lies between inputs and outputs."""
    post_order, first_seen = _walk(inputs, outputs)
    node_depths: dict[Node, int] = {}
    layer_depths: dict[Layer, int] = {}
    for node in reversed(post_order):
        depth = max(node_depths.get(node, 0), layer_depths.get(node.layer, 0))
        layer_depths[node.layer] = depth
        node_depths[node] = depth
        if not _is_among(node, inputs):
            for parent in node.parent_nodes:
                node_depths[parent] = max(depth + 1, node_depths.get(parent, 0))
    for tensor in inputs:
        layer = tensor._keras_history.layer
        if layer not in layer_depths:  # an input that no output needs
            layer_depths[layer] = 0
            first_seen[layer] = -1
            node_depths[tensor.node] = 0
            post_order.insert(0, tensor.node)
    layers = sorted(layer_depths, key=lambda la: (-layer_depths[la], first_seen[la]))
    # sorted is stable: within a depth, nodes keep the order of the walk
    nodes = sorted(post_order, key=lambda node: -node_depths[node])
    _check_connected(inputs, nodes)
    _check_names(layers)
    return Graph(nodes, layers, node_depths)


def _is_among(node: Node, inputs: Sequence[KerasTensor]) -> bool:
    return any(tensor.node is node for tensor in inputs)


def _walk(
    inputs: Sequence[KerasTensor], outputs: Sequence[KerasTensor]
) -> tuple[list[Node], dict[Layer, int]]:
    """Return nodes after all that they need, and when each layer was met first."""
    done: set[Node] = set()
    order: list[Node] = []
    first_seen: dict[Layer, int] = {}
    for output in outputs:
        stack: list[tuple[Node, int]] = [(output.node, 0)]
        while stack:
            node, position = stack.pop()
            if node in done:
                continue
            if position == 0:
                first_seen.setdefault(node.layer, len(first_seen))
            needed = [] if _is_among(node, inputs) else node.keras_inputs
            if position < len(needed):
                stack.append((node, position + 1))
                stack.append((needed[position].node, 0))
            else:
                done.add(node)
                order.append(node)
    return order, first_seen


def _check_connected(inputs: Sequence[KerasTensor], nodes: list[Node]) -> None:
    known = {id(tensor) for tensor in inputs}
    passed: list[str] = []
    for node in nodes:
        if _is_among(node, inputs):
            continue
        if node.is_input:
            raise ValueError(
                f"Graph disconnected: cannot obtain value for tensor {node.outputs!r} "
                f'at layer "{node.layer.name}". The following previous layers were '
                f"accessed without issue: {passed}. List it among the model's inputs. "
                f"Received: {len(known)} input(s)."
            )
        passed.append(node.layer.name)


def _check_names(layers: list[Layer]) -> None:
    names = [layer.name for layer in layers]
    for name in names:
        if names.count(name) != 1:
            raise ValueError(
                f'The name "{name}" is used {names.count(name)} times in the model. '
                "All layer names should be unique."
            )
