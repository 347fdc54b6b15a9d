"""Ctrl-C while data is fed or read: it is a KeyboardInterrupt at once, however long the
generator takes; the thread is left behind, and harms nobody when it comes back.

Each program runs in a process of its own and gets its SIGINT when it says that it is
where it should be. The generators wait for an event that is never set, or not before
the interrupt has been handled: without an answer to Ctrl-C the process hangs.
"""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from looks import interrupted_everywhere

from ipu import scopes, tf
from ipu._device.thread_state import here
from ipu.ipu_strategy import IPUStrategy
from ipu.tf.compat import v1

D = tf.data.Dataset

START = """
import itertools, os, signal, sys, threading, time
import numpy as np
import ipu
from ipu import loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue, IPUOutfeedQueueIterator
from ipu.tf._functions.function import DeviceFunction

D = tf.data.Dataset
go, stuck, left = threading.Event(), threading.Event(), []

def ready():
    print("ready", flush=True)

def numbers(count=3):
    # the first ones at once, then none for as long as `go` is not set
    try:
        for i in range(count):
            yield np.full(2, i, np.float32)
        ready()
        stuck.set()
        while not go.wait(0.5): pass  # Python can miss a signal as it falls asleep
        for i in itertools.count(count):
            yield np.full(2, i, np.float32)
    finally:
        left.append(True)

def quiet():
    yield from (np.full(2, i, np.float32) for i in range(3))
    go.wait()
    yield from (np.full(2, i, np.float32) for i in range(3, 9))

def source(count=3):
    spec = tf.TensorSpec((2,), tf.float32)
    return D.from_generator(numbers, args=(count,), output_signature=spec)

"""

PROGRAMS = {
    "iterating": "for x in source(): pass",
    "iterating a prefetch": "for x in source().prefetch(2): pass",
    "iterating prefetches": "for x in source().prefetch(2).batch(2).prefetch(1): pass",
    "iterating a cache": "for x in source().cache().prefetch(1): pass",
    "interleaving": """
nested = D.range(2).interleave(lambda i: source().prefetch(1), cycle_length=1)
for x in nested.prefetch(1): pass
""",
    "waiting for another reader of a cache": """
cached = source().cache()
threading.Thread(target=lambda: list(cached), daemon=True).start()
stuck.wait()
for x in cached: pass
""",
    "a long way to the first element": """
threading.Timer(0.3, ready).start()
next(iter(D.range(10**18).skip(10**17)))
""",
    "a filter that lets nothing through": """
threading.Timer(0.3, ready).start()
next(iter(D.range(10**18).filter(lambda x: x < 0)))
""",
    "the buffer of a shuffle": """
threading.Timer(0.3, ready).start()
next(iter(D.range(10**18).shuffle(10**18).skip(10**18)))
""",
    "a program at its infeed": """
queue = IPUInfeedQueue(source())
total = tf.Variable(0.0)
step = lambda x: total.assign_add(tf.reduce_sum(x))
queue.initializer
DeviceFunction(lambda: loops.repeat(10, lambda x: (step(x), None)[1], [], queue))()
""",
    "a program at the infeed of a prefetch": """
queue = IPUInfeedQueue(source().prefetch(2).map(lambda x: x))
total = tf.Variable(0.0)
step = lambda x: total.assign_add(tf.reduce_sum(x))
queue.initializer
DeviceFunction(lambda: loops.repeat(10, lambda x: (step(x), None)[1], [], queue))()
""",
    "a pipeline at its infeed": """
config = ipu.config.IPUConfig()
config.auto_select_ipus = 2
config.configure_ipu_system()
queue = IPUInfeedQueue(source(5))
queue.initializer
out = IPUOutfeedQueue()
stages = [lambda x: x * 2.0, tf.reduce_sum]
run = lambda: ipu.pipelining_ops.pipeline(
    stages, 4, repeat_count=3, infeed_queue=queue, outfeed_queue=out)
DeviceFunction(run)()
""",
    "deleting an infeed": """
queue = IPUInfeedQueue(source(0))
queue.initializer
stuck.wait()
queue.deleter
""",
    "waiting for an outfeed": """
out = IPUOutfeedQueue()
run = DeviceFunction(lambda: loops.repeat(2, lambda: out.enqueue(1.0)))
run()
out.dequeue()
threading.Timer(0.3, ready).start()
next(IPUOutfeedQueueIterator(out, wait=True))
""",
    "fit": """
model = ipu.keras.Sequential([ipu.keras.layers.Dense(1, input_shape=(2,))])
model.compile("sgd", "mse")
data = source().map(lambda x: (x, x[:1])).batch(2, drop_remainder=True)
model.fit(data, steps_per_epoch=4, verbose=0)
""",
    "fit with a progress bar": """
model = ipu.keras.Sequential([ipu.keras.layers.Dense(1, input_shape=(2,))])
model.compile("sgd", "mse", steps_per_execution=4)
data = source().map(lambda x: (x, x[:1])).batch(1, drop_remainder=True).prefetch(1)
model.fit(data, steps_per_epoch=8, verbose=1)
""",
    "predict": """
model = ipu.keras.Sequential([ipu.keras.layers.Dense(1, input_shape=(2,))])
model.predict(source().batch(2, drop_remainder=True), steps=4)
""",
}

pytestmark = pytest.mark.usefixtures("ctrl_c")

