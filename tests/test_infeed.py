# SPDX-License-Identifier: MIT
"""`ipu.ipu_infeed_queue`: construction, life, structures, end, what is read ahead."""

from __future__ import annotations

import collections
import gc
import itertools
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import _core, loops, tf
from ipu._device import devices
from ipu.ipu_infeed_queue import IPUInfeedQueue, IPUIterator, IPUOwnedIterator
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.tf._functions.function import DeviceFunction


def counting(stop: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.arange(stop, dtype=np.int32))


def reader(infeed, outfeed):
    """A function of n that hands n elements from one queue to the other."""
    return DeviceFunction(
        lambda n: loops.repeat(n, lambda *a: outfeed.enqueue(a), [], infeed)
    )


def start(infeed) -> None:
    infeed.initializer  # noqa: B018 - reading it acts


def delete(infeed) -> None:
    infeed.deleter  # noqa: B018


# --- construction ------------------------------------------------------------------


def test_queues_that_are_older_than_the_configuration():
    ipu.config.reset_ipu_configuration()
    infeed, outfeed = IPUInfeedQueue(counting(6)), IPUOutfeedQueue()
    with pytest.raises(RuntimeError, match="No IPU devices configured"):
        ipu.utils.get_ipu_config()

    run = reader(infeed, outfeed)
    for ipus in ([1, 1], 1, [1, 1, 1]):
        config = ipu.config.IPUConfig()
        config.auto_select_ipus = ipus
        config.configure_ipu_system()
        start(infeed)  # from the beginning, on the new device
        run(np.int32(2))
        np.testing.assert_array_equal(outfeed.dequeue()[0], [0, 1])


def _configure(ipus):
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def _slowly(count):
    for i in range(count):
        time.sleep(0.002)
        yield np.int32(i)


@pytest.mark.parametrize("kind", ["map", "memory", "generator"])
@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        (1, [1, 1], [0, 1, 2, 3, 4, 5]),
        ([1, 1], 1, [0, 1, 2, 3, 4, 5]),
        (1, 2, [0, 1, 2, 3, 5, 7]),  # of two replicas the first one's are read
        (2, 1, [0, 2, 4, 6, 7, 8]),
        (2, 4, [0, 2, 4, 6, 10, 14]),
        (8, 1, [0, 8, 16, 24, 25, 26]),  # more is read ahead than its depth
    ],
)
def test_an_iterator_goes_on_after_a_new_configuration(kind, before, after, want):
    whole = {
        "map": lambda: counting(30),
        "memory": lambda: tf.data.Dataset.from_tensor_slices(
            np.arange(30, dtype=np.int32)
        ),
        "generator": lambda: tf.data.Dataset.from_generator(
            lambda: _slowly(30), output_signature=tf.TensorSpec((), tf.int32)
        ),
    }[kind]()
    _configure(before)
    strategy = IPUStrategy()
    with strategy.scope():
        elements = iter(whole)

    @tf.function
    def step(elements):
        return next(elements)

    got = [strategy.run(step, (elements,)) for _ in range(3)]
    _configure(after)
    got += [strategy.run(step, (elements,)) for _ in range(3)]
    assert [int(np.ravel(one)[0]) for one in got] == want
    _configure(1)


def test_the_end_of_an_iterator_that_moved():
    _configure([1, 1])
    strategy = IPUStrategy()
    with strategy.scope():
        elements = iter(counting(4))
    step = tf.function(lambda: next(elements))
    assert [int(strategy.run(step)) for _ in range(2)] == [0, 1]
    _configure(1)
    assert [int(strategy.run(step)) for _ in range(2)] == [2, 3]
    for ipus in (1, [1, 1], 1):
        _configure(ipus)
        with pytest.raises(tf.errors.OutOfRangeError, match="It had 4 elements"):
            strategy.run(step)


def test_a_failing_data_set_that_moved():
    def failing():
        yield np.int32(1)
        raise KeyError("broken on purpose")

    _configure([1, 1])
    strategy = IPUStrategy()
    with strategy.scope():
        elements = iter(
            tf.data.Dataset.from_generator(
                failing, output_signature=tf.TensorSpec((), tf.int32)
            )
        )
    step = tf.function(lambda: next(elements))
    assert int(strategy.run(step)) == 1
    _configure(1)
    with pytest.raises(Exception, match="broken on purpose"):
        strategy.run(step)


