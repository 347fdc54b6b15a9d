# SPDX-License-Identifier: MIT
"""Batches that the host reads: in which order, how far ahead, and how it ends."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ipu import tf
from ipu.keras._random_state import Order
from ipu.keras.engine.training import host_sources
from ipu.keras.engine.training.host_loop import FunctionLoop, HostLoop
from ipu.keras.engine.training.host_sources import (
    DatasetSource,
    GeneratorSource,
    HostSource,
    SequenceSource,
)


def taken(source: Any, count: int | None = None) -> list[Any]:
    batches = source.read()
    found = [np.asarray(one).tolist() for one in itertools.islice(batches, count)]
    batches.close()
    return found


def wait(done: Callable[[], Any]) -> None:
    end = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_passes_of_a_data_set() -> None:
    def data() -> Any:
        return tf.data.Dataset.range(9).shuffle(9, seed=1)

    passes = [taken(DatasetSource(data(), first=number)) for number in range(3)]
    assert all(sorted(one) == [*range(9)] for one in passes)
    assert passes[0] != passes[1] != passes[2] != passes[0]
    source = DatasetSource(data(), first=1)
    assert [taken(source), taken(source)] == passes[1:]
    source = DatasetSource(data(), first=0)
    source.is_endless = True
    assert taken(source, 27) == [*itertools.chain(*passes)]
    source = DatasetSource(shuffled := data())
    assert [taken(source), taken(source)] == passes[:2]
    source = DatasetSource(shuffled)  # it goes on
    assert taken(source) == passes[2]
    source = DatasetSource(data())
    source.is_endless = True
    assert taken(source, 18) == passes[0] + passes[1]
    with pytest.raises(NotImplementedError):
        HostSource().read()


def test_last_batches_are_cut() -> None:
    data = tf.data.Dataset.range(6).batch(2)
    source = DatasetSource(data, of_pass=3, tail=1)
    assert taken(source) == [[0, 1], [2, 3], [4]]
    source.is_endless = True
    assert taken(source, 6) == [[0, 1], [2, 3], [4]] * 2
    closed: list[int] = []

    class Batches:
        def __iter__(self) -> Iterator[Any]:
            return iter([np.arange(2)] * 2)

        def close(self) -> None:
            closed.append(1)

    batches: Any = Batches()
    cut = host_sources._cut(batches, 2, 1)
    assert [len(one) for one in cut] == [2, 1] and closed == [1]


def test_a_generator_is_read_ahead() -> None:
    given: list[int] = []

    def numbers() -> Iterator[int]:
        for number in range(9):
            time.sleep(0.005)  # who wants one waits for it
            given.append(number)
            yield number

    source = GeneratorSource(numbers(), lambda one: -one, 2)
    batches: Any = source.read()
    assert batches._thread.daemon and iter(batches) is batches
    assert next(batches) == 0
    wait(lambda: len(given) == 4)  # one that was taken, two ahead, one in the hand
    time.sleep(0.02)
    assert len(batches._found) == 2 and given == [0, 1, 2, 3]
    batches.close()
    assert not batches._thread.is_alive()


def test_a_generator_that_ends_or_fails() -> None:
    def numbers(fails: bool) -> Iterator[int]:
        yield 1
        if fails:
            raise KeyError("gone")

    for ahead in (0, 1, 3):
        assert list(GeneratorSource(numbers(False), lambda one: one, ahead).read()) == [
            1
        ]
        batches = GeneratorSource(numbers(True), lambda one: one, ahead).read()
        assert next(batches) == 1
        with pytest.raises(KeyError, match="gone"):
            next(batches)
        batches.close()
    batches = GeneratorSource(numbers(False), lambda one: one, 2).read()
    assert next(batches) == 1
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(batches)


class Counted:
    """A sequence that notes what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __len__(self) -> int:
        return 5

    def __getitem__(self, index: int) -> int:
        self.calls.append(index)
        return index

    def on_epoch_begin(self) -> None:
        self.calls.append("begin")

    def on_epoch_end(self) -> None:
        self.calls.append("end")


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_passes_of_a_sequence(workers: int) -> None:
    def source(order: Order | None) -> SequenceSource:
        return SequenceSource(Counted(), lambda one: one, order, workers, 1)

    order = Order()
    order.passes = 3
    shuffled = source(order)
    first, second = taken(shuffled), taken(shuffled)
    assert sorted(first) == sorted(second) == [*range(5)] and first != second
    order.passes = 4
    assert taken(source(order)) == second
    plain = source(None)
    assert taken(plain) == taken(plain) == [*range(5)]
    plain.is_endless = True
    assert taken(plain, 12) == [*range(5), *range(5), 0, 1]
    calls = plain._sequence.calls
    assert calls.count("begin") == 5 and calls.count("end") == 4
    assert not [one for one in threading.enumerate() if "ipu-sequence" in one.name]


