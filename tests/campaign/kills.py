# SPDX-License-Identifier: MIT
"""SIGKILL while something is saved, or while training makes checkpoints.

Children of the worker write version after version of something, or train, and are
killed: at a random time, or at a random line of Python. What has been written is read
then: it is the version that was whole last, or the next one, never a part of one and
never nothing. Training that starts again ends with the bits of one that never stopped.
Once something has been written to its end, no other file is left. Of a training in
several processes one is killed, or their launcher, and all end; it goes on in as many,
or more, or fewer. The trials of a seed are its kills.
"""

from __future__ import annotations

import mmap
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from jobs import RESUMED, run, start
from resumable import DATA, X, Y, model_of, state_of, train

from ipu import keras, tf
from ipu.tf.compat import v1

ROUNDS = 3  # of a seed, each with a kill
VERSIONS = 3  # that a child writes, where it lives
EPOCHS = 4
FORMATS = ("keras", "h5", "safetensors")
SHARED = mmap.mmap(-1, 16)  # a child's last whole version, and its lines


def _tell(place: int, number: int) -> None:
    SHARED[8 * place : 8 * place + 8] = number.to_bytes(8, "little")


def _told(place: int) -> int:
    return int.from_bytes(SHARED[8 * place : 8 * place + 8], "little")


# --- children that are killed ---------------------------------------------------------


class Moment(NamedTuple):
    """When a child is killed: after so many seconds, or at a line; or never."""

    seconds: float | None = None
    line: int | None = None


def _trace_lines(last: int) -> None:
    """Count lines; at the last one the process ends."""
    count = 0

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
            _tell(1, count)
            if count == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return local

    sys.settrace(lambda frame, event, arg: local)


def _run(act: Callable[[], None], moment: Moment) -> bool:
    """Act in a child that may be killed; whether it came to its end."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if moment.line is not None:
                _trace_lines(moment.line)
            act()
            sys.settrace(None)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    if moment.seconds is not None:
        time.sleep(moment.seconds)
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, -signal.SIGKILL), f"the child failed with {status}"
    return status == 0


def _moment(rng: random.Random, size: tuple[float, int]) -> Moment:
    seconds, lines = size
    if rng.random() < 0.5:
        return Moment(seconds=rng.uniform(0, seconds))
    return Moment(line=rng.randint(1, lines))


def _size(act: Callable[[], None]) -> tuple[float, int]:
    """The seconds that a child takes for something, and its lines."""
    begin = time.monotonic()
    assert _run(act, Moment())
    seconds = time.monotonic() - begin
    assert _run(act, Moment(line=1 << 60))
    return seconds, _told(1)


# --- what is saved --------------------------------------------------------------------


class Saving(NamedTuple):
    """A way to save.

    Attributes:
        write: Writes a version into a folder.
        read: Reads the version that is in a folder; what is torn fails.
    """

    write: Callable[[str, int], Any]
    read: Callable[[str], int]


@cache
def _model() -> Any:
    stack = [keras.Input((64,)), keras.layers.Dense(256), keras.layers.Dense(256)]
    model = keras.Sequential(stack)
    model.compile("adam", "mse")
    model.fit(np.ones((4, 64), "f4"), np.ones((4, 256), "f4"), verbose=0)
    return model


def _of(version: int) -> Any:
    """The model, whose numbers are all the version's."""
    model = _model()
    for one in (model, model.optimizer):
        one.set_weights([np.full_like(old, version) for old in one.get_weights()])
    return model


def _version(arrays: list[Any]) -> int:
    numbers = {float(n) for array in arrays for n in np.unique(array)}
    assert len(numbers) == 1, f"the numbers of several versions: {numbers}"
    return int(numbers.pop())


def _whole_model(name: str) -> Saving:
    def read(folder: str) -> int:
        return _version(state_of(keras.models.load_model(f"{folder}/{name}")))

    return Saving(lambda folder, version: _of(version).save(f"{folder}/{name}"), read)


