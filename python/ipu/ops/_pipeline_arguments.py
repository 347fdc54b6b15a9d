# SPDX-License-Identifier: MIT
"""The arguments of :func:`ipu.pipelining_ops.pipeline`, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from ipu import _core
from ipu._config.schedules import PipelineSchedule, is_timetable
from ipu._core import Tensor
from ipu._text.arguments import as_int
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu.ops._pipeline_options import PipelineStageOptions, RecomputationMode

if TYPE_CHECKING:
    from ipu._reports.timetable.table import Timetable


class Stage(NamedTuple):
    """One stage.

    Attributes:
        position: Its place in the pipeline; concurrent stages share one.
    """

    function: Callable[..., Any]
    position: int
    device: int


def _members(stage: Any) -> list[Any]:
    return list(stage) if isinstance(stage, (list, tuple)) else [stage]


def stages_of(
    computational_stages: Any, device_mapping: Any, is_on_one_ipu: bool
) -> list[Stage]:
    """Return the stages in order, concurrent ones beside each other.

    Raises:
        TypeError: It is not a list of functions.
        ValueError: Fewer than two stages, or a mapping that does not fit them.
    """
    if not isinstance(computational_stages, (list, tuple)):
        raise TypeError(
            "computational_stages argument needs to be a list or a tuple. Received: "
            f"{computational_stages!r}."
        )
    if len(computational_stages) < 2:
        raise ValueError(
            "Pipeline requires at least two computational stages. Received: "
            f"{len(computational_stages)}."
        )
    if device_mapping is not None and not isinstance(device_mapping, (list, tuple)):
        raise TypeError(
            "device_mapping argument needs to be a list or a tuple. Received: "
            f"{device_mapping!r}."
        )
    if device_mapping is None:
        device_mapping = _default_mapping(computational_stages, is_on_one_ipu)
    if len(device_mapping) != len(computational_stages):
        raise ValueError(
            f"Each stage must be mapped to an IPU: {len(device_mapping)} mappings != "
            f"{len(computational_stages)} stages. Received: device_mapping="
            f"{device_mapping!r}."
        )
    result: list[Stage] = []
    for position, (stage, mapping) in enumerate(
        zip(computational_stages, device_mapping, strict=True)
    ):
        functions = _members(stage)
        devices = _members(mapping)
        if len(functions) != len(devices) or not functions:
            raise ValueError(
                "Each stage must be mapped to an IPU: stage "
                f"{position} has {len(functions)} concurrent stages, but device_mapping"
                f"[{position}] is {mapping!r}."
            )
        for function, device in zip(functions, devices, strict=True):
            if not callable(function):
                raise TypeError(
                    f"Stage {position} of computational_stages must be a function or a "
                    f"list of functions. Received: {function!r}."
                )
            device = as_int(device)
            if isinstance(device, bool) or not isinstance(device, int) or device < 0:
                raise ValueError(
                    f"device_mapping[{position}] must be the number of an IPU, from 0 "
                    f"on. Received: {device!r}."
                )
            result.append(Stage(function, position, device))
    return result


def _default_mapping(stages: Sequence[Any], is_on_one_ipu: bool) -> list[Any]:
    mapping: list[Any] = []
    next_ipu = 0
    for stage in stages:
        members = _members(stage)
        devices = [0 if is_on_one_ipu else next_ipu + i for i in range(len(members))]
        next_ipu += len(members)
        mapping.append(devices if isinstance(stage, (list, tuple)) else devices[0])
    return mapping


def check_call(stage: Stage, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Check that a stage takes what it is called with.

    Raises:
        TypeError: It does not.
    """
    try:
        signature = inspect.signature(stage.function)
    except (TypeError, ValueError):
        return  # a function of C that does not say what it takes
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        names = [repr(name) for name in keywords]
        given = ", ".join([*(f"{x.dtype.name}{list(x.shape)}" for x in args), *names])
        source = (
            "`inputs` and the infeed's element"
            if stage.position == 0
            else f"what stage {stage.position - 1} returned"
        )
        raise TypeError(
            f"Stage {stage.position} of computational_stages is called with {source}, "
            f"({given}), but it takes {signature}: {error}."
        ) from None


