# SPDX-License-Identifier: MIT
"""Pipeline stages of a model: the methods that set, give and print them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ipu._text.tracebacks import boundaries
from ipu.keras.engine.files import summary
from ipu.keras.engine.pipelines.assignment import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipu.keras.engine.pipelines.calls import (
    ModelGraph,
    StageTree,
    Unit,
    check_dependencies,
    flatten,
    is_nested,
    leaves_of,
    with_default,
)
from ipu.keras.engine.pipelines.rules import check_chain, checked_tree

if TYPE_CHECKING:
    from ipu.keras.layers.base_layer import Layer

_WIDTHS = {"Sequential": 60, "Functional": 89, "Model": 89}


@boundaries("set_pipeline_stage_assignment")
class Stages:
    """Which stage each layer of a model is on; mixed into ``Model``.

    Attributes:
        _stage_kind: ``"Sequential"``, ``"Functional"`` or ``"Model"`` (a subclass),
            which settles the classes of assignments.
    """

    if TYPE_CHECKING:
        name: Any
        built: bool

        def _flatten_layers(self) -> Iterator[Layer]: ...
        def _drop_programs(self) -> None: ...
        def _stage_graph(self, training: bool | None = None) -> ModelGraph: ...

    _stage_kind = "Model"

    def _init_stages(self) -> None:
        self._assigned_stages: StageTree | None = None
        self._stages_reset = False
        self._enters_stages = False  # whether `call` opens a PipelineStage

    @property
    def _can_have_stages(self) -> bool:
        """Whether the calls of the model are known."""
        return True

    def _stage_units(self) -> list[Unit]:
        return [Unit(node.layer, node) for node in self._stage_graph().nodes]

    def _stage_tree(self) -> StageTree:
        """The stages of the units; None where there is none."""
        if self._assigned_stages is not None:
            return with_default(self._assigned_stages, None)
        return [self._default_stage(unit) for unit in self._stage_units()]

    def _default_stage(self, unit: Unit) -> Any:
        """The stage of a unit that none was assigned to: that of its call, else that
        in which the layer was made."""
        layer, node = unit
        stage = layer._pipeline_stage
        if node is not None and self._stage_kind != "Sequential":
            stage = node.pipeline_stage
        if not is_nested(unit):
            return None if self._stages_reset else stage
        inner: Stages = layer  # type: ignore[assignment]
        tree = inner._stage_tree()
        return (
            _without_stages(tree) if self._stages_reset else with_default(tree, stage)
        )

    def _may_be_pipelined(self) -> bool:
        """Whether there is any sign of stages, without looking at ``call``."""
        if self._assigned_stages is not None:
            return True
        if self._stages_reset:
            return False
        inside = list(self._flatten_layers())[1:]
        return self._enters_stages or any(_mentions_stages(la) for la in inside)

    def _has_stages(self) -> bool:
        """Whether any layer has a stage."""
        if not self._may_be_pipelined() or not self._can_have_stages:
            return False
        return any(stage is not None for stage in leaves_of(self._stage_tree()))

    def _is_pipelined(self) -> bool:
        """Whether the model runs as a pipeline.

        Raises:
            ValueError: Some layers have a stage and others not.
            RuntimeError: Layers have stages, but it is not known how they are called.
        """
        if not self._may_be_pipelined():
            return False
        if not self._can_have_stages:
            if self.built:
                self._assert_has_calls("use")
            return False
        units = self._stage_units()
        tree = self._stage_tree()
        stages = list(leaves_of(tree))
        if not stages or all(stage is None for stage in stages):
            return False
        if None in stages:
            name = next(n for n, at in _names_and_stages(units, tree) if at is None)
            raise ValueError(
                "All layers of a pipelined model must have an associated pipeline "
                f"stage. However, {name} has not been assigned to one. Call it inside "
                "`with ipu.keras.PipelineStage(n):`, or use "
                "set_pipeline_stage_assignment()."
            )
        return True

    def _stage_count(self) -> int:
        """The number of stages of a pipelined model.

        Raises:
            RuntimeError: A stage has no layer.
        """
        used = set(leaves_of(self._stage_tree()))
        count: int = max(used) + 1
        missing = sorted(set(range(count)) - used)
        if missing:
            raise RuntimeError(
                "All stages in a pipeline must have at lease one layer assigned to "
                f"them. Received: stages {sorted(used)}, without {missing[0]}. Number "
                "the stages 0, 1, 2, ..."
            )
        return count

    def _stage_titles(self) -> list[str]:
        """For each stage of a pipelined model the names of its layers in short."""
        names: list[list[str]] = [[] for _ in range(self._stage_count())]
        for name, stage in _names_and_stages(self._stage_units(), self._stage_tree()):
            names[stage].append(name)
        return [
            some[0] if len(some) == 1 else f"{some[0]} ... {some[-1]}" for some in names
        ]

    # --- what users call --------------------------------------------------------------

    def get_pipeline_stage_assignment(self) -> list[Any]:
        """Give the stage of each layer, or of each call where it is no ``Sequential``.

        Returns:
            New assignment objects in the order in which the calls run, which
            ``set_pipeline_stage_assignment`` takes.

        Raises:
            RuntimeError: A subclass of ``Model`` that is not built, or a functional
                model with a ``call`` of its own.
        """
        self._assert_has_calls("get")
        return _assignments(self, self._stage_tree())

    def set_pipeline_stage_assignment(self, pipeline_stage_assignment: Any) -> None:
        """Put layers on stages.

        Args:
            pipeline_stage_assignment: What ``get_pipeline_stage_assignment`` gave, with
                stages; for a ``Sequential`` also a list of ints, one for each layer.

        Raises:
            ValueError: A rule is broken.
            RuntimeError: A subclass of ``Model`` that is not built.

        Example:
            >>> from ipu import keras
            >>> model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])
            >>> model.set_pipeline_stage_assignment([0, 1])
            >>> [one.pipeline_stage for one in model.get_pipeline_stage_assignment()]
            [0, 1]
        """
        self._assert_has_calls("set")
        tree = checked_tree(self, pipeline_stage_assignment)
        if self._stage_kind == "Sequential":
            check_chain(self._stage_units(), tree)
        if self._stage_kind != "Sequential" or self.built:
            check_dependencies(flatten(self, tree))
        self._assign_stages(tree)

    def _assign_stages(self, tree: StageTree) -> None:
        self._assigned_stages = tree
        self._stages_reset = False
        self._drop_programs()

    def _why_no_calls(self) -> str:
        """Why the calls of the model are not known."""
        return (
            f"{type(self).__name__} defines `call`, so its layers are not known to be "
            "all that it does. Make it a subclass of keras.Model alone."
        )

    def _assert_has_calls(self, verb: str) -> None:
        if self._can_have_stages:
            return
        why = self._why_no_calls()
        raise RuntimeError(
            f"Cannot {verb} pipeline stage assignments for model {self.name!r}: {why}"
        )

    def reset_pipeline_stage_assignment(self) -> None:
        """Take all layers off their stages: the model is not pipelined any more."""
        self._assigned_stages = None
        self._stages_reset = True
        self._drop_programs()

    def print_pipeline_stage_assignment_summary(
        self,
        line_length: int | None = None,
        print_fn: Callable[[str], Any] | None = None,
    ) -> None:
        """Print a table of layers and stages.

        Args:
            line_length: The width, 60 for ``Sequential`` and 89 else by default.
            print_fn: Gets each line; ``print`` by default.

        Raises:
            RuntimeError: A subclass of ``Model`` that is not built.
        """
        entries = self.get_pipeline_stage_assignment()
        is_sequential = self._stage_kind == "Sequential"
        head = ["Layer (type)", "Pipeline Stage"]
        if not is_sequential:
            head = ["Layer (type) (node index)", "Input Layers", "Pipeline Stage"]
        rows = list(_rows(entries, "", not is_sequential))
        show = print_fn or print
        show(f'Model: "{self.name}"')
        length = line_length or _WIDTHS[self._stage_kind]
        for line in summary.table_lines(head, rows, length):
            show(line)


def _mentions_stages(layer: Layer) -> bool:
    """Whether a layer inside a model was given any stage."""
    return (
        layer._pipeline_stage is not None
        or any(node.pipeline_stage is not None for node in layer._inbound_nodes)
        or getattr(layer, "_assigned_stages", None) is not None
        or getattr(layer, "_enters_stages", False)
    )


def _without_stages(tree: StageTree) -> StageTree:
    return [_without_stages(e) if isinstance(e, list) else None for e in tree]


def _names_and_stages(units: list[Unit], tree: StageTree) -> Iterator[tuple[str, Any]]:
    """Each layer's name and stage, those of models inside with the others."""
    for unit, entry in zip(units, tree, strict=True):
        if isinstance(entry, list):
            inner: Stages = unit.layer  # type: ignore[assignment]
            yield from _names_and_stages(inner._stage_units(), entry)
        else:
            yield str(unit.layer.name), entry