def _weights(name: str) -> Saving:
    def read(folder: str) -> int:
        model = _of(-1)
        model.load_weights(f"{folder}/{name}")
        return _version(model.get_weights())

    return Saving(
        lambda folder, version: _of(version).save_weights(f"{folder}/{name}"), read
    )


def _arrays(path: str | os.PathLike[str]) -> list[Any]:
    file = os.fspath(path).removesuffix(".safetensors")
    reader = v1.train.load_checkpoint(file)
    names = [*reader.get_variable_to_shape_map()]
    return [reader.get_tensor(one) for one in names if "learning_rate" not in one]


def _latest(folder: str) -> int:
    """The version of the last checkpoint; all that are there are whole."""
    for path in Path(folder).glob("*.safetensors"):
        _version(_arrays(path))
    last = tf.train.latest_checkpoint(folder)
    assert last is not None, f"no last checkpoint among {os.listdir(folder)}"
    return _version(_arrays(last))


def _manager_writes(folder: str, version: int) -> None:
    model = _of(version)
    checkpoint = tf.train.Checkpoint(model=model)
    checkpoint.save_counter.assign(version - 1)
    manager = tf.train.CheckpointManager(checkpoint, folder, max_to_keep=2)
    manager.save()


def _checkpoint_writes(folder: str, version: int) -> None:
    checkpoint = tf.train.Checkpoint(model=_of(version))
    checkpoint.save_counter.assign(version - 1)
    checkpoint.save(f"{folder}/model")


def _one_checkpoint(folder: str, version: int) -> None:
    tf.train.Checkpoint(model=_of(version)).write(f"{folder}/model")


def _saver(numbered: bool, most: int) -> Saving:
    def write(folder: str, version: int) -> None:
        with v1.Graph().as_default(), v1.Session() as session:
            w = v1.get_variable("w", [300, 300])
            saver = v1.train.Saver(max_to_keep=most)
            w.load(np.full((300, 300), version, "f4"), session)
            step = version if numbered else None
            saver.save(session, f"{folder}/model", global_step=step)

    return Saving(write, _latest)


def _stored() -> Saving:
    def write(folder: str, version: int) -> None:
        rows = np.full((100 + version, 500), version, "f4")
        tf.data.Dataset.from_tensor_slices(rows).save(f"{folder}/rows")

    def read(folder: str) -> int:
        rows = [x.numpy() for x in tf.data.Dataset.load(f"{folder}/rows")]
        assert len(rows) == 100 + rows[0][0]
        return _version(rows)

    return Saving(write, read)


def _cached() -> Saving:
    """The file of a cache is made once, whole or not at all; then it has a version."""

    def data(folder: str, version: int) -> Any:
        rows = np.full((200, 500), version, "f4")
        return tf.data.Dataset.from_tensor_slices(rows).cache(f"{folder}/{version}")

    def write(folder: str, version: int) -> None:
        list(data(folder, version))
        for path in Path(folder).iterdir():
            if path.name.isdecimal() and int(path.name) < version:
                path.unlink()

    def read(folder: str) -> int:
        names = [path.name for path in Path(folder).iterdir() if path.name.isdecimal()]
        version = max(map(int, names))
        rows = [x.numpy() for x in data(folder, version)]
        assert len(rows) == 200
        return _version(rows)

    return Saving(write, read)


SAVINGS: dict[str, Saving] = {
    **{f"a model, {end}": _whole_model(f"m.{end}") for end in FORMATS},
    **{f"weights, {end}": _weights(f"w.{end}") for end in ("weights.h5", *FORMATS[1:])},
    "a checkpoint": Saving(_one_checkpoint, lambda f: _version(_arrays(f"{f}/model"))),
    "checkpoints": Saving(_checkpoint_writes, _latest),
    "a manager": Saving(_manager_writes, _latest),
    "a saver": _saver(False, 5),
    "a saver of one": _saver(True, 1),
    "a saver of many": _saver(True, 5),
    "a data set": _stored(),
    "a cache": _cached(),
}


