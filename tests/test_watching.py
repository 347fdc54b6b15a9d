# SPDX-License-Identifier: MIT
"""Threads that watch an execution, and the calls for its steps."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu.keras.engine.training import watching
from ipu.keras.engine.training.watching import (
    Arrivals,
    Loop,
    StepCalls,
    StepWatcher,
    logs_at,
)


def wait(done: Callable[[], Any]) -> None:
    end = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end
        time.sleep(0.001)


def threads(name: str) -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == name]


class Queue:
    """Results that arrive."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.waits: list[float] = []

    def wait(self, seconds: float) -> int:
        self.waits.append(seconds)
        return len(self.found)

    def take(self) -> list[Any]:
        found, self.found = self.found, []
        return found


def test_results_are_taken_as_they_arrive() -> None:
    queue, told = Queue(), []
    with Arrivals(queue.wait, queue.take, told.append) as arrivals:
        (thread,) = threads("ipu-results")
        assert thread.daemon and arrivals._thread is thread
        queue.found.append(1)
        wait(lambda: told == [[1]])
        wait(lambda: len(queue.waits) > 3)
        assert set(queue.waits) == {watching._POLL_S}
        # it does not turn without rest
        assert len(queue.waits) < 1000
        queue.found += [2, 3]
    assert [*itertools.chain(*told)] == [1, 2, 3] and not thread.is_alive()
    assert queue.waits[-1] == 0.0  # what has arrived by then is all there is


def test_what_a_taker_raises_comes_at_the_end() -> None:
    def fails(part: Any) -> None:
        raise KeyError("taker")

    queue = Queue()
    queue.found = [1]
    with (
        pytest.raises(KeyError, match="taker"),
        Arrivals(*(queue.wait, queue.take, fails)),
    ):
        wait(lambda: not threads("ipu-results"))
    queue.found = [1]
    with (
        pytest.raises(ValueError, match="run"),
        Arrivals(queue.wait, queue.take, fails),
    ):
        wait(lambda: not threads("ipu-results"))
        raise ValueError("run")


class Steps(Loop):
    """A loop whose steps are done when somebody says so."""

    def __init__(self) -> None:
        self.done = 0
        self.asked: list[float] = []

    def steps_done(self, timeout_s: float) -> int:
        self.asked.append(timeout_s)
        time.sleep(0.001)
        return self.done


class Told:
    def __init__(self) -> None:
        self.steps: list[int] = []

    def _on_steps_executed(self, done: int) -> None:
        self.steps.append(done)


def test_steps_are_told_while_they_run() -> None:
    loop, told, other = Steps(), Told(), Told()
    watcher = StepWatcher([told, other])
    watcher.pause()
    assert not threads("ipu-progress")
    watcher.begin(loop, 0, 1)  # of one step there is nothing to tell
    assert not threads("ipu-progress")
    watcher.begin(loop, 3, 4)
    (thread,) = threads("ipu-progress")
    assert thread.daemon
    wait(lambda: len(loop.asked) > 3)
    assert told.steps == [] and set(loop.asked) == {watching._REFRESH_S}
    loop.done = 2
    wait(lambda: told.steps)
    assert set(told.steps) == {5} == set(other.steps)
    loop.done = 4
    wait(lambda: 7 in told.steps)
    time.sleep(0.01)
    count = len(loop.asked)
    time.sleep(0.01)
    assert len(loop.asked) == count  # nothing more comes: it sleeps
    watcher.pause()
    told.steps.clear()
    time.sleep(0.01)
    assert not told.steps and len(loop.asked) == count
    other_loop = Steps()
    other_loop.done = 1
    watcher.begin(other_loop, 7, 2)
    wait(lambda: told.steps)
    assert set(told.steps) == {8} and threads("ipu-progress") == [thread]
    watcher.pause()
    time.sleep(0.01)
    count = len(other_loop.asked)
    time.sleep(0.01)
    assert len(other_loop.asked) == count  # it looks no more
    watcher.close()
    assert not thread.is_alive()
    watcher = StepWatcher([])
    watcher.begin(loop, 0, 5)  # nobody wants to know
    assert not threads("ipu-progress")
    watcher.close()


