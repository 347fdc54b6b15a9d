# SPDX-License-Identifier: MIT
"""The IPU extensions of models: options of pipelines, accumulation, replicas, queues.

A ``set_...`` method keeps the named values that it is not given, and replaces the other
keywords and the reduction method at every call, as the original does.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from numbers import Integral
from typing import TYPE_CHECKING, Any, NoReturn

from ipu._config.schedules import PipelineSchedule
from ipu._text.arguments import as_int
from ipu._text.log import logger
from ipu._text.refusals import refuse_call, refuse_given
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.keras.engine.pipelines.calls import leaves_of
from ipu.keras.engine.pipelines.stages import Stages

if TYPE_CHECKING:
    from ipu._reports.timetable import Timetable


class ReplicatedMetricReductionMethod(Enum):
    """How the results of several replicas become the logs.

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
        """Give the member that a member or a name means.

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


class IPUOptions(Stages):
    """The methods that the IPU extensions give to a model."""

    if TYPE_CHECKING:
        _steps_per_execution: int

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
        self._init_stages()

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
            ValueError: It is none.
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
            **gradient_accumulation_optimizer_kwargs: For the accumulating optimizer.

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

    def export_for_ipu_serving(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Write a program for the IPU's server.

        Raises:
            NotThereYetError: Always: serving comes with a later version.
        """
        del args, kwargs
        refuse_call(f"{__name__}.IPUOptions.export_for_ipu_serving")

    def _default_execution(self) -> int:
        """``steps_per_execution`` where ``compile`` is not told one."""
        return 1

    def pipeline_schedule(self, training: bool = True) -> Timetable:
        """Give the timetable that the model's options make: what each IPU runs, when.

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
            >>> from ipu import keras
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

    # --- in files ---------------------------------------------------------------------

    def _options_config(self) -> dict[str, Any]:
        """The options that are kept with a model, as plain data: those that differ from
        the defaults, under one key."""
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
        """Take over what ``_options_config`` gave."""
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
