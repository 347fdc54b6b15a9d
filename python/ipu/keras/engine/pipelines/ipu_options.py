# SPDX-License-Identifier: MIT
"""The IPU extensions of models: options of pipelines, accumulation, replicas, queues.

A ``set_...`` method keeps the named values that it is not given, and replaces the other
keywords and the reduction method at every call, as the original does.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from numbers import Integral
from typing import TYPE_CHECKING, Any

from ipu._config.schedules import PipelineSchedule
from ipu._text.arguments import as_int
from ipu._text.log import logger
from ipu._text.refusals import refuse_given
from ipu._text.tracebacks import boundaries
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.files import summary
from ipu.keras.engine.pipelines.assignment import KINDS, check_chain, checked_tree
from ipu.keras.engine.pipelines.calls import (
    ModelGraph,
    StageTree,
    Unit,
    check_dependencies,
    flatten,
    is_nested,
    leaves_of,
    map_stages,
)

if TYPE_CHECKING:
    from ipu._reports.timetable import Timetable


_WIDTHS = {"Sequential": 60, "Functional": 89, "Model": 89}


class ReplicatedMetricReductionMethod(Enum):
    """Ways to reduce the results of several replicas to the logs.

    Example:
        >>> [method.name for method in ReplicatedMetricReductionMethod]
        ['NONE', 'LIST', 'SUM', 'MEAN']
    """

    NONE = 1
    LIST = 2
    SUM = 3
    MEAN = 4

    @classmethod
    def parse(cls, value: Any) -> ReplicatedMetricReductionMethod:
        """Return the member that a member or a name means.

        Raises:
            ValueError: There is none.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        raise ValueError(
            f"Cannot parse {value!r} as one of ReplicatedMetricReductionMethod. Use "
            f"one of {list(cls.__members__)}."
        )


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _steps(value: Any) -> int:
    value = as_int(value)
    if not _is_integer(value) or value < 1:
        raise ValueError(
            "Expected `gradient_accumulation_steps_per_replica` to be a positive "
            f"integer, but got {value!r} instead."
        )
    return int(value)