def _names(folder: str) -> list[str]:
    """The files of a folder, without their numbers."""
    found = [one.relative_to(folder) for one in Path(folder).rglob("*.*")]
    return sorted(re.sub(r"[.-]?\d+", "", str(one)) for one in found)


@cache
def _clean(name: str) -> tuple[tuple[float, int], list[str]]:
    """The size of a child that writes, and the names that it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        size = _size(lambda: _write_all(name, folder, 0))
        return size, _names(folder)


def _write_all(name: str, folder: str, last: int) -> None:
    for version in range(last + 1, last + 1 + VERSIONS):
        SAVINGS[name].write(folder, version)
        _tell(0, version)


def check_saving(name: str, rng: random.Random) -> int:
    """Kill, and read, a few times; then write to the end, and see what is there."""
    size, names = _clean(name)
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        _tell(0, 0)
        for _ in range(ROUNDS):
            last = _told(0)
            moment = _moment(rng, size)
            kills += not _run(lambda last=last: _write_all(name, folder, last), moment)
            last = _told(0)
            if last > 0:
                found = SAVINGS[name].read(folder)
                assert found in (last, last + 1), (name, moment, found, last)
                _tell(0, found)
        last = _told(0)
        assert _run(lambda: _write_all(name, folder, last), Moment())
        assert SAVINGS[name].read(folder) == _told(0)
        assert {*_names(folder)} == {*names}, (name, _names(folder))
    return kills


# --- training -------------------------------------------------------------------------


def _fits(kind: str, *more: str) -> Callable[[str], None]:
    """Fit with a backup, and with files of models beside it."""

    def act(folder: str) -> None:
        tf.random.set_seed(3)
        data, model = DATA[kind](), model_of()
        callbacks = [keras.callbacks.BackupAndRestore(f"{folder}/backup")]
        for name in more:
            path = f"{folder}/{name}"
            callbacks.append(keras.callbacks.ModelCheckpoint(path, save_freq=2))
        train(model, data, EPOCHS, callbacks=callbacks)
        np.savez(f"{folder}/done.npz", *state_of(model))

    return act


HALF_NOTE = re.compile(r"kept/\.checkpoint-?[a-f]*\.tmp")


def _own_steps(folder: str) -> None:
    """Train step by step; a manager's checkpoints say where it was."""
    step, weights = tf.Variable(0), tf.Variable(np.zeros((6, 2), "f4"))
    optimizer = keras.optimizers.Adam(0.1)
    checkpoint = tf.train.Checkpoint(step=step, weights=weights, optimizer=optimizer)
    manager = tf.train.CheckpointManager(checkpoint, f"{folder}/kept", max_to_keep=2)
    manager.restore_or_initialize()
    while int(step) < 12:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((X @ weights - Y) ** 2)
        optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
        step.assign_add(1)
        manager.save()
    np.savez(f"{folder}/done.npz", *_arrays(manager.latest_checkpoint))


def _monitored(folder: str) -> None:
    """Train in a session that keeps itself."""
    with v1.Graph().as_default():
        w = v1.get_variable("w", [6, 2], initializer=v1.zeros_initializer())
        loss = v1.reduce_mean(v1.square(v1.matmul(X, w) - Y))
        step = v1.train.get_or_create_global_step()
        optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
        update = optimizer.minimize(loss, global_step=step)
        with v1.train.MonitoredTrainingSession(
            checkpoint_dir=f"{folder}/kept", save_checkpoint_steps=2
        ) as session:
            while session.run(step) < 12:
                session.run(update)
    last = tf.train.latest_checkpoint(f"{folder}/kept")
    np.savez(f"{folder}/done.npz", *_arrays(last))


