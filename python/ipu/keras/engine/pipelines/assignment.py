# SPDX-License-Identifier: MIT
"""Objects that say which pipeline stage each call of a layer is on."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from ipu.keras.engine.pipelines.calls import StageTree, Unit, leaves_of

if TYPE_CHECKING:
    from ipu.keras.engine.base_layer import Layer
    from ipu.keras.engine.symbols.keras_tensor import Node


class LayerAssignment:
    """The stage of a layer, or of one of its calls.

    Args:
        layer: The layer.
        pipeline_stage: Its stage, None for none yet; may be set later.
    """

    is_nested_model = False

    def __init__(self, layer: Layer, pipeline_stage: int | None = None) -> None:
        self.layer = layer
        self.pipeline_stage = pipeline_stage

    def __repr__(self) -> str:
        return f"{_title('Layer', self)}, pipeline stage: {self.pipeline_stage}"


class NestedAssignment:
    """The stages of the layers of a model inside a model.

    Args:
        nested_model: The inner model.
        pipeline_stage_assignments: An assignment for each of its layers or calls.
    """

    is_nested_model = True

    def __init__(
        self, nested_model: Layer, pipeline_stage_assignments: Sequence[Any]
    ) -> None:
        self.layer = self.nested_model = nested_model
        self._assignments = list(pipeline_stage_assignments)

    @property
    def pipeline_stage_assignments(self) -> list[Any]:
        """The assignments of its layers or calls, in a new list."""
        return list(self._assignments)

    def __repr__(self) -> str:
        inner = "".join(f"\n  {one!r}" for one in self._assignments)
        return f"{_title('Model', self)}, pipeline stages:{inner}"


def _title(kind: str, one: Any) -> str:
    call = f", node index: {one.node_index}" if isinstance(one, _OfCall) else ""
    return f"{kind}: {one.layer.name}{call}"


class _OfCall:
    """Adds which call of a layer it is."""

    layer: Layer
    node_index: int

    @property
    def node(self) -> Node:
        """The call."""
        return self.layer._inbound_nodes[self.node_index]

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

    Example:
        >>> Dense = keras.layers.Dense
        >>> inner = keras.Sequential([Dense(4, input_shape=(3,)), Dense(4)])
        >>> model = keras.Sequential([inner, Dense(2, input_shape=(4,))])
        >>> nested, last = model.get_pipeline_stage_assignment()
        >>> for i, one in enumerate([*nested.pipeline_stage_assignments, last]):
        ...     one.pipeline_stage = i
        >>> model.set_pipeline_stage_assignment([nested, last])
        >>> nested.nested_model is inner
        True
    """


class ModelLayerPipelineStageAssignment(_OfCall, LayerAssignment):
    """The stage of one call of a layer in a subclass of ``Model``.

    Args:
        layer: The layer.
        node_index: Which of its calls, from 0.
        pipeline_stage: Its stage, None for none yet; may be set later.

    Source: the IPU extensions of Keras, SDK 2.5 to 3.4.

    Example:
        >>> class Two(keras.Model):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.first, self.last = keras.layers.Dense(4), keras.layers.Dense(2)
        ...     def call(self, x):
        ...         return self.last(self.first(x))
        >>> model = Two()
        >>> model.build((8, 3))
        >>> stages = model.get_pipeline_stage_assignment()
        >>> for i, one in enumerate(stages):
        ...     one.pipeline_stage = i
        >>> model.set_pipeline_stage_assignment(stages)
        >>> [(one.layer is model.last, one.node_index) for one in stages]
        [(False, 0), (True, 0)]
    """

    def __init__(
        self, layer: Layer, node_index: int, pipeline_stage: int | None = None
    ) -> None:
        super().__init__(layer, pipeline_stage)
        self.node_index = node_index


class FunctionalLayerPipelineStageAssignment(ModelLayerPipelineStageAssignment):
    """The stage of one call of a layer in a functional model.

    Args:
        layer: The layer.
        node_index: Which of its calls, from 0.
        pipeline_stage: Its stage, None for none yet; may be set later.

    Source: the IPU extensions of Keras, SDK 2.2 to 3.4.

    Example:
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

    Example:
        >>> class Around(keras.Model):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.inner = keras.Sequential([keras.layers.Dense(4)])
        ...     def call(self, x):
        ...         return self.inner(x)
        >>> model = Around()
        >>> model.build((8, 3))
        >>> (nested,) = model.get_pipeline_stage_assignment()
        >>> nested.pipeline_stage_assignments[0].pipeline_stage = 0
        >>> nested.nested_model is model.inner, nested.node_index
        (True, 0)
    """

    def __init__(
        self,
        nested_model: Layer,
        node_index: int,
        pipeline_stage_assignments: Sequence[Any],
    ) -> None:
        super().__init__(nested_model, pipeline_stage_assignments)
        self.node_index = node_index


