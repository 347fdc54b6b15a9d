# SPDX-License-Identifier: MIT
"""Models that are made as pipelines: ``PipelineModel`` and ``SequentialPipelineModel``.

They are models like any other, with what ``set_pipelining_options`` takes said when
they are made.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from ipu._config.schedules import PipelineSchedule, is_timetable
from ipu._reports.timetable import Timetable
from ipu._text.arguments import as_int
from ipu.keras._types import Nest
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.functional import Functional
from ipu.keras.engine.pipelines.calls import StageTree, check_dependencies, flatten
from ipu.keras.engine.sequential import Sequential
from ipu.ops.pipelining_ops import RecomputationMode

# what cannot be written down of the arguments
_OBJECTS = (
    "backward_propagation_stages_poplar_options",
    "forward_propagation_stages_poplar_options",
    "gradient_accumulation_dtype",
    "weight_update_poplar_options",
)


class _Pipelined(Functional):
    """The base class of the two, with the arguments of the pipeline."""

    def _init_pipeline(self, count: Any, iterations: int, options: Any) -> None:
        """Take the arguments of the constructor."""
        count, iterations = as_int(count), as_int(iterations)
        for name, value in (
            ("gradient_accumulation_count", count),
            ("batch_serialization_iterations", iterations),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(
                    f"`{name}` must be a positive integer. Received: {name}={value!r}."
                )
        self._pipeline_arguments = {
            "gradient_accumulation_count": count,
            "batch_serialization_iterations": iterations,
            **options,
        }
        given = {k: v for k, v in options.items() if v is not None}
        for name in ("layer_replacement", "replicated_optimizer_state_sharding"):
            if not given[name] or name == "layer_replacement":
                del given[name]
        mapping = given.pop("device_mapping", None)
        self.set_pipelining_options(count * iterations, mapping, **given)
        self._serialized = iterations

    @property
    def gradient_accumulation_count(self) -> int:
        """Batches of a run of the pipeline."""
        return int(self._pipeline_arguments["gradient_accumulation_count"])

    def _default_execution(self) -> int:
        return self._pipelining_steps or 1

    def _options_config(self) -> dict[str, Any]:
        """Return the options and arguments as plain data; arguments that are objects
        are left out."""
        arguments: dict[str, Any] = {}
        for name, value in self._pipeline_arguments.items():
            if isinstance(value, Enum):
                arguments[name] = value.name
            elif is_timetable(value):
                arguments[name] = value.grid
            elif name not in _OBJECTS and value is not None:
                arguments[name] = value
        return {**super()._options_config(), "pipeline": arguments}


def _arguments_of(config: dict[str, Any]) -> dict[str, Any]:
    arguments = dict(config)
    if "recomputation_mode" in arguments:
        arguments["recomputation_mode"] = RecomputationMode[
            config["recomputation_mode"]
        ]
    if "pipeline_schedule" in arguments:
        schedule = config["pipeline_schedule"]
        parse = Timetable.parse if "\n" in schedule else PipelineSchedule.parse
        arguments["pipeline_schedule"] = parse(schedule)
    return arguments


class PipelineModel(_Pipelined):
    """A functional model that runs as a pipeline.

    Its layers are called, or made, inside of ``PipelineStage``.

    Args:
        *args: ``inputs, outputs``, as for ``Model``.
        gradient_accumulation_count: Batches of a run of the pipeline, after which
            weights are updated.
        gradient_accumulation_dtype: Dtype of the sums of gradients: None for the
            variables', a dtype, or a function of the variable.
        batch_serialization_iterations: How many batches a stage loops over at a time.
        device_mapping: The IPU of each stage; None for one each.
        pipeline_schedule: A ``PipelineSchedule``, its name, or an ``ipu.Timetable``;
            None for Grouped.
        recomputation_mode: A ``RecomputationMode``, or None.
        forward_propagation_stages_poplar_options: ``PipelineStageOptions`` of each
            stage.
        backward_propagation_stages_poplar_options: The same.
        weight_update_poplar_options: ``PipelineStageOptions``.
        replicated_optimizer_state_sharding: As ``pipelining_ops.pipeline`` takes it.
        offload_activations, offload_gradient_accumulation_buffers,
            replicated_weight_sharding, offload_weights: The same.
        layer_replacement: Accepted: the layers of ``ipu.keras`` are the IPU's already.
        **kwargs: ``inputs``, ``outputs``, ``name`` and ``trainable``, as for ``Model``;
            ``stages``, the stage of each call in place of ``PipelineStage``.

    Raises:
        ValueError: A layer has no stage, or comes before one that it needs; or an
            argument is not legal.

    ``compile`` takes one weight update as an execution where it is not told
    ``steps_per_execution``. Steps are batches, as in every model.

    Source: ``ipu.keras.PipelineModel`` of SDK 1.4, as a model of Keras 2.6.

    Example:
        >>> from ipu.ipu_strategy import IPUStrategy
        >>> with IPUStrategy().scope():
        ...     x = inputs = keras.Input((8,))
        ...     with keras.PipelineStage(0):
        ...         x = keras.layers.Dense(4)(x)
        ...     with keras.PipelineStage(1):
        ...         x = keras.layers.Dense(2)(x)
        ...     model = keras.PipelineModel(inputs, x, gradient_accumulation_count=8)
        >>> [one.pipeline_stage for one in model.get_pipeline_stage_assignment()]
        [0, 1]
    """

    def __init__(
        self,
        *args: Any,
        gradient_accumulation_count: int,
        gradient_accumulation_dtype: Any = None,
        batch_serialization_iterations: int = 1,
        device_mapping: list[int] | None = None,
        pipeline_schedule: Any = None,
        recomputation_mode: Any = None,
        forward_propagation_stages_poplar_options: Any = None,
        backward_propagation_stages_poplar_options: Any = None,
        weight_update_poplar_options: Any = None,
        replicated_optimizer_state_sharding: bool = False,
        offload_activations: bool | None = None,
        offload_gradient_accumulation_buffers: bool | None = None,
        replicated_weight_sharding: bool | None = None,
        offload_weights: bool | None = None,
        layer_replacement: bool = False,
        **kwargs: Any,
    ) -> None:
        # all arguments that are for the pipeline alone
        options = {k: v for k, v in locals().items() if k not in _NO_OPTIONS}
        tree: StageTree | None = kwargs.pop("stages", None)
        Functional.__init__(self, *args, **kwargs)
        if tree is not None:
            self._assign_stages(tree)
        if not self._is_pipelined():
            raise ValueError(
                "All layers of a pipelined model must have an associated pipeline "
                "stage, but no layer has one. Call them inside "
                "`with ipu.keras.PipelineStage(n):`."
            )
        check_dependencies(flatten(self, self._stage_tree()))
        self._init_pipeline(
            gradient_accumulation_count, batch_serialization_iterations, options
        )

    @classmethod
    def _made_of(cls, inputs: Nest, outputs: Nest, config: dict[str, Any]) -> Any:
        model = cls(
            inputs,
            outputs,
            name=config.get("name"),
            stages=config["ipu_options"]["pipeline_stage_assignment"],
            **_arguments_of(config["pipeline"]),
        )
        model._restore_options(config)
        return model


class SequentialPipelineModel(_Pipelined, Sequential):
    """A stack of layers that runs as a pipeline.

    Args:
        stages: A list of layers for each stage.
        gradient_accumulation_count: As for ``PipelineModel``, and so are the others.
        gradient_accumulation_dtype, batch_serialization_iterations, device_mapping,
            pipeline_schedule, recomputation_mode,
            forward_propagation_stages_poplar_options,
            backward_propagation_stages_poplar_options, weight_update_poplar_options,
            replicated_optimizer_state_sharding, offload_activations,
            offload_gradient_accumulation_buffers, replicated_weight_sharding,
            offload_weights, layer_replacement: The same.
        name: A name.

    Raises:
        ValueError: ``stages`` is not a list of lists of layers, or an argument is not
            legal.

    Source: ``ipu.keras.SequentialPipelineModel`` of SDK 1.4, as a model of Keras 2.6.

    Example:
        >>> Dense = keras.layers.Dense
        >>> model = keras.SequentialPipelineModel(
        ...     [[Dense(8), Dense(8)], [Dense(2)]], gradient_accumulation_count=8)
        >>> [one.pipeline_stage for one in model.get_pipeline_stage_assignment()]
        [0, 0, 1]
    """

    def __init__(
        self,
        stages: Sequence[Sequence[Layer]],
        gradient_accumulation_count: int,
        gradient_accumulation_dtype: Any = None,
        batch_serialization_iterations: int = 1,
        device_mapping: list[int] | None = None,
        pipeline_schedule: Any = None,
        recomputation_mode: Any = None,
        forward_propagation_stages_poplar_options: Any = None,
        backward_propagation_stages_poplar_options: Any = None,
        weight_update_poplar_options: Any = None,
        replicated_optimizer_state_sharding: bool = False,
        offload_activations: bool | None = None,
        offload_gradient_accumulation_buffers: bool | None = None,
        replicated_weight_sharding: bool | None = None,
        offload_weights: bool | None = None,
        layer_replacement: bool = False,
        name: str | None = None,
    ) -> None:
        # all arguments that are for the pipeline alone
        options = {k: v for k, v in locals().items() if k not in _NO_OPTIONS}
        numbers = _checked_stages(stages)
        Sequential.__init__(self, [la for stage in stages for la in stage], name)
        self._assign_stages(list(numbers))
        self._init_pipeline(
            gradient_accumulation_count, batch_serialization_iterations, options
        )

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        """Make a model from what ``get_config`` gave, with new weights.

        Args:
            config: The configuration.
            custom_objects: A user's own layers and functions by name.
        """
        return cls._copy_of(Sequential.from_config(config, custom_objects), config)

    @classmethod
    def _copy_of(cls, plain: Any, config: dict[str, Any]) -> Any:
        """Make a model of the layers of another one, which is not used any more."""
        arguments = _arguments_of(config["pipeline"])
        model = cls([[la] for la in plain.layers], name=plain.name, **arguments)
        if plain._is_connected and not model._is_connected:
            model.build(tuple(plain._first_symbol.shape))
        model._restore_options(config)
        return model


# of the constructors' names
_NO_OPTIONS = frozenset(
    "self __class__ args kwargs stages name gradient_accumulation_count "
    "batch_serialization_iterations".split()
)


def _checked_stages(stages: Any) -> list[int]:
    """Return the stage of each layer."""
    if not isinstance(stages, (list, tuple)) or not stages:
        raise ValueError(
            "An IPU pipeline must take a non-empty list of stages. "
            f"Received: stages={stages!r}."
        )
    numbers = []
    for number, stage in enumerate(stages):
        if not isinstance(stage, (list, tuple)):
            raise ValueError(
                "An IPU pipeline may only contain lists of stages, each a list of "
                f"layers. Received: {stage!r} as stage {number}."
            )
        for layer in stage:
            if not isinstance(layer, Layer):
                raise ValueError(
                    "An IPU pipeline stage must contain only Keras Layers. Received: "
                    f"{layer!r} in stage {number}."
                )
            numbers.append(number)
    return numbers
