# SPDX-License-Identifier: MIT
"""``EarlyStopping`` and ``TerminateOnNaN``."""

from __future__ import annotations

import math
from typing import Any

from ipu._text.arguments import checked_int
from ipu._text.user_warnings import warn_user
from ipu.keras.callbacks.callback import Callback, Logs
from ipu.keras.callbacks.monitor import Monitor

__all__ = ["EarlyStopping", "TerminateOnNaN"]


class EarlyStopping(Callback):
    """Stops when a quantity has not become better for a while.

    Args:
        monitor: The quantity, a key of the logs.
        min_delta: By how much it must become better to count.
        patience: For how many epochs it may not.
        verbose: 1 says when it stops.
        mode: ``"min"``, ``"max"`` or ``"auto"``.
        baseline: A value that must be beaten too.
        restore_best_weights: Whether the weights of the best epoch come back.
        start_from_epoch: The first epoch that counts, from 0.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile(keras.optimizers.SGD(0.0), "mse")
        >>> stop = EarlyStopping(monitor="loss", patience=2)
        >>> x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
        >>> len(model.fit(x, y, epochs=50, callbacks=[stop], verbose=0).epoch)
        3
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        min_delta: float = 0.0,
        patience: int = 0,
        verbose: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
        start_from_epoch: int = 0,
    ) -> None:
        super().__init__()
        self.monitor = monitor
        self.patience = patience
        self.verbose = verbose
        self.baseline = baseline
        self.restore_best_weights = restore_best_weights
        self.start_from_epoch = checked_int("start_from_epoch", start_from_epoch, 0)
        self._monitor = Monitor(monitor, mode, min_delta)
        self._begin()

    def _begin(self) -> None:
        self.wait = 0
        self.stopped_epoch = 0
        self.best = self._monitor.worst
        self.best_epoch = 0
        self.best_weights: list[Any] | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._begin()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        current = (logs or {}).get(self.monitor)
        if current is None:
            warn_user(
                f"Early stopping conditioned on metric `{self.monitor}` which is not "
                f"available. Available metrics are: {','.join(logs or {})}"
            )
            return
        if epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights = self.model.get_weights()
        self.wait += 1
        if self._monitor.is_better(current, self.best):
            self.best = current
            self.best_epoch = epoch
            if self.restore_best_weights:
                self.best_weights = self.model.get_weights()
            baseline = self.baseline
            if baseline is None or self._monitor.is_better(current, baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True
            if self.best_weights is not None:
                self.model.set_weights(self.best_weights)

    def on_train_end(self, logs: Logs | None = None) -> None:
        if self.stopped_epoch > 0 and self.verbose > 0:
            print(f"Epoch {self.stopped_epoch + 1:05d}: early stopping")


class TerminateOnNaN(Callback):
    """Stops as soon as the loss is not a finite number.

    Args:
        raise_error: Whether it raises an error then, rather than end the run.

    Raises:
        RuntimeError: In training, where ``raise_error`` is set.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse", steps_per_execution=1)
        >>> x, y = np.ones((8, 3), "float32"), np.full((8, 1), np.nan, "float32")
        >>> history = model.fit(x, y, epochs=9, callbacks=[TerminateOnNaN()], verbose=0)
        Batch 0: Invalid loss, terminating training
        >>> len(history.epoch)
        1
    """

    def __init__(self, raise_error: bool = False) -> None:
        super().__init__()
        self.raise_error = raise_error

    def on_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(loss):
            if self.raise_error:
                raise RuntimeError(f"Batch {batch}: the loss is {loss}.")
            print(f"Batch {batch}: Invalid loss, terminating training")
            self.model.stop_training = True
