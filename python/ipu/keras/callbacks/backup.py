# SPDX-License-Identifier: MIT
"""``BackupAndRestore``: training that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from typing import Any

from ipu._device import processes
from ipu._files.whole import write, written_beside
from ipu.keras import _random_state
from ipu.keras.callbacks.callback import Callback, Logs
from ipu.keras.callbacks.state import gather_state, optimizers_of
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

    The file is written beside the last one, whose place it takes when it is whole; a
    digest says whether it still is when it is read. Of several processes the first one
    writes and reads it for all: they may be another number, with as many replicas.

    Args:
        backup_dir: A folder for the file; it is made. Each ``fit`` that can be stopped
            needs its own.
        save_freq: Must be ``"epoch"``.
        delete_checkpoint: Whether the file is deleted when ``fit`` has ended.

    Raises:
        ValueError: ``save_freq`` is something else.
        OSError: The file cannot be written; the one of the last epoch is there still.

    Source: ``tf.keras.callbacks.BackupAndRestore`` of Keras 2.8;
    ``experimental.BackupAndRestore`` of Keras 2.6.

    Example:
        >>> callback = BackupAndRestore("/tmp/a_run")
    """

    _is_of_first_process = True  # files are written once

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

    def _found(self) -> _Backup | None:
        """Return the backup that there is, or None."""
        os.makedirs(self.backup_dir, exist_ok=True)
        if not os.path.exists(self._path):
            return None
        with open(self._path, "rb") as file:
            return _Backup(self._path, file.read())

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Go back to the state of the backup, if there is one."""
        found = self._found()
        if found is not None:
            found.restore(self.model)

    def _elsewhere(self) -> Callback:
        return _HandOver()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Write the backup."""
        gather_state(self.model)
        optimizers = optimizers_of(self.model)
        told = [(len(one.weights), _rate_of(one)) for one in optimizers]
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


def _rate_of(optimizer: Any) -> float | None:
    """Return the rate that an optimizer has now; None where it follows a schedule."""
    rate = optimizer.get_config().get("learning_rate")
    return rate if isinstance(rate, float) else None


class _Backup:
    """What a file holds.

    Args:
        path: The file.
        data: Its bytes.

    Attributes:
        epochs: How many epochs were done before.
    """

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.data = data
        self._about, self._state = weights_file.read_about(path, data)
        try:
            self.epochs = int(self._about["epochs"])
        except (KeyError, ValueError):
            raise ValueError(
                f"The file {path!r} is not a backup of training. Delete it, or give "
                "another backup_dir."
            ) from None

    @property
    def random(self) -> _random_state.RandomState:
        """Where the random numbers stood."""
        return _random_state.parsed(self._about.get("random_state", ""), self.path)

    def restore(self, model: Any) -> None:
        """Set the weights of a model, and its optimizers."""
        weights_file.load(model.weights, self.path, model.name, data=self.data)
        told = json.loads(self._about["optimizers"])
        state = list(self._state)
        for optimizer, (count, rate) in zip(optimizers_of(model), told, strict=True):
            optimizer._resume(state[:count], model.trainable_variables)
            del state[:count]
            if rate is not None:
                optimizer.learning_rate = rate


class _HandOver(Callback):
    """Gives the first process what this one has of the state of optimizers."""

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        gather_state(self.model)


class _Restore(Callback):
    """Restores what the first process has found, in another one."""

    def __init__(self, backup: _Backup) -> None:
        super().__init__()
        self._backup = backup

    def on_train_begin(self, logs: Logs | None = None) -> None:
        self._backup.restore(self.model)


def resumed(model: Any, callbacks: Any) -> tuple[int, list[Any]]:
    """Find the backups among the callbacks of process 0; call it in all processes.

    The model goes on with the random numbers of the backup with most epochs.

    Returns:
        How many epochs were done before it, and the callbacks of this process, which
        restore what was found.
    """
    given = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
    shared = processes.shared()
    found: list[_Backup] = []
    if shared is None or shared.index == 0:
        own = [one._found() for one in given if isinstance(one, BackupAndRestore)]
        found = [one for one in own if one is not None]
    if shared is not None:
        shared.meet("fit")
        told = json.dumps([(one.path, len(one.data)) for one in found])
        names, whole = (
            shared.allgather_bytes(b"".join(part) if shared.index == 0 else b"")[0]
            for part in ([told.encode()], [one.data for one in found])
        )
        if shared.index > 0:
            for path, size in json.loads(names):
                found.append(_Backup(path, whole[:size]))
                whole = whole[size:]
            given += map(_Restore, found)
    model._data_order.follow()
    last = max(found, key=lambda one: one.epochs, default=None)
    if last is None:
        return 0, given
    model._data_order = _random_state.Order(last.random)
    return last.epochs, given
