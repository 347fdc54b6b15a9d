# SPDX-License-Identifier: MIT
"""Epochs and executions of ``fit``, ``evaluate`` and ``predict``."""

from __future__ import annotations

import copy
import functools
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu._device import processes
from ipu._text.arguments import as_int
from ipu._text.log import logger
from ipu._text.user_warnings import warn_user
from ipu.keras._types import Nest
from ipu.keras.callbacks.callback import Callback, CallbackList
from ipu.keras.callbacks.history import History
from ipu.keras.callbacks.progbar import ProgbarLogger
from ipu.keras.engine.training.batches import Batches, Passes
from ipu.keras.engine.training.class_weights import bytes_of
from ipu.keras.engine.training.data_adapter import Given, as_batches
from ipu.keras.engine.training.execution import make_steps, over_replicas, settle
from ipu.keras.engine.training.host_loop import FunctionLoop, HostLoop
from ipu.keras.engine.training.program import BatchProgram, Program
from ipu.keras.engine.training.step_plan import (
    INFINITE,
    UNKNOWN,
    Pace,
    StepPlan,
    plan_steps,
)
from ipu.keras.engine.training.watching import Loop, StepCalls, StepWatcher, logs_at
from ipu.tf._functions.signature import key_of
from ipu.tf.data._auto_shard import auto_shard, own_part

if TYPE_CHECKING:
    from ipu.keras.engine.training.trainer import Trainer


def _diagnose(model: Trainer, mode: str, element: Nest) -> Any:
    """Return the account of a step, which few programs ask for."""
    from ipu.keras.engine.training.accounting import account_of_step

    return account_of_step(model, mode, element, None, {})


def _account(
    reference: weakref.ref[Trainer],
    mode: str,
    element: Nest,
    machine: Any = None,
    **options: Any,
) -> Any:
    """Return the account of a step of a program that has run."""
    from ipu.keras.engine.training.accounting import account_of_step

    model = reference()
    if model is None:
        raise RuntimeError("The model of the last program is no longer there.")
    return account_of_step(model, mode, element, machine, options)