def test_results_that_wait_in_an_outfeed_move_with_it():
    _configure([1, 1])
    infeed, outfeed = IPUInfeedQueue(counting(8)), IPUOutfeedQueue()
    run = reader(infeed, outfeed)
    start(infeed)
    run(np.int32(2))
    _configure(1)
    run(np.int32(3))
    np.testing.assert_array_equal(outfeed.dequeue()[0], [0, 1, 2, 3, 4])


def test_a_device_that_is_not_there():
    with pytest.raises(tf.errors.InternalError, match="no device /device:IPU:7"):
        start(IPUInfeedQueue(counting(3), device_ordinal=7))


def test_both_generations_of_arguments():
    ds = counting(3)
    old = IPUInfeedQueue(ds, "name", 0, 1, 2, 7)
    assert old._depth == 7
    mixed = IPUInfeedQueue(
        ds, feed_name="name", replication_factor=4, data_to_prefetch=1
    )
    assert mixed._depth == 3
    new = IPUInfeedQueue(ds, device_ordinal=0, prefetch_depth=2, optimise_latency=True)
    assert new._depth == 2
    with pytest.raises(TypeError, match="Did you mean 'prefetch_depth'"):
        IPUInfeedQueue(ds, prefetch_deph=2)
    with pytest.raises(TypeError, match="multiple values"):
        IPUInfeedQueue(ds, 0, device_ordinal=0)
    with pytest.raises(TypeError, match="at most 3"):
        IPUInfeedQueue(ds, 0, 1, False, 2)


@pytest.mark.parametrize(
    ("keywords", "text"),
    [
        ({"prefetch_depth": 0}, "prefetch_depth"),
        ({"prefetch_depth": 256}, "prefetch_depth"),
        ({"prefetch_depth": 1.5}, "prefetch_depth"),
        ({"data_to_prefetch": 0}, "data_to_prefetch"),
        ({"device_ordinal": -1}, "Device ordinal"),
        ({"device_ordinal": 0.0}, "Device ordinal"),
    ],
)
def test_arguments_out_of_range(keywords, text):
    with pytest.raises(ValueError, match=text):
        IPUInfeedQueue(counting(3), **keywords)


def test_what_cannot_be_fed():
    with pytest.raises(ValueError, match=r"is not fully defined.*drop_remainder=True"):
        IPUInfeedQueue(counting(10).batch(3))
    with pytest.raises(TypeError, match=r"takes a tf.data.Dataset"):
        IPUInfeedQueue([1, 2])
    wide = IPUInfeedQueue(tf.data.Dataset.range(3))  # as in TensorFlow: no error yet
    error = tf.errors.FailedPreconditionError
    text = "Unsupported datatype int64 on index 0 of feed operation"
    with pytest.raises(error, match=text):
        start(wide)
    with pytest.raises(error, match=text):
        DeviceFunction(lambda: loops.repeat(1, lambda x: None, [], wide))()
    empty = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.zeros((2, 0), np.float32)))
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Detected an input tensor to an infeed queue with a dimension of size 0",
    ):
        start(empty)


def test_members():
    ds = tf.data.Dataset.zip(((counting(4), counting(4)), counting(4)))
    infeed, outfeed = IPUInfeedQueue(ds), IPUOutfeedQueue()
    assert infeed.number_of_tuple_elements == 3
    assert infeed.dequeued is False
    with pytest.raises(ValueError, match="cannot be read on the host"):
        infeed.get_next()
    start(infeed)
    run = reader(infeed, outfeed)
    run(np.int32(1))
    assert infeed.dequeued is True


