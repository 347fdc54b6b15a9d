# SPDX-License-Identifier: MIT
"""`ipu.ipu_outfeed_queue`: what is dequeued, when, and by whom."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref

import numpy as np
import pytest

from ipu import loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import (
    IPUOutfeedMode,
    IPUOutfeedQueue,
    IPUOutfeedQueueIterator,
    ScopedIPUOutfeedQueue,
)
from ipu.tf._functions.function import DeviceFunction


def counter(outfeed, nest=lambda i: i):
    """A function of n that enqueues nest(0), ..., nest(n - 1)."""

    def body(i):
        outfeed.enqueue(nest(i))
        return i + 1

    return DeviceFunction(lambda n: loops.repeat(n, body, [0]))


def delete(outfeed) -> None:
    outfeed.deleter  # noqa: B018 - reading it acts


class Gated:
    """A data set whose elements come one by one, as `allow` says."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.dataset = tf.data.Dataset.from_generator(
            self._generate, output_signature=tf.TensorSpec((), tf.int32)
        )

    def _generate(self):
        for i in range(10000):
            if not self.gate.acquire(timeout=30):
                return
            yield np.int32(i)

    def allow(self, count: int) -> None:
        self.gate.release(count)

    def finish(self) -> None:
        """Let a generator that waits go, so that its infeed can close."""
        self.gate.release(10000)


# --- construction ------------------------------------------------------------------


def test_both_generations_of_arguments():
    last = IPUOutfeedMode.LAST
    assert IPUOutfeedQueue("feed", last)._mode is last
    assert IPUOutfeedQueue("feed", None, False)._mode is last
    assert IPUOutfeedQueue("feed", outfeed_all=True)._mode is IPUOutfeedMode.ALL
    assert IPUOutfeedQueue("feed", io_batch_size=0)._mode is IPUOutfeedMode.ALL
    assert IPUOutfeedQueue(last, 0, 5)._depth == 5
    assert IPUOutfeedQueue(feed_name="feed", replication_factor=2)._depth == 3
    assert (IPUOutfeedMode.ALL.value, last.value) == ("all", "get_last")
    with pytest.raises(TypeError, match="Did you mean 'buffer_depth'"):
        IPUOutfeedQueue(buffer_deep=2)


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"outfeed_mode": "all"}, "outfeed_mode"),
        ({"outfeed_all": 1}, "outfeed_all"),
        ({"device_ordinal": -1}, "Device ordinal"),
        ({"device_ordinal": "0"}, "Device ordinal"),
        ({"buffer_depth": 0}, "buffer_depth"),
        ({"replication_factor": 0}, "replication_factor"),
    ],
)
def test_arguments_out_of_range(keywords, text):
    with pytest.raises(ValueError, match=text):
        IPUOutfeedQueue(**keywords)


# --- what is dequeued --------------------------------------------------------------


def test_all_gives_what_came_since():
    outfeed = IPUOutfeedQueue()
    assert outfeed.enqueued is False
    run = counter(outfeed, lambda i: tf.broadcast_to(i, (2, 3)))
    run(np.int32(4))
    run(np.int32(2))
    assert outfeed.enqueued is True
    taken = outfeed.dequeue()
    assert taken.shape == (6, 2, 3) and taken.dtype == tf.int32
    np.testing.assert_array_equal(taken[:, 1, 2], [0, 1, 2, 3, 0, 1])
    empty = outfeed.dequeue()
    assert empty.shape == (0, 2, 3) and empty.dtype == tf.int32
    run(np.int32(0))
    assert outfeed.dequeue(wait_for_completion=True).shape == (0, 2, 3)


def test_last_gives_the_newest_once():
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    run = counter(outfeed)
    run.traced(np.int32(4))
    error = tf.errors.FailedPreconditionError
    with pytest.raises(error, match="Trying to get the last value from an"):
        outfeed.dequeue()
    run(np.int32(4))
    assert int(outfeed.dequeue()) == 3
    with pytest.raises(error, match="Trying to get the last value from an"):
        outfeed.dequeue()
    run(np.int32(3000))
    run(np.int32(2))
    assert int(outfeed.dequeue()) == 1


@pytest.mark.parametrize(
    "nest",
    [
        lambda i: {"b": i, "a": (i + 1, [i + 2, 7])},
        lambda i: [i, (i, i)],
        lambda i: {1: i, 2: {3: 1.5}},
        lambda i: {("x", 1): i, ("x", 0): i * 2},
    ],
)
def test_the_structure_comes_back(nest):
    outfeed = IPUOutfeedQueue()
    counter(outfeed, nest)(np.int32(3))
    taken = outfeed.dequeue()
    expected = [nest(np.int32(i)) for i in range(3)]
    tf.nest.assert_same_structure(expected[0], taken)
    for at, leaf in enumerate(tf.nest.flatten(taken)):
        np.testing.assert_array_equal(
            leaf, [tf.nest.flatten(one)[at] for one in expected]
        )