class Run:
    """One mode of a model on one source of data: a plan and its loop.

    Args:
        given: The data.
        steps: The number that the user asked for; None for all batches.
        epochs: How many epochs will run.
        argument: The name of the user's argument of steps.
        again: Whether an evaluation is run several times.
        class_weight: A weight for each class, in training.
        resumed: Epochs that were run before the run was stopped; it goes on with the
            data that come then.
    """

    def __init__(
        self,
        model: Trainer,
        mode: str,
        given: Given,
        steps: int | None,
        epochs: int = 1,
        argument: str = "steps",
        again: bool = False,
        class_weight: Any = None,
        resumed: int = 0,
    ) -> None:
        self.mode = mode
        self.model = model
        self.is_strict = is_strict = model._is_strict(mode)
        call = ("validation_data" if again else _METHODS[mode]) if is_strict else None
        given, parts = _of_this_process(given)
        batches = as_batches(given, steps, call, model._data_order)
        self.batch_size = _batch_size(batches)
        self._pace = Pace() if model._is_paced and not is_strict else None
        is_own = model._overrides(f"make_{mode}_function")
        if is_strict and not is_own and not model.built:
            # whether it is pipelined shows in its calls
            model._prepare(mode, batches.dataset.element_spec)
        self.execution = settle(model, mode)
        self.plan: StepPlan = plan_steps(
            _of_all(batches.cardinality, parts),
            steps,
            model._steps_per_execution,
            epochs,
            argument,
            is_endless=batches.is_endless and mode == "train",
            is_strict=is_strict,
            replicas=self.execution.replicas,
        )
        self._left = self.plan.available  # batches
        self._epochs = epochs
        # replicas that take their batches from the data set that this process has
        self._sharers = self.execution.replicas // parts
        steps_taken = self.plan.steps and self.plan.steps * self._sharers
        self.passes = Passes(model._data_order, batches, steps_taken, resumed)
        self.is_out_of_data = False
        self._program: Program | BatchProgram | None = None
        replicas = self.execution.replicas
        self._reduced = over_replicas(model, mode, replicas)
        # whether callbacks are called for each step, while later ones run
        has_sums = self.execution.is_pipelined and mode != "predict"
        has_sums = has_sums and bool(model._pipelining_accumulate_outfeed)
        self._is_asynchronous = model._asynchronous_callbacks and not has_sums
        # all processes take results at the same moments
        self._is_asynchronous = self._is_asynchronous and processes.shared() is None
        # and for each replica's results, too
        is_one = replicas == 1 or mode == "predict"
        self._has_calls_of_replicas = self._is_asynchronous and not is_one
        self._metrics: list[Any] | None = None  # once all of them are known
        self.loop: Loop = self._make_loop(batches, again, class_weight)

    def _make_loop(self, batches: Batches, again: bool, class_weight: Any) -> Loop:
        model, mode, plan = self.model, self.mode, self.plan
        is_unknown = batches.cardinality == UNKNOWN and not self.is_strict
        if batches.is_open or model.run_eagerly or (again and is_unknown):
            return self._make_host_loop(batches, again, class_weight)
        dataset, of_pass, tail = batches.dataset, batches.of_pass, batches.tail
        if mode == "train":
            # a pass over the data for each epoch, or one stream for all of them
            repeats = plan.restarts or batches.is_endless
            dataset = self.passes.read(dataset, -1 if repeats else 1)
        elif again:
            # every evaluation starts with the first batch
            if not plan.restarts:
                assert plan.steps is not None
                taken = plan.steps * self._sharers
                dataset = dataset.take(taken)
                of_pass, tail = _of_first(taken, of_pass, tail)
            dataset = dataset.repeat()
        if self._sharers == self.execution.replicas:
            dataset = auto_shard(dataset, self._sharers)
        own = model._own_function(mode)
        if own is not None:
            return FunctionLoop(own, dataset, plan.per_execution, model._infeed_options)
        count = plan.per_execution if self._pace is None else None
        spec, weights = dataset.element_spec, bytes_of(class_weight)

        def make() -> Program:
            model._prepare(mode, spec)
            queues = model._infeed_options, model._outfeed_options
            return Program(dataset, count, *queues, f"{model.name}.{_METHODS[mode]}")

        program: Program = model._programs.take(
            model, mode, key_of(spec), weights, count, self.execution, make=make
        )
        execution = self.execution
        steps = make_steps(model, mode, execution, plan.per_execution, class_weight)
        steps.diagnose = functools.partial(_diagnose, model, mode)
        steps.account = functools.partial(_account, weakref.ref(model), mode)
        program.begin(
            steps,
            dataset,
            None if self._has_calls_of_replicas else self._reduced,
            of_pass,
            tail,
            may_end=not self.is_strict,
        )
        self._program = program
        if self._pace is not None:
            self._pace = program.pace
        return program

    def end_well(self) -> None:
        """Let later runs have the program."""
        if self._program is not None:
            self.model._programs.give_back(self._program)

    def _make_host_loop(
        self, batches: Batches, again: bool, class_weight: Any
    ) -> HostLoop:
        if self.model.run_eagerly and self.is_strict:
            raise RuntimeError(
                "Models with accumulated gradients, stages or several IPUs cannot run "
                "eagerly. Set `run_eagerly=False` when calling `compile`."
            )
        is_train = self.mode == "train"
        source = batches.as_read(self.passes.first if is_train else None)
        source.is_endless = is_train and batches.is_endless and not self.plan.restarts
        if self.plan.steps is not None and not again:
            source.most = self.plan.steps * self._epochs
        loop = HostLoop(source)
        if source.starts_again:
            loop.pass_over(self.passes.behind)
        spec = loop.first_spec()
        if spec is None:
            raise ValueError(
                "Your input does not have enough data: it is empty. Make sure that "
                "your dataset or generator can generate at least 1 batch."
            )
        step = self.model._device_step(self.mode, class_weight)
        if self.model.run_eagerly:
            loop.set_step(step)
            return loop

        def make() -> BatchProgram:
            self.model._prepare(self.mode, spec)
            return BatchProgram("a model's step")

        kind = "host", key_of(spec), bytes_of(class_weight)
        cache = self.model._programs
        program: BatchProgram = cache.take(self.model, self.mode, *kind, make=make)
        loop.set_step(step, program)
        self._program = program
        return loop

    def begin_epoch(self) -> bool:
        """Go to the first batch where the epoch is to start there.

        Returns:
            Whether there are data for the epoch.
        """
        if self.plan.restarts or self.mode != "train":
            self.loop.rewind()
            self._left = self.plan.available
        return self._has_more()

    def reset_metrics(self) -> None:
        """Start the metrics again. Layers make some while the first epoch is traced:
        then all are known."""
        if self._metrics is None:
            self.model.reset_metrics()
        else:
            for metric in self._metrics:
                metric.reset_state()

    def _has_more(self) -> bool:
        return self._left != 0 and self.loop.has_more()

    def execute(
        self, callbacks: CallbackList, watcher: StepWatcher
    ) -> tuple[dict[str, Any], list[Nest]]:
        """Run the executions of one epoch, or those that there are data for.

        Returns:
            The logs of the last execution, and in predict mode all results.
        """
        hook = f"on_{self.mode}_batch"
        logs: dict[str, Any] = {}
        results: list[Nest] = []
        step = 0
        steps = self.plan.steps
        recorders = callbacks.recorders() if self.execution.is_pipelined else []
        loop = self.loop
        if recorders and isinstance(loop, Program):
            loop.record()
        while steps is None or step < steps:
            if not self._has_more():
                self.end_early(step)
                break
            count = self._count(step, callbacks)
            started = time.perf_counter()
            if self._is_asynchronous:
                calls = StepCalls(callbacks, hook, step, self.execution.replicas)
                parts, done = self.loop.run(count, calls)
                if self._reduced is not None and self._has_calls_of_replicas:
                    parts = tf.nest.map_structure(self._reduced, parts)
            else:
                callbacks.call(f"{hook}_begin", step, {})
                watcher.begin(self.loop, step, count)
                try:
                    parts, done = self.loop.run(count)
                finally:
                    watcher.pause()
            self.passes.took(done * self._sharers)
            if self._left is not None:
                self._left -= done
            if recorders and isinstance(loop, Program):
                self._tell_recorded(recorders, loop)
            if done == 0:
                continue
            if self._pace is not None:
                self._pace.took(done, time.perf_counter() - started)
            if self.mode == "predict":
                results += parts
                logs = {"outputs": _join(parts)}
            else:
                logs = logs_at(parts[-1], -1)
            if self.mode == "train":
                for part in parts:
                    callbacks.keep_steps({**part["logs"], **part.get("loss", {})})
            step += done
            if not self._is_asynchronous:
                callbacks.call(f"{hook}_end", step - 1, logs)
            if self.mode == "train" and self.model.stop_training:
                break
        if step and self._metrics is None and self.model._resets_what_it_lists:
            self._metrics = self.model.metrics
        return logs, results

    def _tell_recorded(self, recorders: list[Any], loop: Program) -> None:
        """Hand on when the actions of the last pipeline ran."""
        count = self.plan.per_execution
        if self.mode == "train":
            count = self.execution.per_update
        for recorder in recorders:
            actions, recorder.streams = loop.recorded()
            recorder._on_recorded(self.mode == "train", count, actions)

    def _count(self, step: int, callbacks: CallbackList) -> int:
        """Return the steps of the execution that starts with this step."""
        count = self.plan.per_execution
        if self._pace is not None:
            count = self._pace.count
            look = callbacks.steps_to_look(self.mode)
            if look is not None and not self._is_asynchronous:
                count = min(count, look)
        if self.plan.steps is not None:
            count = min(count, self.plan.steps - step)
        return count if self._left is None else min(count, self._left)

    def end_early(self, step: int) -> None:
        """End the epoch, whose data ended early."""
        if self.plan.steps is None:  # now it is known how many there are
            self.plan = self.plan._replace(steps=step)
            return
        self.is_out_of_data = True
        warn_user(
            f"The data ended after {step} of {self.plan.steps} steps of an epoch, and "
            f"with them {_NAMES[self.mode]}. Give fewer steps or epochs, or a data set "
            "that starts again: Dataset.repeat()."
        )


