# SPDX-License-Identifier: MIT
"""Every place where a thread waits, tried in two ways. While another thread waits there
the process forks, and the child, in which that thread is not, runs programs and reads
data. Then the main thread waits there, and Ctrl-C is a KeyboardInterrupt.

Each wait ends when `go` is set and not before, so what does not end by itself hangs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

START = """
import itertools, os, signal, sys, threading, time, warnings
import numpy as np
import ipu
from ipu import keras, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue, IPUOutfeedQueueIterator
from ipu.tf._functions.function import DeviceFunction

warnings.simplefilter("ignore")  # of threads and fork()
D = tf.data.Dataset
go, there = threading.Event(), threading.Event()

def stop_here():
    there.set()
    go.wait()

def numbers():
    yield np.float32(1.0)
    stop_here()
    for _ in itertools.repeat(None):
        yield np.float32(2.0)

def source():
    return D.from_generator(numbers, output_signature=tf.TensorSpec((), tf.float32))

def fed(dataset):
    queue = IPUInfeedQueue(dataset, prefetch_depth=1)
    queue.initializer
    return queue

def adding(total, queue, count=3):
    return DeviceFunction(lambda: loops.repeat(count, total.assign_add_, [], queue))

class Total(tf.Variable):
    def assign_add_(self, x):
        self.assign_add(x)