def test_enqueued_once_in_a_program():
    outfeed = IPUOutfeedQueue()

    def twice(x) -> None:
        outfeed.enqueue(x)
        outfeed.enqueue(x)

    with pytest.raises(ValueError, match=r"An outfeed can only be enqueued once."):
        DeviceFunction(twice)(tf.ones(1))
    # the failed trace leaves nothing behind
    DeviceFunction(outfeed.enqueue)(tf.ones(1))
    DeviceFunction(outfeed.enqueue)(tf.ones(1))
    assert outfeed.dequeue().shape == (2, 1)


def test_what_cannot_be_enqueued():
    outfeed = IPUOutfeedQueue()
    with pytest.raises(RuntimeError, match="compiled for the device"):
        outfeed.enqueue(tf.ones(1))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Detected an input tensor to an outfeed queue with a dimension of size 0",
    ):
        DeviceFunction(outfeed.enqueue)(tf.ones((0, 2)))
    with pytest.raises(ValueError, match="no tensors"):
        DeviceFunction(lambda: outfeed.enqueue({}))()
    DeviceFunction(outfeed.enqueue)(tf.ones(1))
    with pytest.raises(ValueError, match="must agree in structure"):
        DeviceFunction(outfeed.enqueue)(tf.ones(2))
    with pytest.raises(ValueError, match="must agree in structure"):
        DeviceFunction(lambda x: outfeed.enqueue((x,)))(tf.ones(1))


def test_never_enqueued():
    outfeed = IPUOutfeedQueue()
    text = "Trying to dequeue an outfeed which has not been enqueued."
    with pytest.raises(ValueError, match=text):
        outfeed.dequeue()
    with pytest.raises(ValueError, match=text):
        iter(outfeed)
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(outfeed.dequeue()))
    thread.start()
    thread.join()
    assert elsewhere == [[]]


def test_nobody_reads_until_the_end():
    outfeed = IPUOutfeedQueue(buffer_depth=1)
    run = counter(outfeed, lambda i: (i, tf.broadcast_to(i, (100,))))
    run(np.int32(30000))
    i, wide = outfeed.dequeue()
    np.testing.assert_array_equal(i, np.arange(30000))
    np.testing.assert_array_equal(wide[:, 99], np.arange(30000))


# --- deleting ----------------------------------------------------------------------


def test_deleting_starts_again():
    outfeed = IPUOutfeedQueue()
    delete(outfeed)  # nothing to delete is not an error
    run = counter(outfeed)
    run(np.int32(3))
    delete(outfeed)
    delete(outfeed)
    assert outfeed.enqueued is False
    with pytest.raises(ValueError, match="has not been enqueued"):
        outfeed.dequeue()
    run(np.int32(2))  # a program that was compiled before
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1])
    delete(outfeed)
    counter(outfeed, lambda i: (i, 1.0))(np.int32(1))  # another structure
    assert [leaf.shape for leaf in outfeed.dequeue()] == [(1,), (1,)]


def test_a_scoped_queue_goes_with_its_object():
    outfeed = ScopedIPUOutfeedQueue()
    run = counter(outfeed)
    run(np.int32(2))
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1])
    core = weakref.ref(outfeed)
    del outfeed, run
    gc.collect()
    assert core() is None
    with pytest.raises(RuntimeError, match="eager"):
        DeviceFunction(lambda: ScopedIPUOutfeedQueue())()


# --- iterating ---------------------------------------------------------------------


def test_iterating_drains():
    outfeed = IPUOutfeedQueue()
    run = counter(outfeed, lambda i: tf.cast(i, tf.float32) + 0.5)
    for n in (4, 3):
        run(np.int32(n))
        assert float(sum(outfeed)) / n == (n - 1) / 2 + 0.5
    assert list(outfeed) == []
    run(np.int32(2))
    iterator = iter(outfeed)
    assert isinstance(iterator, IPUOutfeedQueueIterator)
    run(np.int32(3))  # comes after the iterator was made
    assert [float(x) for x in iterator] == [0.5, 1.5]
    assert next(iterator, None) is None
    assert len(list(outfeed)) == 3


def test_iterating_nests():
    outfeed = IPUOutfeedQueue()
    counter(outfeed, lambda i: {"i": i, "row": tf.broadcast_to(i, (2,))})(np.int32(3))
    seen = [(int(one["i"]), one["row"].shape) for one in outfeed]
    assert seen == [(0, (2,)), (1, (2,)), (2, (2,))]


def test_what_cannot_be_iterated():
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    counter(outfeed)(np.int32(1))
    with pytest.raises(RuntimeError, match="IPUOutfeedQueue can only be iterated"):
        iter(outfeed)
    outfeed = IPUOutfeedQueue()
    with pytest.raises(RuntimeError, match="IPUOutfeedQueue can only be iterated"):
        DeviceFunction(lambda: [outfeed.enqueue(1), list(outfeed)])()


# --- other threads -----------------------------------------------------------------


