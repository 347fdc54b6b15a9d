# SPDX-License-Identifier: MIT
"""``ModelCheckpoint``: saves the model, or its weights, while training."""

from __future__ import annotations

import copy
import os
from typing import Any

from ipu._text.user_warnings import warn_user
from ipu.keras._files.places import format_of, prepare
from ipu.keras.callbacks.callback import Callback, Logs, looks
from ipu.keras.callbacks.monitor import Monitor
from ipu.keras.callbacks.state import gather_state

__all__ = ["ModelCheckpoint"]


class ModelCheckpoint(Callback):
    """Saves the model after every epoch, or after a number of steps.

    The path is checked, and its folder made, before the first step.

    Args:
        filepath: A path with fields such as ``{epoch:02d}`` (from 1) and
            ``{val_loss:.2f}``. Its suffix says the format, as for ``Model.save`` and
            ``Model.save_weights``.
        monitor: The quantity that says which epoch is best.
        verbose: 1 says when it saves.
        save_best_only: Whether only better epochs are saved.
        save_weights_only: Whether the weights alone are saved.
        mode: ``"min"``, ``"max"`` or ``"auto"``.
        save_freq: ``"epoch"``, or a number of steps.
        options: Ignored.
        initial_value_threshold: A value that the first epoch has to beat to be saved.
        **kwargs: None.

    Raises:
        ImportError: The format needs h5py, which is not installed.
        ValueError: ``save_freq`` is neither, or the path is of another format.

    Example:
        >>> import os, tempfile
        >>> model = keras.Sequential([keras.layers.Dense(1)])
        >>> model.compile("sgd", "mse")
        >>> folder = tempfile.mkdtemp()
        >>> save = ModelCheckpoint(os.path.join(folder, "{epoch}.h5"), monitor="loss")
        >>> x, y = np.ones((8, 3), "float32"), np.ones((8, 1), "float32")
        >>> history = model.fit(x, y, epochs=2, callbacks=[save], verbose=0)
        >>> sorted(os.listdir(folder))
        ['1.h5', '2.h5']
    """

    _is_of_first_process = True  # files are written once
    _is_elsewhere = False

    def __init__(
        self,
        filepath: str | os.PathLike[str],
        monitor: str = "val_loss",
        verbose: int = 0,
        save_best_only: bool = False,
        save_weights_only: bool = False,
        mode: str = "auto",
        save_freq: str | int = "epoch",
        options: Any = None,
        initial_value_threshold: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if kwargs:
            raise TypeError(f"Unrecognized arguments: {sorted(kwargs)}")
        del options
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise ValueError(
                "`save_freq` must be 'epoch' or a number of steps. "
                f"Received: save_freq={save_freq!r}."
            )
        format_of(filepath)
        self.filepath = os.fspath(filepath)
        self.monitor = monitor
        self.verbose = verbose
        self.save_best_only = save_best_only
        self.save_weights_only = save_weights_only
        self.save_freq = save_freq
        self._monitor = Monitor(monitor, mode)
        self.best = self._monitor.worst
        if initial_value_threshold is not None:
            self.best = initial_value_threshold
        self._epoch = 0
        self._last_batch = -1
        self._batches_since_save = 0

    def _elsewhere(self) -> ModelCheckpoint:
        """Return what other processes have in its place: what they have of the state of
        optimizers goes into the file, too."""
        other = copy.copy(self)
        other._is_elsewhere = True
        return other

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Count steps from here, and find out what is wrong with the path."""
        self._last_batch = -1
        self._batches_since_save = 0
        if self._is_elsewhere:
            return
        folder, name = os.path.split(self.filepath)
        # fields in a folder's name are known later
        parent = folder if "{" not in folder else ""
        prepare(os.path.join(parent, name), not self.save_weights_only)
        if not self.save_weights_only:
            self.model.get_config()  # says before training what cannot be saved

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch = epoch

    def _steps_to_save(self) -> int | None:
        if self.save_freq == "epoch":
            return None
        return max(int(self.save_freq) - self._batches_since_save, 1)

    @looks(_steps_to_save)
    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        """Save where enough steps have passed."""
        if self.save_freq == "epoch":
            return
        is_new_epoch = batch <= self._last_batch
        self._batches_since_save += (
            batch + 1 if is_new_epoch else (batch - self._last_batch)
        )
        self._last_batch = batch
        if self._batches_since_save >= int(self.save_freq):
            self._batches_since_save = 0
            self._save(self._epoch, logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Save where it is time for it."""
        if self.save_freq == "epoch":
            self._save(epoch, logs)

    def _save(self, epoch: int, logs: Logs | None) -> None:
        gather_state(self.model)
        if self._is_elsewhere:
            return
        logs = logs or {}
        path = self._path(epoch, logs)
        if self.save_best_only:
            current = logs.get(self.monitor)
            if current is None:
                warn_user(
                    f"Can save best model only with {self.monitor} available, "
                    f"skipping. Available: {', '.join(logs)}."
                )
                return
            if not self._monitor.is_better(current, self.best):
                if self.verbose > 0:
                    print(
                        f"\nEpoch {epoch + 1:05d}: {self.monitor} did not improve from "
                        f"{self.best:0.5f}"
                    )
                return
            self.best = current
        if self.verbose > 0:
            print(f"\nEpoch {epoch + 1:05d}: saving model to {path}")
        if self.save_weights_only:
            self.model.save_weights(path)
        else:
            self.model.save(path)

    def _path(self, epoch: int, logs: Logs) -> str:
        try:
            return self.filepath.format(epoch=epoch + 1, **logs)
        except KeyError as error:
            raise KeyError(
                f"Failed to format this callback filepath: {self.filepath!r}. There is "
                f"no {error.args[0]!r} in the logs, only {list(logs)}."
            ) from None
