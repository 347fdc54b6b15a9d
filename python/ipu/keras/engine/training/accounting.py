# SPDX-License-Identifier: MIT
"""The cost of a model's step on IPUs: the device program of ``fit`` or ``predict``,
traced over queues that hold nothing."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ipu import machine as machines, tf
from ipu._config.target import target_of
from ipu._device.devices import current_layout
from ipu._device.remembered import Remembered
from ipu._reports.doctor import Fix, fix_of, fixes_of_options, tried_together
from ipu._reports.machine_account import check_sizes
from ipu._text.arguments import as_int
from ipu.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.keras._types import Nest
from ipu.keras.engine.pipelines.auto_stages import Splits, tree_of
from ipu.keras.engine.trace_key import key_of_model
from ipu.keras.engine.training.execution import make_steps, settle
from ipu.ops import pipelining_ops
from ipu.tf._functions.signature import key_of


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
    batch_size = as_int(batch_size)
    if (
        isinstance(batch_size, bool)
        or not isinstance(batch_size, int)
        or batch_size < 1
    ):
        raise ValueError(
            f"`batch_size` must be a positive integer. Received: {batch_size!r}."
        )
    inputs = getattr(model, "inputs", None)
    if hasattr(x, "element_spec"):
        x, y = _of_data(x.element_spec, y)
    elif training and y is None and isinstance(x, tuple) and len(inputs or "x") == 1:
        raise ValueError(
            "`x` is a tuple. Give a batch's inputs and targets as two arguments: "
            "model.account(x, y)."
        )
    if x is not None:
        x = _specs(x)
        batch_size = tf.nest.flatten(x)[0].shape[0]

    def of_batch(tensor: Any) -> tf.TensorSpec:
        return tf.TensorSpec([batch_size, *tensor.shape[1:]], tensor.dtype)

    if x is None:
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
    element = _specs(element)
    check_sizes(tf.nest.flatten(element))
    mode = "train" if training else "predict"
    chosen, target = machines._plan_options(
        machine, options.get("partials"), options.get("available_memory")
    )
    asked = target.request(chip=chosen._chip), tuple(sorted(options.items()))
    accounts: Remembered = model._programs.accounts
    return accounts.ask(
        lambda: key_of_model(model, mode, key_of(element), asked),
        lambda: _account(model, mode, element, machine, options),
        _fixes(model, mode, element, machine, options),
    )


def _of_data(spec: Any, y: Nest) -> tuple[Nest, Nest]:
    """Return the inputs and targets of a data set's elements."""
    if y is not None:
        raise ValueError("Leave out `y`: the data set that `x` is has the targets.")
    return (*spec, None)[:2] if isinstance(spec, tuple) else (spec, None)


def _specs(given: Any) -> Nest:
    """Return specs of what a user gave, in tuples and dicts, as ``fit`` feeds it."""
    if isinstance(given, Mapping):
        return {key: _specs(value) for key, value in given.items()}
    if isinstance(given, (list, tuple)):
        return tuple(map(_specs, given))
    return _as_spec(given)


def _as_spec(given: Any) -> tf.TensorSpec:
    """Return the spec of a tensor on the device, for which 64 bits become 32."""
    if not hasattr(given, "dtype") or not len(getattr(given, "shape", ())):
        raise TypeError(
            "`x` and `y` must be arrays, tensors or tf.TensorSpec, or lists, tuples or "
            f"dicts of them, or `x` a data set. Received: {given!r}."
        )
    dtype = tf.as_dtype(given.dtype)
    narrow = {tf.float64: tf.float32, tf.int64: tf.int32}
    return tf.TensorSpec(given.shape, narrow.get(dtype, dtype))


def account_of_step(
    model: Any, mode: str, element: Nest, machine: Any, options: dict[str, Any]
) -> machines.Account:
    """Make the account of a step, which knows what makes it fit.

    Args:
        model: The model.
        mode: "train", "test" or "predict".
        element: The spec of an element of the data.
        machine: See ``ipu.machine.estimate``.
        options: More of its arguments.
    """
    account = _account(model, mode, element, machine, options)
    account._find_fixes = _fixes(model, mode, element, machine, options)
    return account


def _fixes(
    model: Any, mode: str, element: Nest, machine: Any, options: dict[str, Any]
) -> Callable[[machines.Account], list[Fix]]:
    return functools.partial(
        fixes_of_model, model, mode, element, machine=machine, options=options
    )