def _assignments(model: Stages, tree: StageTree) -> list[Any]:
    made: list[Any] = []
    for (layer, node), entry in zip(model._stage_units(), tree, strict=True):
        nested = isinstance(entry, list)
        inner: Any = _assignments(layer, entry) if nested else entry  # type: ignore[arg-type]
        if model._stage_kind == "Sequential":
            made.append(
                SequentialNestedModelPipelineStageAssignment(layer, inner)
                if nested
                else SequentialLayerPipelineStageAssignment(layer, inner)
            )
            continue
        assert node is not None
        if model._stage_kind == "Functional":
            kind: Any = (
                FunctionalNestedModelPipelineStageAssignment
                if nested
                else FunctionalLayerPipelineStageAssignment
            )
        else:
            kind = (
                NestedModelPipelineStageAssignment
                if nested
                else ModelLayerPipelineStageAssignment
            )
        made.append(kind(layer, node.index, inner))
    return made


def _rows(entries: list[Any], indent: str, with_inputs: bool) -> Iterator[list[str]]:
    for entry in entries:
        title = f"{indent}{entry.layer.name} ({type(entry.layer).__name__})"
        row = [title]
        if with_inputs:
            of_call = hasattr(entry, "node_index")
            row = [
                f"{title} ({entry.node_index})" if of_call else title,
                ", ".join(la.name for la in entry.inbound_layers) if of_call else "",
            ]
        yield [*row, "" if entry.is_nested_model else str(entry.pipeline_stage)]
        if entry.is_nested_model:
            yield from _rows(
                entry.pipeline_stage_assignments, f"{indent}  ", with_inputs
            )
