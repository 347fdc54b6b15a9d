"""Eager work in several threads: each has its own tapes, traces and random numbers."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import _core, tf


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """The results of work(i), each computed in a thread of its own."""
    results: list[Any] = [None] * count
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def test_tapes_of_two_threads_that_take_turns() -> None:
    barrier = threading.Barrier(2, timeout=60)

    def work(i: int) -> list[float | None]:
        found = []
        for turn in range(50):
            x = tf.constant(float(turn + i))
            barrier.wait()
            with tf.GradientTape() as tape:
                barrier.wait()
                tape.watch(x)
                barrier.wait()
                y = x * x
                barrier.wait()
            gradient = tape.gradient(y, x)
            found.append(None if gradient is None else float(gradient))
        return found

    for i, found in enumerate(in_threads(2, work)):
        assert found == [2.0 * (turn + i) for turn in range(50)]


def test_one_thread_records_while_the_other_does_not() -> None:
    ready, done = threading.Event(), threading.Event()
    tapes: list[Any] = []

    def record() -> float:
        x = tf.constant(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            ready.set()
            done.wait(60)
            y = y * x
        return float(tape.gradient(y, x))

    def plain() -> None:
        ready.wait(60)
        tapes.extend(_core.tapes())
        x = tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        assert float(tape.gradient(y, x)) == 4.0
        done.set()

    work = [record, plain]
    assert in_threads(2, lambda i: work[i]())[0] == 27.0
    assert tapes == []


def test_many_threads_train_by_themselves() -> None:
    data = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)

    def work(i: int) -> list[float]:
        w = tf.Variable(np.full((3, 1), 0.1 * (i + 1), np.float32))
        losses = []
        for _ in range(40):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((tf.constant(data) @ w) ** 2)
            w.assign_sub(0.01 * tape.gradient(loss, w))
            losses.append(float(loss))
        return losses

    alone = [work(i) for i in range(4)]
    assert in_threads(4, work) == alone


def test_traces_of_several_threads() -> None:
    barrier = threading.Barrier(4, timeout=60)

    def work(i: int) -> list[float]:
        @tf.function
        def f(x: Any) -> Any:
            barrier.wait()
            assert tf.inside_function()
            y = x * float(i)
            barrier.wait()
            with tf.init_scope():
                assert not tf.inside_function()
                z = float(tf.constant(1.0) + float(i))
            return y + z

        assert not tf.inside_function()
        return [float(f(tf.ones(n + 1))[n]) for n in range(5)]

    for i, found in enumerate(in_threads(4, work)):
        assert found == [2.0 * i + 1.0] * 5


def test_threads_that_call_one_function() -> None:
    traced = []

    @tf.function
    def f(x: Any) -> Any:
        traced.append(x.shape)
        return x * 2.0

    def work(i: int) -> list[float]:
        return [float(f(tf.fill((n + 1,), float(i)))[0]) for n in range(5)]

    for i, found in enumerate(in_threads(4, work)):
        assert found == [2.0 * i] * 5
    assert len(traced) == 5


def draw(shape: tuple[int, ...] = (4,)) -> list[float]:
    return tf.random.normal(shape).numpy().ravel().tolist()


def in_another_thread(work: Callable[[], Any]) -> Any:
    return in_threads(1, lambda _: work())[0]


def test_random_streams_differ_and_repeat() -> None:
    def program() -> list[list[float]]:
        tf.random.set_seed(5)
        found = [draw()]
        found += [in_another_thread(draw) for _ in range(3)]
        return [*found, draw()]

    first = program()
    assert len({tuple(numbers) for numbers in first}) == 5
    assert program() == first
    tf.random.set_seed(5)
    assert [draw(), draw()] == [first[0], first[4]]


def test_a_thread_that_sets_its_seed() -> None:
    def seeded() -> list[list[float]]:
        tf.random.set_seed(7)
        return [draw(), draw()]

    here = seeded()
    tf.random.set_seed(8)
    barrier = threading.Barrier(2, timeout=60)

    def work(_: int) -> list[list[float]]:
        tf.random.set_seed(7)
        barrier.wait()
        return [draw(), draw()]

    assert in_threads(2, work) == [here, here]


@pytest.mark.parametrize("size", [3, 100_000])
def test_no_two_draws_are_the_same(size: int) -> None:
    barrier = threading.Barrier(4, timeout=60)

    def work(_: int) -> list[float]:
        barrier.wait()
        return [float(tf.random.uniform((size,))[0]) for _ in range(50)]

    tf.random.set_seed(1)
    drawn = [number for found in in_threads(4, work) for number in found]
    assert len(set(drawn)) == len(drawn)


def test_a_stream_is_the_threads_alone() -> None:
    """What other threads draw between does not show."""
    started, finish = threading.Event(), threading.Event()

    def draws() -> list[list[float]]:
        found = [draw()]
        started.set()
        finish.wait(60)
        return [*found, draw()]

    def disturb() -> None:
        started.wait(60)
        for _ in range(7):
            draw()
        finish.set()

    tf.random.set_seed(3)
    finish.set()
    alone = in_another_thread(draws)
    started.clear()
    finish.clear()
    tf.random.set_seed(3)
    work = [draws, disturb]
    assert in_threads(2, lambda i: work[i]())[0] == alone


def test_what_a_thread_leaves_open_goes_with_it() -> None:
    left = []

    def work() -> None:
        tape = tf.GradientTape()
        tape.__enter__()
        tape.watch(tf.constant(1.0))
        trace = _core.Trace()
        trace.__enter__()
        left.extend([weakref.ref(tape), weakref.ref(trace)])

    in_another_thread(work)
    gc.collect()
    assert [ref() for ref in left] == [None, None]
    assert not tf.inside_function()
