# SPDX-License-Identifier: MIT
"""Files appear whole or not at all; what processes leave that are killed goes."""

from __future__ import annotations

import fcntl
import gzip
import os
import signal
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu._files import whole
from ipu.tf import errors
from ipu.tf.compat import v1


def in_child(act: Callable[[], Any]) -> int:
    """Act in a child that ends by itself; its status."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(*given: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_file_that_is_whole_can_be_read(tmp_path: Path) -> None:
    """By other processes too, however long its writer still holds it."""
    path = str(tmp_path / "model.h5")
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.save(path)
    with open(path, "r+b") as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        again = keras.models.load_model(path)
        again.load_weights(path)
    assert (again.get_weights()[0] == model.get_weights()[0]).all()
    with whole.start_beside(path) as writer, open(path, "rb") as reader:
        writer.write(b"new")
        whole.finish(writer, path)
        assert Path(path).read_bytes() == b"new"
        fcntl.flock(reader, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with open(path, "rb") as new:
            fcntl.flock(new, fcntl.LOCK_SH | fcntl.LOCK_NB)


def test_what_is_left_of_a_file_goes_and_what_is_being_written_stays(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "a[1].keras")

    def ends_early() -> None:
        with whole.written_beside(path) as target:
            whole.write(target, b"half")
            killed()

    for name in (".a[1].keras-mine.tmp", ".a[1].keras", ".b.keras-0123456789ab.tmp"):
        (tmp_path / name).touch()
    before = {*os.listdir(tmp_path)}
    for _ in range(3):
        assert in_child(ends_early) == -signal.SIGKILL
        assert len({*os.listdir(tmp_path)} - before) == 1
    with whole.written_beside(path) as target:
        whole.write_whole(path, b"another")
        whole.write(target, b"one")
        assert len({*os.listdir(tmp_path)} - before) == 2
    assert {*os.listdir(tmp_path)} - before == {"a[1].keras"}
    assert Path(path).read_bytes() == b"one"
    mask = os.umask(0o027)
    try:
        whole.write_whole(path, b"")
    finally:
        os.umask(mask)
    assert Path(path).stat().st_mode & 0o777 == 0o640


def test_the_disk_has_a_file_before_it_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noted(name: str) -> Any:
        act = getattr(os, name)

        def call(one: Any, *more: Any) -> Any:
            if name == "fsync":
                done.append(os.path.basename(os.readlink(f"/proc/self/fd/{one}")))
            else:
                done.append(name)
            return act(one, *more)

        return call

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, noted(name))
    descriptors = len(os.listdir("/proc/self/fd"))
    whole.write_whole(str(tmp_path / "a"), b"whole")
    first, *others = done
    assert first.startswith(".a-") and others == ["replace", tmp_path.name]
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_what_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    whole.write_whole(path, b"old")
    own = OSError(28, "No space left", "/a/place")
    for error, told in (
        (ValueError("none"), "none"),
        (own, str(own)),
        (
            OSError(28, "No space left"),
            f"[Errno 28] No space left; what was there before is there still: '{path}'",
        ),
        (
            OSError("a disk"),
            f"[Errno None] a disk; what was there before is there still: '{path}'",
        ),
    ):
        with pytest.raises(type(error)) as caught, whole.written_beside(path) as target:
            whole.write(target, b"half")
            raise error
        assert str(caught.value) == told
        assert os.listdir(tmp_path) == ["a"]
    with pytest.raises(ValueError, match="gone"), whole.written_beside(path) as target:
        os.unlink(target)
        raise ValueError("gone")
    assert Path(path).read_bytes() == b"old"


@pytest.mark.parametrize("is_saver", [False, True])
def test_a_folder_has_a_last_checkpoint_at_any_time(
    is_saver: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def save(number: int) -> None:
        if not is_saver:
            kept = tf.train.Checkpoint(w=tf.Variable(np.full(9, number)))
            kept.save_counter.assign(number - 1)
            tf.train.CheckpointManager(kept, tmp_path, max_to_keep=1).save()
            return
        with v1.Graph().as_default(), v1.Session() as session:
            w = v1.get_variable("w", [9], initializer=v1.zeros_initializer())
            w.load(np.full(9, number, "f4"), session)
            saver = v1.train.Saver(max_to_keep=1)
            saver.recover_last_checkpoints([tf.train.latest_checkpoint(tmp_path) or ""])
            saver.save(session, f"{tmp_path}/ckpt", number)

    save(1)
    finish = whole.finish
    for count in range(8):
        left = iter([finish] * count + [killed])  # some get to their places
        finishes = lambda *given, left=left: next(left)(*given)  # noqa: E731
        monkeypatch.setattr(whole, "finish", finishes)
        status = in_child(lambda: save(2))
        monkeypatch.undo()
        last = tf.train.latest_checkpoint(tmp_path)
        assert last is not None
        number = v1.train.load_checkpoint(last).get_tensor("w")[0]
        assert number in (1, 2)
        if status == 0:
            break
    assert count == 2 and number == 2
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "ckpt-2.safetensors"]


@pytest.mark.parametrize("is_removed", [False, True])
def test_who_is_taken_for_a_killed_one_begins_again(
    is_removed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process can lock a file in the moment between its start and its lock,
    and can have removed it by then."""
    lock, taken = fcntl.flock, []

    def locked_late(file: Any, how: int) -> None:
        monkeypatch.undo()
        taken.append(open(file.name, "rb"))  # noqa: SIM115
        lock(taken[0], how)
        if is_removed:
            os.unlink(file.name)
            lock(taken[0], fcntl.LOCK_UN)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", locked_late)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")  # of a file that nobody closes
        with whole.written_beside(str(tmp_path / "a")) as target, taken[0] as other:
            assert target != other.name
    assert not seen