_METHODS = {"train": "fit", "test": "evaluate", "predict": "predict"}
_NAMES = {"train": "training", "test": "the evaluation", "predict": "the prediction"}


def _of_this_process(given: Given) -> tuple[Given, int]:
    """Return the data with what is this process's own, and how many such parts there
    are: 1 where the data set is that of all."""
    shared = processes.shared()
    if shared is None or not isinstance(given.x, tf.data.Dataset):
        return given, 1
    part = own_part(given.x)
    return (given, 1) if part is None else (given._replace(x=part), shared.count)


def _of_all(cardinality: int, parts: int) -> int:
    """Return how many batches all processes have."""
    return cardinality if cardinality in (INFINITE, UNKNOWN) else cardinality * parts


def _batch_size(batches: Batches) -> Any:
    if batches.dataset is None:
        return None
    shape = tf.nest.flatten(batches.dataset.element_spec)[0].shape
    return None if shape is None else shape[0]


def _of_first(steps: int | None, of_pass: int, tail: int) -> tuple[int, int]:
    """Return batches of a pass, and rows of its last one, of the first so many
    batches."""
    if steps is None or not tail or steps >= of_pass:
        return of_pass, tail
    return steps, 0


def make_callbacks(
    model: Trainer, given: Any, verbose: Any, steps: int | None, epochs: int = 1
) -> CallbackList:
    """Put the user's callbacks, the progress bar and the history together."""
    callbacks = list(given) if isinstance(given, (list, tuple)) else [given]
    callbacks = [callback for callback in callbacks if callback is not None]
    for callback in callbacks:
        _check_callback(callback)
    if not _is_first_process():
        callbacks = [one for given in callbacks for one in _of_other_process(given)]
        verbose = 0
    if verbose and not any(isinstance(one, ProgbarLogger) for one in callbacks):
        callbacks.append(ProgbarLogger())
    if not any(isinstance(one, History) for one in callbacks):
        callbacks.append(History())
    params = {"verbose": verbose, "epochs": epochs, "steps": steps}
    return CallbackList(callbacks, model=model, **params)


