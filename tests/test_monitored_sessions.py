# SPDX-License-Identifier: MIT
"""Monitored sessions, their hooks and the coordinator."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu.tf import errors
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")


class Noting(tf.train.SessionRunHook):  # type: ignore[misc]
    def __init__(self, fetch: Any) -> None:
        self.fetch = fetch
        self.seen: list[Any] = []

    def begin(self) -> None:
        self.seen.append("begin")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.seen.append(coord.should_stop())

    def before_run(self, run_context: Any) -> Any:
        assert run_context.original_args.fetches is not None
        return tf.train.SessionRunArgs(self.fetch)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(float(run_values.results))

    def end(self, session: Any) -> None:
        self.seen.append("end")


def trained() -> tuple[Any, Any]:
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable("w", [], initializer=tf.ones_initializer())
    loss = tf.square(w)
    tf.summary.scalar("loss", loss)
    optimizer = tf.train.GradientDescentOptimizer(0.25)
    return loss, optimizer.minimize(loss, global_step=step)


def test_hooks_are_called_around_runs(caplog: Any) -> None:
    loss, train = trained()
    noting = Noting(loss)
    log = tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=2, at_end=True)
    hooks = [noting, log, tf.train.StopAtStepHook(num_steps=3)]
    hooks.append(tf.train.NanTensorHook(loss))
    with (
        caplog.at_level(logging.INFO, "tensorflow"),
        tf.train.MonitoredTrainingSession(hooks=hooks) as session,
    ):
        assert not session.should_stop()
        while not session.should_stop():
            assert session.run(train) is None
        with pytest.raises(RuntimeError, match="even after should_stop"):
            session.run(train)
    assert noting.seen[:2] == ["begin", False] and noting.seen[-1] == "end"
    assert len(noting.seen) == 6
    assert sum("loss = " in record.message for record in caplog.records) == 3


def test_training_goes_on_from_a_folder(tmp_path: Path) -> None:
    _, train = trained()
    for last in (2, 5):
        stop = tf.train.StopAtStepHook(last_step=last)
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(tmp_path),
            hooks=[stop],
            save_checkpoint_steps=2,
            save_summaries_steps=1,
        ) as session:
            runs = 0
            while not session.should_stop():
                session.run(train)
                runs += 1
        assert runs == (2 if last == 2 else 3)
    found = tf.train.latest_checkpoint(str(tmp_path))
    assert found is not None and found.endswith("model.ckpt-5")
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 2
    with tf.Session() as plain:
        tf.train.Saver().restore(plain, found)
        assert plain.run("w:0") == 0.5**5


def test_the_end_of_a_data_set_ends_the_session() -> None:
    dataset = tf.data.Dataset.range(3)
    following = dataset.make_one_shot_iterator().get_next()
    seen = []
    with tf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            seen.append(int(session.run(following)))
    assert seen == [0, 1, 2]
    with (
        pytest.raises(errors.InvalidArgumentError, match="must feed a value"),
        tf.train.MonitoredTrainingSession() as session,
    ):
        session.run(tf.placeholder(tf.float32, []))


def test_feeds_and_losses_that_are_no_numbers() -> None:
    x = tf.placeholder(tf.float32, [])
    loss = x * 2.0
    hooks = [tf.train.FeedFnHook(lambda: {x: np.nan}), tf.train.NanTensorHook(loss)]
    with (
        pytest.raises(tf.train.NanLossDuringTrainingError),
        tf.train.MonitoredTrainingSession(hooks=hooks) as session,
    ):
        session.run(loss)
    hooks[1] = tf.train.NanTensorHook(loss, fail_on_nan_loss=False)
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        assert np.isnan(session.run(loss)) and session.should_stop()
    with pytest.raises(ValueError, match="One of num_steps or last_step"):
        tf.train.StopAtStepHook()
    with pytest.raises(RuntimeError, match="Global step should be created"):
        tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(3)])


def test_a_coordinator_ends_threads() -> None:
    coordinator = tf.train.Coordinator()
    ends: list[int] = []

    def work(index: int) -> None:
        with coordinator.stop_on_exception():
            coordinator.wait_for_stop()
            ends.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    assert tf.train.start_queue_runners(coord=coordinator) == []
    for thread in threads:
        thread.start()
    assert not coordinator.should_stop()
    coordinator.request_stop()
    coordinator.join(threads)
    assert sorted(ends) == [0, 1]
    coordinator.clear_stop()
    with coordinator.stop_on_exception():
        raise KeyError("broken")
    with pytest.raises(KeyError, match="broken"):
        coordinator.join([])


def test_listeners_hear_of_each_save(tmp_path: Path) -> None:
    told: list[Any] = []

    class Listener(tf.train.CheckpointSaverListener):  # type: ignore[misc]
        def begin(self) -> None:
            told.append("begin")

        def before_save(self, session: Any, global_step_value: int) -> None:
            told.append(("before", global_step_value, latest()))

        def after_save(self, session: Any, global_step_value: int) -> Any:
            told.append(("after", global_step_value, latest()))
            return global_step_value == 4

        def end(self, session: Any, global_step_value: int) -> None:
            told.append(("end", global_step_value))

    def latest() -> str:
        found = tf.train.latest_checkpoint(str(tmp_path))
        return "" if found is None else Path(found).name

    count = tf.train.get_or_create_global_step().assign_add(1)
    hook = tf.train.CheckpointSaverHook(
        str(tmp_path), save_steps=2, listeners=[Listener()]
    )
    runs = 0
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        while not session.should_stop():
            session.run(count)
            runs += 1
    names = ["", "model.ckpt-0", "model.ckpt-2", "model.ckpt-4"]
    assert told[0] == "begin" and told[-1] == ("end", 4) and runs == 4
    assert told[1:-1] == [
        (when, 2 * k, names[k + (when == "after")])
        for k in range(3)
        for when in ("before", "after")
    ]


def test_the_pace_is_written_as_a_summary(tmp_path: Path) -> None:
    count = tf.train.get_or_create_global_step().assign_add(1)
    hook = tf.train.StepCounterHook(every_n_steps=2, output_dir=str(tmp_path))
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        for _ in range(6):
            session.run(count)
    assert b"global_step/sec" in next(tmp_path.iterdir()).read_bytes()
