"""Functions as device programs: tracing, loops, queues, gradients, determinism."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

import ipu
from ipu import config, loops, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu.tf._functions.function import DeviceFunction, scratch_trace, trace_program
from ipu.tf._ops import updates


@pytest.fixture(autouse=True)
def _threads() -> object:
    before = ipu.num_threads()
    yield
    ipu.set_num_threads(before)


def test_a_function_is_traced_once_for_each_signature() -> None:
    traces = []

    def f(x: tf.Tensor, k: int) -> tf.Tensor:
        traces.append(1)
        return x * k

    compiled = DeviceFunction(f)
    np.testing.assert_array_equal(compiled(np.ones(3, np.float32), 2), [2, 2, 2])
    np.testing.assert_array_equal(compiled(tf.ones(3), 2), [2, 2, 2])
    assert len(traces) == 1
    compiled(tf.ones(4), 2)
    compiled(tf.ones(3), 3)
    assert len(traces) == 3


def test_results_keep_their_structure() -> None:
    f = DeviceFunction(lambda x: {"a": (x, 1), "b": [x + 1, None]})
    out = f(tf.ones(2))
    assert out["a"][1] == 1 and out["b"][1] is None
    np.testing.assert_array_equal(out["b"][0], [2, 2])


def test_float64_is_refused_on_the_device() -> None:
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope(), pytest.raises(TypeError, match="float64"):
        DeviceFunction(lambda x: x)(np.zeros(2))
    assert DeviceFunction(lambda x: x)(np.zeros(2)).dtype == tf.float32
    host = trace_program(lambda x: x * 2, [tf.TensorSpec((2,), tf.float64)], host=True)
    np.testing.assert_array_equal(host.program.run([np.ones(2)])[0], [2, 2])


def test_errors_name_the_user_s_line() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        return tf.matmul(x, x)  # this line

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{__file__}:{line}"):
        DeviceFunction(f)(tf.ones((2, 3)))


def test_a_tensor_does_not_leave_its_function() -> None:
    kept: list[tf.Tensor] = []
    DeviceFunction(lambda x: kept.append(x) or x)(tf.ones(2))
    with pytest.raises(TypeError, match="outside"):
        kept[0] + 1
    with pytest.raises(TypeError, match="outside"):
        DeviceFunction(lambda x: x + kept[0])(tf.ones(2))
    with pytest.raises(TypeError, match="has no value there"):
        kept[0].numpy()


def test_a_failed_trace_leaves_nothing_open() -> None:
    def f(x: tf.Tensor) -> tf.Tensor:
        loops.repeat(2, lambda a: 1 / 0, [x])
        return x

    with pytest.raises(ZeroDivisionError):
        DeviceFunction(f)(tf.ones(2))
    assert float(tf.ones(()) + 1) == 2.0


# --- loops -------------------------------------------------------------------------


def test_repeat_carries_values() -> None:
    def f(n: tf.Tensor, x: tf.Tensor) -> object:
        return loops.repeat(n, lambda i, v: [i + 1, v * 2.0], [0, x])

    run = DeviceFunction(f)
    for n in (0, 1, 5, -3):
        i, v = run(np.int32(n), np.float32(3.0))
        assert int(i) == max(n, 0)
        assert float(v) == 3.0 * 2 ** max(n, 0)


def test_repeat_swaps_values() -> None:
    f = DeviceFunction(lambda a, b: loops.repeat(3, lambda x, y: [y, x], [a, b]))
    a, b = f(np.float32(1), np.float32(2))
    assert (float(a), float(b)) == (2.0, 1.0)


def test_nested_loops() -> None:
    def outer(total: tf.Tensor) -> tf.Tensor:
        return loops.repeat(4, lambda t: t + 1, [total]) + 10

    f = DeviceFunction(lambda: loops.repeat(3, outer, [0]))
    assert int(f()) == 3 * 14


def test_loop_errors() -> None:
    with pytest.raises(ValueError, match="IPU loop body must return"):
        DeviceFunction(lambda x: loops.repeat(2, lambda v: None, [x]))(tf.ones(1))
    with pytest.raises(TypeError, match="Mismatch between input types"):
        DeviceFunction(lambda x: loops.repeat(2, lambda v: tf.cast(v, tf.int32), [x]))(
            tf.ones(1)
        )
    with pytest.raises(ValueError, match="keep the shape"):
        DeviceFunction(lambda x: loops.repeat(2, lambda v: tf.concat([v, v], 0), [x]))(
            tf.ones(1)
        )


# --- variables ---------------------------------------------------------------------


def test_variables_change_in_place_and_in_order() -> None:
    v = tf.Variable([1.0, 2.0])

    def f() -> tuple[tf.Tensor, tf.Tensor]:
        before = v.value()
        v.assign(before * 3.0)
        v.assign_add([1.0, 1.0])
        return before, v.value()

    before, after = DeviceFunction(f)()
    np.testing.assert_array_equal(before, [1, 2])
    np.testing.assert_array_equal(after, [4, 7])
    np.testing.assert_array_equal(v.numpy(), [4, 7])


def test_a_read_before_a_write_in_a_loop() -> None:
    v = tf.Variable(1.0)

    def body(total: tf.Tensor) -> tf.Tensor:
        old = v.value()
        v.assign(old + 1.0)
        return total + old  # the value from before the assignment

    assert float(DeviceFunction(lambda: loops.repeat(4, body, [0.0]))()) == 10.0
    assert float(v) == 5.0


def test_variable_errors() -> None:
    v = tf.Variable([1.0])
    with pytest.raises(ValueError, match="Shape mismatch"):
        v.assign([1.0, 2.0])
    with pytest.raises(TypeError, match=r"tf\.cast"):
        v.assign(tf.constant([1]))
    with pytest.raises(ValueError, match="create variables"):
        DeviceFunction(lambda: tf.Variable(1.0).value())()
    assert v.numpy() == 1.0


def test_a_deleted_variable_frees_its_memory() -> None:
    keep = tf.Variable(0.0)
    before = keep._device.variable_bytes
    v = tf.Variable(np.zeros(100000, np.float32))
    assert v._device.variable_bytes >= before + 400000
    del v
    assert keep._device.variable_bytes == before


def _peak_bytes() -> int:
    with open("/proc/self/status") as status:
        [line] = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_an_array_is_copied_once_into_a_variable(dtype: str | None) -> None:
    """A data set may be as large as memory allows for one copy of it."""
    if "TSAN_OPTIONS" in os.environ:
        pytest.skip("what the thread sanitizer notes of memory is memory, too")
    x = np.ones((64, 1 << 18), np.float32)
    try:
        with open("/proc/self/clear_refs", "w") as peak:
            peak.write("5")  # the peak starts from here
    except OSError:
        pytest.skip("the peak of memory cannot be set back")
    before = _peak_bytes()
    v = tf.Variable(x, trainable=False, dtype=dtype)
    assert _peak_bytes() - before < 1.5 * x.nbytes
    x[0, 0] = 2.0
    assert v.dtype == "float32" and float(v[0, 0]) == 1.0


def test_arrays_of_any_layout_become_variables() -> None:
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    for view in (x.T, x[:, ::2], x.astype(">i4"), x[:0], x.astype(np.int64)):
        v = tf.Variable(view)
        assert v.dtype == "int32" and v.shape == view.shape
        np.testing.assert_array_equal(v.numpy(), view)
    with pytest.raises(ValueError, match="is not the given"):
        tf.Variable(x, shape=[3, 2])


# --- gradients ---------------------------------------------------------------------


def test_gradients_by_tensors_and_variables() -> None:
    w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    def f(x: tf.Tensor) -> list[tf.Tensor | None]:
        y = tf.reduce_sum(tf.square(tf.matmul(x, w)) + tf.matmul(x, w))
        return tf.gradients(y, [x, w, tf.constant(1.0)])

    x = np.array([[1.0, -1.0]], np.float32)
    dx, dw, none = DeviceFunction(f)(x)
    xw = x @ w.numpy()
    np.testing.assert_allclose(dx, (2 * xw + 1) @ w.numpy().T)
    np.testing.assert_allclose(dw, x.T @ (2 * xw + 1))
    assert none is None


def test_gradients_outside_of_a_trace() -> None:
    with pytest.raises(RuntimeError, match="GradientTape"):
        tf.gradients(tf.ones(1), [tf.ones(1)])


def test_scratch_trace_finds_shapes() -> None:
    spec = scratch_trace(
        lambda x: tf.matmul(x, tf.ones((4, 2))), [tf.TensorSpec((3, 4))]
    )
    assert spec.shape == (3, 2)


# --- queues ------------------------------------------------------------------------


def counting(stop: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.arange(stop, dtype=np.int32))


def test_a_program_takes_and_gives_elements_in_order() -> None:
    infeed = IPUInfeedQueue(counting(100))
    outfeed = IPUOutfeedQueue()
    infeed.initializer  # noqa: B018 - reading it starts the queue
    run = DeviceFunction(
        lambda n: loops.repeat(n, lambda x: outfeed.enqueue((x, x * 2)), [], infeed)
    )
    run(np.int32(10))
    a, b = outfeed.dequeue()
    np.testing.assert_array_equal(a, np.arange(10))
    np.testing.assert_array_equal(b, 2 * np.arange(10))
    run(np.int32(5))
    np.testing.assert_array_equal(outfeed.dequeue()[0], np.arange(10, 15))
    assert outfeed.dequeue()[0].shape == (0,)
    infeed.deleter  # noqa: B018


def test_the_end_of_the_data() -> None:
    infeed = IPUInfeedQueue(counting(3))
    outfeed = IPUOutfeedQueue()
    infeed.initializer  # noqa: B018
    run = DeviceFunction(lambda: loops.repeat(5, outfeed.enqueue, [], infeed))
    with pytest.raises(tf.errors.OutOfRangeError):
        run()
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1, 2])


def test_an_exception_in_a_generator_reaches_the_run() -> None:
    def generate() -> object:
        yield np.float32(1)
        raise KeyError("broken source")

    ds = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.float32)
    )
    infeed = IPUInfeedQueue(ds)
    outfeed = IPUOutfeedQueue()
    infeed.initializer  # noqa: B018
    run = DeviceFunction(lambda: loops.repeat(3, outfeed.enqueue, [], infeed))
    with pytest.raises(Exception, match="broken source"):
        run()


def test_nobody_reads_the_outfeed() -> None:
    outfeed = IPUOutfeedQueue(buffer_depth=1)
    run = DeviceFunction(
        lambda: loops.repeat(5000, lambda i: [i + 1, outfeed.enqueue(i)][:1], [0])
    )
    run()
    np.testing.assert_array_equal(outfeed.dequeue(), np.arange(5000))


def test_last_mode() -> None:
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    run = DeviceFunction(
        lambda: loops.repeat(7, lambda i: [i + 1, outfeed.enqueue(i)][:1], [0])
    )
    run()
    assert int(outfeed.dequeue()) == 6
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="Trying to get the last"
    ):
        outfeed.dequeue()


def test_another_thread_sees_results_as_they_are_made() -> None:
    gate = threading.Event()

    def generate() -> object:
        yield np.int32(0)
        gate.wait(20)
        yield np.int32(1)

    ds = tf.data.Dataset.from_generator(
        generate, output_signature=tf.TensorSpec((), tf.int32)
    )
    infeed = IPUInfeedQueue(ds)
    outfeed = IPUOutfeedQueue()
    infeed.initializer  # noqa: B018
    run = DeviceFunction(lambda: loops.repeat(2, outfeed.enqueue, [], infeed))
    run.traced()
    worker = threading.Thread(target=run)
    worker.start()
    assert outfeed._wait(1, 10.0) == 1  # while the program waits for its second element
    assert outfeed.dequeue().numpy().tolist() == [0]
    gate.set()
    worker.join(20)
    assert not worker.is_alive()
    assert outfeed.dequeue().numpy().tolist() == [1]


# --- determinism, interruption, fork -----------------------------------------------


def _train(threads: int, steps: int = 60) -> list[np.ndarray]:
    ipu.set_num_threads(threads)
    rng = np.random.default_rng(5)
    x = rng.random((300, 50), dtype=np.float32)
    y = rng.integers(0, 10, 300).astype(np.int32)
    w = [
        tf.Variable(rng.normal(0, 0.2, shape).astype(np.float32))
        for shape in ((50, 70), (70,), (70, 10), (10,))
    ]
    velocity = [tf.Variable(np.zeros(v.shape, np.float32)) for v in w]
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(100, seed=3)
    infeed = IPUInfeedQueue(data.batch(32, drop_remainder=True).repeat())
    outfeed = IPUOutfeedQueue()

    def step(a: tf.Tensor, b: tf.Tensor) -> None:
        h = tf.nn.dropout(tf.nn.relu(tf.matmul(a, w[0]) + w[1]), 0.3)
        logits = tf.matmul(h, w[2]) + w[3]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(b, logits))
        for v, g, m in zip(w, tf.gradients(loss, w), velocity, strict=True):
            updates.sgd_update(v, g, 0.05, 0.9, m)
        outfeed.enqueue(loss)

    tf.random.set_seed(11)
    infeed.initializer  # noqa: B018
    DeviceFunction(lambda: loops.repeat(steps, step, [], infeed))()
    infeed.deleter  # noqa: B018
    return [*(v.numpy() for v in w), outfeed.dequeue().numpy()]


def _same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_training_gives_the_same_bits_for_every_thread_count() -> None:
    runs = []
    for threads in (1, 1, 2, 3, 5):
        # a new device: its step counter, which random ops use, starts again
        config.reset_ipu_configuration()
        runs.append(_train(threads))
    assert np.isfinite(runs[0][-1]).all()
    assert all(_same(runs[0], run) for run in runs[1:])


def test_the_steady_state_allocates_nothing() -> None:
    infeed = IPUInfeedQueue(counting(1000).repeat())
    infeed.initializer  # noqa: B018
    outfeed = IPUOutfeedQueue(IPUOutfeedMode.LAST)
    run = DeviceFunction(lambda: loops.repeat(500, outfeed.enqueue, [], infeed))
    run()
    run()
    assert run.traced().program.stats["allocations"] == 0
    assert run.traced().program.stats["steps"] == 500


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_at_a_step_boundary() -> None:
    v = tf.Variable(0)

    def body() -> None:
        v.assign_add(1)

    run = DeviceFunction(lambda: loops.repeat(2_000_000_000, body))
    run.traced()
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run()
    assert time.monotonic() - start < 30
    count = int(v)
    assert count > 0
    DeviceFunction(lambda: loops.repeat(5, body))()
    assert int(v) == count + 5


def test_a_read_waits_for_a_step_boundary_only() -> None:
    v = tf.Variable(np.zeros(8, np.float32))
    stop = tf.Variable(0)

    def body() -> None:
        v.assign_add(np.ones(8, np.float32))
        stop.assign_add(1)

    run = DeviceFunction(lambda: loops.repeat(3_000_000, body))
    worker = threading.Thread(target=run)
    worker.start()
    while int(stop) == 0 and worker.is_alive():
        time.sleep(0.001)
    for _ in range(20):
        seen = v.numpy()
        assert (seen == seen[0]).all()  # never half of a step
    worker.join()
    assert float(v[0]) == 3_000_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_computes() -> None:
    ipu.set_num_threads(3)
    a = np.random.default_rng(0).random((300, 300), dtype=np.float32)
    f = DeviceFunction(lambda x: tf.matmul(x, x))
    expected = f(a).numpy()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        good = np.array_equal(f(a).numpy(), expected)
        os.write(write, b"1" if good else b"0")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 1) == b"1"