# --- structures --------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        (lambda x: x, "(t) {}"),
        (lambda x: (x, x), "(t, t) {}"),
        (lambda x: [x, x], "(t, t) {}"),
        (lambda x: (x, (x, x)), "(t, (t, t)) {}"),
        (lambda x: {"b": x, "a": x}, "() {a: t, b: t}"),
        (lambda x: ({"b": x, "a": x},), "() {a: t, b: t}"),
        (lambda x: ({"a": x}, x), "({a: t}, t) {}"),
        (lambda x: Pair(x, x), "(t, t) {}"),
    ],
)
def test_the_arguments_of_a_body(element, expected):
    def text(value) -> str:
        if isinstance(value, dict):
            return (
                "{" + ", ".join(f"{k}: {text(value[k])}" for k in sorted(value)) + "}"
            )
        if isinstance(value, tuple):
            return "(" + ", ".join(text(item) for item in value) + ")"
        return "t"

    seen = []

    def body(*args, **kwargs) -> None:
        seen.append(f"{text(args)} {text(kwargs)}")

    infeed = IPUInfeedQueue(counting(2).map(element))
    start(infeed)
    DeviceFunction(lambda: loops.repeat(1, body, [], infeed))()
    assert seen == [expected]


def test_loop_inputs_come_before_infeed_values():
    infeed = IPUInfeedQueue(counting(100))
    start(infeed)

    def body(total, x):
        return total + 10 * x

    f = DeviceFunction(lambda n: loops.repeat(n, body, [1], infeed))
    assert int(f(np.int32(3))) == 1 + 10 * (0 + 1 + 2)
    assert int(f(np.int32(0))) == 1  # takes nothing
    assert int(f(np.int32(1))) == 1 + 10 * 3


# --- life --------------------------------------------------------------------------


def test_not_initialised():
    infeed, outfeed = IPUInfeedQueue(counting(3)), IPUOutfeedQueue()
    run = reader(infeed, outfeed)
    error = tf.errors.FailedPreconditionError
    with pytest.raises(
        error, match=r"which has not been created. Did you initialize the infeed_queue"
    ):
        run(np.int32(1))
    start(infeed)
    run(np.int32(1))
    delete(infeed)
    with pytest.raises(error, match="Did you initialize the infeed_queue"):
        run(np.int32(1))


def test_restart_gives_another_pass_to_the_same_program():
    ds = counting(20).shuffle(20, seed=4)
    infeed, outfeed = IPUInfeedQueue(ds), IPUOutfeedQueue()
    run = reader(infeed, outfeed)
    orders = []
    for _ in range(2):
        start(infeed)
        run(np.int32(5))
        run(np.int32(15))
        orders.append(outfeed.dequeue()[0].numpy().tolist())
        delete(infeed)
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(20))
    assert orders[0] != orders[1]


def test_initialise_and_delete_twice():
    infeed = IPUInfeedQueue(counting(3))
    with pytest.raises(tf.errors.NotFoundError, match="Infeed with id="):
        delete(infeed)
    start(infeed)
    with pytest.raises(tf.errors.AlreadyExistsError, match="already exists"):
        start(infeed)
    delete(infeed)
    with pytest.raises(tf.errors.NotFoundError, match="Infeed with id="):
        delete(infeed)
    start(infeed)


def test_the_end_of_the_data():
    infeed, outfeed = IPUInfeedQueue(counting(7)), IPUOutfeedQueue()
    done = tf.Variable(0)
    start(infeed)

    def body(x) -> None:
        done.assign_add(1)
        outfeed.enqueue(x)

    run = DeviceFunction(lambda n: loops.repeat(n, body, [], infeed))
    run(np.int32(4))
    with pytest.raises(tf.errors.OutOfRangeError, match="out of range"):
        run(np.int32(5))
    # completed iterations keep their effect
    assert int(done) == 7
    np.testing.assert_array_equal(outfeed.dequeue(), np.arange(7))
    with pytest.raises(tf.errors.OutOfRangeError):
        run(np.int32(1))
    run(np.int32(0))
    delete(infeed)
    start(infeed)
    run(np.int32(7))
    assert int(done) == 14
    np.testing.assert_array_equal(outfeed.dequeue(), np.arange(7))


