"""Garbage collection: what is held in a circle goes, also where the collection runs on
a thread of a data set, and what is in use stays."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from ipu import _core, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.tf._functions.function import DeviceFunction

Dataset = tf.data.Dataset
SPEC = tf.TensorSpec((), tf.float32)


class Holder:
    """Holds what is made of its own methods."""

    made: Any
    more: Any

    def numbers(self) -> Iterator[float]:
        yield from (0.0, 1.0, 2.0)

    def add(self, x: Any) -> Any:
        return x + float(self is not None)

    def source(self) -> Any:
        return Dataset.from_generator(self.numbers, output_signature=SPEC)


def started(dataset: Any) -> Any:
    iterator = iter(dataset)
    next(iterator)
    return iterator


def queue_of(holder: Holder) -> Any:
    queue = IPUInfeedQueue(holder.source())
    _ = queue.initializer
    _ = queue.deleter
    return queue


def program_of(holder: Holder) -> Any:
    outfeed = IPUOutfeedQueue()

    def body() -> None:
        outfeed.enqueue(holder.add(tf.constant(1.0)))

    run = DeviceFunction(lambda: loops.repeat(2, body))
    run()
    return run, outfeed


def taped(holder: Holder) -> Any:
    x = tf.Variable(1.0)
    with tf.GradientTape(persistent=True) as tape:
        y = holder.add(x) * x
    tape.holder = holder  # type: ignore[attr-defined]
    return tape, y


def taped_gradient(holder: Holder) -> Any:
    """A gradient function that holds a persistent tape, under another tape."""

    @tf.custom_gradient
    def plus_one(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = holder.add(x)
        return tf.identity(y), lambda dy: holder.add(tape.gradient(y, x, dy))

    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = plus_one(x)
    tape.gradient(y, x)
    return tape


CIRCLES: dict[str, Callable[[Holder], Any]] = {
    "generator": lambda h: h.source(),
    "map": lambda h: Dataset.range(3).map(lambda x: x + int(h is not None)),
    "map of unknown sizes": lambda h: h.source().batch(2).map(h.add),
    "filter": lambda h: Dataset.range(3).filter(lambda x: x < 2 + int(h is None)),
    "chain": lambda h: h.source().shuffle(3).batch(2).repeat().take(3).prefetch(1),
    "zip": lambda h: Dataset.zip((h.source(), h.source().skip(1))),
    "concatenate": lambda h: h.source().concatenate(h.source()),
    "two data sets of one": lambda h: (s := h.source(), s.take(1), s.skip(1)),
    "flat_map": lambda h: Dataset.range(2).flat_map(lambda i: h.source()),
    "window": lambda h: h.source().window(2).flat_map(lambda w: w.batch(2)),
    "group_by_window": lambda h: h.source().group_by_window(
        lambda x: int(h is None), lambda k, w: w, 2
    ),
    "padded_batch": lambda h: h.source().padded_batch(2),
    "cache": lambda h: h.source().cache(),
    "a cache that was read": lambda h: (c := h.source().cache(), list(c)),
    "iterator": lambda h: iter(h.source()),
    "iterator at work": lambda h: started(h.source()),
    "iterators of zip": lambda h: started(Dataset.zip((h.source(), h.source()))),
    "iterator at the end": lambda h: (i := iter(h.source().prefetch(1)), list(i)),
    "infeed": queue_of,
    "program": program_of,
    "tape": taped,
    "tape of a gradient function": taped_gradient,
    "function": lambda h: tf.function(h.add).get_concrete_function(SPEC),
}


@pytest.mark.parametrize("kind", CIRCLES)
def test_circles_are_collected(kind: str) -> None:
    holder = Holder()
    holder.made = CIRCLES[kind](holder)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("kind", CIRCLES)
def test_what_is_in_use_stays(kind: str) -> None:
    """A collection in between changes nothing."""
    holder = Holder()
    made = CIRCLES[kind](holder)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    if isinstance(made, Dataset):
        assert gone() is not None
        count = len(list(made))
        gc.collect()
        assert len(list(made)) == count > 0
    elif hasattr(made, "__next__"):
        gc.collect()
        assert len(list(made)) in (2, 3)


def test_every_bound_type_takes_part() -> None:
    """All that hold objects: tensors of numbers and devices do not."""
    queue = IPUInfeedQueue(Holder().source())
    queue._made()
    for made in (
        Dataset.range(3)._impl,
        Dataset.range(3)._impl.iterator(),
        queue._queue,
        _core.Recorder(),
        _core.Trace(name="f"),
    ):
        assert gc.is_tracked(made), made


def test_an_iterator_keeps_its_data_set() -> None:
    iterator = iter(Holder().source().map(lambda x: x + 1.0).repeat(2))
    gc.collect()
    assert [float(x) for x in iterator] == [1.0, 2.0, 3.0] * 2


def test_a_feeder_keeps_its_data_set() -> None:
    total = tf.Variable(0.0)

    def add(x: Any) -> None:
        total.assign_add(x)

    queue = IPUInfeedQueue(Holder().source().repeat(4))
    run = DeviceFunction(lambda: loops.repeat(12, add, [], queue))
    _ = queue.initializer
    queue._dataset = Dataset.range(1)  # the feeder has the only hold on its own
    gc.collect()
    run()
    assert float(total) == 12.0
    _ = queue.deleter


def test_long_chains_are_freed() -> None:
    dataset = Holder().source()
    for _ in range(20000):
        dataset = dataset.concatenate(Holder().source())
    gc.collect()
    del dataset


def test_nested_generators_are_freed() -> None:
    dataset = Dataset.range(1)
    for _ in range(20000):
        dataset = dataset.padded_batch(1).unbatch()
    del dataset
    gc.collect()


ON_A_THREAD_OF_ITS_OWN = """
import gc, sys, threading, time, weakref
import numpy as np
from ipu import tf, _core
from ipu.ipu_infeed_queue import IPUInfeedQueue