def test_how_many_batches_of_a_sequence_are_made_ahead() -> None:
    for workers, ahead, wanted in ((1, 2, 2), (3, 1, 3)):
        source = SequenceSource(Counted(), lambda one: one, None, workers, ahead)
        numbers = iter(range(99))
        made = source._made(numbers)
        for count in range(4):
            assert next(made) == count
        assert next(numbers) == wanted + 3
        made.close()


def test_what_nobody_wants_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()

    class Slow(Counted):
        def __getitem__(self, index: int) -> int:
            assert index == 0 or goes_on.wait(30)
            return super().__getitem__(index)

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            goes_on.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor", Pool)
    sequence = Slow()
    made = SequenceSource(sequence, lambda one: one, None, 1, 9).read()
    assert next(made) == 0
    made.close()
    assert sequence.calls in (["begin", 0], ["begin", 0, 1])


class Step:
    """Counts the steps that are done when each begins."""

    def __init__(self) -> None:
        self.loop: Any = None
        self.seen: list[Any] = []

    def __call__(self, batch: Any) -> Any:
        began = time.monotonic()
        done = self.loop.steps_done(0.01)
        assert time.monotonic() - began > 0.005  # it waits, as the run goes on
        self.seen.append((int(batch), done, self.loop._idle.is_set()))
        return {"logs": batch}

    def begin(self, step: Any) -> None:
        self.seen.append(step)

    def rest(self) -> None:
        self.seen.append("rest")


def test_a_loop_over_batches() -> None:
    source = DatasetSource(tf.data.Dataset.range(5))
    loop = HostLoop(source)
    assert loop.steps_done(60.0) == 0  # nothing runs: nobody waits
    assert loop.first_spec().shape == ()
    step = Step()
    step.loop = loop
    loop.set_step(step)
    loop.rewind()  # nothing has been run
    parts, done = loop.run(2)
    assert done == 2 and [one["logs"].tolist() for one in parts] == [[0], [1]]
    assert step.seen == [(0, 0, False), (1, 1, False)]
    assert loop.steps_done(60.0) == 0
    found: list[Any] = []
    assert loop.run(9, found.append)[1] == 3 and len(found) == 3
    assert not loop.has_more()
    for _ in range(2):
        loop.rewind()
        assert loop.has_more() and loop.run(1)[0][0]["logs"].tolist() == [0]
        assert loop.has_more()
    loop.stop()
    assert loop._function is None
    assert step.seen[-1] == (0, 0, False)
    loop = HostLoop(source)
    loop.pass_over(3)
    program: Any = Step()
    program.loop = loop
    loop.set_step(step, program)
    assert program.seen == [step]
    assert loop.run(1)[0][0]["logs"].tolist() == [3] and len(program.seen) == 2
    loop.stop()
    assert program.seen[-1] == "rest"
    assert HostLoop(DatasetSource(tf.data.Dataset.range(0))).first_spec() is None


def test_a_loop_goes_on_in_a_generator() -> None:
    loop = HostLoop(GeneratorSource(iter(range(3)), np.float32, 0))
    loop.set_step(lambda batch: batch)
    assert loop.run(1)[1] == 1
    loop.rewind()
    parts, done = loop.run(9)
    assert done == 2 and [float(one[0]) for one in parts] == [1.0, 2.0]
    loop.stop()


def test_a_function_in_the_place_of_a_loop() -> None:
    data = tf.data.Dataset.range(6).map(lambda x: tf.cast(x, "float32"))
    waited: list[int] = []

    def function(iterator: Any) -> Any:
        waited.append(loop.steps_done(0.0))
        return {"loss": np.float32(3.0)}

    loop = FunctionLoop(function, data, 4)
    loop.stop()  # it has not started
    loop.start()
    assert loop._started
    found: list[Any] = []
    parts, done = loop.run(4, found.append)
    assert done == 4 and parts == found and parts[0]["logs"]["loss"].tolist() == [3.0]
    assert waited == [0] and loop.steps_done(60.0) == 4
    assert loop.run(4)[1] == 4 and len(found) == 1 and waited == [0, 0]
    loop._function = lambda iterator: 3.0
    with pytest.raises(TypeError, match="must return a dict of results by name"):
        loop.run(4)
    assert loop.steps_done(60.0) == 4
    loop.stop()
    assert not loop._started
    with pytest.raises(TypeError, match="depth"):
        FunctionLoop(function, data, 4, {"depth": 1})