def test_an_exception_of_the_pipeline_is_raised_by_the_run_that_needs_it():
    def generate():
        yield np.int32(1)
        yield np.int32(2)
        raise KeyError("broken source")

    ds = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.int32)
    )
    infeed, outfeed = IPUInfeedQueue(ds), IPUOutfeedQueue()
    start(infeed)
    run = reader(infeed, outfeed)
    run(np.int32(1))
    with pytest.raises(KeyError, match="broken source"):
        run(np.int32(3))
    assert outfeed.dequeue()[0].numpy().tolist() == [1, 2]


class MyError(Exception):
    pass


def failing(error: BaseException, cause: BaseException | None = None):
    def generate():
        yield np.int32(1)
        raise error from cause

    return tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.int32)
    )


def test_every_run_raises_the_exception_of_the_pipeline():
    problem, cause = MyError("mine"), ValueError("of it")
    infeed, outfeed = IPUInfeedQueue(failing(problem, cause)), IPUOutfeedQueue()
    start(infeed)
    run = reader(infeed, outfeed)
    shown = []
    for _ in range(3):
        with pytest.raises(MyError) as caught:
            run(np.int32(2))
        assert caught.value is problem and problem.__cause__ is cause
        frames = traceback.extract_tb(caught.tb)
        shown.append([(frame.name, frame.lineno) for frame in frames])
    assert shown[0] == shown[1] == shown[2]
    assert shown[0][-1][0] == "generate"
    # two runs that fail while another exception is handled
    try:
        raise LookupError
    except LookupError:
        with pytest.raises(MyError):
            run(np.int32(2))
    assert problem.__cause__ is cause


def test_a_failed_infeed_is_collected_with_its_frames():
    class Held:
        pass

    def fail() -> weakref.ref:
        held = Held()
        infeed, outfeed = IPUInfeedQueue(failing(MyError("mine"))), IPUOutfeedQueue()
        start(infeed)
        run = reader(infeed, outfeed)
        for _ in range(2):
            try:  # the exception's frames hold the queue, which holds the exception
                run(np.int32(2))
            except MyError as error:
                assert error.__traceback__ is not None
        return weakref.ref(held)

    held = fail()
    for _ in range(200):
        gc.collect()
        if held() is None:
            break
        time.sleep(0.01)
    assert held() is None


@pytest.mark.parametrize("first", ["infeed", "outfeed"])
def test_deleting_while_in_use(first):
    """Also the first resource that a device has."""
    code = f"import test_infeed; test_infeed.delete_while_in_use({first!r})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def delete_while_in_use(first: str) -> None:
    gate = threading.Event()

    def generate():
        yield np.int32(0)
        gate.wait(20)
        yield np.int32(1)

    ds = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.int32)
    )
    infeed, outfeed = IPUInfeedQueue(ds), IPUOutfeedQueue()
    run = reader(infeed, outfeed)
    if first == "outfeed":
        DeviceFunction(lambda: outfeed.enqueue((tf.constant(0),))).traced()
    start(infeed)
    run.traced(np.int32(2))
    assert {"infeed": infeed, "outfeed": outfeed}[first]._queue.id == 0
    thread = threading.Thread(target=run, args=(np.int32(2),))
    thread.start()
    try:
        assert outfeed._wait(1, 20.0) == 1
        error = tf.errors.FailedPreconditionError
        with pytest.raises(error, match=r"Cannot delete infeed with id=.*while in use"):
            delete(infeed)
        with pytest.raises(
            error, match=r"Cannot delete outfeed with id=.*while in use"
        ):
            outfeed.deleter  # noqa: B018
    finally:
        gate.set()
        thread.join(20)
    delete(infeed)
    assert outfeed.dequeue()[0].shape == (2,)


def test_a_queue_that_is_gone_can_be_used_by_no_program():
    """Also the first resource that a device has, and one that was not made."""
    device = _core.Device(1)
    types = [("float32", ())]
    queue = _core.Outfeed(device, types)
    assert queue.id == 0
    with pytest.raises(ValueError, match="depth"):
        _core.Outfeed(device, types, depth=0)
    with _core.Trace() as trace:
        resource = ("outfeed", queue.id, types, None)
        trace.node("outfeed_enqueue", (tf.constant(1.0),), None, (resource,))
    program = trace.compile(device)
    program.run([])
    assert queue.wait(0) == 1
    del queue
    gc.collect()
    with pytest.raises(tf.errors.NotFoundError, match="id='0' does not exist"):
        program.run([])