@boundaries("set_pipeline_stage_assignment")
class IPUOptions(Layer):
    """The methods that the IPU extensions give to a model: its options, and the stage
    of each of its layers.

    Attributes:
        _stage_kind: ``"Sequential"``, ``"Functional"`` or ``"Model"`` (a subclass),
            which settles the classes of assignments.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])
        >>> model.set_pipeline_stage_assignment([0, 1])
        >>> model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
        >>> isinstance(model, ipu.keras.extensions.ModelExtension)
        True
    """

    _steps_per_execution: int
    _stage_kind = "Model"

    def _init_ipu_options(self) -> None:
        self._accumulation_steps: int | None = None
        self._accumulation_kwargs: dict[str, Any] = {}
        self._accumulation_reduction = Method.SUM
        self._pipelining_steps: int | None = None
        self._pipelining_device_mapping: list[int] | None = None
        self._pipelining_accumulate_outfeed: bool | None = None
        self._pipelining_kwargs: dict[str, Any] = {}
        self._serialized = 1  # batches that a stage loops over at a time
        self._replicated_reduction = ReplicatedMetricReductionMethod.NONE
        self._asynchronous_callbacks = False
        self._infeed_options: dict[str, Any] = {}
        self._outfeed_options: dict[str, Any] = {}
        self._assigned_stages: StageTree | None = None
        self._stages_reset = False
        self._enters_stages = False  # whether `call` opens a PipelineStage

    def _drop_programs(self) -> None:
        """Forget what was traced."""

    def _stage_graph(self, training: bool | None = None) -> ModelGraph:
        """Return the calls of layers in a call of the model, in order."""
        raise NotImplementedError

    # --- options ----------------------------------------------------------------------

    def set_asynchronous_callbacks(self, asynchronous: bool = False) -> None:
        """Choose when callbacks of batches are called.

        By default once for each execution, after it. Asynchronous: for every step of
        every replica, from a thread, as soon as its results arrive and while the device
        goes on. Where the outfeed gets sums of several steps (``accumulate_outfeed``)
        this holds for ``predict`` alone.

        Args:
            asynchronous: Whether they are called for every step.
        """
        self._asynchronous_callbacks = bool(asynchronous)
        self._drop_programs()

    def set_replication_options(
        self, replicated_metric_reduction_method: Any = "NONE"
    ) -> None:
        """Choose how the results of several replicas become the logs.

        Args:
            replicated_metric_reduction_method: A ``ReplicatedMetricReductionMethod`` or
                its name.

        Raises:
            ValueError: It is not such a method.
        """
        self._replicated_reduction = ReplicatedMetricReductionMethod.parse(
            replicated_metric_reduction_method
        )
        self._drop_programs()

    def set_gradient_accumulation_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        gradient_accumulation_reduction_method: Any = "sum",
        use_v2_gradient_accumulation_optimizer: bool = False,
        **gradient_accumulation_optimizer_kwargs: Any,
    ) -> None:
        """Set gradient accumulation for a model that is not pipelined.

        Args:
            gradient_accumulation_steps_per_replica: Mini-batches of a weight update;
                None keeps the value.
            gradient_accumulation_reduction_method: ``"sum"``, ``"mean"``,
                ``"running_mean"`` or a ``GradientAccumulationReductionMethod``.
            use_v2_gradient_accumulation_optimizer: Accepted.
            **gradient_accumulation_optimizer_kwargs: ``dtype``,
                ``offload_weight_update_variables`` and
                ``replicated_optimizer_state_sharding``, as the accumulating optimizers
                take them.

        Raises:
            ValueError: An argument is not legal.
        """
        del use_v2_gradient_accumulation_optimizer
        options = gradient_accumulation_optimizer_kwargs
        steps = gradient_accumulation_steps_per_replica
        steps = self._accumulation_steps if steps is None else _steps(steps)
        refuse_given(".set_gradient_accumulation_options", **options)
        self._accumulation_reduction = Method.parse(
            gradient_accumulation_reduction_method
        )
        self._accumulation_steps = steps
        self._accumulation_kwargs = dict(options)
        self._drop_programs()

    def set_pipelining_options(
        self,
        gradient_accumulation_steps_per_replica: int | None = None,
        device_mapping: list[int] | None = None,
        accumulate_outfeed: bool | None = None,
        gradient_accumulation_reduction_method: Any = "sum",
        **pipelining_kwargs: Any,
    ) -> None:
        """Set how a pipelined model runs; no effect on a model without stages.

        Args:
            gradient_accumulation_steps_per_replica: Mini-batches of a weight update;
                None keeps the value.
            device_mapping: The IPU of each stage; None keeps the value.
            accumulate_outfeed: Whether results of a weight update are added up; None
                keeps the value.
            gradient_accumulation_reduction_method: ``"sum"``, ``"mean"`` or
                ``"running_mean"``.
            **pipelining_kwargs: For the pipeline, such as ``pipeline_schedule`` (also
                ``schedule``); they replace those of the call before.

        Raises:
            ValueError: An argument is not legal.
        """
        options = dict(pipelining_kwargs)
        if "schedule" in options and "pipeline_schedule" in options:
            raise ValueError(
                "`schedule` is another name of `pipeline_schedule`: give one of them. "
                f"Received: schedule={options['schedule']!r} and "
                f"pipeline_schedule={options['pipeline_schedule']!r}."
            )
        steps = gradient_accumulation_steps_per_replica
        steps = self._pipelining_steps if steps is None else _steps(steps)
        if device_mapping is not None and not (
            isinstance(device_mapping, list) and all(map(_is_integer, device_mapping))
        ):
            raise ValueError(
                "Expected `device_mapping` to be a list of integers. "
                f"Received: {device_mapping!r}."
            )
        refuse_given(".set_pipelining_options", **options)
        self._accumulation_reduction = Method.parse(
            gradient_accumulation_reduction_method
        )
        self._pipelining_steps = steps
        if device_mapping is not None:
            self._pipelining_device_mapping = [int(ipu) for ipu in device_mapping]
        if accumulate_outfeed is not None:
            self._pipelining_accumulate_outfeed = bool(accumulate_outfeed)
        if "schedule" in options:
            options.setdefault("pipeline_schedule", options.pop("schedule"))
        self._pipelining_kwargs = options
        self._drop_programs()

    def set_infeed_queue_options(self, **kwargs: Any) -> None:
        """Set options of the infeeds, such as ``prefetch_depth``.

        Raises:
            ValueError: An option that Keras sets itself.
        """
        refuse_given(".set_infeed_queue_options", **kwargs)
        self._infeed_options = dict(kwargs)

    def set_outfeed_queue_options(self, **kwargs: Any) -> None:
        """Set options of the outfeeds, such as ``buffer_depth``.

        Raises:
            ValueError: An option that Keras sets itself.
        """
        refuse_given(".set_outfeed_queue_options", **kwargs)
        self._outfeed_options = dict(kwargs)

    def export_for_ipu_serving(
        self,
        export_dir: Any,
        batch_size: int | None = None,
        output_names: Any = None,
        preprocessing_step: Callable[..., Any] | None = None,
        preprocessing_step_signature: Any = None,
        postprocessing_step: Callable[..., Any] | None = None,
        postprocessing_step_signature: Any = None,
        purge_export_dir: bool = False,
    ) -> Any:
        """Write the model to a folder, of which ``ipu.serving.load`` makes a function.

        Args:
            export_dir: The folder; it is made where there is none.
            batch_size: The size of a batch, where the model's inputs leave it open.
            output_names: A name for each output.
            preprocessing_step: A function whose results the model takes.
            preprocessing_step_signature: The arguments of that.
            postprocessing_step: A function of the model's outputs.
            postprocessing_step_signature: The arguments of that; checked alone.
            purge_export_dir: Whether files that are in the folder are deleted.

        Returns:
            The function.

        Raises:
            ValueError: As ``ipu.serving.export_keras``.
        """
        from ipu.serving import export_keras

        return export_keras(
            self,
            export_dir,
            batch_size=batch_size,
            output_names=output_names,
            preprocessing_step=preprocessing_step,
            preprocessing_step_signature=preprocessing_step_signature,
            postprocessing_step=postprocessing_step,
            postprocessing_step_signature=postprocessing_step_signature,
            purge_export_dir=purge_export_dir,
        )

    def _default_execution(self) -> int:
        """Return ``steps_per_execution`` where ``compile`` is not told one."""
        return 1

    def pipeline_schedule(self, training: bool = True) -> Timetable:
        """Return the timetable that the model's options make: what each IPU runs, when.

        Args:
            training: Whether it is that of ``fit``; else that of ``evaluate`` and
                ``predict``, with ``steps_per_execution`` batches.

        Returns:
            A timetable, which prints as a grid and draws itself in a notebook.

        Raises:
            ValueError: No layer has a stage, or some have none.
            RuntimeError: A stage has no layer.
            FailedPreconditionError: The number of batches is not legal for the
                schedule.

        Example:
            >>> model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])
            >>> model.set_pipeline_stage_assignment([0, 1])
            >>> model.set_pipelining_options(4)
            >>> model.pipeline_schedule().time_steps
            7
        """
        if not self._is_pipelined():
            raise ValueError(
                f"Model {self.name!r} is not pipelined: its layers have no stages. "
                "Call set_pipeline_stage_assignment() first."
            )
        count = self._pipelining_steps if training else self._steps_per_execution
        return self._timetable(training, count)

    def _timetable(
        self, training: bool, count: int | None, recorded: Any = None
    ) -> Timetable:
        from ipu._reports.timetable import Timetable

        schedule = self._pipelining_kwargs.get("pipeline_schedule")
        if schedule is None:
            is_serialized = self._serialized > 1
            kinds = PipelineSchedule
            schedule = kinds.Sequential if is_serialized else kinds.Grouped
        return Timetable(
            schedule,
            self._stage_titles(),
            self._pipelining_device_mapping,
            count,
            training,
            recorded=recorded,
        )

    # --- stages -----------------------------------------------------------------------

    @property
    def _can_have_stages(self) -> bool:
        """Whether the calls of the model are known."""
        return True

    def _stage_units(self) -> list[Unit]:
        return [Unit(node.layer, node) for node in self._stage_graph().nodes]

    def _stage_tree(self) -> StageTree:
        """Return the stages of the units; None where there is none."""
        if self._assigned_stages is not None:
            return copy.deepcopy(self._assigned_stages)
        return [self._default_stage(unit) for unit in self._stage_units()]

    def _default_stage(self, unit: Unit) -> Any:
        """Return the stage of a unit that none was assigned to: that of its call, else
        that in which the layer was made."""
        layer, node = unit
        stage = layer._pipeline_stage
        if node is not None and self._stage_kind != "Sequential":
            stage = node.pipeline_stage
        if not is_nested(unit):
            return None if self._stages_reset else stage
        inner: Any = layer
        is_reset = self._stages_reset
        return map_stages(
            lambda own: None if is_reset else stage if own is None else own,
            inner._stage_tree(),
        )

    def _may_be_pipelined(self) -> bool:
        """Return whether there is any sign of stages, without looking at ``call``."""
        if self._assigned_stages is not None:
            return True
        if self._stages_reset:
            return False
        inside = list(self._flatten_layers())[1:]
        return self._enters_stages or any(_mentions_stages(la) for la in inside)

    def _has_stages(self) -> bool:
        """Return whether any layer has a stage."""
        if not self._may_be_pipelined() or not self._can_have_stages:
            return False
        return any(stage is not None for stage in leaves_of(self._stage_tree()))

    def _is_pipelined(self) -> bool:
        """Return whether the model runs as a pipeline."""
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
        """Return the number of stages of a pipelined model."""
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
        """Return short names of the layers of each stage of a pipelined model."""
        names: list[list[str]] = [[] for _ in range(self._stage_count())]
        for name, stage in _names_and_stages(self._stage_units(), self._stage_tree()):
            names[stage].append(name)
        return [
            some[0] if len(some) == 1 else f"{some[0]} ... {some[-1]}" for some in names
        ]

    # --- what users call --------------------------------------------------------------

    def get_pipeline_stage_assignment(self) -> list[Any]:
        """Return the stage of each layer; of each call except in a ``Sequential``.

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
        """Return why the calls of the model are not known."""
        return (
            f"{type(self).__name__} defines `call`, so its layers may not be "
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

    # --- in files ---------------------------------------------------------------------

    def _options_config(self) -> dict[str, Any]:
        """Return the options that are kept with a model, as plain data: those that
        differ from the defaults, under one key."""
        values = {
            key: getattr(self, name)
            for key, (name, default) in _KEPT.items()
            if getattr(self, name) != default
        }
        for key, value in values.items():
            if isinstance(value, Enum):
                values[key] = value.name
        if self._can_have_stages and (self._stage_kind != "Model" or self.built):
            tree = self._stage_tree()
            if any(stage is not None for stage in leaves_of(tree)):
                values["pipeline_stage_assignment"] = tree
        if self._pipelining_kwargs or self._accumulation_kwargs:
            logger.info(
                f"Keyword arguments for the pipeline and for gradient accumulation are "
                f"not kept with model {self.name!r}. Set them again after loading."
            )
        return {"ipu_options": values} if values else {}

    def _restore_options(self, config: Mapping[str, Any]) -> None:
        """Take over the options that ``_options_config`` gave."""
        values = dict(config.get("ipu_options") or {})
        tree = values.pop("pipeline_stage_assignment", None)
        for key, value in values.items():
            name, default = _KEPT[key]
            if isinstance(default, Enum):
                value = type(default)[value]
            setattr(self, name, value)
        if tree is not None:
            self._assigned_stages = tree


# by the key in files: the attribute and its default
_KEPT: dict[str, tuple[str, Any]] = {
    "gradient_accumulation_steps_per_replica": ("_accumulation_steps", None),
    "gradient_accumulation_reduction_method": ("_accumulation_reduction", Method.SUM),
    "pipelining_gradient_accumulation_steps_per_replica": ("_pipelining_steps", None),
    "pipelining_device_mapping": ("_pipelining_device_mapping", None),
    "pipelining_accumulate_outfeed": ("_pipelining_accumulate_outfeed", None),
    "asynchronous_callbacks": ("_asynchronous_callbacks", False),
    "replicated_metric_reduction_method": (
        "_replicated_reduction",
        ReplicatedMetricReductionMethod.NONE,
    ),
    "infeed_kwargs": ("_infeed_options", {}),
    "outfeed_kwargs": ("_outfeed_options", {}),
}


def _mentions_stages(layer: Layer) -> bool:
    """Return whether a layer inside a model was given any stage."""
    return (
        layer._pipeline_stage is not None
        or any(node.pipeline_stage is not None for node in layer._inbound_nodes)
        or getattr(layer, "_assigned_stages", None) is not None
        or getattr(layer, "_enters_stages", False)
    )


def _names_and_stages(units: list[Unit], tree: StageTree) -> Iterator[tuple[str, Any]]:
    """Yield each layer's name and stage, those of models inside with the others."""
    for unit, entry in zip(units, tree, strict=True):
        if isinstance(entry, list):
            inner: Any = unit.layer
            yield from _names_and_stages(inner._stage_units(), entry)
        else:
            yield str(unit.layer.name), entry


def _assignments(model: Any, tree: StageTree) -> list[Any]:
    made: list[Any] = []
    is_chain = model._stage_kind == "Sequential"
    for (layer, node), entry in zip(model._stage_units(), tree, strict=True):
        nested = isinstance(entry, list)
        inner: Any = _assignments(layer, entry) if nested else entry
        of_call = () if is_chain else (node.index,)
        made.append(KINDS[model._stage_kind][nested](layer, *of_call, inner))
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
