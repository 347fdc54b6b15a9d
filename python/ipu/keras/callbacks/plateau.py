# SPDX-License-Identifier: MIT
"""``ReduceLROnPlateau``."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from ipu._text.suggestions import refuse_unknown
from ipu._text.user_warnings import warn_user
from ipu.keras.callbacks.callback import Callback, Logs
from ipu.keras.callbacks.monitor import Monitor
from ipu.keras.optimizers._current import is_number

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(Callback):
    """Makes the learning rate smaller when a quantity has stopped becoming better.

    The rate is a variable of the device, so no program is made anew.

    Args:
        monitor: The quantity, a key of the logs.
        factor: The factor that the rate is multiplied by, less than 1.
        patience: For how many epochs it may not become better.
        verbose: 1 says what it does.
        mode: ``"min"``, ``"max"`` or ``"auto"``.
        min_delta: By how much it must become better to count.
        cooldown: How many epochs after a change do not count.
        min_lr: The smallest rate.
        **kwargs: ``epsilon``, an old name of ``min_delta``.

    Raises:
        ValueError: ``factor`` is not less than 1.

    Example:
        >>> zeros = keras.layers.Dense(1, kernel_initializer="zeros")
        >>> model = keras.Sequential([zeros])
        >>> model.compile(keras.optimizers.SGD(1.0), "mse")
        >>> x, y = np.ones((8, 3), "float32"), np.zeros((8, 1), "float32")
        >>> slow = ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1)
        >>> history = model.fit(x, y, epochs=3, callbacks=[slow], verbose=0)
        >>> float(model.optimizer.learning_rate)
        0.25
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 0,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        others = ("epsilon", *inspect.signature(ReduceLROnPlateau).parameters)
        refuse_unknown("ReduceLROnPlateau", kwargs, others)
        if factor >= 1.0:
            raise ValueError(
                "ReduceLROnPlateau does not support a factor >= 1.0. "
                f"Received: factor={factor}."
            )
        self.monitor = monitor
        self.factor = factor
        self.patience = patience
        self.verbose = verbose
        self.cooldown = cooldown
        self.min_lr = min_lr
        self._monitor = Monitor(monitor, mode, kwargs.get("epsilon", min_delta))
        self._begin()

    def _begin(self) -> None:
        self.cooldown_counter = 0
        self.wait = 0
        self.best = self._monitor.worst

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._begin()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        optimizer = self.model.optimizer
        if not is_number(optimizer.learning_rate):
            raise ValueError(
                "ReduceLROnPlateau needs an optimizer with a number as its learning "
                f"rate. Received: {optimizer.learning_rate!r}."
            )
        rate = float(optimizer.learning_rate.numpy())
        if logs is not None:
            logs["lr"] = rate
        current = (logs or {}).get(self.monitor)
        if current is None:
            warn_user(
                "Learning rate reduction is conditioned on metric "
                f"`{self.monitor}` which is not available. Available metrics are: "
                f"{','.join(logs or {})}"
            )
            return
        self.cooldown_counter = max(self.cooldown_counter - 1, 0)
        if self._monitor.is_better(current, self.best):
            self.best = current
            self.wait = 0
            return
        if self.cooldown_counter > 0:
            return
        self.wait += 1
        # the rate is a float32: the smallest one, too, once it is reached
        if self.wait < self.patience or rate <= np.float32(self.min_lr):
            return
        optimizer.learning_rate = max(rate * self.factor, self.min_lr)
        self.cooldown_counter = self.cooldown
        self.wait = 0
        if self.verbose > 0:
            print(
                f"\nEpoch {epoch + 1:05d}: ReduceLROnPlateau reducing learning rate to "
                f"{float(optimizer.learning_rate.numpy())}."
            )