class FunctionalNestedModelPipelineStageAssignment(NestedModelPipelineStageAssignment):
    """The stages of the layers of one call of a model in a functional model.

    Args:
        nested_model: The inner model.
        node_index: Which of its calls, from 0.
        pipeline_stage_assignments: An assignment for each of its layers or calls.

    Source: the IPU extensions of Keras, SDK 3.0 to 3.4.

    Example:
        >>> inner = keras.Sequential([keras.layers.Dense(4, input_shape=(3,))])
        >>> x = keras.Input((3,))
        >>> model = keras.Model(x, keras.layers.Dense(2)(inner(x)))
        >>> nested, last = model.get_pipeline_stage_assignment()
        >>> nested.pipeline_stage_assignments[0].pipeline_stage = 0
        >>> last.pipeline_stage = 1
        >>> model.set_pipeline_stage_assignment([nested, last])
        >>> nested.nested_model is inner
        True
    """


KINDS: dict[str, tuple[type[Any], type[Any]]] = {
    "Sequential": (
        SequentialLayerPipelineStageAssignment,
        SequentialNestedModelPipelineStageAssignment,
    ),
    "Functional": (
        FunctionalLayerPipelineStageAssignment,
        FunctionalNestedModelPipelineStageAssignment,
    ),
    "Model": (ModelLayerPipelineStageAssignment, NestedModelPipelineStageAssignment),
}


def checked_tree(model: Any, given: Any) -> StageTree:
    """Check the stages that a user gives to a model.

    Args:
        given: A list of assignments; of a ``Sequential`` also of ints.

    Returns:
        The stage of each unit of the model.
    """
    layer_kind, nested_kind = KINDS[model._stage_kind]
    takes_numbers = model._stage_kind == "Sequential"
    wanted = f"`{layer_kind.__name__}`s or `{nested_kind.__name__}`s"
    wanted = f"integers, {wanted}" if takes_numbers else wanted
    if not isinstance(given, list):
        raise ValueError(
            f"`pipeline_stage_assignment` needs to be a list of {wanted}. "
            f"Received: {type(given).__name__}."
        )
    units: list[Unit] = model._stage_units()
    if len(given) != len(units):
        raise ValueError(
            f"The length of the provided `pipeline_stage_assignment` ({len(given)}) "
            f"does not match the number of layers in the graph ({len(units)}), which "
            f"are {[unit.layer.name for unit in units]}."
        )
    tree: StageTree = []
    for place, (unit, entry) in enumerate(zip(units, given, strict=True)):
        if takes_numbers and (entry is None or isinstance(entry, Integral)):
            tree.append(_checked_stage(entry, unit, place))
            continue
        if not isinstance(entry, (layer_kind, nested_kind)):
            raise ValueError(
                f"All elements of `pipeline_stage_assignment` must be {wanted}. "
                f"Received: {entry!r} at place {place}, where layer "
                f"{unit.layer.name!r} is."
            )
        _check_order(entry, unit, place)
        if isinstance(entry, nested_kind):
            tree.append(checked_tree(unit.layer, entry.pipeline_stage_assignments))
        else:
            tree.append(_checked_stage(entry.pipeline_stage, unit, place))
    return tree


def _check_order(entry: Any, unit: Unit, place: int) -> None:
    layer, node = unit
    if entry.layer is layer and (
        node is None or getattr(entry, "node_index", node.index) == node.index
    ):
        return
    raise ValueError(
        "The order of `pipeline_stage_assignment` does not match the post-order of the "
        "graph, which `get_pipeline_stage_assignment` gives. Received: "
        f"{entry.layer.name!r} at place {place}, where {layer.name!r}"
        f"{'' if node is None else f' (node index {node.index})'} is."
    )


def _checked_stage(stage: Any, unit: Unit, place: int) -> int:
    if stage is None:
        raise ValueError(
            f"Layer {unit.layer.name} has not been assigned a pipeline stage. Give "
            f"the element at place {place} one."
        )
    if isinstance(stage, bool) or not isinstance(stage, Integral) or int(stage) < 0:
        raise ValueError(
            "All elements of `pipeline_stage_assignment` must be on a stage that is an "
            f"integer of 0 or more. Received: {stage!r} at place {place}, for layer "
            f"{unit.layer.name!r}."
        )
    return int(stage)


def check_chain(units: list[Unit], tree: StageTree) -> None:
    """Check the stages of a ``Sequential``: each layer's follow those of the last."""
    previous = 0
    for place, (unit, entry) in enumerate(zip(units, tree, strict=True)):
        stages = list(leaves_of([entry]))
        if not stages:
            continue
        first, name = min(stages), unit.layer.name
        if place == 0 and first != 0:
            raise ValueError(
                f"The first layer in a Sequential model ({name}) needs to be assigned "
                f"to the 0th pipeline stage, however it was assigned to stage {first}."
            )
        if first not in (previous, previous + 1):
            raise ValueError(
                f"Layer {name} has been assigned to pipeline stage {first}, however "
                f"the previous layer in the Sequential model was assigned to pipeline "
                f"stage {previous}. A layer in a Sequential model can only be assigned "
                "to the same pipeline stage as the previous layer or to the next "
                "pipeline stage."
            )
        previous = max(stages)
