# SPDX-License-Identifier: MIT
"""``LearningRateScheduler``, ``CSVLogger`` and ``LambdaCallback``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TextIO

from ipu.keras.callbacks.callback import Callback, Logs
from ipu.keras.optimizers._current import is_number

__all__ = ["CSVLogger", "LambdaCallback", "LearningRateScheduler"]


class LearningRateScheduler(Callback):
    """Sets the learning rate at the start of every epoch; no program is made anew.

    Args:
        schedule: ``schedule(epoch, rate)`` or ``schedule(epoch)`` gives the new rate.
        verbose: 1 says what it sets.

    Raises:
        ValueError: In training, where ``schedule`` gives no float.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile(keras.optimizers.SGD(1.0), "mse")
        >>> halve = LearningRateScheduler(lambda epoch, rate: rate / 2)
        >>> x, y = np.zeros((8, 3), "float32"), np.zeros((8, 1), "float32")
        >>> history = model.fit(x, y, epochs=3, callbacks=[halve], verbose=0)
        >>> float(model.optimizer.learning_rate)
        0.125
    """

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule = schedule
        self.verbose = verbose

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        optimizer = self.model.optimizer
        if not is_number(optimizer.learning_rate):
            raise ValueError(
                "LearningRateScheduler needs an optimizer with a number as its "
                f"learning rate. Received: {optimizer.learning_rate!r}."
            )
        current = float(optimizer.learning_rate.numpy())
        try:
            rate = self.schedule(epoch, current)
        except TypeError:
            rate = self.schedule(epoch)
        rate = rate.item() if hasattr(rate, "item") else rate
        if not isinstance(rate, float):
            raise ValueError(
                'The output of the "schedule" function should be float. '
                f"Received: {rate!r} ({type(rate).__name__})."
            )
        optimizer.learning_rate = rate
        if self.verbose > 0:
            print(
                f"\nEpoch {epoch + 1:05d}: LearningRateScheduler setting learning rate "
                f"to {rate}."
            )

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate.numpy())


class CSVLogger(Callback):
    """Writes the results of every epoch into a file, one row each.

    Args:
        filename: The file.
        separator: The separator of values.
        append: Whether rows are added to an existing file.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> zeros = keras.layers.Dense(1, kernel_initializer="zeros")
        >>> model = keras.Sequential([zeros])
        >>> model.compile("sgd", "mse")
        >>> path = Path(tempfile.mkdtemp(), "log.csv")
        >>> x, y = np.ones((8, 3), "float32"), np.zeros((8, 1), "float32")
        >>> history = model.fit(x, y, epochs=2, callbacks=[CSVLogger(path)], verbose=0)
        >>> print(path.read_text().strip())
        epoch,loss
        0,0.0
        1,0.0
    """

    _is_of_first_process = True  # files are written once

    def __init__(
        self,
        filename: str | os.PathLike[str],
        separator: str = ",",
        append: bool = False,
    ) -> None:
        super().__init__()
        self.filename = os.fspath(filename)
        self.separator = separator
        self.append = append
        self._file: TextIO | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        exists = os.path.exists(self.filename) and os.path.getsize(self.filename) > 0
        self._with_header = not (self.append and exists)
        self._file = open(  # noqa: SIM115 (open until training ends)
            self.filename, "a" if self.append else "w", newline="", encoding="utf-8"
        )
        self._keys: list[str] | None = None

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        import csv

        assert self._file is not None
        logs = logs or {}
        writer = csv.writer(self._file, delimiter=self.separator, lineterminator="\n")
        if self._keys is None:
            self._keys = sorted(logs)
            if self._with_header:
                writer.writerow(["epoch", *self._keys])
        writer.writerow([epoch, *(logs.get(key, "NA") for key in self._keys)])
        self._file.flush()

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._abandon()

    def _abandon(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class LambdaCallback(Callback):
    """Calls functions instead of methods.

    Args:
        on_epoch_begin, on_epoch_end: Called with (epoch, logs).
        on_batch_begin, on_batch_end: Called with (batch, logs).
        on_train_begin, on_train_end: Called with (logs).
        **kwargs: Any other hook by its name.

    Example:
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> seen = LambdaCallback(on_epoch_end=lambda epoch, logs: print(epoch, *logs))
        >>> x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
        >>> history = model.fit(x, y, epochs=2, callbacks=[seen], verbose=0)
        0 loss
        1 loss
    """

    def __init__(
        self,
        on_epoch_begin: Callable[..., Any] | None = None,
        on_epoch_end: Callable[..., Any] | None = None,
        on_batch_begin: Callable[..., Any] | None = None,
        on_batch_end: Callable[..., Any] | None = None,
        on_train_begin: Callable[..., Any] | None = None,
        on_train_end: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        given = {
            "on_epoch_begin": on_epoch_begin,
            "on_epoch_end": on_epoch_end,
            "on_batch_begin": on_batch_begin,
            "on_batch_end": on_batch_end,
            "on_train_begin": on_train_begin,
            "on_train_end": on_train_end,
            **kwargs,
        }
        for hook, function in given.items():
            if function is not None:
                setattr(self, hook, function)
