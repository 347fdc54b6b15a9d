"""fork() while data is fed and read: children neither hang nor crash, whatever the
threads of the parent are at. What needs a thread that stayed there says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from forked import Programs

START = """
import gc, itertools, multiprocessing, os, sys, threading, time, warnings
import numpy as np
import ipu
from ipu import loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.tf import errors
from ipu.tf._functions.function import DeviceFunction

warnings.simplefilter("ignore")  # of threads and fork()
D = tf.data.Dataset

def numbers():
    for i in itertools.count():
        if i % 5 == 0:
            time.sleep(0.001)
        yield np.float32(i)

def source():
    return D.from_generator(numbers, output_signature=tf.TensorSpec((), tf.float32))

def in_children(work, count=12):
    # children at different moments; each must end by itself, and well
    for turn in range(count):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                work()
                gc.collect()
                code = 0
            finally:
                os._exit(code)
        deadline = time.monotonic() + 30
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > deadline:
                os.kill(child, 9)
                os.write(2, b"a child hangs")
                os._exit(1)  # without waiting for the threads of the program
            time.sleep(0.0005)
        assert status == 0, status
        time.sleep(0.0006 * (turn % 12))

def read_anew():
    assert [int(x) for x in source().prefetch(2).take(4)] == [0, 1, 2, 3]
    assert [int(x) for x in D.range(9).map(lambda x: x + 1).take(2)] == [1, 2]

def train(queue, total, count=4):
    def add(x):
        total.assign_add(x)
    return DeviceFunction(lambda: loops.repeat(count, add, [], queue))
"""

PROGRAMS = {
    "feeding": """
queue, total = IPUInfeedQueue(source()), tf.Variable(0.0)
run = train(queue, total)
queue.initializer
ended = threading.Event()
def work():
    while not ended.is_set(): run()
runner = threading.Thread(target=work)
runner.start()
in_children(read_anew)
ended.set()
runner.join()
queue.deleter
""",
    "a thread begins to call Python": """
fast = D.from_generator(itertools.count, output_signature=tf.TensorSpec((), tf.int64))
ended = threading.Event()
def read():
    for number in fast.prefetch(1):
        if ended.is_set(): break
reader = threading.Thread(target=read)
reader.start()
in_children(lambda: os._exit(0), 200)
ended.set()
reader.join()
""",
    "an infeed goes on in the parent and fails in the child": """
queue, total = IPUInfeedQueue(source(), prefetch_depth=1), tf.Variable(0.0)
run = train(queue, total)
queue.initializer
def work():
    try:
        for i in range(3): run()
    except errors.FailedPreconditionError as error:
        assert "fork" in str(error)
    else:
        raise AssertionError("there is no thread to feed it")
    queue.deleter
    queue.initializer
    total.assign(0.0)
    run()
    assert float(total) == 6.0
    queue.deleter
in_children(work)
total.assign(0.0)
for i in range(3): run()
assert float(total) == sum(range(12)), float(total)
""",
    "prefetching": """
iterators = [iter(source().prefetch(3).batch(2).prefetch(2)) for i in range(3)]
for iterator in iterators: next(iterator)
def work():
    read_anew()
    try:
        next(iterators[0])
    except errors.FailedPreconditionError as error:
        assert "before fork()" in str(error)
    iterators.clear()
in_children(work)
for iterator in iterators: next(iterator)
""",
    "reading a cache": """
cached = source().take(200).cache()
def check():
    read_anew()
    assert [int(x) for x in cached] == list(range(200))
reader = threading.Thread(target=lambda: list(cached.prefetch(1)))
reader.start()
in_children(check)
reader.join()
check()
""",
    "mapping": """
shapes = D.from_generator(lambda: ([0.0] * (i % 7) for i in itertools.count()),
                          output_signature=tf.TensorSpec((None,), tf.float32))
mapped = shapes.map(lambda x: tf.reduce_sum(x))
iterator = iter(mapped.prefetch(2))
def work():
    assert len(list(mapped.take(9))) == 9
for i in range(3): next(iterator)
in_children(work)
""",
    "collecting": """
held = [iter(source().prefetch(1)) for i in range(4)]
def churn():
    while held:
        circle = []
        circle.append((circle, iter(source().prefetch(1))))
        next(circle[0][1])
        del circle
        gc.collect()
thread = threading.Thread(target=churn)
thread.start()
in_children(read_anew)
held.clear()
thread.join()
""",
    "multiprocessing": """
iterator = iter(source().prefetch(4))
next(iterator)
queue, total = IPUInfeedQueue(source()), tf.Variable(0.0)
queue.initializer
context = multiprocessing.get_context("fork")
with context.Pool(2) as pool:
    for turn in range(5):
        assert pool.apply_async(read_anew).get(30) is None
run = train(queue, total)
run()
queue.deleter
""",
    "a generator that forks": """
def forking():
    for i in range(3):
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        yield np.float32(i)
forks = D.from_generator(forking, output_signature=tf.TensorSpec((), tf.float32))
assert [int(x) for x in forks.prefetch(2)] == [0, 1, 2]
assert [int(x) for x in forks.cache().prefetch(1)] == [0, 1, 2]
""",
    "fit": """
model = ipu.keras.Sequential([ipu.keras.layers.Dense(1, input_shape=(1,))])
model.compile("sgd", "mse")
data = source().map(lambda x: (tf.reshape(x, [1]) * 0.001, tf.reshape(x, [1]) * 0.001))
data = data.batch(2, drop_remainder=True)
ended = threading.Event()
def work():
    while not ended.is_set():
        model.fit(data, steps_per_epoch=20, verbose=0)
runner = threading.Thread(target=work)
runner.start()
in_children(read_anew)
ended.set()
runner.join()
""",
}


@pytest.mark.parametrize("place", PROGRAMS)
def test_forked_children_end(place: str, programs: Programs, tmp_path: Path) -> None:
    text = "import faulthandler; faulthandler.enable()\n" + START + PROGRAMS[place]
    done = programs.run(["-c", text], tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
