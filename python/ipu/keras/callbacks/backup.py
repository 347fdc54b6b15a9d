# SPDX-License-Identifier: MIT
"""``BackupAndRestore``: training that was stopped goes on where it was."""

from __future__ import annotations

import json
import os
from typing import Any

from ipu import _seed
from ipu._placement import current_device
from ipu.keras._files.places import written_beside
from ipu.keras.callbacks.callback import Callback, Logs
from ipu.keras.engine import weights_file

__all__ = ["BackupAndRestore", "finished_epochs"]

_FILE = "backup.safetensors"
_STRIDE = 0x9E3779B97F4A7C15  # odd: keeps the seeds of epochs apart


class BackupAndRestore(Callback):
    """Keeps the state of training after every epoch, and goes on from it.

    Run the same program again after it was stopped: ``fit`` begins with the epoch that
    was not finished, with the weights, the optimizer's variables and its rate as they
    were, and with the data that come then. Random numbers of the device start anew at
    each epoch, from the global seed and the epoch's number. So the results are to the
    bit those of a run with this callback that was never stopped.

    Generators and data sets of unknown size start with their first batch again.

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
        """How many epochs the backup has behind it; 0 where there is none.

        Raises:
            ValueError: It is damaged.
        """
        os.makedirs(self.backup_dir, exist_ok=True)
        if not os.path.exists(self._path):
            return 0
        about, _ = weights_file.read_about(self._path)
        try:
            return int(about["epochs"])
        except (KeyError, ValueError):
            raise ValueError(
                f"The file {self._path!r} is no backup of training. Delete it, or give "
                "another backup_dir."
            ) from None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        """Go back to the state of the backup, if there is one."""
        epochs = self._finished_epochs()
        if epochs == 0:
            return
        weights_file.load(self.model.weights, self._path, self.model.name)
        about, state = weights_file.read_about(self._path)
        optimizer = self.model.optimizer
        optimizer._create_all_weights(self.model.trainable_variables)
        optimizer.set_weights(state)
        rate = json.loads(about["learning_rate"])
        if rate is not None:
            optimizer.learning_rate = rate
        _seed_epoch(epochs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        """Write the backup."""
        optimizer = self.model.optimizer
        rate = optimizer.get_config().get("learning_rate")
        about = {
            "epochs": str(epoch + 1),
            "learning_rate": json.dumps(rate if isinstance(rate, float) else None),
        }
        with written_beside(self._path) as target:
            weights_file.save(self.model.weights, target, optimizer.weights, about)
        _seed_epoch(epoch + 1)

    def on_train_end(self, logs: Logs | None = None) -> None:
        """Delete the backup: nothing is left to do."""
        if self.delete_checkpoint and os.path.exists(self._path):
            os.unlink(self._path)


def _seed_epoch(epoch: int) -> None:
    """Start the device's random numbers anew, for the epoch of this number."""
    seed = (_seed.current()[0] + epoch * _STRIDE) & 0xFFFFFFFFFFFFFFFF
    current_device().core.seed(seed)


def finished_epochs(callbacks: Any) -> int:
    """How many epochs the backups among some callbacks have behind them."""
    given = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    found = [one for one in given if isinstance(one, BackupAndRestore)]
    return max((one._finished_epochs() for one in found), default=0)