TRAININGS: dict[str, Callable[[str], None]] = {
    **{f"fit, {kind}": _fits(kind) for kind in DATA},
    "fit and files": _fits("arrays", "m.keras", "m.h5", "w.safetensors"),
    "own steps": _own_steps,
    "a monitored session": _monitored,
}


def _done(folder: str) -> list[Any]:
    with np.load(f"{folder}/done.npz") as file:
        return [file[name] for name in file.files]


@cache
def _clean_training(name: str) -> tuple[tuple[float, int], list[str], list[Any]]:
    with tempfile.TemporaryDirectory() as folder:
        TRAININGS[name](folder)
        names, bits = _names(folder), _done(folder)
    with tempfile.TemporaryDirectory() as one:
        begin = time.monotonic()
        assert _run(lambda: TRAININGS[name](one), Moment())
        seconds = time.monotonic() - begin
    with tempfile.TemporaryDirectory() as other:
        assert _run(lambda: TRAININGS[name](other), Moment(line=1 << 60))
    return (seconds, _told(1)), names, bits


def check_training(name: str, rng: random.Random) -> int:
    """Kill a few times; the last run goes on to the end."""
    size, names, bits = _clean_training(name)
    kills = 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            if _run(lambda: TRAININGS[name](folder), _moment(rng, size)):
                break
            kills += 1
            for path in Path(folder).glob("m.*"):  # what is there can be read
                keras.models.load_model(path)
        else:
            assert _run(lambda: TRAININGS[name](folder), Moment())
        for one, other in zip(_done(folder), bits, strict=True):
            np.testing.assert_array_equal(one, other, name)
        # one that was killed at its end has left a checkpoint more, and may have left
        # half of the note that names it: the last run had nothing to write
        found = _names(folder)
        if sum("ckpt" in one for one in found) > sum("ckpt" in one for one in names):
            found = [one for one in found if not HALF_NOTE.fullmatch(one)]
        assert {*found} == {*names}, (name, found)
    return kills


# --- training in several processes ----------------------------------------------------

REPLICAS = 4
SECONDS = 5.0  # a job takes less, where it is alone
PATIENCE = 60.0  # until the others have ended


def _words(count: int) -> tuple[str, ...]:
    return RESUMED, str(REPLICAS // count), "none", "0"


def _members(session: int) -> list[int]:
    """The processes of a session; those that have ended do not count."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, own = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if own == str(session) and state != "Z":
            found.append(int(path.parent.name))
    return found


@cache
def _whole_job() -> str:
    with tempfile.TemporaryDirectory() as folder:
        status, out, err = run(Path(folder), 1, *_words(1))
        assert status == 0, out + err
        return Path(folder, "0.json").read_text()


def check_processes(rng: random.Random) -> int:
    """Kill one of a job, whichever it is; the last job goes on to the end."""
    wanted, kills = _whole_job(), 0
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            count = rng.choice([1, 2, 4])
            job = start(Path(folder), count, *_words(count))
            time.sleep(rng.uniform(0, SECONDS))
            if members := _members(job.pid):
                os.kill(rng.choice(members), signal.SIGKILL)
            ended = job.wait(PATIENCE)
            patience = time.monotonic() + PATIENCE
            while left := _members(job.pid):
                assert time.monotonic() < patience, left
                time.sleep(0.02)
            if ended == 0:
                break
            kills += 1
        else:
            count = rng.choice([1, 2, 4])
            status, out, err = run(Path(folder), count, *_words(count))
            assert status == 0, out + err
        assert Path(folder, "0.json").read_text() == wanted
        assert os.listdir(f"{folder}/backup") == []
    return kills


def check(seed: int) -> int:
    """Kill children that save, or that train."""
    rng = random.Random(seed)
    known = [*SAVINGS, *TRAININGS, "processes"]
    name = known[seed % len(known)]
    if name == "processes":
        return check_processes(rng)
    return (check_saving if name in SAVINGS else check_training)(name, rng)
