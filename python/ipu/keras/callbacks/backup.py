# SPDX-License-Identifier: MIT
"""``BackupAndRestore``: training that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from ipu.keras import _random_state
from ipu.keras._files.places import write, written_beside
from ipu.keras.callbacks.callback import Callback, Logs
from ipu.keras.engine.files import weights_file

__all__ = ["BackupAndRestore"]

_FILE = "backup.safetensors"


class BackupAndRestore(Callback):
    """Keeps the state of training after every epoch, and goes on from it.

    Run the same program again after it was stopped: ``fit`` begins with the epoch that
    was not finished, with the weights, the optimizers' variables and rates as they
    were, and with the data and the random numbers that come then. So the results are to
    the bit those of a run that was never stopped.

    A generator is read on from where it is: let it begin with the epoch that comes.
    Callbacks that count, such as ``ReduceLROnPlateau``, count anew.

    Args:
        backup_dir: A folder for the file; it is made. Each ``fit`` that can be stopped
            needs its own.
        save_freq: Must be ``"epoch"``.
        delete_checkpoint: Whether the file is deleted when ``fit`` has ended.

    Raises:
        ValueError: ``save_freq`` is something else.

    Source: ``tf.keras.callbacks.BackupAndRestore`` of Keras 2.8;
    ``experimental.BackupAndRestore`` of Keras 2.6.

    Example:
        >>> callback = BackupAndRestore("/tmp/a_run")
    """

    def __init__(
        self,
        backup_dir: str | os.PathLike[str],
        save_freq: str = "epoch",
        delete_checkpoint: bool = True,
    ) -> None:
        super().__init__()
        if save_freq != "epoch":
            raise ValueError(
                "A backup is made after every epoch: `save_freq` must be 'epoch'. "
                f"Received: save_freq={save_freq!r}."
            )
        self.backup_dir = os.fspath(backup_dir)
        self.delete_checkpoint = delete_checkpoint

    @property
    def _path(self) -> str:
        return os.path.join(self.backup_dir, _FILE)

    def _finished_epochs(self) -> int:
        """Return how many epochs were done before the backup; 0 where there is none."""
        os.makedirs(self.backup_dir, exist_ok=True)
        if not os.path.exists(self._path):
            return 0
        about, _ = weights_file.read_about(self._path)
        try:
            return int(about["epochs"])
        except (KeyError, ValueError):
            raise ValueError(
                f"The file {self._path!r} is not a backup of training. Delete it, or "
                "give another backup_dir."
            ) from None

    def _random_of(self, about: Mapping[str, str]) -> _random_state.RandomState:
        return _random_state.parsed(about.get("random_state", ""), self._path)

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Go back to the state of the backup, if there is one."""
        if self._finished_epochs() == 0:
            return
        weights_file.load(self.model.weights, self._path, self.model.name)
        about, state = weights_file.read_about(self._path)
        told = json.loads(about["optimizers"])
        for optimizer, (count, rate) in zip(
            _optimizers_of(self.model), told, strict=True
        ):
            optimizer._resume(state[:count], self.model.trainable_variables)
            del state[:count]
            if rate is not None:
                optimizer.learning_rate = rate

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Write the backup."""
        optimizers = _optimizers_of(self.model)
        rates = [one.get_config().get("learning_rate") for one in optimizers]
        told = [
            (len(one.weights), rate if isinstance(rate, float) else None)
            for one, rate in zip(optimizers, rates, strict=True)
        ]
        state = [variable for one in optimizers for variable in one.weights]
        about = {
            "epochs": str(epoch + 1),
            "optimizers": json.dumps(told),
            "random_state": _random_state.captured(self.model._data_order).to_json(),
        }
        with written_beside(self._path) as target:
            content = weights_file.encoded(self.model.weights, state, about)
            write(target, content)

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Delete the backup: nothing is left to do."""
        if self.delete_checkpoint and os.path.exists(self._path):
            os.unlink(self._path)


def _optimizers_of(model: Any) -> list[Any]:
    """Return the optimizer of ``compile``, and those in attributes of the model."""
    from ipu.keras.optimizers import Optimizer

    found = [model.optimizer]
    for value in vars(model).values():
        items = value.values() if isinstance(value, dict) else value
        for one in items if isinstance(value, (list, tuple, dict)) else [value]:
            is_new = not any(one is other for other in found)
            if isinstance(one, Optimizer) and is_new:
                found.append(one)
    return found


def finished_epochs(model: Any, callbacks: Any) -> int:
    """Return how many epochs were done before the backups among some callbacks.

    The model goes on with the random numbers of the backup with most of them.
    """
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    found = [one for one in given if isinstance(one, BackupAndRestore)]
    model._data_order.follow()
    epochs = 0
    for one in found:
        finished = one._finished_epochs()
        if finished > epochs:
            epochs = finished
            about, _ = weights_file.read_about(one._path)
            model._data_order = _random_state.Order(one._random_of(about))
    return epochs