CAUGHT = """
try:
{program}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def interrupt(code: str, signals: int = 1) -> tuple[int, str, str]:
    """Run the code; send SIGINT at each "ready". Its return code and what it says."""
    with subprocess.Popen(
        [sys.executable, "-c", START + code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        try:
            while signals > 0:
                line = process.stdout.readline()
                assert line, process.stderr.read() if process.stderr else ""
                if line.strip() == "ready":
                    process.send_signal(signal.SIGINT)
                    signals -= 1
                else:
                    said += line
            out, errors = process.communicate(timeout=20)
        except BaseException:
            process.kill()
            raise
        return process.returncode, (said + out).replace("ready\n", ""), errors


@pytest.mark.parametrize("place", PROGRAMS)
def test_ctrl_c_is_answered(place: str) -> None:
    body = "".join(f"    {line}\n" for line in PROGRAMS[place].strip().splitlines())
    code, said, errors = interrupt(CAUGHT.format(program=body))
    assert "interrupted" in said, errors
    assert code == 0, errors


@pytest.mark.parametrize("place", ["iterating prefetches", "fit", "deleting an infeed"])
def test_a_process_that_ctrl_c_ends_goes(place: str) -> None:
    """Nobody catches it: the process ends, with the thread in the generator."""
    code, _, errors = interrupt(PROGRAMS[place])
    assert code == -signal.SIGINT
    assert errors.strip().endswith("KeyboardInterrupt")


def test_what_was_left_behind_harms_nobody() -> None:
    """The thread comes back into a process that has gone on, with its queue in use."""
    code, said, errors = interrupt("""
queue = IPUInfeedQueue(source())
total = tf.Variable(tf.zeros(2))
def step(x):
    total.assign_add(x)
run = DeviceFunction(lambda: loops.repeat(5, step, [], queue))
queue.initializer
try:
    run()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    queue.deleter
queue._dataset = D.from_tensor_slices(np.ones((10**5, 2), np.float32))
queue.initializer
total.assign([0.0, 0.0])
for turn in range(20):
    run()
    go.set()
while not left:
    time.sleep(0.01)
for turn in range(20):
    run()
print(total.numpy().tolist())
queue.deleter
""")
    assert code == 0, errors
    assert said.splitlines() == ["interrupted", "[200.0, 200.0]"]


def test_a_data_set_is_read_again_after_ctrl_c() -> None:
    """A cache loses nothing, and an iterator goes on behind its last element."""
    code, said, errors = interrupt(
        """
seen = []
cached = source().cache()
spec = tf.TensorSpec((2,), tf.float32)
iterator = iter(D.from_generator(quiet, output_signature=spec).prefetch(1))
try:
    list(cached)
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    for x in iterator:
        seen.append(float(x.numpy()[0]))
        if len(seen) == 3:
            threading.Timer(0.2, ready).start()
except KeyboardInterrupt:
    print("interrupted", flush=True)
go.set()
print([float(x.numpy()[0]) for x in cached.take(5)])
while len(seen) < 5:
    seen.append(float(next(iterator).numpy()[0]))
print(seen)
""",
        2,
    )
    assert code == 0, errors
    numbers = "[0.0, 1.0, 2.0, 3.0, 4.0]"
    assert said.splitlines() == ["interrupted", "interrupted", numbers, numbers]


def test_a_handler_of_ones_own_is_called() -> None:
    """What it raises is raised; where it raises nothing, the wait goes on."""
    code, said, errors = interrupt("""
class Stop(Exception): pass
def handler(number, frame):
    print("handler", flush=True)
    if go.is_set():
        return
    raise Stop
signal.signal(signal.SIGINT, handler)
try:
    list(source().prefetch(1))
except Stop:
    print("stopped", flush=True)
""")
    assert code == 0, errors
    assert said.splitlines() == ["handler", "stopped"]
    code, said, errors = interrupt("""
def handler(number, frame):
    print("handler", flush=True)
    go.set()
signal.signal(signal.SIGINT, handler)
print(len(list(source().take(5).prefetch(1))))
""")
    assert code == 0, errors
    assert said.splitlines() == ["handler", "5"]


def test_no_ctrl_c_is_lost_where_c_asks_python() -> None:
    """The name of a dtype of NumPy is a function of Python's, and so are generators."""

    rows = D.from_generator(lambda: [np.ones(2, "f4")], np.dtype("f4"), (2,))

    def act() -> None:
        (row,) = rows
        assert tf.constant(row.numpy(), np.float32).shape == (2,)

    act()
    assert interrupted_everywhere(act, lambda: None) > 50


def _scoped(scope: Callable[[], Any]) -> Callable[[], None]:
    def act() -> None:
        with scope():
            len("work")

    return act


@pytest.mark.parametrize(
    "act",
    [
        _scoped(IPUStrategy().scope),
        _scoped(lambda: tf.device("/device:IPU:0")),
        _scoped(lambda: scopes.ipu_shard(0)),
        _scoped(v1.Graph().as_default),
        _scoped(v1.Session(graph=v1.Graph()).as_default),
        lambda: tf.function(lambda x: x + 1.0)(1.0),
    ],
)
def test_ctrl_c_leaves_no_scope_open(act: Callable[[], None]) -> None:
    """Wherever it comes, once all that its error holds is gone."""

    def state() -> dict[str, Any]:
        kinds = (int, bool, type(None))
        known = {**vars(here), "name_counts": None}
        found = {name: one for name, one in known.items() if isinstance(one, kinds)}
        return found | {
            k: len(one) for k, one in known.items() if isinstance(one, list)
        }

    act()
    before = state()

    def check() -> None:
        if state() != before:
            gc.collect()
        assert state() == before

    assert interrupted_everywhere(act, check) > 5
