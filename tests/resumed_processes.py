# SPDX-License-Identifier: MIT
"""Train in processes, with a backup; something may happen at the beginning of an epoch.

``resumed_processes.py REPLICAS EVENT EPOCH`` in the folder of its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
from typing import Any

from resumable import DATA, model_of, state_of, train

import ipu
from ipu import distributed, keras, tf
from ipu.distributed.popdist_strategy import PopDistStrategy
from ipu.keras.callbacks import backup

replicas, event, at = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
me = distributed.process_index()
config = ipu.config.IPUConfig()
config.auto_select_ipus = replicas
strategy = PopDistStrategy()
strategy.update_ipu_config(config)
config.configure_ipu_system()
if me:
    os.chdir("/")  # where the others cannot write


class Events(keras.callbacks.Callback):
    _is_of_first_process = False

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if epoch == at and event == "full":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        if epoch == at and event == "in_write" and me == 0:
            backup.write = half
        if epoch == at and event == "in_epoch" and me == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == at and event == "written" and me == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def half(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


tf.random.set_seed(3)
backups = keras.callbacks.BackupAndRestore("backup")
models = keras.callbacks.ModelCheckpoint("models/{epoch}.safetensors")
with strategy.scope():
    model = model_of()
    model.set_replication_options("MEAN")
    data = {**DATA["data_set"](), "steps_per_epoch": 4}
    data["x"] = data["x"].repeat()
    history = train(model, data, 4, callbacks=[backups, models, Events()])
    parts = b"".join(value.tobytes() for value in state_of(model))
    last = history.history["loss"][-1], hashlib.sha256(parts).hexdigest()
if me == 0:
    with open("0.json", "w") as file:
        json.dump(last, file)