@pytest.mark.parametrize("is_followed", [True, False])
def test_an_execution_that_has_ended_is_not_told(is_followed: bool) -> None:
    """What was asked for before it ended, and before the next one began."""
    told = Told()
    watcher = StepWatcher([told])

    class Slow(Loop):
        asked = threading.Event()
        answers = threading.Event()

        def steps_done(self, timeout_s: float) -> int:
            self.asked.set()
            assert self.answers.wait(30)
            return 2

    slow, nothing = Slow(), Steps()
    watcher.begin(slow, 0, 4)
    assert slow.asked.wait(30)
    watcher.pause()
    if is_followed:
        watcher.begin(nothing, 4, 4)
    slow.answers.set()
    wait(lambda: nothing.asked or not is_followed)
    time.sleep(0.005)
    watcher.close()
    assert told.steps == []
    watcher = StepWatcher([told])
    nothing.done = 2
    watcher.begin(nothing, 0, 2)
    wait(lambda: told.steps)
    time.sleep(0.005)
    watcher.close()  # also while it sleeps


class Hooks:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def call(self, hook: str, step: int, logs: Any) -> None:
        self.calls.append((hook, step, logs))


def test_hooks_are_called_for_each_step() -> None:
    hooks: Any = Hooks()
    calls = StepCalls(hooks, "on_train_batch", 5, 1)
    calls({"logs": {"loss": np.array([1.0, 2.0]), "a": np.zeros((2, 3))}})
    calls({"logs": {"loss": np.array([3.0]), "a": np.ones((1, 3))}})
    begins = [one for one in hooks.calls if one[0] == "on_train_batch_begin"]
    assert begins == [("on_train_batch_begin", step, {}) for step in (5, 6, 7)]
    ends = [one for one in hooks.calls if one[0] == "on_train_batch_end"]
    assert [(step, logs["loss"]) for _, step, logs in ends] == [
        *((5, 1.0), (6, 2.0), (7, 3.0))
    ]
    assert hooks.calls[::2] == begins and ends[2][2]["a"].tolist() == [1.0] * 3
    hooks.calls.clear()
    calls = StepCalls(hooks, "on_test_batch", 0, 2)
    logs = {"loss": np.arange(4.0).reshape(2, 2), "a": np.zeros((2, 2, 3, 1))}
    calls({"logs": logs})
    assert hooks.calls[1][2]["a"].shape == (3, 1)
    found = [(step, logs["loss"]) for _, step, logs in hooks.calls[1::2]]
    assert found == [(0, 0.0), (0, 1.0), (1, 2.0), (1, 3.0)]
    hooks.calls.clear()
    calls = StepCalls(hooks, "on_predict_batch", 1, 2)
    calls([np.arange(4).reshape(4, 1), np.zeros((4, 2, 2))])
    found = [(step, logs["outputs"][0].tolist()) for _, step, logs in hooks.calls[1::2]]
    assert found == [(1, [0]), (1, [1]), (2, [2]), (2, [3])]
    assert hooks.calls[1][2]["outputs"][1].shape == (2, 2)


def test_logs_are_numbers_where_they_can_be() -> None:
    found = logs_at({"logs": {"a": np.float32([1, 2]), "b": np.ones((2, 3))}}, -1)
    assert type(found["a"]) is float and found["a"] == 2.0
    assert found["b"].shape == (3,)
    loop = Loop()
    assert loop.has_more() is True
    loop.rewind()
    for call in (
        loop.start,
        loop.stop,
        lambda: loop.run(1),
        lambda: loop.steps_done(1),
    ):
        with pytest.raises(NotImplementedError):
            call()
