# SPDX-License-Identifier: MIT
"""Pipelines over several IPUs: ``ipu.pipelining_ops``, ``ipu.ops.pipelining_ops``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ipu import _core, tf
from ipu._config.schedules import PipelineSchedule, schedule_text
from ipu._core import Tensor
from ipu._device.placement import current_device
from ipu._loops.optimizer_state import StatePlaces
from ipu._text.errors import FailedPreconditionError
from ipu._text.exports import export
from ipu._text.log import logger
from ipu._text.refusals import refuse_given
from ipu._text.tracebacks import boundary
from ipu.gradient_accumulation import GradientAccumulationReductionMethod
from ipu.ops import _pipeline_arguments as arguments
from ipu.ops._pipeline_options import (
    OptimizerFunctionOutput,
    PipelineStageOptions,
    RecomputationMode,
)
from ipu.ops._pipeline_trace import Options, TracedPipeline
from ipu.tf import nest
from ipu.tf._functions.blocks import block
from ipu.tf._functions.tracing import current_build
from ipu.tf._graph.reached import operation, whole
from ipu.tf._tensor.operation import Operation

if TYPE_CHECKING:
    from ipu._reports.timetable.table import Timetable

__all__ = [
    "OptimizerFunctionOutput",
    "PipelineSchedule",
    "PipelineStageOptions",
    "RecomputationMode",
    "pipeline",
    "recomputation_checkpoint",
]


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """Mark values of a stage that a recomputing pipeline keeps.

    With ``RecomputationMode.RecomputeAndBackpropagateInterleaved`` the backward pass
    computes anew from one checkpoint to the next, so that only the values between two
    of them exist at a time. Without recomputation nothing changes.

    Args:
        tensors: A tensor or a nest of them, in a stage.

    Returns:
        The same values.

    Example:
        >>> float(recomputation_checkpoint(tf.constant(2.0)))
        2.0
    """
    return nest.map_structure(_checkpoint, tensors)


def _checkpoint(value: Any) -> Tensor:
    tensor = Tensor(value)
    trace = _core.open_trace()
    if trace is None or not tensor.is_symbolic:
        return tensor
    marked = trace.node("checkpoint", [tensor], None, ())
    assert isinstance(marked, Tensor)
    return marked


def _inputs_of(inputs: Any) -> list[Tensor]:
    if inputs is None:
        return []
    if not isinstance(inputs, (list, tuple)):
        inputs = [inputs]
    result = []
    for value in nest.flatten(list(inputs)):
        if isinstance(value, tf.Variable):
            logger.warning(
                "The variable %s is passed to a pipeline as an input: the stages get "
                "its value and cannot train it. Use it in a stage instead.",
                value.name,
            )
        result.append(Tensor(value))
    return result


def _recomputes(mode: RecomputationMode | None) -> bool:
    """Return whether the device's configuration allows recomputation; an account takes
    it as it is asked for."""
    if mode is not None and current_build().is_account:
        return True
    options = current_device().options or {}
    is_allowed = bool(options.get("allow_recompute", False))
    if mode is not None and not is_allowed:
        logger.warning(
            "recomputation_mode=%s has no effect: set config.allow_recompute = True in "
            "the IPUConfig.",
            mode,
        )
    return is_allowed


def _recomputation(
    stages: Sequence[arguments.Stage], mode: RecomputationMode | None
) -> list[int]:
    """Return the attribute of each stage; the backward pass of the last one follows at
    once, so that it keeps its values."""
    last = max(stage.position for stage in stages)
    in_turn = mode is RecomputationMode.RecomputeAndBackpropagateInterleaved
    return [0 if s.position == last else 2 if in_turn else 1 for s in stages]


@boundary
def pipeline(
    computational_stages: Sequence[Any],
    gradient_accumulation_count: Any = None,
    gradient_accumulation_dtype: Any = None,
    gradient_accumulation_for_captured_grads: bool = True,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Any = None,
    infeed_queue: Any = None,
    outfeed_queue: Any = None,
    optimizer_function: Callable[..., OptimizerFunctionOutput] | None = None,
    device_mapping: Sequence[Any] | None = None,
    pipeline_schedule: PipelineSchedule | str | Timetable | None = None,
    recomputation_mode: RecomputationMode | None = None,
    forward_propagation_stages_poplar_options: Any = None,
    backward_propagation_stages_poplar_options: Any = None,
    weight_update_poplar_options: Any = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool | None = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: Any = None,
    outfeed_mask: Sequence[bool] | None = None,
    reduction_method: Any = GradientAccumulationReductionMethod.SUM,
    name: str | None = None,
    pipeline_depth: Any = None,
) -> Operation:
    """Run stages on several IPUs at the same time, each on another micro-batch.

    It works only inside a function that is compiled for the device. Whatever the
    schedule, the mapping and the options, outfeed and variables get the values of a
    plain loop, to the bit: outputs and gradients of each micro-batch in order, with the
    weights as they were; the gradients accumulated; then one update.

    Args:
        computational_stages: At least two functions. The first is called with
            ``inputs`` and then the infeed's element, every other one with the results
            of the one before. An element may be a list of functions, which run side by
            side: each gets the same arguments, the next stage all of their results.
        gradient_accumulation_count: Micro-batches of an execution, hence of an update.
            Grouped takes multiples of twice the number of stages (of the number,
            without an optimizer), Interleaved of the number of stages, Sequential any.
        gradient_accumulation_dtype: The accumulators': None for the variable's, a
            dtype, or ``callable(variable) -> dtype``. ``apply_gradients`` gets it.
        gradient_accumulation_for_captured_grads: Whether captured gradients are
            accumulated; else the last micro-batch's are handed on.
        repeat_count: Executions of a call.
        batch_serialization_iterations: Above 1: each stage goes through so many
            micro-batches at a time; on one IPU with the Sequential schedule. An update
            then belongs to ``gradient_accumulation_count`` times as many.
        inputs: Tensors for the first stage that stay the same during the call.
        infeed_queue: An ``IPUInfeedQueue``; one element for each micro-batch.
        outfeed_queue: An ``IPUOutfeedQueue`` for the results of the last stage.
        optimizer_function: Called with the results of the last stage; gives an
            ``OptimizerFunctionOutput``. Without it nothing is trained.
        device_mapping: The IPU of each stage; None: 0, 1, 2, ... A stage's backward
            pass runs where the stage does.
        pipeline_schedule: A ``PipelineSchedule``, its name such as "1F1B", or an
            :class:`ipu.Timetable`, also a parsed one; None is Grouped, or Sequential
            with batch serialization.
        recomputation_mode: A ``RecomputationMode``; None keeps all activations.
        forward_propagation_stages_poplar_options: A ``PipelineStageOptions`` for each
            stage; checked, and without effect here, as are the next two.
        backward_propagation_stages_poplar_options: The same.
        weight_update_poplar_options: A ``PipelineStageOptions``.
        offload_weight_update_variables: Whether the optimizer's state lies in remote
            memory between updates.
        replicated_optimizer_state_sharding: Whether each replica has a part of it, and
            updates that part of the weights; None: where it is offloaded.
        offload_activations: Whether stored activations lie in remote memory.
        offload_gradient_accumulation_buffers: Whether accumulators do.
        replicated_weight_sharding: Whether replicas share out the weights.
        offload_weights: Whether weights lie in remote memory.
        continuous_weight_updates: Must be False.
        outfeed_loss: Enqueue the loss alone.
        accumulate_outfeed: Enqueue sums over an execution, once.
        accumulate_outfeed_dtype: The dtype of those sums, as for gradients.
        outfeed_mask: For each output of the last stage whether it is *not* enqueued.
        reduction_method: A ``GradientAccumulationReductionMethod`` or its name.
        name: The name of the operation.
        pipeline_depth: The first generation's name of gradient_accumulation_count.

    Returns:
        An operation. Results leave by the outfeed and in variables.

    Raises:
        TypeError: An argument of a wrong type.
        ValueError: Arguments that do not go together, such as a schedule and a
            recomputation mode that it does not have; no count; tensors that leave the
            last stage without an outfeed; a stage that uses a tensor from outside.
        NotImplementedError: An option that the API names and does not support.
        FailedPreconditionError: A count that the schedule cannot run; a second
            pipeline.
        InternalError: More IPUs than the device has, or a number that does not divide
            its own.
        UnimplementedError: Stages on different IPUs that share a variable.
        RuntimeError: No function is being compiled.

    Example:
        >>> import ipu
        >>> config = ipu.config.IPUConfig()
        >>> config.auto_select_ipus = 2
        >>> config.configure_ipu_system()
        >>> data = tf.data.Dataset.from_tensor_slices([1.0, 2.0]).repeat()
        >>> infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
        >>> outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        >>> @tf.function(jit_compile=True)
        ... def run():
        ...     return pipeline(
        ...         [lambda x: x * 10.0, lambda x: x + 1.0],
        ...         gradient_accumulation_count=4,
        ...         infeed_queue=infeed,
        ...         outfeed_queue=outfeed,
        ...     )
        >>> infeed.initializer
        >>> _ = run()
        >>> outfeed.dequeue().numpy().tolist()
        [11.0, 21.0, 11.0, 21.0]
    """
    trace = _core.open_trace()
    if pipeline_depth is not None:
        logger.warning("pipeline_depth is the old name of gradient_accumulation_count.")
        if gradient_accumulation_count is None:
            gradient_accumulation_count = pipeline_depth
    is_serialized = batch_serialization_iterations > 1
    stages = arguments.stages_of(computational_stages, device_mapping, is_serialized)
    count = arguments.count_of(
        "gradient_accumulation_count", gradient_accumulation_count, trace
    )
    repeats = arguments.count_of("repeat_count", repeat_count, trace)
    schedule = arguments.schedule_of(pipeline_schedule, batch_serialization_iterations)
    if is_serialized and len({stage.device for stage in stages}) > 1:
        raise NotImplementedError(
            "With batch_serialization_iterations > 1 all stages must be mapped to one "
            f"IPU. Received: device_mapping={device_mapping!r}."
        )
    refuse_given(
        f"{__name__}.pipeline", continuous_weight_updates=continuous_weight_updates
    )
    if optimizer_function is not None and not callable(optimizer_function):
        raise TypeError(
            f"optimizer_function must be callable. Received: {optimizer_function!r}."
        )
    mode = arguments.recomputation_of(recomputation_mode, schedule)
    method = arguments.method_of(
        reduction_method, optimizer_function, batch_serialization_iterations
    )
    arguments.check_queues(infeed_queue, outfeed_queue)
    arguments.check_stage_options(
        len(computational_stages),
        forward_propagation_stages_poplar_options=(
            forward_propagation_stages_poplar_options
        ),
        backward_propagation_stages_poplar_options=(
            backward_propagation_stages_poplar_options
        ),
    )
    arguments.check_options(
        "weight_update_poplar_options", weight_update_poplar_options
    )
    arguments.check_offloading(
        offload_weight_update_variables, replicated_optimizer_state_sharding
    )
    arguments.check_mapping(schedule, stages, optimizer_function)
    arguments.check_outfeed(
        outfeed_queue,
        optimizer_function,
        outfeed_loss,
        accumulate_outfeed,
        outfeed_mask,
    )
    if trace is None:
        raise RuntimeError(
            "pipelining_ops.pipeline builds a device program: call it inside a "
            "function that is compiled for the device."
        )
    build = current_build()
    if "pipeline" in build.notes:
        raise FailedPreconditionError(
            "Only one pipeline is supported in a program. Compile the other one in a "
            "function of its own."
        )
    build.notes["pipeline"] = None
    attrs: dict[str, Any] = {
        "schedule": schedule_text(schedule, optimizer_function is not None),
        "devices": [stage.device for stage in stages],
        "training": optimizer_function is not None,
    }
    if optimizer_function is not None and _recomputes(mode):
        attrs["recompute"] = _recomputation(stages, mode)
    device_options = current_device().options or {}
    if device_options.get("io_tiles.place_ops_on_io_tiles", False):
        attrs["overlaps_io"] = True
    attrs["offload"] = (1 if offload_activations else 0) + (
        2 if offload_gradient_accumulation_buffers else 0
    )
    if len({stage.position for stage in stages}) < len(stages):
        attrs["positions"] = [stage.position for stage in stages]
    options = Options(
        inputs=_inputs_of(inputs),
        infeed_queue=infeed_queue,
        outfeed_queue=outfeed_queue,
        optimizer_function=optimizer_function,
        method=method,
        dtype=gradient_accumulation_dtype,
        outfeed_loss=outfeed_loss,
        outfeed_mask=outfeed_mask,
        accumulate_outfeed=accumulate_outfeed,
        outfeed_dtype=accumulate_outfeed_dtype,
        accumulate_captured=bool(gradient_accumulation_for_captured_grads),
        places=StatePlaces.of(
            offload_weight_update_variables,
            replicated_optimizer_state_sharding,
            (offload_weights, replicated_weight_sharding),
        ),
    )
    micro_batches = count * batch_serialization_iterations
    begin = trace.node_count
    with whole():
        traced = TracedPipeline(trace, stages, micro_batches, options, attrs)
        if repeats == 1:
            traced.run()
        else:
            with block(trace) as body:
                traced.run()
            trace.node("repeat", [tf.constant(repeats, "int32")], {"body": body}, ())
    return operation("PipelineStage", begin, name or "pipeline")


export(__name__)