def test_deleting_never_hangs():
    """Whatever the feeding thread does: waits for room, or makes an element."""
    started = threading.Event()

    def slow():
        while True:
            started.set()
            time.sleep(0.001)
            yield np.float32(0)

    signature = tf.TensorSpec((), tf.float32)
    slow_ds = tf.data.Dataset.from_generator(slow, output_signature=signature)
    for ds in (slow_ds, slow_ds.repeat().prefetch(2), counting(9).repeat()):
        for _ in range(3):
            infeed = IPUInfeedQueue(ds, prefetch_depth=1)
            start(infeed)
            if ds is not slow_ds:
                time.sleep(0.002)
            delete(infeed)
    infeed = IPUInfeedQueue(slow_ds)
    start(infeed)
    started.wait(10)
    del infeed  # without a deleter
    gc.collect()


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_the_depth_bounds_what_is_read_ahead(depth):
    made = []

    def generate():
        for i in range(1000):
            made.append(i)
            yield np.int32(i)

    ds = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.int32)
    )
    infeed = IPUInfeedQueue(ds, prefetch_depth=depth)
    outfeed = IPUOutfeedQueue()
    start(infeed)
    run = reader(infeed, outfeed)

    def settle() -> int:
        count, last = len(made), -1
        while count != last:
            time.sleep(0.05)
            count, last = len(made), count
        return count

    assert settle() == depth
    total = 0
    for more in (1, 5, 24):
        run(np.int32(more))
        total += more
        count = settle()
        # a producer that slept is woken when half of the ring is free
        assert total + depth - depth // 2 <= count <= total + depth


def test_one_program_takes_from_an_infeed_once():
    infeed = IPUInfeedQueue(counting(9))
    start(infeed)

    def twice() -> None:
        loops.repeat(1, lambda x: None, [], infeed)
        loops.repeat(1, lambda x: None, [], infeed)

    with pytest.raises(ValueError, match="only be dequeued once in a program"):
        DeviceFunction(twice)()
    # two programs may share it
    outfeed = IPUOutfeedQueue()
    reader(infeed, outfeed)(np.int32(2))
    other = IPUOutfeedQueue()
    reader(infeed, other)(np.int32(2))
    np.testing.assert_array_equal(outfeed.dequeue()[0], [0, 1])
    np.testing.assert_array_equal(other.dequeue()[0], [2, 3])


# --- iterators ---------------------------------------------------------------------


def test_an_iterator_of_the_device():
    strategy = IPUStrategy()
    outfeed = IPUOutfeedQueue()
    with strategy.scope():
        iterator = iter(counting(50).map(lambda x: (x, {"twice": 2 * x})))
    assert isinstance(iterator, IPUOwnedIterator)
    assert isinstance(iterator, IPUIterator)
    assert iter(iterator) is iterator
    assert iterator.element_spec[1]["twice"].dtype == tf.int32

    def step() -> None:
        x, rest = next(iterator)
        outfeed.enqueue((x, rest["twice"]))

    f = DeviceFunction(lambda n, it: loops.repeat(n, lambda: step(), []))
    for count in (3, 2):
        strategy.run(f, args=(np.int32(count), iterator))
    x, twice = outfeed.dequeue()
    np.testing.assert_array_equal(x, np.arange(5))
    np.testing.assert_array_equal(twice, 2 * np.arange(5))


def test_an_iterator_in_eager_mode():
    strategy = IPUStrategy()
    with strategy.scope():
        iterator = iter(counting(3))
        with pytest.raises(RuntimeError, match="Accessing dataset elements"):
            next(iterator)
        with pytest.raises(RuntimeError, match="Accessing dataset elements"):
            iterator.get_next()
    with pytest.raises(NotImplementedError, match="get_next_as_optional"):
        iterator.get_next_as_optional()
    with IPUStrategy(enable_dataset_iterators=False).scope():
        assert [int(x) for x in counting(3)] == [0, 1, 2]
    assert [int(x) for x in counting(3)] == [0, 1, 2]