def _is_first_process() -> bool:
    shared = processes.shared()
    return shared is None or shared.index == 0


def _of_other_process(callback: Any) -> list[Any]:
    """Return what processes other than the first one have of a callback."""
    if not getattr(callback, "_is_of_first_process", False):
        return [callback]
    return [callback._elsewhere()] if hasattr(callback, "_elsewhere") else []


_HOOKS = [name for name in vars(Callback) if name.startswith(("on_", "set_"))]


def _check_callback(callback: Any) -> None:
    if isinstance(callback, type):
        raise TypeError(
            f"`callbacks` must be objects. Received: the class {callback.__name__}. "
            f"Write {callback.__name__}(), with its arguments."
        )
    if not any(hasattr(callback, hook) for hook in _HOOKS):
        raise TypeError(
            "`callbacks` must be objects with hooks, such as those of "
            f"keras.callbacks. Received: {callback!r} ({type(callback).__name__})."
        )


@contextmanager
def _running(run: Run, callbacks: CallbackList | None = None) -> Iterator[StepWatcher]:
    """Start a run and its watcher, stop both, and keep the program if all went well."""
    watcher = StepWatcher([] if callbacks is None else callbacks.watchers())
    try:
        run.loop.start()
        yield watcher
    finally:
        watcher.close()
        for callback in [] if callbacks is None else callbacks.callbacks:
            if hasattr(callback, "_abandon"):
                callback._abandon()
        run.loop.stop()
    run.end_well()