def test_another_thread_gets_results_as_they_are_made():
    gated = Gated()
    infeed, outfeed = IPUInfeedQueue(gated.dataset), IPUOutfeedQueue()
    infeed.initializer  # noqa: B018
    run = DeviceFunction(lambda n: loops.repeat(n, outfeed.enqueue, [], infeed))
    run.traced(np.int32(5))
    thread = threading.Thread(target=run, args=(np.int32(5),))
    thread.start()
    try:
        assert outfeed.dequeue().shape == (0,)  # never waits
        for n in range(4):
            gated.allow(1)
            assert outfeed._wait(1, 20.0) == 1
            assert outfeed.dequeue().numpy().tolist() == [n]
            assert thread.is_alive()
    finally:
        gated.allow(1)
        assert outfeed.dequeue(wait_for_completion=True).numpy().tolist() == [4]
        thread.join(20)
        gated.finish()
    assert not thread.is_alive()


def test_a_waiting_iterator_ends_with_the_run():
    gated = Gated()
    infeed, outfeed = IPUInfeedQueue(gated.dataset), IPUOutfeedQueue()
    infeed.initializer  # noqa: B018
    run = DeviceFunction(lambda n: loops.repeat(n, outfeed.enqueue, [], infeed))
    run.traced(np.int32(6))
    for first in (0, 6):
        seen = []
        arrived = threading.Condition()

        def read(seen=seen, arrived=arrived) -> None:
            for value in IPUOutfeedQueueIterator(outfeed, wait=True):
                with arrived:
                    seen.append(int(value))
                    arrived.notify()

        thread = threading.Thread(target=read)
        thread.start()
        device = threading.Thread(target=run, args=(np.int32(6),))
        device.start()
        for count in range(1, 7):
            gated.allow(1)
            with arrived:
                assert arrived.wait_for(lambda n=count, s=seen: len(s) == n, 20)
        for one in (device, thread):
            one.join(20)
            assert not one.is_alive()
        assert seen == list(range(first, first + 6))
    gated.finish()


def test_two_readers_lose_nothing():
    outfeed = IPUOutfeedQueue()
    run = counter(outfeed)
    run.traced(np.int32(1))
    ended = threading.Event()
    taken: list[list[int]] = [[], []]

    def read(mine: list[int]) -> None:
        while not ended.is_set():
            mine.extend(outfeed.dequeue().numpy().tolist())
        mine.extend(outfeed.dequeue().numpy().tolist())

    readers = [threading.Thread(target=read, args=(mine,)) for mine in taken]
    for reader in readers:
        reader.start()
    run(np.int32(20000))
    ended.set()
    for reader in readers:
        reader.join(20)
    assert sorted(taken[0] + taken[1]) == list(range(20000))
    assert taken[0] == sorted(taken[0]) and taken[1] == sorted(taken[1])


def test_an_exception_on_a_dequeuing_thread_leaves_the_run_alone():
    gated = Gated()
    infeed = IPUInfeedQueue(gated.dataset)
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    infeed.initializer  # noqa: B018
    run = DeviceFunction(lambda n: loops.repeat(n, outfeed.enqueue, [], infeed))
    run.traced(np.int32(3))
    errors = []

    def read() -> None:
        try:
            outfeed.dequeue()
        except tf.errors.FailedPreconditionError as error:
            errors.append(error)

    device = threading.Thread(target=run, args=(np.int32(3),))
    device.start()
    reader = threading.Thread(target=read)
    reader.start()
    reader.join(20)
    gated.allow(3)
    device.join(20)
    assert len(errors) == 1 and not device.is_alive()
    assert int(outfeed.dequeue()) == 2
    gated.allow(1)
    run(np.int32(1))
    assert int(outfeed.dequeue()) == 3
    gated.finish()


def test_deleting_wakes_a_waiting_iterator():
    outfeed = IPUOutfeedQueue()
    counter(outfeed)(np.int32(2))
    outfeed.dequeue()
    iterator = IPUOutfeedQueueIterator(outfeed, wait=True)
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(iterator))
    thread.start()
    delete(outfeed)
    thread.join(20)
    assert not thread.is_alive() and seen == []


def test_enqueued_in_both_branches_of_a_conditional():
    message = "An outfeed can only be enqueued once"
    outfeed = IPUOutfeedQueue()

    def with_cond(x):
        tf.cond(x > 0, lambda: outfeed.enqueue(x), lambda: outfeed.enqueue(x * 2))

    with pytest.raises(ValueError, match=message):
        DeviceFunction(with_cond)(np.int32(1))

    @tf.function
    def with_if(x):
        if x > 0:
            outfeed.enqueue(x)
        else:
            outfeed.enqueue(x * 2)

    with pytest.raises(ValueError, match=message):
        with_if(np.int32(1))

    @tf.function
    def in_one(x):
        if x > 0:
            outfeed.enqueue(x)

    in_one(np.int32(5))
    in_one(np.int32(-5))
    assert outfeed.dequeue().numpy().tolist() == [5]


def test_what_was_traced_in_vain_does_not_count():
    outfeed = IPUOutfeedQueue()

    def fails(x):
        outfeed.enqueue(x)
        raise LookupError

    def program(x):
        with contextlib.suppress(LookupError):
            tf.cond(x > 0, lambda: fails(x), lambda: None)
        outfeed.enqueue(x)

    DeviceFunction(program)(np.int32(4))
    assert outfeed.dequeue().numpy().tolist() == [4]