def in_background(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    there.wait()
    time.sleep(0.1)  # from `there` into the wait itself
    return thread

def check():
    total, out = Total(0.0), IPUOutfeedQueue()
    assert float(DeviceFunction(lambda x: x * 2.0)(tf.constant(4.0))) == 8.0
    queue = fed(D.from_tensor_slices(np.arange(8, dtype=np.float32)))
    def body(x):
        total.assign_add(x)
        out.enqueue(x)
    run = DeviceFunction(lambda: loops.repeat(4, body, [], queue))
    run()
    run()
    assert float(total) == 28.0 and len(out.dequeue()) == 8
    queue.deleter
    read = D.range(9).map(lambda x: x + 1).prefetch(2).take(2)
    assert [int(x) for x in read] == [1, 2]
"""

# `make()` gives what waits; `again()` is what the child does with it besides
WAITS = {
    "a program at its infeed": """
total = Total(0.0)
def make():
    return adding(total, fed(source()))
def again():
    assert float(total) in (0.0, 1.0)
    total.assign(5.0)
    assert float(total) == 5.0
""",
    "a replicated program at its infeed": """
config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
total, out = Total(0.0), IPUOutfeedQueue()
def body(x):
    total.assign_add(x)
    out.enqueue(total)
def make():
    queue = fed(source())
    return DeviceFunction(lambda: loops.repeat(3, body, [], queue))
def check():
    queue = fed(D.from_tensor_slices(np.arange(8, dtype=np.float32)))
    total.assign(0.0)
    out.dequeue()
    DeviceFunction(lambda: loops.repeat(2, body, [], queue))()
    assert out.dequeue().numpy().tolist() == [[0.0, 1.0], [2.0, 4.0]]
""",
    "a program that waits for another one": """
def make():
    first = adding(Total(0.0), fed(source()))
    second = DeviceFunction(lambda x: x + 1.0)
    second(tf.constant(1.0))
    def wait():
        in_background(first)
        second(tf.constant(1.0))
    global again
    def again():
        assert float(second(tf.constant(1.0))) == 2.0
    return wait
""",
    "another thread's run of the same function": """
def make():
    run = adding(Total(0.0), fed(source()))
    def wait():
        in_background(run)
        run()
    return wait
""",
    "a variable while a step waits for data": """
def make():
    total, queue = Total(0.0), fed(source())
    def body():
        total.assign_add(1.0)  # so that the step has to end first
        total.assign_add(queue._dequeue())
    run = DeviceFunction(lambda: loops.repeat(3, body))
    def wait():
        in_background(run)
        total.numpy()
    global again
    def again():
        total.assign(7.0)
        assert float(total) == 7.0
    return wait
""",
    "results of a run": """
def make():
    queue, out = fed(source()), IPUOutfeedQueue()
    run = DeviceFunction(lambda: loops.repeat(3, lambda x: out.enqueue(x), [], queue))
    def wait():
        in_background(run)
        out.dequeue(wait_for_completion=True)
    global again
    def again():
        assert len(out.dequeue()) <= 1
    return wait
""",
    "the next result of a run": """
def make():
    queue, out = fed(source()), IPUOutfeedQueue()
    run = DeviceFunction(lambda: loops.repeat(3, lambda x: out.enqueue(x), [], queue))
    def wait():
        in_background(run)
        for _ in zip(range(2), IPUOutfeedQueueIterator(out, wait=True)): pass
    return wait
""",
    "another thread's trace of the same function": """
def traced(x):
    if threading.current_thread() is not threading.main_thread():
        stop_here()
    return x + 1.0
def make():
    run = DeviceFunction(traced)
    def wait():
        in_background(lambda: run(tf.constant(1.0)))
        run(tf.constant(1.0))
    global again
    def again():
        assert float(run(tf.constant(1.0))) == 2.0
    return wait
""",
    "another thread's conversion of a function": """
from ipu.tf.autograph import _convert
def make():
    def hold():
        with _convert._lock:
            stop_here()
    def wait():
        in_background(hold)
        with _convert._lock: pass
    return wait
def again():
    @tf.function(jit_compile=True)
    def halve(x):
        while x > 1.0:
            x = x / 2.0
        return x
    assert float(halve(tf.constant(8.0))) == 1.0
""",
    "an element that is read ahead": """
def make():
    return lambda: [*source().prefetch(2).batch(2).prefetch(1).take(2)]
""",
    "another reader of a cache": """
def make():
    cached = source().take(3).cache()
    def wait():
        in_background(lambda: list(cached))
        list(cached)
    return wait
""",
    "a generator": """
def make():
    return lambda: [*source().take(3)]
""",
    "calls in parallel": """
def slow(word):
    stop_here()
    return tf.constant(1.0)
def make():
    words = D.from_tensor_slices([str(n) for n in range(9)])
    return lambda: [*words.map(slow, num_parallel_calls=3)]
""",
    "a feeder's end": """
def make():
    queue = fed(source())
    adding(Total(0.0), queue, 1)()
    there.wait()
    return lambda: queue.deleter
""",
    "fit from a data set": """
def make():
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse", steps_per_execution=2)
    data = source().map(lambda x: (tf.reshape(x, [1]), tf.reshape(x, [1]) * 0.01))
    data = data.batch(1, drop_remainder=True)
    return lambda: model.fit(data, steps_per_epoch=4, verbose=0)
""",
    "fit from a generator": """
def make():
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    batches = ((np.full((2, 1), x), np.full((2, 1), 0.01 * x)) for x in numbers())
    return lambda: model.fit(batches, steps_per_epoch=4, verbose=0)
""",
    "the end of programs before a new configuration": """
def make():
    run = adding(Total(0.0), fed(source()))
    def wait():
        in_background(run)
        ipu.config.reset_ipu_configuration()
    return wait
""",
}

TRIES = """
def again(): pass
{wait}
def fork():
    child = os.fork()
    if child == 0:
        signal.alarm(15)
        code = 1
        try:
            again()
            check()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0, "the child hangs or fails"

thread = in_background(make())
fork()
fork()
go.set()
thread.join()
check()

go.clear()
there.clear()
work = make()
ended = threading.Event()
def interrupt():
    there.wait()
    if not ended.wait(0.2):  # from `there` into the wait itself
        print("signal", flush=True)
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    work()
except KeyboardInterrupt:
    print("interrupted", flush=True)
ended.set()
go.set()
check()
print("done", flush=True)
os._exit(0)
"""


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_ends_in_a_child_and_by_ctrl_c(wait: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(START + TRIES.format(wait=WAITS[wait]))
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.split() == ["signal", "interrupted", "done"]


# what a generator does while the program that it feeds waits for it, read ahead or not
CIRCLES = {
    "another program": ("double(tf.constant(1.0))", ""),
    "another program, ahead": ("double(tf.constant(1.0))", ".prefetch(2)"),
    "the same program": ("run()", ""),
    "a variable": ("total.numpy()", ""),
    "writing a variable": ("total.assign(1.0)", ".prefetch(2)"),
}


@pytest.mark.parametrize("circle", CIRCLES)
def test_who_feeds_a_program_cannot_wait_for_its_end(
    circle: str, tmp_path: Path
) -> None:
    work, ahead = CIRCLES[circle]
    program = tmp_path / "program.py"
    program.write_text(
        START
        + f"""
total, double = Total(0.0), DeviceFunction(lambda x: x + x)
double(tf.constant(1.0))

def feeding():
    yield np.float32(1.0)
    go.wait()  # for the run to wait for the second element
    {work}
    yield np.float32(2.0)

spec = tf.TensorSpec((), tf.float32)
queue = fed(D.from_generator(feeding, output_signature=spec){ahead})
def body():
    total.assign_add(1.0)
    total.assign_add(queue._dequeue())
run = DeviceFunction(lambda: loops.repeat(2, body))
threading.Timer(0.2, go.set).start()
try:
    run()
except tf.errors.FailedPreconditionError as error:
    assert "waits for its element" in str(error), error
    print("refused", flush=True)
queue.deleter
assert float(total) == 3.0  # of the second step what it did before it waited
check()
print("done", flush=True)
"""
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.split() == ["refused", "done"]


@pytest.mark.usefixtures("ctrl_c")
def test_a_signal_of_the_moment_before_a_run_ends_it(tmp_path: Path) -> None:
    """The signal comes when Python has looked for signals for the last time."""
    program = tmp_path / "program.py"
    program.write_text(
        START
        + """
import ctypes
queue, total = fed(source()), Total(0.0)
def train(x):
    loops.repeat(3, total.assign_add_, [], queue)
    return x
run = DeviceFunction(train)
core = run.traced(tf.constant(0)).program
send = ctypes.CDLL(None)["raise"]  # gives 0
try:
    core.run(map(send, [signal.SIGINT]))
except KeyboardInterrupt:
    print("interrupted", flush=True)
go.set()
check()
print("done", flush=True)
os._exit(0)
"""
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.split() == ["interrupted", "done"]


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_a_run_in_a_child_of_another_thread(tmp_path: Path) -> None:
    """The process forks while the main thread is in a run, with its handler."""
    program = tmp_path / "program.py"
    program.write_text(
        START
        + """
run = DeviceFunction(lambda: loops.repeat(1 << 30, lambda x: x + 1.0, [0.0]))

def fork():
    there.wait()
    time.sleep(0.2)
    child = os.fork()
    if child > 0:
        status = os.waitpid(child, 0)[1]
        print("child", status, flush=True)
        os._exit(0)
    signal.alarm(15)
    for _ in range(2):  # the flag of the first one is not seen by the second one
        check()
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            DeviceFunction(lambda: loops.repeat(1 << 30, lambda x: x + 1.0, [0.0]))()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    os._exit(0)

threading.Thread(target=fork, daemon=True).start()
there.set()
run()
"""
    )
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == ["interrupted", "interrupted", "child", "0"]