def _account(
    model: Any, mode: str, element: Nest, machine: Any, options: dict[str, Any]
) -> machines.Account:
    """Return the account of an update, or of an execution where nothing is trained."""
    queue = tf.data.Dataset.from_generator(lambda: (), output_signature=element)
    model._prepare(mode, queue.element_spec)
    execution = settle(model, mode, replicas=1)
    count = execution.per_update
    if execution.is_pipelined and mode != "train":
        asked = model._steps_per_execution
        count = model._timetable(False, asked if asked > 1 else None).micro_batches
    steps = make_steps(model, mode, execution, count)

    def program() -> None:
        steps.build(count, IPUInfeedQueue(queue), IPUOutfeedQueue(), 0)

    rows = int(tf.nest.flatten(element)[0].shape[0])
    options = {"samples": count * rows, **options}
    return machines.estimate(program, machine=machine, **options)


# --- what makes a model fit -----------------------------------------------------------

# with allow_recompute = True in the IPUConfig
_RECOMPUTE = "recomputation_mode=ipu.pipelining_ops.RecomputationMode.Auto"
_MEAN = ', gradient_accumulation_reduction_method="mean"'


class _Change(NamedTuple):
    """A change of a model, and of what it is given.

    Attributes:
        text: The change.
        note: How results change.
        attributes: Of the model.
        parts: A batch becomes so many.
        stages: Into how many stages the model is cut anew; 0: as it is.
    """

    text: str
    note: str
    attributes: dict[str, Any]
    parts: int = 1
    stages: int = 0


def fixes_of_model(
    model: Any,
    mode: str,
    element: Nest,
    before: machines.Account,
    machine: Any,
    options: dict[str, Any],
) -> list[Fix]:
    """Find what makes a step of a model fit; of changes of one kind the smallest."""
    found = []
    splits = functools.cache(lambda batch: Splits(model, batch, by="memory"))

    def account(changes: list[Any]) -> machines.Account | None:
        return _changed(model, mode, element, machine, options, changes, splits)

    for kind in _changes(model, mode, element):
        for change in kind:
            after = account([change])
            fix = (
                None
                if after is None
                else fix_of(before, after, change.text, change.note, change)
            )
            if fix is not None:
                found.append(fix)
                break
    layout = current_layout()
    target = target_of(None if layout is None else layout.options)
    found += fixes_of_options(
        before,
        target.request(),
        lambda **new: _account(model, mode, element, machine, {**options, **new}),
    )
    return tried_together(found, account)


