# SPDX-License-Identifier: MIT
"""Epochs and executions of ``fit``, ``evaluate`` and ``predict``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu._log import logger
from ipu.keras._types import Nest
from ipu.keras.callbacks.callback import CallbackList
from ipu.keras.callbacks.history import History
from ipu.keras.callbacks.progbar import ProgbarLogger
from ipu.keras.engine.data_adapter import Batches
from ipu.keras.engine.device_loop import DeviceLoop, FunctionLoop, StepWatcher
from ipu.keras.engine.step_plan import StepPlan, plan_steps

if TYPE_CHECKING:
    from ipu.keras.engine.trainer import Trainer

__all__ = ["Run", "make_callbacks", "run_fit", "run_predict", "run_test"]


class Run:
    """One mode of a model on one source of data: a plan and its device loop.

    Args:
        model: The model.
        mode: ``"train"``, ``"test"`` or ``"predict"``.
        batches: The data.
        steps: What the user asked for; None for all batches.
        epochs: How many epochs will run.
        argument: The name of the user's argument of steps.
        again: Whether an evaluation is run several times.
        class_weight: A weight for each class, in training.
    """

    def __init__(
        self,
        model: Trainer,
        mode: str,
        batches: Batches,
        steps: int | None,
        epochs: int = 1,
        argument: str = "steps",
        again: bool = False,
        class_weight: Any = None,
    ) -> None:
        k = model._steps_per_execution if model._is_compiled else 1
        self.mode = mode
        self.model = model
        self.plan: StepPlan = plan_steps(
            batches.cardinality, steps, k, epochs, argument
        )
        dataset = batches.dataset
        if mode == "train":
            # a pass over the data for each epoch, or one stream for all of them
            if self.plan.restarts:
                dataset = dataset.repeat()
        elif again:
            # every evaluation starts with the first batch
            if not self.plan.restarts:
                dataset = dataset.take(self.plan.steps)
            dataset = dataset.repeat()
        own = model._own_function(mode)
        self.loop: DeviceLoop | FunctionLoop
        if own is not None:
            self.loop = FunctionLoop(
                own, dataset, self.plan.per_execution, model._infeed_options
            )
            return
        model._prepare(mode, dataset.element_spec)
        self.loop = DeviceLoop(
            model._device_step(mode, class_weight),
            dataset,
            self.plan.per_execution,
            model._infeed_options,
            model._outfeed_options,
        )

    def execute(
        self, callbacks: CallbackList, watcher: StepWatcher
    ) -> tuple[dict[str, Any], list[Nest]]:
        """Run the executions of one epoch.

        Returns:
            The logs of the last execution, and in predict mode all results.
        """
        hook = f"on_{self.mode}_batch"
        k = self.plan.per_execution
        logs: dict[str, Any] = {}
        results: list[Nest] = []
        for step in range(0, self.plan.steps, k):
            callbacks.call(f"{hook}_begin", step, {})
            watcher.begin(self.loop, step)
            try:
                fed = self.loop.run()
            finally:
                watcher.pause()
            if self.mode == "predict":
                results.append(fed)
                logs = {"outputs": fed}
            else:
                logs = {name: _last(values) for name, values in fed["logs"].items()}
                if self.mode == "train":
                    callbacks.keep_steps({**fed["logs"], **fed.get("loss", {})})
            callbacks.call(f"{hook}_end", step + k - 1, logs)
            if self.mode == "train" and self.model.stop_training:
                break
        return logs, results


def _last(values: Any) -> Any:
    last = values[-1]
    return last.item() if np.ndim(last) == 0 else last


def make_callbacks(
    model: Trainer, given: Any, verbose: Any, **params: Any
) -> CallbackList:
    """Put the user's callbacks, the progress bar and the history together."""
    callbacks = list(given) if isinstance(given, (list, tuple)) else [given]
    callbacks = [callback for callback in callbacks if callback is not None]
    if verbose and not any(isinstance(one, ProgbarLogger) for one in callbacks):
        callbacks.append(ProgbarLogger())
    if not any(isinstance(one, History) for one in callbacks):
        callbacks.append(History())
    return CallbackList(callbacks, model, {"verbose": verbose, **params})


def _abandon(callbacks: CallbackList) -> None:
    for callback in callbacks.callbacks:
        if hasattr(callback, "_abandon"):
            callback._abandon()


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
        model: The model.
        train: The run of the training data.
        callbacks: What is called.
        epochs: The number of the last epoch.
        initial_epoch: The number of the first epoch, from 0.
        validate: Gives the run of the validation data for an epoch, or None.

    Returns:
        The history.
    """
    plan = train.plan
    logger.debug(
        "Training: %d steps of an epoch, %d of them in one execution; %d weight "
        "updates an execution, %d an epoch.",
        plan.steps,
        plan.per_execution,
        plan.per_execution,
        plan.steps,
    )
    if plan.per_execution == 1 and plan.steps > 1:
        logger.info(
            "steps_per_execution is 1: Python runs between any two steps. Give "
            "`compile` a larger one for speed."
        )
    watcher = StepWatcher(callbacks.watchers())
    history = next(cb for cb in callbacks.callbacks if isinstance(cb, History))
    history.model = model
    model.history = history
    model.stop_training = False
    logs: dict[str, Any] = {}
    held: Run | None = None
    try:
        train.loop.start()
        callbacks.call("on_train_begin", {})
        for epoch in range(initial_epoch, epochs):
            model.reset_metrics()
            callbacks.call("on_epoch_begin", epoch, {})
            logs, _ = train.execute(callbacks, watcher)
            logs = copy.copy(logs)
            test = validate(epoch)
            if test is not None:
                if held is None:
                    held = test
                    test.loop.start()
                results = _test_once(test, callbacks, StepWatcher([]))
                logs.update({f"val_{name}": v for name, v in results.items()})
            callbacks.call("on_epoch_end", epoch, logs)
            if model.stop_training:
                break
        callbacks.call("on_train_end", logs)
    finally:
        watcher.close()
        _abandon(callbacks)
        train.loop.stop()
        if held is not None:
            held.loop.stop()
    return history


def _test_once(
    test: Run, callbacks: CallbackList, watcher: StepWatcher
) -> dict[str, Any]:
    test.model.reset_metrics()
    callbacks.call("on_test_begin", {})
    logs, _ = test.execute(callbacks, watcher)
    callbacks.call("on_test_end", logs)
    return logs


def run_test(test: Run, callbacks: CallbackList) -> dict[str, Any]:
    """Evaluate once; gives the results by name."""
    watcher = StepWatcher(callbacks.watchers())
    try:
        test.loop.start()
        return _test_once(test, callbacks, watcher)
    finally:
        watcher.close()
        _abandon(callbacks)
        test.loop.stop()


def run_predict(run: Run, callbacks: CallbackList) -> Nest:
    """Predict; gives the outputs with the batches put together."""
    watcher = StepWatcher(callbacks.watchers())
    try:
        run.loop.start()
        callbacks.call("on_predict_begin", {})
        _, results = run.execute(callbacks, watcher)
        callbacks.call("on_predict_end", {})
    finally:
        watcher.close()
        _abandon(callbacks)
        run.loop.stop()
    return _join(results)


def _join(results: Sequence[Nest]) -> Nest:
    def join(*parts: Any) -> Any:
        whole = np.concatenate(parts, axis=0)
        # [steps, batch, ...] to [samples, ...]
        return whole.reshape(-1, *whole.shape[2:]) if whole.ndim > 1 else whole

    return tf.nest.map_structure(join, *results)