D = tf.data.Dataset
kind = sys.argv[1]
gc.disable()  # the main thread does not come first by chance
dropped, done = threading.Event(), threading.Event()

def numbers():
    yield 0.0
    yield 1.0
    dropped.wait(30)
    gc.collect()  # here the last reference to this very thread's owner goes
    done.set()
    for i in range(2, 100):
        yield float(i)

source = D.from_generator(numbers, output_signature=tf.TensorSpec((), tf.float32))

class Circle: pass

for turn in range(3):
    dropped.clear(), done.clear()
    circle = Circle()
    circle.itself = circle
    if kind == "feeder":
        queue = IPUInfeedQueue(source, prefetch_depth=4)
        queue.initializer
        circle.held = queue
    elif kind == "feeder of a prefetch":
        queue = IPUInfeedQueue(source.prefetch(4).batch(1, True), prefetch_depth=2)
        queue.initializer
        circle.held = queue
    elif kind == "prefetch":
        circle.held = iter(source.prefetch(4))
        next(circle.held)
    else:
        circle.held = iter(source.prefetch(4).batch(1).prefetch(4))
        next(circle.held)
    gone = weakref.ref(circle)
    queue = None
    del circle
    dropped.set()
    assert done.wait(30)
    while gone() is not None:
        time.sleep(0.01)
    list(source.prefetch(2).take(5))
print("fine")
"""


@pytest.mark.parametrize(
    "kind", ["feeder", "feeder of a prefetch", "prefetch", "prefetch of a prefetch"]
)
def test_collected_on_its_own_thread(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", ON_A_THREAD_OF_ITS_OWN, kind],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-1] == "fine"


def test_collections_while_threads_work() -> None:
    """Collections on the main thread, on threads of data sets, and on another one."""
    ended = threading.Event()

    def collect() -> None:
        while not ended.is_set():
            gc.collect()

    class Source(Holder):
        def numbers(self) -> Iterator[float]:
            for i in range(30):
                if i % 7 == 0:
                    gc.collect(0)
                yield float(i)

    def read(seen: list[float]) -> None:
        holder = Source()
        holder.made = holder.source().map(holder.add).prefetch(2)
        holder.more = iter(holder.made.batch(2).prefetch(1))
        seen.extend(float(x) for batch in holder.more for x in batch.numpy())

    other = threading.Thread(target=collect)
    other.start()
    results: list[list[float]] = [[] for _ in range(3)]
    readers = [threading.Thread(target=read, args=(seen,)) for seen in results]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    ended.set()
    other.join()
    assert results == [list(np.arange(1.0, 31.0))] * 3
