# SPDX-License-Identifier: MIT
"""Iterators in threads, and data sets that feed a device."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from ipu import _core, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf import errors
from ipu.tf._functions.function import DeviceFunction

Dataset = tf.data.Dataset

# --- iterators and threads ------------------------------------------------------------


def test_iterators_are_independent() -> None:
    dataset = Dataset.range(4).prefetch(1)
    one, two = iter(dataset), iter(dataset)
    assert [int(next(one)) for _ in range(3)] == [0, 1, 2]
    assert int(next(two)) == 0
    assert one.element_spec == dataset.element_spec
    assert int(one.get_next()) == 3
    with pytest.raises(errors.OutOfRangeError, match="End of sequence"):
        one.get_next()


def test_elements_outlive_the_iterator() -> None:
    elements = list(Dataset.range(100).batch(3).prefetch(2))
    assert np.concatenate([e.numpy() for e in elements]).tolist() == list(range(100))


def test_threads_with_iterators_of_their_own() -> None:
    x = np.arange(2000).reshape(500, 4)
    dataset = Dataset.from_tensor_slices(x).shuffle(64).batch(7).map(lambda v: v + 1)
    dataset = dataset.prefetch(2)
    totals = []

    def read() -> None:
        totals.append(sum(int(v.numpy().sum()) for v in dataset))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert totals == [int(x.sum()) + x.size] * 4


def test_one_iterator_serves_one_thread() -> None:
    started, go = threading.Event(), threading.Event()

    def slow() -> Any:
        started.set()
        go.wait(10)
        yield 1

    iterator = iter(Dataset.from_generator(slow, tf.int32, ()))
    thread = threading.Thread(target=lambda: next(iterator))
    thread.start()
    assert started.wait(5)
    with pytest.raises(RuntimeError, match="another thread"):
        next(iterator)
    with pytest.raises(RuntimeError, match="at work"):
        iterator.close()
    go.set()
    thread.join(10)


def test_process_ends_with_live_threads() -> None:
    """Prefetch threads that call Python neither hang nor crash at exit."""
    code = (
        "import itertools\n"
        "from ipu import tf\n"
        "d = tf.data.Dataset.from_generator(itertools.count, tf.int64, ())\n"
        "its = [iter(d.prefetch(2)) for _ in range(3)]\n"
        "print([int(next(i)) for i in its])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0, 0, 0]"


def test_core_types_cannot_be_misused() -> None:
    with pytest.raises(TypeError):
        _core.Dataset()
    with pytest.raises(TypeError):
        _core.DatasetIterator(3)
    with pytest.raises(TypeError):
        _core.Dataset.slices([np.zeros(3)])
    with pytest.raises(TypeError):
        _core.Dataset.zip((1,))
    with pytest.raises((TypeError, AttributeError)):
        _core.Dataset.slices((3,))


# --- feeding a device -----------------------------------------------------------------


def run_on_device(dataset: Any, steps: int) -> list[Any]:
    """What a device program of ``steps`` steps takes from the data set."""
    from ipu import ipu_infeed_queue, ipu_outfeed_queue, loops
    from ipu.tf._functions import function

    infeed = ipu_infeed_queue.IPUInfeedQueue(dataset)
    outfeed = ipu_outfeed_queue.IPUOutfeedQueue()
    program = function.DeviceFunction(
        lambda: loops.repeat(steps, outfeed.enqueue, [], infeed)
    )
    infeed.initializer  # noqa: B018
    try:
        program()
        result: list[Any] = outfeed.dequeue().numpy().tolist()
        return result
    finally:
        infeed.deleter  # noqa: B018


def test_device_takes_elements_in_order() -> None:
    dataset = Dataset.range(6, output_type=tf.int32).batch(2, drop_remainder=True)
    assert run_on_device(dataset, 3) == [[0, 1], [2, 3], [4, 5]]
    assert run_on_device(dataset.prefetch(2).repeat(), 4)[3] == [0, 1]


def test_data_set_that_ends_early_fails_the_run() -> None:
    with pytest.raises(errors.OutOfRangeError, match="out of range"):
        run_on_device(Dataset.range(2, output_type=tf.int32), 3)
    with pytest.raises(errors.OutOfRangeError, match="out of range"):
        run_on_device(Dataset.range(0, output_type=tf.int32).repeat(), 1)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_generator_exception_fails_the_run(prefetch: int) -> None:
    def failing() -> Any:
        yield 1
        raise LookupError("in the generator")

    dataset = Dataset.from_generator(failing, tf.int32, ()).prefetch(prefetch).repeat()
    with pytest.raises(LookupError, match="in the generator"):
        run_on_device(dataset, 3)


def test_process_ends_with_a_live_feeder() -> None:
    code = (
        "import itertools\n"
        "from ipu import ipu_infeed_queue, tf\n"
        "d = tf.data.Dataset.from_generator(\n"
        "    lambda: (i % 7 for i in itertools.count()), tf.int32, ())\n"
        "q = ipu_infeed_queue.IPUInfeedQueue(d)\n"
        "q.initializer\n"
        "print('done')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done"


def test_exceptions_of_two_sources_do_not_mix() -> None:
    def broken(text: str) -> Any:
        def generate() -> Any:
            yield 0
            raise KeyError(text)

        return Dataset.from_generator(
            generate, output_signature=tf.TensorSpec((), tf.int32)
        )

    # a feeder fails before anybody asks it, then another source does
    infeed = IPUInfeedQueue(broken("first"), prefetch_depth=2)
    infeed.initializer  # noqa: B018
    time.sleep(0.05)
    with pytest.raises(KeyError, match="second"):
        list(broken("second"))
    run = DeviceFunction(lambda: loops.repeat(2, lambda x: None, [], infeed))
    with pytest.raises(KeyError, match="first"):
        run()