def test_one_place_for_each_iterator():
    with IPUStrategy().scope():
        iterator = iter(counting(9))
    with pytest.raises(ValueError, match="only be dequeued once"):
        DeviceFunction(lambda: (next(iterator), next(iterator)))()


def test_iterators_without_a_data_set():
    made = IPUIterator(counting(5), prefetch_depth=2)
    with pytest.raises(ValueError, match=r"either `dataset`, or both"):
        IPUIterator()
    with pytest.raises(ValueError, match=r"either `dataset`, or both"):
        IPUIterator(counting(5), infeed_spec=made._infeed_spec)
    with pytest.raises(ValueError, match=r"either `dataset`, or both"):
        IPUIterator(infeed_spec=made._infeed_spec)
    other = IPUIterator(infeed_spec=made._infeed_spec, element_spec=made.element_spec)
    for action in (start, delete):
        with pytest.raises(RuntimeError, match="IPUInfeedQueue created"):
            action(other._infeed_queue)
    start(made)
    assert int(DeviceFunction(lambda: next(other))()) == 0
    assert int(DeviceFunction(lambda: next(made))()) == 1


def test_an_iterator_goes_with_its_object():
    with IPUStrategy().scope():
        iterator = iter(counting(9).repeat())
    feeder = weakref.ref(iterator._infeed_queue._feeder)
    assert feeder() is not None
    del iterator
    gc.collect()
    assert feeder() is None


def test_a_generator_that_reads_variables():
    """A run that waits for an element, and has written nothing in its step, lets the
    generator read: otherwise each waits for the other."""
    strategy = IPUStrategy()
    seen = []
    with strategy.scope():
        turns = tf.Variable(0, dtype=tf.int32)

    def elements():
        for _ in range(6):
            time.sleep(0.01)  # the run waits meanwhile
            seen.append(int(turns.numpy()))
            yield seen[-1]

    data = tf.data.Dataset.from_generator(
        elements, output_signature=tf.TensorSpec((), tf.int32)
    )
    infeed = IPUInfeedQueue(data, prefetch_depth=1)
    start(infeed)

    def step(x) -> None:
        turns.assign_add(1 + 0 * x)

    count = DeviceFunction(lambda: loops.repeat(6, step, [], infeed))

    def run() -> None:
        with strategy.scope():
            count()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert len(seen) == 6 and seen == sorted(seen) and int(turns.numpy()) == 6


@pytest.mark.parametrize("ipus", [1, 2])
def test_a_run_that_loses_a_variable_gives_its_elements_back(ipus: int) -> None:
    """It holds one of the first queue while it waits for one of the second."""
    attach(ipus)
    begun = threading.Event()

    def numbers() -> Iterator[Any]:
        for i in itertools.count():
            if begun.is_set() and i % 50 == 49:
                core.variable_remove(number)
            yield np.float32(i)

    spec = tf.TensorSpec((), tf.float32)
    counted = tf.data.Dataset.range(10**6).map(lambda i: tf.cast(i, tf.float32))
    first = IPUInfeedQueue(counted)
    second = IPUInfeedQueue(
        tf.data.Dataset.from_generator(numbers, output_signature=spec), prefetch_depth=1
    )
    with IPUStrategy().scope():
        total, gone = tf.Variable(0.0), tf.Variable(0.0)
        core, number = devices.get_device().core, gone._home.number

        def step(*variables: Any) -> None:
            x = first._dequeue() - second._dequeue()
            for variable in variables:
                variable.assign_add(x)

        good = tf.function(lambda n: loops.repeat(n, lambda: step(total), []))
        bad = tf.function(lambda n: loops.repeat(n, lambda: step(total, gone), []))
        assert first.initializer is second.initializer is None
        bad(tf.constant(2))
        begun.set()
        for _ in range(3):
            with pytest.raises(tf.errors.NotFoundError, match="has no variable"):
                bad(tf.constant(200))
            for _ in range(3):
                good(tf.constant(10))