def count_of(name: str, value: Any, trace: _core.Trace | None) -> int:
    """Return a number of micro-batches or executions: a Python number, or a constant
    tensor.

    Raises:
        ValueError: None, or not from 1 to 2^31 - 1.
    """
    if value is None:
        raise ValueError(f"{name} must be specified.")
    if isinstance(value, Tensor):
        if value.is_symbolic and trace is not None:
            value = trace.evaluate(value, None)
        value = int(value)
    try:
        count = int(value)
    except (TypeError, ValueError):
        count = -1
    if count != value or not 0 < count < 2**31:
        raise ValueError(
            f"{name} must be a positive integer below 2^31. Received: {value!r}."
        )
    return count


def check_enum(name: str, value: Any, kind: type[Enum]) -> None:
    """Refuse a value that is neither None nor a member of ``kind``."""
    if value is not None and not isinstance(value, kind):
        meant = [member for member in kind if member.name.lower() == str(value).lower()]
        raise TypeError(
            f"{name} must be of type {kind.__name__}, such as "
            f"{(meant or list(kind))[0]}. Received: {value!r}."
        )


def check_queues(infeed_queue: Any, outfeed_queue: Any) -> None:
    """Refuse queues of another type."""
    for name, value, kind in (
        ("infeed_queue", infeed_queue, IPUInfeedQueue),
        ("outfeed_queue", outfeed_queue, IPUOutfeedQueue),
    ):
        if value is not None and not isinstance(value, kind):
            raise TypeError(
                f"{name} is not an instance of {kind.__name__}. Received: {value!r}."
            )


def check_stage_options(stages: int, **options: Any) -> None:
    """Refuse options of stages that are not a list of one for each."""
    for name, value in options.items():
        if value is None:
            continue
        said = f"{name} must be a list or a tuple of PipelineStageOptions objects"
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{said}. Received: {value!r}.")
        if len(value) != stages:
            raise ValueError(
                f"{said}, one for each of the {stages} stages. Received {len(value)}."
            )
        for one in value:
            check_options(name, one)


def check_options(name: str, value: Any) -> None:
    """Refuse a value that is neither None nor a PipelineStageOptions."""
    if value is not None and not isinstance(value, PipelineStageOptions):
        raise TypeError(
            f"{name}: expected a value to be of type PipelineStageOptions. Received: "
            f"{value!r}."
        )


def check_offloading(
    offload_weight_update_variables: bool | None,
    replicated_optimizer_state_sharding: bool | None,
) -> None:
    """Refuse to share out a state that stays on the IPU."""
    if replicated_optimizer_state_sharding and offload_weight_update_variables is False:
        raise ValueError(
            "When replicated_optimizer_state_sharding is True the optimizer state must "
            "be offloaded, but offload_weight_update_variables is False."
        )


def check_mapping(
    schedule: PipelineSchedule | Timetable,
    stages: Sequence[Stage],
    optimizer_function: Any,
) -> None:
    """Refuse to train several stages on one IPU where the schedule does not."""
    if optimizer_function is None:
        return
    positions: dict[int, set[int]] = {}
    for stage in stages:
        positions.setdefault(stage.device, set()).add(stage.position)
    shared = [ipu for ipu, places in positions.items() if len(places) > 1]
    if schedule is PipelineSchedule.Interleaved and shared:
        raise NotImplementedError(
            "The pipelining schedule 'Interleaved' does not train several stages on "
            f"one IPU, but device_mapping puts {sorted(positions[shared[0]])} on IPU "
            f"{shared[0]}. Map each stage to an IPU of its own, or use Grouped."
        )