def _changed(
    model: Any,
    mode: str,
    element: Nest,
    machine: Any,
    options: dict[str, Any],
    changes: list[_Change | dict[str, Any]],
    splits: Callable[[int], Splits],
) -> machines.Account | None:
    """Return the account of a model after changes of it, or of options, one after the
    other; None where it cannot have them."""
    # not by setattr: the program that is compiled now stays the model's
    attributes = vars(model)
    new = [change for change in changes if isinstance(change, _Change)]
    names = {name for change in new for name in change.attributes}
    kept = {name: attributes[name] for name in (*names, *_STAGES)}
    batch = rows = int(tf.nest.flatten(element)[0].shape[0])
    try:
        for change in changes:
            if isinstance(change, dict):
                options = {**options, **change}
                continue
            if change.parts > 1:
                rows = batch // change.parts
            if change.stages:
                split = splits(batch // change.parts).into(change.stages)
                attributes["_assigned_stages"] = tree_of(model, iter(split.stages))
                attributes["_stages_reset"] = False
                attributes["_pipelining_device_mapping"] = None
            attributes.update(change.attributes)
        smaller = tf.nest.map_structure(
            lambda spec: tf.TensorSpec([rows, *spec.shape[1:]], spec.dtype), element
        )
        return _account(model, mode, smaller, machine, options)
    except (ValueError, NotImplementedError, RuntimeError, tf.errors.OpError):
        return None  # the model, or its schedule, cannot have the changes
    finally:
        attributes.update(kept)


_STAGES = ("_assigned_stages", "_stages_reset", "_pipelining_device_mapping")


def _changes(model: Any, mode: str, element: Nest) -> Iterator[list[_Change]]:
    """Return changes by kind, of each kind the smallest first."""
    batch = int(tf.nest.flatten(element)[0].shape[0])
    parts = [n for n in (2, 4, 8, 16, 32, 64, 128, 256) if batch % n == 0]
    trains = mode == "train"
    is_pipelined = model._is_pipelined()
    if is_pipelined:
        yield from _changes_of_pipeline(model, trains)
        name = "_pipelining_steps"
        text = "model.set_pipelining_options({}"
    else:
        name = "_accumulation_steps"
        text = "model.set_gradient_accumulation_options({}"
    count = getattr(model, name) or 1
    reduction = model._accumulation_reduction
    notes = []
    if count == 1:  # the gradient of a batch is that of the mean over its parts
        reduction = Method.MEAN
        text += _MEAN
    elif reduction is Method.SUM:
        notes.append("gradients are sums over more batches")
    if any(_normalises(layer) for layer in model._flatten_layers()):
        notes.append("batch normalisation sees the smaller batches")
    yield [
        _Change(
            f"batches of {batch // n}; {text.format(count * n)})",
            ", ".join(notes),
            {name: count * n, "_accumulation_reduction": reduction},
            n,
        )
        if trains
        else _Change(f"batches of {batch // n}", "", {}, n)
        for n in parts
    ]
    if trains and count == 1:  # sums of gradients take as much room as the weights
        note = ", ".join(["weights are updated after each of these batches", *notes])
        yield [_Change(f"batches of {batch // n}", note, {}, n) for n in parts]
    stages = model._stage_count() if is_pipelined else 1
    for recomputes in (False, True) if trains else (False,):
        for cuts in (False, True):
            yield [
                _over_ipus(n, count, batch, recomputes, cuts, notes, reduction)
                for n in (2, 4, 8, 16)
                if n > stages and (not cuts or batch % (2 * n) == 0)
            ]


def _over_ipus(
    n: int,
    count: int,
    batch: int,
    recomputes: bool,
    cuts: bool,
    notes: list[str],
    reduction: Any,
) -> _Change:
    """Return a model in n stages: with its batches, or with ones that are cut into as
    many micro-batches as the schedule wants."""
    micro_batches = 2 * n * -(-count // (2 * n))
    parts = 2 * n if cuts else 1
    note = ", ".join(notes)
    if cuts:
        micro_batches = 2 * n * count
    elif micro_batches == count:
        note = ""
    else:
        note = f"an update belongs to {micro_batches} batches"
    options = f"model.set_pipelining_options({micro_batches}"
    attributes: dict[str, Any] = {
        "_pipelining_steps": micro_batches,
        "_accumulation_steps": None,
        "_accumulation_reduction": reduction,
    }
    if recomputes:
        options += f", {_RECOMPUTE}"
        mode = pipelining_ops.RecomputationMode.Auto
        attributes["_pipelining_kwargs"] = {"recomputation_mode": mode}
    options += _MEAN if reduction is Method.MEAN else ""
    text = f"ipu.auto_stages(model, {n}, {batch // parts}, by='memory'); {options})"
    if cuts:
        text = f"batches of {batch // parts}; {text}"
    return _Change(text, note, attributes, parts, stages=n)


def _normalises(layer: Any) -> bool:
    """Return whether it is a batch normalisation."""
    return "BatchNormalization" in (base.__name__ for base in type(layer).__mro__)


def _changes_of_pipeline(model: Any, trains: bool) -> Iterator[list[_Change]]:
    given = model._pipelining_kwargs

    def change(*texts: str, **new: Any) -> _Change:
        text = f"model.set_pipelining_options({', '.join(texts)})"
        return _Change(text, "", {"_pipelining_kwargs": {**given, **new}})

    mode = pipelining_ops.RecomputationMode.Auto
    offload = "offload_activations=True"
    if not trains:
        return
    if given.get("recomputation_mode") is None:
        yield [change(_RECOMPUTE, recomputation_mode=mode)]
    if not given.get("offload_activations"):
        yield [change(offload, offload_activations=True)]
        yield [
            change(
                _RECOMPUTE, offload, recomputation_mode=mode, offload_activations=True
            )
        ]
    for name in (
        "offload_gradient_accumulation_buffers",
        "offload_weight_update_variables",
    ):
        if not given.get(name):
            yield [change(f"{name}=True", **{name: True})]
    for schedule in ("Interleaved", "1F1B", "Sequential"):
        text = f'pipeline_schedule="{schedule}"'
        parsed = pipelining_ops.PipelineSchedule.parse(schedule)
        yield [change(text, pipeline_schedule=parsed)]


def _targets_like(model: Any, of_batch: Callable[[Any], tf.TensorSpec]) -> Nest:
    """Return what each output is compared with, as far as the loss tells."""
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
        raise ValueError("The targets of the outputs are not known. Give `y`.")
    return made[0] if len(made) == 1 else made
