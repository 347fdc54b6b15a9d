# SPDX-License-Identifier: MIT
"""What a model's step would cost on IPUs: the device program of ``fit`` or ``predict``,
traced over queues that hold nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu import machine as machines, tf
from ipu._reports.machine_account import check_sizes
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.keras._types import Nest
from ipu.keras.engine.training.execution import make_steps, settle


def account_of(
    model: Any,
    x: Nest,
    y: Nest,
    batch_size: int,
    training: bool,
    machine: Any,
    options: dict[str, Any],
) -> machines.Account:
    """Make the account; see ``Model.account``, whose arguments these are."""

    def of_batch(tensor: Any) -> tf.TensorSpec:
        return tf.TensorSpec([batch_size, *tensor.shape[1:]], tensor.dtype)

    def as_spec(given: Any) -> tf.TensorSpec:
        return tf.TensorSpec(given.shape, given.dtype)

    if x is None:
        inputs = getattr(model, "inputs", None)
        if not inputs:
            raise ValueError(
                "The shapes of the model's inputs are not known. Give `x`: a batch, or "
                "a tf.TensorSpec."
            )
        specs = [of_batch(tensor) for tensor in inputs]
        x = specs[0] if len(specs) == 1 else specs
    if not training:
        element: tuple[Nest, ...] = (x,)
    else:
        model._assert_compiled()
        element = (x, _targets_like(model, of_batch) if y is None else y)
    element = tf.nest.map_structure(as_spec, element)
    check_sizes(tf.nest.flatten(element))
    mode = "train" if training else "predict"
    queue = tf.data.Dataset.from_generator(lambda: (), output_signature=element)
    model._prepare(mode, queue.element_spec)
    execution = settle(model, mode, replicas=1)
    count = execution.per_update
    if execution.is_pipelined and not training:
        asked = model._steps_per_execution
        count = model._timetable(False, asked if asked > 1 else None).micro_batches
    steps = make_steps(model, mode, execution, count)

    def program() -> None:
        steps.build(count, IPUInfeedQueue(queue), IPUOutfeedQueue(), 0)

    options.setdefault("samples", count * int(tf.nest.flatten(element)[0].shape[0]))
    return machines.estimate(program, machine=machine, **options)


def _targets_like(model: Any, of_batch: Callable[[Any], tf.TensorSpec]) -> Nest:
    """What each output is compared with, as far as the loss tells."""
    made = []
    losses = model.loss if isinstance(model.loss, (list, tuple)) else None
    for i, output in enumerate(getattr(model, "outputs", None) or ()):
        loss = model.loss if losses is None else losses[i]
        name = loss if isinstance(loss, str) else getattr(loss, "name", "")
        spec = of_batch(output)
        if str(name or getattr(loss, "__name__", "")).startswith("sparse"):
            spec = tf.TensorSpec(spec.shape[:-1], tf.int32)
        made.append(spec)
    if not made:
        raise ValueError("What the outputs are compared with is not known. Give `y`.")
    return made[0] if len(made) == 1 else made
