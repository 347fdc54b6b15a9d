# SPDX-License-Identifier: MIT
"""A model as one list of calls of layers, through all models inside it.

Stages are given to calls. Those of a model make a tree: a number, or None, for each
*unit* (a layer of a ``Sequential``, else a call), and in the place of a model inside a
tree for that call of it. :func:`flatten` turns model and tree into a list of calls in
the order in which they run, each with its stage. The symbols of an inner model stand
for other values in each call of it, so a value's key is a path of calls and a symbol.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ipu import tf
from ipu.keras._types import Nest, Tensor
from ipu.keras.engine.symbols.keras_tensor import KerasTensor, Node

if TYPE_CHECKING:
    from ipu.keras.engine.base_layer import Layer

StageTree = list[Any]  # of int, None and StageTree
Key = tuple[tuple[int, ...], int]  # a path of calls, and the id of a symbol


class Unit(NamedTuple):
    """A unit that has a stage of its own.

    Attributes:
        layer: The layer.
        node: Its call; None in a ``Sequential`` that is not built.
    """

    layer: Layer
    node: Node | None


class ModelGraph(NamedTuple):
    """The calls of a model on symbolic values.

    Attributes:
        nodes: The calls in the order in which they run, without inputs.
        inputs: The symbols of its inputs.
        outputs: The symbols of its outputs, a nest.
        arrange: Puts what the model is called on in the order of its inputs.
        fit: Makes of an input's place and a tensor what the calls take.
    """

    nodes: list[Node]
    inputs: list[KerasTensor]
    outputs: Nest
    arrange: Callable[[Nest], list[Any]]
    fit: Callable[[int, Tensor], Tensor]


class StageCall(NamedTuple):
    """A call of a layer that is not a model, with its stage.

    Attributes:
        node: The call on symbolic values.
        stage: Its stage.
        path: The calls of models that it is inside of.
    """

    node: Node
    stage: Any
    path: tuple[int, ...]

    def key(self, symbol: KerasTensor) -> Key:
        """Return the key of a symbol of the model that the call is in."""
        return self.path, id(symbol)


class FlatModel(NamedTuple):
    """A model as a list of calls.

    Attributes:
        calls: The calls in the order in which they run.
        graph: The model's own graph.
        inputs: The keys of its inputs.
        outputs: The keys of its outputs.
        sources: For values that come out of or go into an inner model: the value
            outside or inside that they are, and what fits it, or None.
        graphs: Of inner models: they keep the symbols alive whose ids are in keys.
    """

    calls: list[StageCall]
    graph: ModelGraph
    inputs: list[Key]
    outputs: list[Key]
    sources: dict[Key, tuple[Key, Callable[[Tensor], Tensor] | None]]
    graphs: list[ModelGraph]

    def origin(self, key: Key) -> Key:
        """Return the key of the call's result, or of the model's input, that a
        value is."""
        while key in self.sources:
            key = self.sources[key][0]
        return key

    def origins_of(self, call: StageCall) -> list[Key]:
        """Return what a call takes."""
        return [self.origin(call.key(symbol)) for symbol in call.node.keras_inputs]


def is_nested(unit: Unit) -> bool:
    """Return whether a unit is a model whose layers have stages of their own.

    A model is taken as one layer where its calls are not known to be those of its
    graph: a functional one with a ``call`` of its own, one that is called with several
    arguments, or with a penalty on its result.
    """
    layer, node = unit
    if not getattr(layer, "_can_have_stages", False):
        return False
    if layer.activity_regularizer is not None:
        return False
    if node is None:
        return True
    if len(node.args) != 1 or tf.nest.flatten(node.kwargs):
        return False
    return all(isinstance(v, KerasTensor) for v in tf.nest.flatten(node.args[0]))


def leaves_of(tree: StageTree) -> Iterator[Any]:
    """Yield the stages in a tree, in order."""
    for entry in tree:
        if isinstance(entry, list):
            yield from leaves_of(entry)
        else:
            yield entry


def map_stages(function: Callable[[Any], Any], tree: StageTree) -> StageTree:
    """Return a tree of what a function makes of each stage."""
    return [
        map_stages(function, one) if isinstance(one, list) else function(one)
        for one in tree
    ]


def flatten(model: Any, tree: StageTree, training: bool | None = None) -> FlatModel:
    """Turn a model into a list of calls.

    Args:
        training: For which mode the ``call`` of subclasses of ``Model`` is looked at.
    """
    graph: ModelGraph = model._stage_graph(training)
    inputs: list[Key] = [((), id(symbol)) for symbol in graph.inputs]
    outputs: list[Key] = [((), id(s)) for s in tf.nest.flatten(graph.outputs)]
    flat = FlatModel([], graph, inputs, outputs, {}, [])
    _add(flat, graph, tree, (), training)
    return flat


def _add(
    flat: FlatModel,
    graph: ModelGraph,
    tree: StageTree,
    path: tuple[int, ...],
    training: bool | None,
) -> None:
    flat.graphs.append(graph)
    for place, (node, entry) in enumerate(zip(graph.nodes, tree, strict=True)):
        if not isinstance(entry, list):
            flat.calls.append(StageCall(node, entry, path))
            continue
        layer: Any = node.layer
        inner: ModelGraph = layer._stage_graph(training)
        inside = (*path, place)
        given = inner.arrange(node.args[0])
        for i, (symbol, value) in enumerate(zip(inner.inputs, given, strict=True)):
            fit = functools.partial(inner.fit, i)
            flat.sources[inside, id(symbol)] = (path, id(value)), fit
        results = tf.nest.flatten(node.outputs)
        outputs = tf.nest.flatten(inner.outputs)
        for symbol, value in zip(results, outputs, strict=True):
            flat.sources[path, id(symbol)] = (inside, id(value)), None
        _add(flat, inner, entry, inside, training)


def check_dependencies(flat: FlatModel) -> None:
    """Check that no call takes the result of a later stage."""
    makers = {
        call.key(symbol): call
        for call in flat.calls
        for symbol in tf.nest.flatten(call.node.outputs)
    }
    for call in flat.calls:
        for origin in flat.origins_of(call):
            maker = makers.get(origin)
            if maker is not None and maker.stage > call.stage:
                raise ValueError(
                    f"Layer {call.node.layer.name} in pipeline stage {call.stage} has "
                    "a dependency from a pipeline stage which has not yet been "
                    f"executed: {maker.node.layer.name} is in stage {maker.stage}. "
                    "Put it on the same stage or an earlier one."
                )
