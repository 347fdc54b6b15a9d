# SPDX-License-Identifier: MIT
"""Epochs of the first generation: calls of the device, callbacks, results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu import tf
from ipu.keras._types import Nest
from ipu.keras.callbacks.callback import CallbackList, Logs
from ipu.keras.callbacks.history import History
from ipu.keras.callbacks.progbar import ProgbarLogger
from ipu.keras.engine.training.fit_loops import make_callbacks
from ipu.keras.engine.training.program import Program

if TYPE_CHECKING:
    from ipu.drop_in.first_keras.feeds import Feed
    from ipu.drop_in.first_keras.restricted import FirstGeneration
    from ipu.drop_in.first_keras.steps import StepPlan
    from ipu.keras.engine.training.device_steps import Steps

__all__ = ["run"]


class _StepBar(ProgbarLogger):
    """The bar: it moves by the steps of a call of the device."""

    def _move(self, batch: int, logs: Logs | None) -> None:
        self._show(batch + (logs or {}).get("num_steps", 1) - 1, None)

    def _close(self, logs: Logs | None) -> None:
        super()._close({name: float(value) for name, value in (logs or {}).items()})

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._move(batch, logs)

    def on_test_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._move(batch, logs)

    def on_predict_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self._move(batch, logs)


class _Loop(Program):
    """A program that starts its data again where an epoch does."""

    def rewind(self) -> None:
        """Go on with the first batch."""
        _ = self._infeed.deleter
        _ = self._infeed.initializer


def _in_line(values: Any) -> Any:
    """Return the results of all replicas, (mini-batches, replicas, ...), one after
    another."""
    return values.reshape(-1, *values.shape[2:])


def run(
    model: FirstGeneration,
    mode: str,
    feed: Feed,
    plan: StepPlan,
    steps: Steps,
    callbacks: Any,
    verbose: Any,
    prefetch_depth: int | None = None,
    epochs: int = 1,
    initial_epoch: int = 0,
) -> tuple[History, Nest]:
    """Train, evaluate or predict.

    Args:
        model: The model, in its strategy's scope.
        mode: ``"train"``, ``"test"`` or ``"predict"``.
        feed: The data.
        plan: The steps.
        steps: The steps of a call of the device.
        callbacks: What the user gave.
        verbose: 0 for silence.
        prefetch_depth: For the infeed.
        epochs: The number of the last epoch.
        initial_epoch: The number of the first epoch.

    Returns:
        The history; and of the last epoch the results by name, in predict mode the
        outputs of all mini-batches, each leaf with axes of mini-batches and samples.
    """
    given = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    if verbose and not any(isinstance(one, ProgbarLogger) for one in given):
        given.append(_StepBar())
    listed = make_callbacks(model, given, verbose, plan.steps, epochs)
    history = next(one for one in listed.callbacks if isinstance(one, History))
    options = {} if prefetch_depth is None else {"prefetch_depth": prefetch_depth}
    per_call = plan.per_run * model._accumulated
    replicas = model.replication_factor
    loop = _Loop(feed.dataset, per_call, options, {}, "steps")
    loop.begin(steps, feed.dataset, None if replicas == 1 else _in_line)
    results: Nest = {}
    try:
        loop.start()
        listed.call(f"on_{mode}_begin", {})
        for epoch in range(initial_epoch, epochs):
            if plan.restarts and epoch > initial_epoch:
                loop.rewind()
            model.reset_metrics()
            if mode == "train":
                listed.call("on_epoch_begin", epoch, {})
            outputs = _execute(loop, mode, plan, per_call, listed)
            results = outputs if mode == "predict" else _results(outputs, replicas)
            if mode == "train":
                listed.keep_steps({**outputs["logs"], **outputs["loss"]})
                listed.call("on_epoch_end", epoch, dict(results))
                if model.stop_training:
                    break
        listed.call(f"on_{mode}_end", {} if mode == "predict" else dict(results))
    finally:
        for one in listed.callbacks:
            if hasattr(one, "_abandon"):
                one._abandon()
        loop.stop()
    return history, results


def _execute(
    loop: Program, mode: str, plan: StepPlan, per_call: int, callbacks: CallbackList
) -> Nest:
    """Run an epoch; gives the results of all its mini-batches."""
    parts: list[Nest] = []
    for step in range(0, plan.steps, plan.per_run):
        logs = {"batch": step, "size": 1, "num_steps": plan.per_run}
        callbacks.call(f"on_{mode}_batch_begin", step, dict(logs))
        parts += loop.run(per_call)[0]
        callbacks.call(f"on_{mode}_batch_end", step, dict(logs))
    return tf.nest.map_structure(lambda *leaves: np.concatenate(leaves), *parts)


def _results(outputs: Nest, replicas: int) -> dict[str, Any]:
    """Return the mean of the mini-batches' losses, and the last values of the rest.

    They are NumPy's numbers: float64 the loss, what the device gave the rest.
    """
    results = {name: values[-1] for name, values in outputs["logs"].items()}
    # an evaluation gives running means, of each replica its own
    losses = outputs.get("loss", {"loss": outputs["logs"]["loss"][-replicas:]})["loss"]
    results["loss"] = np.mean(losses, dtype=np.float64)
    return results