def run_fit(
    model: Trainer,
    train: Run,
    callbacks: CallbackList,
    epochs: int,
    initial_epoch: int,
    validate: Callable[[int], Run | None],
) -> History:
    """Train.

    Args:
        validate: Gives the run of the validation data for an epoch, or None.
    """
    plan = train.plan
    _log_counts(train)
    if train.is_strict and plan.per_execution == 1 and plan.steps != 1:
        logger.info(
            "steps_per_execution is 1: Python runs between any two steps. Give "
            "`compile` a larger one for speed."
        )
    history = next(cb for cb in callbacks.callbacks if isinstance(cb, History))
    model.history = history
    model.stop_training = False
    logs: dict[str, Any] = {}
    no_watcher: StepWatcher | None = None  # of the validation, once it has started
    model._data_order.resume()
    with ExitStack() as stack:
        stack.callback(train.passes.end)
        watcher = stack.enter_context(_running(train, callbacks))
        callbacks.call("on_train_begin", {})
        for epoch in range(initial_epoch, epochs):
            if not train.begin_epoch():
                train.end_early(0)
                break
            train.reset_metrics()
            callbacks.call("on_epoch_begin", epoch, {})
            logs, _ = train.execute(callbacks, watcher)
            callbacks.set_steps(train.plan.steps)
            logs = copy.copy(logs)
            test = validate(epoch)
            if test is not None:
                if no_watcher is None:
                    no_watcher = stack.enter_context(_running(test))
                results = _test_once(test, callbacks, no_watcher)
                logs.update({f"val_{name}": v for name, v in results.items()})
            train.passes.end_epoch()
            callbacks.call("on_epoch_end", epoch, logs)
            if model.stop_training or train.is_out_of_data:
                break
        if model.optimizer is not None:
            model.optimizer.finalize_variable_values(model.trainable_variables)
        callbacks.call("on_train_end", logs)
    if (shared := processes.shared()) is not None:
        shared.meet("the end of fit")  # what process 0 writes is there
    return history


def is_due(epoch: int, freq: Any) -> bool:
    """Return whether there is a validation after an epoch, counted from 1."""
    freq = as_int(freq)
    return epoch % freq == 0 if isinstance(freq, int) else epoch in freq


def _log_counts(train: Run) -> None:
    """Log how large an update of the weights is, and how many there are."""
    _, per_update, replicas = train.execution
    steps, per_execution = train.plan.steps, train.plan.per_execution
    updates = per_execution // per_update
    logger.debug(
        "Training: %s steps of an epoch on each of %d replica(s), %d of them in one "
        "execution. The effective batch size is %s x %d accumulated x %d replica(s). "
        "Weight updates in an execution: %d, in an epoch: %s.",
        "not yet known how many" if steps is None else steps,
        replicas,
        per_execution,
        train.batch_size,
        per_update,
        replicas,
        updates,
        "not yet known" if steps is None else steps // per_update,
    )


def _test_once(
    test: Run, callbacks: CallbackList, watcher: StepWatcher
) -> dict[str, Any]:
    test.begin_epoch()
    test.reset_metrics()
    callbacks.call("on_test_begin", {})
    logs, _ = test.execute(callbacks, watcher)
    callbacks.call("on_test_end", logs)
    return logs


def run_test(test: Run, callbacks: CallbackList) -> dict[str, Any]:
    """Evaluate once; gives the results by name."""
    with _running(test, callbacks) as watcher:
        return _test_once(test, callbacks, watcher)


def run_predict(run: Run, callbacks: CallbackList) -> np.ndarray[Any, np.dtype[Any]]:
    """Predict; gives the outputs with the batches put together."""
    with _running(run, callbacks) as watcher:
        callbacks.call("on_predict_begin", {})
        _, results = run.execute(callbacks, watcher)
        callbacks.call("on_predict_end", {})
    joined: np.ndarray[Any, np.dtype[Any]] = _join(results)
    return joined


def _join(results: Sequence[Nest]) -> Nest:
    """Put the rows of all steps one after the other."""

    def join(*parts: Any) -> Any:
        # each is [steps, batch, ...], or [steps] where there is no batch
        rows = [p.reshape(-1, *p.shape[2:]) for p in parts]
        return rows[0] if len(rows) == 1 else np.concatenate(rows, axis=0)

    return tf.nest.map_structure(join, *results)