def check_outfeed(
    outfeed_queue: Any,
    optimizer_function: Any,
    outfeed_loss: bool,
    accumulate_outfeed: bool,
    outfeed_mask: Any,
) -> None:
    """Refuse options of the outfeed that do not go with each other."""
    if outfeed_loss and outfeed_mask is not None:
        raise ValueError("Only one of `outfeed_loss` and `outfeed_mask` can be set.")
    for name, asked in (
        ("outfeed_loss", outfeed_loss),
        ("outfeed_mask", outfeed_mask is not None),
    ):
        if asked and optimizer_function is None:
            raise ValueError(
                f"An optimizer_function must be provided when {name} is given."
            )
    needs_queue = outfeed_loss or accumulate_outfeed
    if needs_queue and outfeed_queue is None:
        name = "outfeed_loss" if outfeed_loss else "accumulate_outfeed"
        raise ValueError(f"An outfeed_queue must be provided when {name} is True.")
    if accumulate_outfeed and outfeed_queue._mode is not IPUOutfeedMode.ALL:
        raise ValueError("To accumulate the outfeed, it must be in IPUOutfeedMode ALL.")


def schedule_of(
    value: Any, batch_serialization_iterations: int
) -> PipelineSchedule | Timetable:
    """Return the schedule, or the default one.

    Raises:
        TypeError: It is not a PipelineSchedule, the name of one or a Timetable.
        ValueError: There is no schedule of that name.
        NotImplementedError: It does not go with batch serialization.
    """
    kinds = PipelineSchedule
    schedule: PipelineSchedule | Timetable | None = value
    if value is not None and not is_timetable(value):
        schedule = kinds.parse(value)
    if batch_serialization_iterations > 1:
        if schedule not in (None, kinds.Sequential):
            raise NotImplementedError(
                "Batch serialization is only supported with the Sequential schedule. "
                f"Received: {value}."
            )
        return kinds.Sequential
    return kinds.Grouped if schedule is None else schedule


def method_of(
    value: Any, optimizer_function: Any, batch_serialization_iterations: int
) -> Method:
    """Return how gradients are accumulated.

    Raises:
        ValueError: It is not such a method, or does not go with batch serialization.
    """
    if optimizer_function is None:
        return Method.SUM
    method = Method.parse(value)
    if method is not Method.SUM and batch_serialization_iterations > 1:
        raise ValueError(
            "With batch_serialization_iterations > 1 the reduction_method must be SUM. "
            f"Received: {method}."
        )
    return method


# the port's rule: the mode that a schedule does not have, and what it has
_NO_MODE = {
    "Sequential": (
        RecomputationMode.RecomputeThenBackpropagate,
        RecomputationMode.RecomputeAndBackpropagateInterleaved,
    ),
    "Interleaved": (
        RecomputationMode.RecomputeAndBackpropagateInterleaved,
        RecomputationMode.RecomputeThenBackpropagate,
    ),
}


def recomputation_of(
    value: Any, schedule: PipelineSchedule | Timetable
) -> RecomputationMode | None:
    """Return the recomputation mode; Auto becomes that of the schedule.

    Raises:
        TypeError: It is not a RecomputationMode.
        ValueError: The schedule does not go with it.
    """
    check_enum("recomputation_mode", value, RecomputationMode)
    mode: RecomputationMode | None = value
    name = schedule.name if isinstance(schedule, PipelineSchedule) else ""
    refused, instead = _NO_MODE.get(name, (None, RecomputationMode.Auto))
    if mode is not None and mode is refused:
        raise ValueError(
            f"RecomputationMode.{mode.name} is not supported with PipelineSchedule."
            f"{name}. Use RecomputationMode.Auto, which is {instead.name} "
            "there."
        )
    if mode is RecomputationMode.Auto and schedule is PipelineSchedule.Sequential:
        return RecomputationMode.RecomputeAndBackpropagateInterleaved
    return mode