def test_several_managers_of_one_folder(tmp_path: Path) -> None:
    def save() -> int:
        saved = tf.train.Checkpoint(v=tf.Variable(3.0))
        manager = tf.train.CheckpointManager(saved, tmp_path, max_to_keep=2)
        for _ in range(30):
            manager.save()
        v1.train.get_checkpoint_state(str(tmp_path))
        return len(manager.checkpoints)

    with ThreadPoolExecutor(4) as threads:
        kept = [threads.submit(save) for _ in range(4)]
        assert [one.result() for one in kept] == [2] * 4
    assert len(list(tmp_path.glob("ckpt-*"))) >= 2


def test_a_session_deletes_the_checkpoints_of_earlier_runs(tmp_path: Path) -> None:
    for _ in range(3):
        with v1.Graph().as_default():
            step = v1.train.get_or_create_global_step().assign_add(1)
            with v1.train.MonitoredTrainingSession(
                checkpoint_dir=str(tmp_path), save_checkpoint_steps=1
            ) as session:
                for _ in range(3):
                    session.run(step)
    names = [f"model.ckpt-{number}.safetensors" for number in range(5, 10)]
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", *names]


def test_a_data_set_is_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found() -> list[int]:
        return [int(x) for x in tf.data.Dataset.load(str(tmp_path))]

    for count in (2, 3, 2):
        tf.data.Dataset.range(count).save(str(tmp_path))
        assert found() == [*range(count)]
        with monkeypatch.context() as patch:
            patch.setattr("ipu.tf.data._dataset.write_whole", killed)
            status = in_child(lambda: tf.data.Dataset.range(9).save(str(tmp_path)))
            assert status == -signal.SIGKILL
        assert found() == [*range(count)]
    assert len(os.listdir(tmp_path)) == 3
    tf.data.Dataset.range(4).save(str(tmp_path), compression="GZIP")
    assert len(os.listdir(tmp_path)) == 2 and found() == [0, 1, 2, 3]
    (rows,) = tmp_path.glob("*.rows")
    assert gzip.decompress(rows.read_bytes()).startswith(b"IPUROWS1")
    (tmp_path / "about.json").write_text('{"spec": [], "rows": 3}')
    with pytest.raises(errors.DataLossError, match="is damaged"):
        found()


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_child_does_not_write_its_parents_file(goes_on: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "kept")
    elements = iter(tf.data.Dataset.range(1000).cache(path))
    for _ in range(500):
        next(elements)

    def end() -> None:
        nonlocal elements
        if goes_on:
            assert len([*elements]) == 500
        del elements

    assert in_child(end) == 0
    assert len([*elements]) == 500 and os.listdir(tmp_path) == ["kept"]
    again = tf.data.Dataset.range(1000).cache(path)
    assert [int(x) for x in again] == [*range(1000)]
