# SPDX-License-Identifier: MIT
"""``PipelineModel`` and ``SequentialPipelineModel`` of ``ipu.keras`` in SDK 1."""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ipu._text.refusals import refuse_call
from ipu.drop_in.first_keras import replacement
from ipu.drop_in.first_keras.models import Sequential, symbols
from ipu.drop_in.first_keras.restricted import FirstGeneration, checked_count
from ipu.keras.engine.base_layer import Layer
from ipu.keras.engine.functional import Functional
from ipu.keras.engine.input_layer import InputLayer
from ipu.keras.engine.training.device_steps import PipelinedSteps, Steps
from ipu.ops import pipelining_ops

if TYPE_CHECKING:
    from ipu._reports.timetable import Timetable

__all__ = [
    "PipelineModel",
    "PipelineSequential",
    "PipelinedModel",
    "SequentialPipelineModel",
]

# what the models say to `pipelining_ops.pipeline` by themselves
_SETTLED = frozenset(
    "computational_stages gradient_accumulation_count repeat_count infeed_queue inputs "
    "outfeed_queue optimizer_function device_mapping batch_serialization_iterations "
    "outfeed_loss outfeed_mask reduction_method name".split()
)
# arguments of the models that `pipelining_ops.pipeline` gets in another way
_OWN = (
    "gradient_accumulation_count",
    "batch_serialization_iterations",
    "device_mapping",
    "layer_replacement",
)


class PipelineOptions(NamedTuple):
    """The arguments of both models, in their order.

    Attributes:
        gradient_accumulation_count: Mini-batches of a run of the pipeline, after which
            weights are updated with the sums of their gradients.
        gradient_accumulation_dtype: Dtype of the sums: None for the variables', a
            dtype, or a function of the variable.
        batch_serialization_iterations: How many mini-batches a stage loops over at a
            time; a run has as many times more of them.
        device_mapping: The IPU of each stage; None for one each.
        pipeline_schedule: A ``PipelineSchedule``; None for Grouped.
        recomputation_mode: A ``RecomputationMode``.
        forward_propagation_stages_poplar_options: This and the next seven are those of
            ``pipelining_ops.pipeline``.
        layer_replacement: Whether layers of Keras become the IPU's of the same name.
    """

    gradient_accumulation_count: int
    gradient_accumulation_dtype: Any = None
    batch_serialization_iterations: int = 1
    device_mapping: list[int] | None = None
    pipeline_schedule: Any = None
    recomputation_mode: Any = None
    forward_propagation_stages_poplar_options: Any = None
    backward_propagation_stages_poplar_options: Any = None
    weight_update_poplar_options: Any = None
    replicated_optimizer_state_sharding: bool = False
    offload_activations: bool | None = None
    offload_gradient_accumulation_buffers: bool | None = None
    replicated_weight_sharding: bool | None = None
    offload_weights: bool | None = None
    layer_replacement: bool = False

    @classmethod
    def taken(cls, owner: str, *args: Any, **kwargs: Any) -> PipelineOptions:
        """Return the options that a model of class ``owner`` was given.

        Raises:
            TypeError: One is missing or not known.
            ValueError: A count is not a positive integer.
        """
        try:
            options = cls(*args, **kwargs)
        except TypeError as error:
            text = str(error).partition("() ")[2]
            raise TypeError(f"{owner}() {text}") from None
        for name in ("gradient_accumulation_count", "batch_serialization_iterations"):
            checked_count(name, getattr(options, name))
        return options

    def for_pipeline(self) -> dict[str, Any]:
        """Return what ``pipelining_ops.pipeline`` is told beside counts and stages."""
        return {
            name: value
            for name, value in self._asdict().items()
            if name not in _OWN and value is not None
        }


class _Pipelined(FirstGeneration):
    """The base class of the two."""

    def _init_pipeline(self, stages: list[int], options: PipelineOptions) -> None:
        """Settle the stage of each layer, or of each call, and the options."""
        self._assigned_stages = list(stages)
        self._count = options.gradient_accumulation_count
        self._serialized = options.batch_serialization_iterations
        self._accumulated = self._pipelining_steps = self._count * self._serialized
        self._pipelining_device_mapping = options.device_mapping
        self._pipelining_kwargs = options.for_pipeline()

    @property
    def shard_count(self) -> int:
        """How many IPUs a replica takes: a power of two."""
        ipus: Any = self._pipelining_device_mapping
        if not isinstance(ipus, (list, tuple)) or not ipus:
            ipus = range(self._stage_count())  # the pipeline refuses what is not a list
        last = max(operator.index(ipu) for ipu in ipus)
        return 1 << last.bit_length()

    def _steps(self, mode: str, extra: dict[str, Any]) -> Steps:
        options = {**self._pipelining_kwargs, **extra}
        # an evaluation takes the last of running means: there is nothing to add up
        sums = bool(options.pop("accumulate_outfeed", False)) and mode == "train"
        return PipelinedSteps(self, mode, self._accumulated, sums, options)

    def pipeline_schedule(self, training: bool = True) -> Timetable:
        """Return the timetable of a step; in evaluation and prediction it counts as
        many mini-batches.

        Args:
            training: Whether it is that of ``fit``.
        """
        return self._timetable(training, self._accumulated)

    @property
    def _extra(self) -> list[str]:  # type: ignore[override]
        parameters = inspect.signature(pipelining_ops.pipeline).parameters
        return [name for name in parameters if name not in _SETTLED]


