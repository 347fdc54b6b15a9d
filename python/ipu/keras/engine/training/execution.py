# SPDX-License-Identifier: MIT
"""How a model's options settle what a device program does: stages, IPUs, updates."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ipu._device import processes, strategy_state
from ipu._device.placement import current_device
from ipu._loops.optimizer_state import StatePlaces
from ipu._text.suggestions import refuse_unknown
from ipu.keras import optimizers
from ipu.keras.engine.pipelines.ipu_options import ReplicatedMetricReductionMethod
from ipu.keras.engine.training.device_steps import (
    AccumulatedSteps,
    PipelinedSteps,
    PlainSteps,
    Steps,
)
from ipu.keras.engine.training.misfits import misfit
from ipu.ops import pipelining_ops

if TYPE_CHECKING:
    from ipu.keras.engine.training.trainer import Trainer

# what GradientAccumulationOptimizerV2 takes; of these only the dtype changes numbers
_OPTIMIZER_OPTIONS = (
    "dtype",
    "name",
    "offload_weight_update_variables",
    "reduction_method",
    "replicated_optimizer_state_sharding",
)


class Execution(NamedTuple):
    """The settings of an execution of one mode of a model.

    Attributes:
        is_pipelined: Whether it is a pipeline.
        per_update: Steps of a replica in an update of weights; 1 where nothing is
            trained.
        replicas: How many replicas of the model there are IPUs for, in all processes.
    """

    is_pipelined: bool
    per_update: int
    replicas: int


def settle(
    model: Trainer,
    mode: str,
    may_lack_updates: bool = False,
    replicas: int | None = None,
) -> Execution:
    """Find out how a mode of a model that is built runs.

    Args:
        model: The model.
        mode: ``"train"``, ``"test"`` or ``"predict"``.
        may_lack_updates: Whether a pipeline may not have been told the batches of an
            update: then an execution is one, of two batches for a stage or more.
        replicas: How many there are; None: as many as the current device has IPUs for.
    """
    is_pipelined = model._is_pipelined()
    shards, per_update = 1, 1
    if is_pipelined:
        mapping = model._pipelining_device_mapping
        shards = max(mapping) + 1 if mapping else model._stage_count()
        _check_own_functions(model, "pipelined", "train", "test", "predict")
        for name in ("compute_loss", "compute_metrics") if mode != "predict" else ():
            _check_own_function(model, "pipelined", name)
    if mode == "train" and is_pipelined:
        if model._pipelining_steps is None and not may_lack_updates:
            error = ValueError(
                "The model which you are attempting to train is pipelined, however "
                "`gradient_accumulation_steps_per_replica` has not been set through "
                "`set_pipelining_options()`. Set it to the number of batches of a "
                "weight update."
            )
            raise misfit(error)
        default = max(model._steps_per_execution, 2 * model._stage_count())
        per_update = model._pipelining_steps or default
    elif mode == "train":
        per_update = model._accumulation_steps or 1
    if is_pipelined or per_update > 1:
        _check_minimize(model, mode)
    if per_update > 1:
        _check_own_functions(model, "trained with gradient accumulation", "train")
    if replicas is None:
        replicas = _replicas(shards)
    return Execution(is_pipelined, per_update, replicas)


def over_replicas(
    model: Trainer, mode: str, replicas: int
) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None:
    """Return what makes one result of those of all replicas; None where there is one.

    Returns:
        A function of an array (results, replicas, ...). In prediction the results of
        the replicas follow one another, which is the order of the data; else they are
        reduced as ``set_replication_options`` says.
    """
    if replicas == 1:
        return None
    method = model._replicated_reduction
    shared = processes.shared()

    def reduced(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if shared is not None:
            own = values[:, None] if replicas == shared.count else values
            values = np.concatenate(shared.allgather(own), axis=1)
        if mode == "predict":
            return values.reshape(-1, *values.shape[2:])
        if method is ReplicatedMetricReductionMethod.NONE:
            return values[:, -1]
        if method is ReplicatedMetricReductionMethod.LIST:
            return values
        total = values[:, 0]
        for replica in range(1, replicas):
            total = total + values[:, replica]
        is_mean = method is ReplicatedMetricReductionMethod.MEAN
        return total / total.dtype.type(replicas) if is_mean else total

    return reduced


def _replicas(shards: int) -> int:
    """Return how many replicas of a model on so many IPUs all processes have."""
    needed = 1 << (shards - 1).bit_length()
    device = current_device()
    ipus = device.num_ipus
    if ipus < needed:
        raise ValueError(
            f"Current device has {ipus} IPUs attached, however the current model "
            f"requires a multiple of {needed} IPUs. Set auto_select_ipus = {needed} in "
            "the IPUConfig, or map several stages to one IPU: set_pipelining_options("
            "device_mapping=...)."
        )
    strategy = strategy_state.get_strategy()
    if strategy is not None:
        strategy._takes(needed)
    return ipus // needed * device.process_count


def _check_own_functions(model: Trainer, what: str, *modes: str) -> None:
    for mode in modes:
        for name in (f"{mode}_step", f"make_{mode}_function"):
            _check_own_function(model, what, name)


def _check_own_function(model: Trainer, what: str, name: str) -> None:
    if model._overrides(name):
        raise RuntimeError(
            f"The function `{name}` of {type(model).__name__} has been overridden, but "
            f"a model that is {what} cannot use it. Take it away, or make the strategy "
            "with enable_keras_extensions=False and write the loop with "
            "ipu.pipelining_ops.pipeline."
        )


def _check_minimize(model: Trainer, mode: str) -> None:
    kind = type(model.optimizer)
    if mode == "train" and kind.minimize is not optimizers.Optimizer.minimize:
        raise ValueError(
            "When using Gradient Accumulation or Pipelining, the provided optimizer "
            f"must not override OptimizerV2.minimize. Received: {kind.__name__}. "
            "Override apply_gradients, which gets the accumulated gradients."
        )


def make_steps(
    model: Trainer,
    mode: str,
    execution: Execution,
    per_execution: int,
    class_weight: Any = None,
) -> Steps:
    """Make the body of a device program.

    Args:
        per_execution: Steps of an execution of a replica.
    """
    per_update = execution.per_update
    given = None if model._is_paced else model._steps_per_execution
    _check_divides(execution, per_execution, given)
    if execution.is_pipelined:
        sums = bool(model._pipelining_accumulate_outfeed) and mode != "predict"
        of_run = per_update if mode == "train" else per_execution
        serialized = model._serialized
        if of_run % serialized != 0:
            cut = ValueError(
                f"An execution of {of_run} steps cannot be cut into groups of "
                f"batch_serialization_iterations={serialized}."
            )
            raise misfit(cut, " Give `compile` a steps_per_execution that can.")
        known = inspect.signature(pipelining_ops.pipeline).parameters
        refuse_unknown("set_pipelining_options", model._pipelining_kwargs, known)
        options = model._pipelining_kwargs
        return PipelinedSteps(model, mode, of_run, sums, options, class_weight)
    step = model._device_step(mode, class_weight)
    if mode != "train" or not model.trainable_variables:
        return PlainSteps(step)
    options = model._accumulation_kwargs
    places = StatePlaces.of(
        options.get("offload_weight_update_variables"),
        options.get("replicated_optimizer_state_sharding", False),
    )

    def settle_state() -> None:
        places.settle(model.optimizer, model.trainable_variables)

    if per_update > 1:
        for key in options:
            if key not in _OPTIMIZER_OPTIONS:
                raise TypeError(
                    "set_gradient_accumulation_options() got an unexpected keyword "
                    f"argument {key!r}. The accumulating optimizer takes "
                    f"{', '.join(_OPTIMIZER_OPTIONS)}."
                )
        method = options.get("reduction_method", model._accumulation_reduction)
        return AccumulatedSteps(
            model, step, per_update, method, options.get("dtype"), settle_state
        )
    return PlainSteps(step, settle_state)


def _check_divides(execution: Execution, per_execution: int, given: int | None) -> None:
    """Check that executions are whole updates.

    Args:
        per_execution: Steps of an execution.
        given: What the user said of them, if he did: an epoch may have fewer.
    """
    per_update = execution.per_update
    if per_execution % per_update == 0:
        return
    what = "pipelined model" if execution.is_pipelined else "model"
    text = f"The {what} has been configured to use gradient accumulation for training, "
    if given is None:
        error = RuntimeError(
            f"{text}with {per_update} batches in an update "
            f"(`gradient_accumulation_steps_per_replica`), and an execution is whole "
            "updates, but `compile` was not given `steps_per_execution`."
        )
        raise misfit(error, f" Give it steps_per_execution={per_update}.")
    why = ""
    if given != per_execution:
        why = f" You gave {given}, but an epoch has {per_execution} steps of a replica."
    error = RuntimeError(
        f"{text}however the current `steps_per_execution` value (set to "
        f"{per_execution}) is not divisible by "
        f"`gradient_accumulation_steps_per_replica` (set to {per_update}).{why}"
    )
    raise misfit(error, " Give `compile` a steps_per_execution that is.")
