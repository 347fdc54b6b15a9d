# SPDX-License-Identifier: MIT
"""Python in the middle of programs: tf.py_function, outside_compilation_scope."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import loops, pipelining_ops, scopes, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.tf import errors


def on_ipu(function: Any, *args: Any) -> Any:
    strategy = IPUStrategy()
    with strategy.scope():
        return strategy.run(tf.function(function, jit_compile=True), args)


def outside(function: Any, args: Any, kind: Any = tf.float32) -> Any:
    with scopes.outside_compilation_scope():
        return tf.py_function(function, args, kind)


def test_numpy_in_the_middle_of_a_device_program() -> None:
    def net(x: Any) -> Any:
        with scopes.outside_compilation_scope():
            y = tf.numpy_function(np.sort, [x * x], tf.float32)
        return y + 1.0

    found = on_ipu(net, tf.constant([3.0, -1.0, 2.0]))
    assert found.numpy().tolist() == [2.0, 5.0, 10.0]


def test_an_ipu_calls_python_in_the_scope_alone() -> None:
    with pytest.raises(NotImplementedError, match="outside_compilation_scope"):
        on_ipu(lambda x: tf.py_function(abs, [x], tf.float32), tf.ones(1))


def test_scopes_do_not_nest() -> None:
    def nested() -> Any:
        with scopes.outside_compilation_scope(), scopes.outside_compilation_scope():
            return tf.constant(1.0)

    with pytest.raises(ValueError, match="nesting"):
        on_ipu(nested)


def test_each_turn_of_a_loop_calls_it_in_order() -> None:
    seen: list[float] = []

    def body(x: Any) -> Any:
        def double(value: Any) -> Any:
            seen.append(float(value))
            return value * 2.0

        return outside(double, [x])

    found = on_ipu(lambda x: loops.repeat(4, body, [x]), tf.constant(1.5))
    assert float(found) == 24.0 and seen == [1.5, 3.0, 6.0, 12.0]


def test_gradients_are_those_of_its_ops_also_through_a_loop() -> None:
    def net(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loops.repeat(3, lambda v: outside(tf.square, [v]), [x])
        return y, tape.gradient(y, x)

    value, slope = on_ipu(net, tf.constant(1.1))
    assert float(value) == pytest.approx(1.1**8, rel=1e-6)
    assert float(slope) == pytest.approx(8 * 1.1**7, rel=1e-6)


def test_gradients_under_a_tape_and_of_several_results() -> None:
    @tf.function
    def both(x: Any, n: Any) -> Any:
        return tf.py_function(
            lambda a, k: (a * a, k + 1, a * 3.0),
            [x, n],
            [tf.float32, tf.TensorSpec([], tf.int32), tf.float32],
        )

    x = tf.Variable([2.0, 5.0])
    with tf.GradientTape() as tape:
        square, count, triple = both(x, 4)
        y = square + triple
    assert count.numpy().tolist() == 5
    np.testing.assert_allclose(tape.gradient(y, x), 2 * x.numpy() + 3)
    with tf.GradientTape() as tape:
        found = tf.function(lambda: tf.numpy_function(np.sin, [x], tf.float32))()
    assert tape.gradient(found, x) is None


def test_it_is_called_though_nobody_uses_the_result() -> None:
    seen: list[int] = []

    @tf.function
    def told(x: Any) -> Any:
        tf.py_function(lambda a: seen.append(int(a)), [x], [])
        tf.py_function(lambda a: seen.append(-int(a)) or a, [x], tf.int32)
        tf.py_function(lambda a: seen.append(-int(a)) or a, [x], tf.int32)
        return x + 1

    assert int(told(tf.constant(7))) == 8 and seen == [7, -7, -7]


def test_shapes_are_said_beforehand() -> None:
    @tf.function
    def shaped(x: Any) -> Any:
        total = tf.py_function(lambda a: tf.reduce_sum(a, 0), [x], tf.float32)
        total.set_shape([2])
        first = tf.numpy_function(lambda a: a[:1], [x], tf.float32)
        first = tf.ensure_shape(first, [1, 2])
        most = tf.numpy_function(np.max, [x], tf.TensorSpec([], tf.float32))
        return total * 1.0, first, most

    total, first, most = shaped(tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    assert total.numpy().tolist() == [4.0, 6.0] and float(most) == 4.0
    assert first.numpy().tolist() == [[1.0, 2.0]]

    @tf.function
    def used(x: Any) -> Any:
        y = tf.numpy_function(np.sum, [x], tf.float32)
        z = y + 1.0
        y.set_shape([])
        return z

    with pytest.raises(ValueError, match="not compatible"):
        used(tf.ones(3))


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        (lambda a: a[None], tf.float32, r"shape \(1, 3\).*compiled for \(3,\)"),
        (lambda a: (a, a), [tf.float32], "2 results, but `Tout` names 1"),
        (lambda a: a, [tf.float32, tf.float32], "1 results, but `Tout` names 2"),
    ],
)
def test_results_that_are_not_as_said(function: Any, kind: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tf.function(lambda x: tf.py_function(function, [x], kind))(tf.ones(3))


def test_a_result_that_the_device_cannot_hold() -> None:
    assert int(on_ipu(lambda x: outside(lambda a: a, [x], tf.int64), 5)) == 5
    with pytest.raises(ValueError, match="int32"):
        on_ipu(lambda x: outside(lambda _: 2**40, [x], tf.int64), 5)


def test_an_error_has_the_users_traceback_and_the_next_run_works() -> None:
    calls = [0]

    def fails_first(a: Any) -> Any:
        calls[0] += 1
        if calls[0] == 1:
            raise KeyError("mine")
        return a

    function = tf.function(lambda x: tf.py_function(fails_first, [x], tf.float32))
    with pytest.raises(KeyError, match="mine") as info:
        function(tf.constant(2.0))
    frames = [entry.name for entry in info.traceback]
    assert frames[-1] == "fails_first"
    assert float(function(tf.constant(2.0))) == 2.0


def test_the_device_is_at_work_meanwhile() -> None:
    variable = tf.Variable(1.0)
    doubled = tf.function(lambda x: x * 2.0)
    for function in (lambda a: a + variable, doubled, lambda a: variable.assign(a)):
        with pytest.raises(errors.FailedPreconditionError, match="same device"):
            on_ipu(lambda x, f=function: outside(f, [x]), tf.constant(1.0))
    assert float(variable) == 1.0


@pytest.mark.usefixtures("two_ipus")
def test_stages_of_a_pipeline_call_it_on_the_thread_of_the_run() -> None:
    names: set[str] = set()

    def host(a: Any) -> Any:
        names.add(threading.current_thread().name)
        return a * 2.0

    def trained(is_host: bool) -> Any:
        data = np.arange(32, dtype=np.float32)
        rows = tf.data.Dataset.from_tensor_slices(data).batch(2, drop_remainder=True)
        infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(rows.repeat())
        outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
        weights = [tf.Variable(1.5), tf.Variable(0.5)]
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(1e-4)
        assert infeed.initializer is None

        def doubled(x: Any) -> Any:
            return outside(host, [x]) if is_host else x * 2.0

        def step() -> None:
            pipelining_ops.pipeline(
                [
                    lambda x: doubled(x * weights[0]),
                    lambda y: tf.reduce_mean(tf.square(doubled(y) * weights[1])),
                ],
                gradient_accumulation_count=4,
                repeat_count=3,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=lambda loss: pipelining_ops.OptimizerFunctionOutput(
                    optimizer, loss
                ),
                device_mapping=[0, 1],
            )

        on_ipu(step)
        return [v.numpy() for v in weights], outfeed.dequeue()[0].numpy()

    (with_host, losses), (plain, expected) = trained(True), trained(False)
    assert with_host == plain and losses.tolist() == expected.tolist()
    assert names == {threading.current_thread().name}


@pytest.mark.usefixtures("two_ipus")
def test_each_replica_calls_it() -> None:
    seen: list[int] = []

    def told(index: Any) -> Any:
        seen.append(int(index))
        return index + 1

    def net() -> Any:
        index = ipu.replication_ops.replication_index()
        number = tf.cast(outside(told, [index], tf.int32), tf.float32)
        return ipu.cross_replica_ops.cross_replica_sum(number)

    assert float(on_ipu(net)) == 3.0 and sorted(seen) == [0, 1]


def test_programs_do_not_keep_functions_alive() -> None:
    import gc
    import weakref

    class Owner:
        def call(self, a: Any) -> Any:
            return a

        def __init__(self) -> None:
            self.run = tf.function(lambda x: tf.py_function(self.call, [x], tf.float32))

    owner = Owner()
    owner.run(tf.constant(1.0))
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_reaches_it() -> None:
    count = tf.Variable(0)

    @tf.function
    def sleeping(x: Any) -> Any:
        def body(a: Any) -> Any:
            count.assign_add(1)
            return tf.py_function(lambda b: time.sleep(60) or b, [a], tf.float32)

        return loops.repeat(3, body, [x])

    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        sleeping(tf.constant(1.0))
    timer.join()
    assert time.monotonic() - begin < 30 and int(count) == 1


def test_it_may_fork_and_start_processes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import os, subprocess
from ipu import tf

def host(a):
    pid = os.fork()
    if pid == 0:
        os._exit(int(float(tf.constant(1.0) + 2.0)))
    code = os.WEXITSTATUS(os.waitpid(pid, 0)[1])
    return code + float(subprocess.check_output(["echo", "5"]))

def goes_on(a):
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0
    return a

called = tf.function(lambda x: tf.py_function(host, [x], tf.float32))
assert float(called(tf.constant(1.0))) == 8.0
mine = os.getpid()
forking = tf.function(lambda x: tf.py_function(goes_on, [x], tf.float32) + 1.0)
assert float(forking(tf.constant(2.0))) == 3.0
assert float(called(tf.constant(1.0))) == 8.0
print("parent" if os.getpid() == mine else "child", flush=True)
"""
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["child", "parent"]
