# SPDX-License-Identifier: MIT
"""The boxes of a drawing: one for each layer, with its lines of text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Shown(NamedTuple):
    """The parts of each layer that are drawn.

    Attributes:
        shapes: Of inputs and outputs.
        dtypes: That of the layer.
        names: Its name, beside its class.
        nested: The layers of models within.
        activations: The name of its activation.
        layers: None, or patterns of the names of the first and the last layer.
    """

    shapes: bool = False
    dtypes: bool = False
    names: bool = True
    nested: bool = False
    activations: bool = False
    layers: Sequence[str] | None = None


@dataclass(eq=False)
class Box:
    """A layer.

    Attributes:
        name: The layer's name, with those of the models around it before it.
        lines: What is written in it; the first is its title.
        sources: The boxes that it gets its inputs from.
        inner: The boxes of the layers within.
        x: Where its left side is, in pixels; set by the layout.
        y: Where its top is.
        width: Its width.
        height: Its height.
    """

    name: str
    lines: list[str]
    sources: list[Box] = field(default_factory=list)
    inner: list[Box] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0


def boxes_of(model: Any, shown: Shown, scope: str = "") -> list[Box]:
    """Make the boxes of a model, in the order of its layers."""
    if not model.built:
        raise ValueError(
            "This model has not yet been built. Build the model first by calling "
            "`build()` or by calling the model on a batch of data."
        )
    graph = getattr(model, "_graph", None)
    if graph is None:  # what its own `call` does has no graph
        return [Box(scope + model.name, [f"{model.name}: {type(model).__name__}"])]
    found: dict[str, Box] = {}
    within = chosen(graph.layers, shown.layers)
    for layer in within:
        box = Box(scope + layer.name, _lines(layer, graph, shown))
        if shown.nested and getattr(layer, "_graph", None) is not None:
            inside = shown._replace(layers=None)
            box.inner = boxes_of(layer, inside, f"{box.name}/")
        found[layer.name] = box
    for node in graph.nodes:
        target = found.get(node.layer.name)
        for source in node.inbound_layers if target is not None else ():
            before = found.get(source.name)
            if target and before and before not in target.sources:
                target.sources.append(before)
    return list(found.values())


def chosen(layers: Sequence[Any], bounds: Sequence[str] | None) -> list[Any]:
    """Return the layers from the first name to the last, which are patterns."""
    if bounds is None:
        return list(layers)
    names = [layer.name for layer in layers]
    if len(bounds) != 2:
        raise ValueError(
            "`layer_range` must have the names of the first and the last layer. "
            f"Received: {bounds!r}."
        )
    places = []
    for bound in bounds:
        fitting = [i for i, name in enumerate(names) if re.match(bound, name)]
        if not fitting:
            raise ValueError(
                f"`layer_range` names no layer of the model: {bound!r}. Its layers: "
                f"{', '.join(names)}."
            )
        places.append(fitting)
    ends = sorted((min(places[0]), max(places[1])))
    return list(layers[ends[0] : ends[1] + 1])


def _lines(layer: Any, graph: Any, shown: Shown) -> list[str]:
    kind = type(layer).__name__
    inner = getattr(layer, "layer", None)
    if inner is not None and hasattr(inner, "name"):  # a wrapper
        kind = f"{kind}({type(inner).__name__})"
    lines = [f"{layer.name}: {kind}" if shown.names else kind]
    activation = getattr(layer, "activation", None)
    if shown.activations and activation is not None:
        lines.append(f"activation: {getattr(activation, '__name__', activation)}")
    if shown.dtypes:
        lines.append(f"dtype: {layer.dtype}")
    if shown.shapes:
        nodes = [node for node in layer._inbound_nodes if node in graph.node_depths]
        lines.append(f"input: {_joined(nodes, 'input_shapes')}")
        lines.append(f"output: {_joined(nodes, 'output_shapes')}")
    return lines


def _joined(nodes: Sequence[Any], what: str) -> str:
    """Return the shapes of all calls; those of an input are what it gives."""
    texts = [
        str(node.output_shapes if node.is_input else getattr(node, what))
        for node in nodes
    ]
    return ", ".join(dict.fromkeys(texts))
