"""fork() while other threads are in the middle of something: the child has the state
of one moment, and nothing in it waits for a thread that stayed in the parent."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def _run(folder: Path, source: str) -> str:
    program = folder / "program.py"
    program.write_text(source)
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "IPU_NUM_THREADS": "2"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


CHILD = """
import os, signal, threading, time
import numpy as np
import ipu
from ipu import tf

def in_child(check):
    pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        try:
            check()
        except BaseException as error:
            print("child:", repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, "the child hung or failed"
"""


def test_the_child_runs_the_program_that_another_thread_runs(tmp_path: Path) -> None:
    out = _run(
        tmp_path,
        CHILD
        + """
@tf.function
def count(turns, x):
    return tf.while_loop(
        lambda i, y: i < turns, lambda i, y: (i + 1, y * 0.5 + 1.0), (0, x))[1]

x = tf.constant(np.zeros((64, 64), np.float32))
count(tf.constant(3), x)
thread = threading.Thread(target=count, args=(tf.constant(400_000), x))
thread.start()
time.sleep(0.05)

def check():
    assert float(count(tf.constant(2), x).numpy()[0, 0]) == 1.5
    assert float((x + 1.0).numpy().sum()) == 64 * 64

for _ in range(3):
    assert thread.is_alive()
    in_child(check)
thread.join()
print("done")
""",
    )
    assert out == "done\n"


def test_the_child_reads_variables_while_the_parent_trains(tmp_path: Path) -> None:
    out = _run(
        tmp_path,
        CHILD
        + """
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    v = tf.Variable(2.0)
    counter = tf.Variable(0.0)

@tf.function
def train(steps):
    def body():
        counter.assign_add(v)
    return ipu.loops.repeat(steps, body)

strategy.run(train, args=[4])
thread = threading.Thread(target=lambda: strategy.run(train, args=[300_000]))
thread.start()

def check():
    assert float(v.numpy()) == 2.0
    v.assign(5.0)
    counter.assign(0.0)
    strategy.run(train, args=[4])
    assert float(counter.numpy()) == 20.0

for _ in range(5):
    in_child(check)
thread.join()
print("done")
""",
    )
    assert out == "done\n"


def test_an_infeed_whose_thread_is_in_the_parent_is_an_error(tmp_path: Path) -> None:
    out = _run(
        tmp_path,
        CHILD
        + """
from ipu import ipu_infeed_queue

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    total = tf.Variable(0.0)
dataset = tf.data.Dataset.from_tensors(tf.constant(1.0)).repeat()
queue = ipu_infeed_queue.IPUInfeedQueue(dataset)

@tf.function
def train():
    def body(x):
        total.assign_add(x)
    return ipu.loops.repeat(4, body, infeed_queue=queue)

queue.initializer
strategy.run(train)

def check():
    try:
        for _ in range(100):  # some elements may be there
            strategy.run(train)
    except tf.errors.FailedPreconditionError as error:
        assert "forked" in str(error), error
    else:
        raise AssertionError("no error")

in_child(check)
strategy.run(train)
assert float(total.numpy()) == 8.0
print("done")
""",
    )
    assert out == "done\n"


def test_nothing_of_a_run_of_several_streams_is_left_in_the_child(
    tmp_path: Path,
) -> None:
    """At the fork replica 0 has enqueued, and the others are in the middle of a loop,
    each with a workspace."""
    out = _run(
        tmp_path,
        CHILD
        + """
from ipu import loops, replication_ops
from ipu.ipu_outfeed_queue import IPUOutfeedQueue

ipu.set_num_threads(8)
config = ipu.config.IPUConfig()
config.auto_select_ipus = 8
config.configure_ipu_system()
out, total = IPUOutfeedQueue(), tf.Variable(0.0)
zeros = np.zeros((128, 128), np.float32)

@tf.function(jit_compile=True)
def run(turns, x, first):
    def body():
        index = replication_ops.replication_index()
        total.assign_add(1.0)
        y = tf.while_loop(
            lambda i, y: i < turns * index, lambda i, y: (i + 1, y @ y), (0, x))[1]
        out.enqueue(tf.cast(index, tf.float32) + first + y[0, 0] + total)
    loops.repeat(3, body)

run(0, zeros, 0.0)
out.dequeue()
thread = threading.Thread(target=lambda: run(1 << 30, zeros, 0.0), daemon=True)
thread.start()
time.sleep(0.2)

def check():
    before = float(total)
    run(0, zeros, 10.0)
    rows = [[before + 10.0 + i + r for r in range(8)] for i in (1, 2, 3)]
    assert out.dequeue().numpy().tolist() == rows

in_child(check)
in_child(check)
print("done", flush=True)
os._exit(0)
""",
    )
    assert out == "done\n"
