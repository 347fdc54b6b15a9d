# SPDX-License-Identifier: MIT
"""`map` with parallel calls: order, errors at their element, ends without a rest."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.tf.data._parallel import in_order


def words(count: int = 40) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices([str(n) for n in range(count)])


def threads() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith("ipu-map")]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    gc.collect()
    for _ in range(1000):  # they end by themselves
        if not threads():
            break
        time.sleep(0.01)
    assert threads() == []


def test_results_keep_their_order() -> None:
    rng = np.random.default_rng(1)
    waits = rng.uniform(0, 0.004, 40)
    seen: set[int] = set()

    def slow(word: Any) -> Any:
        number = int(word.numpy())
        seen.add(threading.get_ident())
        time.sleep(waits[number])
        return tf.constant(number), word

    for calls in (2, 7, tf.data.AUTOTUNE):
        data = words().map(slow, num_parallel_calls=calls)
        for _ in range(2):
            assert [int(x) for x, _ in data] == [*range(40)]
    assert len(seen) > 1


def test_calls_run_at_once() -> None:
    meeting = threading.Barrier(3)

    def meet(word: Any) -> Any:
        if word.numpy() != b"":
            meeting.wait(20)  # breaks unless three are there
        return tf.constant(1)

    data = tf.data.Dataset.from_tensor_slices(["", *"abc", *"def"])
    # the structure is learnt from the first element, by a call of its own
    assert sum(int(x) for x in data.map(meet, 3).skip(0)) == 7


def test_random_numbers_are_those_of_one_call() -> None:
    def noisy(word: Any) -> Any:
        time.sleep(0.001 * (int(word.numpy()) % 3))
        return tf.random.uniform((3,)) + tf.strings.to_number(word)

    results = []
    for calls in (None, 4):
        tf.random.set_seed(5)
        data = words(12).map(noisy, num_parallel_calls=calls)
        results.append(np.stack([x.numpy() for x in data]))
    np.testing.assert_array_equal(*results)


def test_an_error_comes_at_its_element() -> None:
    def fail(word: Any) -> Any:
        number = int(word.numpy())
        if number == 3:
            time.sleep(0.02)
        if number in (3, 4):
            raise ValueError(f"number {number}")
        return tf.constant(number)

    data = words(10).map(fail, num_parallel_calls=4)
    got = []
    with pytest.raises(Exception, match="number 3"):
        for x in data:
            got.append(int(x))
    assert got == [0, 1, 2]


def test_an_error_of_the_source_comes_behind_what_was_before() -> None:
    def source() -> Iterator[int]:
        yield from range(3)
        raise OSError("the file ends")

    got = []
    with pytest.raises(OSError, match="the file ends"):
        for x in in_order(lambda number, x: (number, x), source(), 8):
            got.append(x)
    assert got == [(0, 0), (1, 1), (2, 2)]


def test_stopping_in_the_middle_leaves_nothing() -> None:
    begun: list[int] = []

    def note(word: Any) -> Any:
        begun.append(int(word.numpy()))
        return tf.constant(1)

    iterator = iter(words(500).map(note, num_parallel_calls=4))
    next(iterator)
    assert threads()
    del iterator
    gc.collect()
    deadline = time.monotonic() + 20
    while threads() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() == [] and len(begun) < 200


def test_the_first_call_alone_says_nothing() -> None:
    """It may import and open what the others have."""
    slow_calls: list[int] = []

    def call(number: int, element: int) -> str:
        if number in slow_calls:
            time.sleep(0.002)
        return threading.current_thread().name

    results = [*in_order(call, range(9), tf.data.AUTOTUNE)]
    assert {*results} == {threading.current_thread().name}
    slow_calls[:] = [0, 1]
    assert {*in_order(call, range(9), tf.data.AUTOTUNE)} == {*results}
    slow_calls[:] = range(9)
    names = [*in_order(call, range(9), tf.data.AUTOTUNE)]
    assert names[:3] == results[:3]
    if len(os.sched_getaffinity(0)) > 1:
        assert all(name.startswith("ipu-map") for name in names[3:])


def test_it_feeds_training(tmp_path: Path) -> None:
    for number in range(8):
        np.save(tmp_path / f"{number}.npy", np.full((4,), number, np.float32))

    def load(path: Any) -> Any:
        return tf.constant(np.load(path.numpy().decode())), tf.constant(1.0)

    files = tf.data.Dataset.list_files(str(tmp_path / "*.npy"), shuffle=False)
    data = files.map(load, tf.data.AUTOTUNE).batch(4, drop_remainder=True)
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=2)
        model.fit(data.repeat(), steps_per_epoch=4, epochs=2, verbose=0)
    assert model.optimizer.iterations.numpy() == 8


def test_a_child_goes_on_by_itself() -> None:
    code = """