class PipelineModel(_Pipelined):
    """A functional model in stages on several IPUs.

    Layers are on the stage of the ``PipelineStage`` in which they are made.

    Args:
        *args: ``inputs, outputs``, and ``name``.
        **kwargs: The same by name, ``trainable``; and the fields of
            :class:`PipelineOptions`, of which ``gradient_accumulation_count`` is
            required.

    Raises:
        TypeError: An argument is missing or not known.
        ValueError: Inputs or outputs are missing, a layer has no stage, a stage no
            layer, or a layer runs after one of a later stage.

    Source: ``ipu.keras.PipelineModel`` of SDK 1.4.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        fields = PipelineOptions._fields
        named = {name: kwargs.pop(name) for name in fields if name in kwargs}
        options = PipelineOptions.taken(type(self).__name__, **named)
        given = symbols(args, kwargs)
        if options.layer_replacement:
            given.update(replacement.in_graph(given["inputs"], given["outputs"]))
        Functional.__init__(self, **given)
        self._init_pipeline(self._checked_stages(), options)

    def _checked_stages(self) -> list[int]:
        """Return the stages of the layers, in the order in which these run."""
        stages: list[int] = []
        for place, unit in enumerate(self._stage_units()):
            stage, name = unit.layer._pipeline_stage, unit.layer.name
            if stage is None:
                raise ValueError(
                    "All layers of a pipelined model must have an associated pipeline "
                    f"stage. However, {name} has not been assigned to one. Make it "
                    "inside `with ipu.keras.PipelineStage(n):`."
                )
            if stages and stage < stages[-1]:
                raise ValueError(
                    f"Post order execution node #{place} has stage {stage}, but "
                    f"previous node had stage {stages[-1]}. Layers run in the order of "
                    f"their depth, and {name} would go back to an earlier stage."
                )
            stages.append(stage)
        _check_no_gap(stages, max(stages, default=0) + 1)
        return stages


class SequentialPipelineModel(_Pipelined, Sequential):
    """A stack of layers in stages on several IPUs.

    Args:
        stages: A list of lists of layers, one for each stage.
        *args: The fields of :class:`PipelineOptions` in their order, of which
            ``gradient_accumulation_count`` is required.
        name: A name.
        **kwargs: The same by name.

    Raises:
        TypeError: An argument is missing or not known.
        ValueError: ``stages`` is not a list of lists of layers.

    Source: ``ipu.keras.SequentialPipelineModel`` of SDK 1.4.
    """

    def __init__(
        self,
        stages: list[list[Layer]],
        *args: Any,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        options = PipelineOptions.taken(type(self).__name__, *args, **kwargs)
        if not isinstance(stages, list) or not stages:
            raise ValueError(
                "An IPU pipeline must take a non-empty list of stages, each a list of "
                f"layers. Received: {stages!r}."
            )
        for stage in stages:
            if not isinstance(stage, list):
                raise ValueError(
                    "An IPU pipeline may only contain lists of stages, each a list of "
                    f"layers. Received: {stage!r} ({type(stage).__name__})."
                )
            for layer in stage:
                if not isinstance(layer, Layer):
                    raise ValueError(
                        "A stage of an IPU pipeline must contain only Keras Layers. "
                        f"Received: {layer!r} ({type(layer).__name__})."
                    )
        placed = [
            (number, layer)
            for number, stage in enumerate(stages)
            for layer in stage
            if not isinstance(layer, InputLayer)
        ]
        numbers = [number for number, _ in placed]
        _check_no_gap(numbers, len(stages))
        layers = [layer for _, layer in placed]
        if options.layer_replacement:
            layers = [replacement.of(layer) for layer in layers]
        self._fill(layers, name)
        self._init_pipeline(numbers, options)


class PipelineSequential(SequentialPipelineModel):
    """The :class:`SequentialPipelineModel` of SDK 2.0.

    ``predict`` gives an array, and not a tuple of one.
    """

    def _returned(self, arrays: list[Any]) -> Any:
        return arrays[0]


def _check_no_gap(stages: list[int], count: int) -> None:
    missing = sorted(set(range(count)) - set(stages))
    if missing:
        raise ValueError(
            "Stages must be numbered 0, 1, 2, ... without a gap, and each needs a "
            f"layer. Received: {count} stages, with no layer on stage {missing[0]}."
        )


def PipelinedModel(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse the name of an early release.

    Raises:
        NotImplementedError: Always.
    """
    del args, kwargs
    refuse_call(f"{__name__}.PipelinedModel")
