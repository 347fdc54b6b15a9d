# SPDX-License-Identifier: MIT
"""The rules for stages that a user assigns to the layers of a model."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from ipu.keras.engine.pipelines.assignment import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipu.keras.engine.pipelines.calls import StageTree, Unit, leaves_of

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