import os
from ipu import tf
data = tf.data.Dataset.from_tensor_slices([str(n) for n in range(30)])
data = data.map(lambda word: tf.constant(int(word.numpy())), num_parallel_calls=3)
from ipu.tf.data._parallel import in_order
results = in_order(lambda number, x: x * x, range(20), 3)
first = [next(results) for _ in range(4)]
child = os.fork()
rest = [*results]
assert first + rest == [x * x for x in range(20)]
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert [int(x) for x in data] == [*range(30)]
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("device", [False, True])
def test_it_can_be_interrupted(device: bool) -> None:
    code = f"""
import time
from ipu import tf, ipu_infeed_queue, ipu_strategy, loops
def slow(word):
    time.sleep(0.05)
    return tf.constant(1.0)
data = tf.data.Dataset.from_tensor_slices([str(n) for n in range(100)])
data = data.map(slow, num_parallel_calls=4).repeat()
print("started", flush=True)
if {device}:
    strategy = ipu_strategy.IPUStrategy()
    with strategy.scope():
        infeed = ipu_infeed_queue.IPUInfeedQueue(data)
        infeed.initializer
        @tf.function
        def go():
            return loops.repeat(10**6, lambda total, x: total + x, [0.0], infeed)
        strategy.run(go)
else:
    for _ in data:
        pass
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    time.sleep(0.7)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert errors.rstrip().endswith("KeyboardInterrupt"), errors


@pytest.mark.parametrize("calls", [0, -2, 1.5, "4", True])
def test_numbers_of_calls_that_do_not_do(calls: Any) -> None:
    with pytest.raises(ValueError, match="`num_parallel_calls` must be a positive"):
        words().map(lambda word: word, num_parallel_calls=calls)
    with pytest.raises(ValueError, match="`num_parallel_calls` must be a positive"):
        tf.data.Dataset.range(3).map(lambda x: x, num_parallel_calls=calls)


@pytest.mark.parametrize("most", [0, 2])
def test_calls_go_on_where_no_thread_can_be_started(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, started = threading.Thread.start, [0]

    def refuse(thread: threading.Thread) -> None:
        started[0] += 1
        if started[0] > most:
            raise RuntimeError("can't start new thread")
        start(thread)

    made: list[int] = []

    def square(number: int, x: int) -> int:
        made.append(number)
        if number == 5:
            raise KeyError("five")
        return x * x

    monkeypatch.setattr(threading.Thread, "start", refuse)
    results = in_order(square, range(12), 4)
    assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16]
    with pytest.raises(KeyError, match="five"):
        next(results)
    assert list(results) == [x * x for x in range(6, 12)]
    assert sorted(made) == list(range(12))  # each was made once


def test_no_file_descriptor_or_thread_is_left_behind() -> None:
    data = words(6).map(lambda word: word, num_parallel_calls=3)
    list(data)
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(20):
        list(data)
        next(iter(data))
    gc.collect()
    time.sleep(0.2)
    after = len(os.listdir("/proc/self/fd")), threading.active_count()
    assert after[0] <= before[0] and after[1] <= before[1]


def test_closing_waits_for_no_lock_of_all_pools() -> None:
    """The garbage collector closes in whatever thread it runs, also in one that another
    pool is starting, whose owner holds that lock until it has started."""
    from concurrent.futures import thread

    results = in_order(lambda number, element: element, range(9), 2)
    assert next(results) == 0
    closing = threading.Thread(target=results.close, daemon=True)  # type: ignore[attr-defined]
    with thread._global_shutdown_lock:  # type: ignore[attr-defined]
        closing.start()
        closing.join(60)
        assert not closing.is_alive()


def test_the_collector_waits_for_no_thread_to_end() -> None:
    """It may run in a thread that is being started and has the lock of all threads that
    end."""
    if not hasattr(threading, "_shutdown_locks_lock"):
        pytest.skip("this Python has no such lock")
    held = [in_order(lambda number, element: element, range(9), 2)]
    assert next(held[0]) == 0

    def collect() -> None:
        with threading._shutdown_locks_lock:
            held.clear()

    collecting = threading.Thread(target=collect, daemon=True)
    collecting.start()
    collecting.join(60)
    assert not collecting.is_alive()
