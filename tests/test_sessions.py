# SPDX-License-Identifier: MIT
"""Graphs and sessions of TensorFlow 1; expected values are NumPy's."""

from __future__ import annotations

import doctest
import importlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import ipu_compiler, loops, scopes
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu.tf import errors
from ipu.tf.compat import v1 as tf

IPU = "/device:IPU:0"


@pytest.fixture(autouse=True)
def graph(request: Any) -> Iterator[Any]:
    ipu.config.reset_ipu_configuration()
    if request.node.originalname == "test_examples":
        yield None
    else:
        with tf.Graph().as_default() as made:
            yield made
    ipu.config.reset_ipu_configuration()


def attach(count: int = 1) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = count
    config.configure_ipu_system()


def run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


@pytest.mark.parametrize(
    "name",
    "_assignments _casts _graphs _old_arguments _saver _steps _variables data layers "
    "losses nn train".split(),
)
def test_examples(name: str) -> None:
    module = importlib.import_module(f"ipu.tf.compat.v1.{name}")
    assert doctest.testmod(module).failed == 0


# --- fetches and feeds ----------------------------------------------------------------


def test_results_have_the_structure_of_the_fetches() -> None:
    a, b = tf.constant(1.0), tf.constant([2, 3])
    nothing = tf.no_op()
    got = run({"pair": (a, [b, nothing]), "one": a + 1.0})
    assert got["one"] == 2.0 and got["one"].dtype == np.float32
    assert got["pair"][0] == 1.0 and got["pair"][1][1] is None
    np.testing.assert_array_equal(got["pair"][1][0], [2, 3])
    assert isinstance(got["pair"], tuple) and isinstance(got["pair"][1], list)
    assert run([a]) == [1.0] and run(nothing) is None and run("Const:0") == 1.0


def test_feeds_replace_what_would_be_computed() -> None:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = tf.reduce_sum(x * 2.0, axis=1)
    z = y + 1.0
    assert y.shape.as_list() == [None]
    with tf.Session() as session:
        for rows in (3, 1):
            got = session.run(z, {x: np.ones((rows, 2))})
            np.testing.assert_array_equal(got, np.full(rows, 5.0, np.float32))
        assert session.run(z, {y: [1.0]}).tolist() == [2.0]
        assert session.run(z, {"x:0": [[1, 2]]}).tolist() == [7.0]
        assert z.eval({y: [3.0]}).tolist() == [4.0]
        twice = session.make_callable(z, [x])
        assert twice([[0.0, 1.0]]).tolist() == [3.0]


def test_sizes_follow_what_is_fed() -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    flat = tf.reshape(x, [tf.shape(x)[0] * 2, 2])
    assert flat.shape.as_list() == [None, 2]
    with tf.Session() as session:
        assert session.run(flat, {x: np.zeros((3, 4))}).shape == (6, 2)
        assert session.run(tf.shape(x), {x: np.zeros((5, 4))}).tolist() == [5, 4]


def test_wide_numbers_stay_on_the_host() -> None:
    x = tf.placeholder(tf.int64, [])
    y = tf.placeholder(tf.float64, [])
    big = 1 << 40
    assert run([x + 1, y * 2.0], {x: big, y: 1e300}) == [big + 1, 2e300]


def test_errors_of_feeds_and_fetches(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [2], name="x")
    y = x + 1.0
    with pytest.raises(errors.InvalidArgumentError) as caught:
        run(y)
    assert "You must feed a value for placeholder tensor 'x' with dtype float and " in (
        str(caught.value)
    )
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(3,\) for"):
        run(y, {x: [1.0, 2.0, 3.0]})
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
        run(y, {"nothing:0": 1.0})
    with pytest.raises(TypeError, match=r"cannot be a tf\.Tensor object"):
        run(y, {x: y})
    with pytest.raises(TypeError, match="Fetch argument None has invalid type"):
        run(None)
    with pytest.raises(TypeError, match="has invalid type 'int'"):
        run(3)
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    with pytest.raises(ValueError, match="is not an element of this graph"):
        run(other)
    with pytest.raises(ValueError, match="must be from the same graph"):
        _ = y + other
    session = tf.Session()
    session.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(y)
    with pytest.raises(RuntimeError, match="graph is empty"):
        tf.Session(graph=tf.Graph()).run([])
    with pytest.raises(ValueError, match="no default session"):
        y.eval()


def test_a_tensor_of_a_graph_has_no_value() -> None:
    x = tf.placeholder(tf.float32, [2])
    with pytest.raises(TypeError, match="not allowed"):
        bool(x)
    with pytest.raises(NotImplementedError, match="symbolic"):
        np.asarray(x)
    assert not hasattr(x, "numpy") and not tf.executing_eagerly()
    assert str(x) == 'Tensor("Placeholder:0", shape=(2,), dtype=float32)'
    first, second = x
    assert run([first, second], {x: [1.0, 2.0]}) == [1.0, 2.0]
    with pytest.raises(errors.InvalidArgumentError, match="shape"):
        tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3]))


def test_operators_take_arrays_and_numbers_on_either_side() -> None:
    x = tf.placeholder(tf.float32, [2])
    array = np.array([1.0, 2.0], np.float32)
    got = run([array + x, 1.0 - x, x / 2.0, -x, x > 1.5, 2.0**x], {x: array})
    wanted = [array + array, 1 - array, array / 2, -array, array > 1.5, 2.0**array]
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


# --- effects --------------------------------------------------------------------------


def test_only_what_is_fetched_runs() -> None:
    calls: list[float] = []
    x = tf.constant(2.0)

    def note(value: Any) -> Any:
        calls.append(float(value))
        return value

    noted = tf.py_func(note, [x], tf.float32)
    noted.set_shape([])
    other = x + 1.0
    with tf.Session() as session:
        session.run(other)
        assert calls == []
        session.run([noted, noted + 1.0, other])
        assert calls == [2.0]


def test_control_dependencies_order_effects() -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    add = v.assign_add(1.0)
    with tf.control_dependencies([add]):
        after = v.read_value()
        grouped = tf.group(tf.identity(v), name="grouped")
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(after) == 1.0
        assert session.run(v) == 1.0
        assert session.run(grouped) is None and session.run(v) == 2.0
        assert session.run(add) == 3.0
        with tf.control_dependencies([tf.assign(v, 7.0)]):
            last = tf.no_op()
        session.run(last)
        assert session.run(v) == 7.0


def test_random_numbers_are_drawn_once_in_a_run() -> None:
    x = tf.random_uniform([4])
    with tf.Session() as session:
        one, same = session.run([x, tf.identity(x)])
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, session.run(x))


# --- variables ------------------------------------------------------------------------


def test_values_belong_to_a_session() -> None:
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    first, second = tf.Session(), tf.Session()
    first.run(tf.global_variables_initializer())
    first.run(v.assign_add([1.0, 1.0]))
    with pytest.raises(errors.FailedPreconditionError) as caught:
        second.run(v)
    assert "Error while reading resource variable v from Container" in str(caught.value)
    assert second.run(tf.report_uninitialized_variables()).tolist() == [b"v"]
    second.run(tf.global_variables_initializer())
    assert second.run(v).tolist() == [1.0, 1.0]
    assert first.run(v).tolist() == [2.0, 2.0]
    v.load([5.0, 6.0], second)
    assert v.eval(second).tolist() == [5.0, 6.0]


def test_sessions_of_several_threads_take_turns() -> None:
    graph = tf.get_default_graph()
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    add, start = v.assign_add(1.0), tf.global_variables_initializer()
    seen: list[float] = []

    def work() -> None:
        with tf.Session(graph=graph) as session:
            session.run(start)
            for _ in range(10):
                session.run(add)
            seen.append(float(session.run(v)))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [10.0] * 3
    other = tf.Session()
    nested = tf.py_func(lambda: other.run(start), [], tf.float32)
    with tf.Session() as session, pytest.raises(RuntimeError, match="inside of a run"):
        session.run(nested)


def test_variable_scopes() -> None:
    with tf.variable_scope("a"), tf.variable_scope("b", use_resource=True) as scope:
        v = tf.get_variable("v", [3])
        assert v.is_resource and (tf.zeros([1]) + 1.0).name.startswith("a/b/")
    assert v.name == "a/b/v:0" and v.dtype == tf.float32
    with tf.variable_scope(scope, reuse=True):
        assert tf.get_variable("v", [3]) is v
        with pytest.raises(ValueError, match="does not exist, or was not created"):
            tf.get_variable("w", [3])
        with pytest.raises(ValueError, match="specified shape"):
            tf.get_variable("v", [4])
    with (
        tf.variable_scope("a/b"),
        pytest.raises(ValueError, match="already exists, disallowed"),
    ):
        tf.get_variable("v", [3])
    with tf.variable_scope("a/b", reuse=tf.AUTO_REUSE):
        assert tf.get_variable("v") is v
        tf.get_variable("w", initializer=[1.0, 2.0])
    with tf.variable_scope(None, default_name="dense"):
        pass
    with tf.variable_scope(None, default_name="dense") as second:
        assert second.name == "dense_1"
    names = [one.name for one in tf.global_variables()]
    assert names == ["a/b/v:0", "a/b/w:0"]
    with pytest.raises(ValueError, match="fully defined"):
        tf.get_variable("u")


def test_initial_values_can_be_tensors() -> None:
    first = tf.random_normal([3])
    v = tf.Variable(first, name="v")
    w = tf.Variable(lambda: tf.constant([1, 2]), trainable=False)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(v)
        session.run(v.initializer)
        assert not np.array_equal(before, session.run(v))
        assert session.run(w).tolist() == [1, 2] and w.dtype == tf.int32
    assert [one.name for one in tf.trainable_variables()] == ["v:0"]


def test_a_variable_that_begins_with_an_array() -> None:
    first = np.ones(2, np.float32)
    v = tf.Variable(first)
    first[0] = 5.0
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(v).tolist() == [1.0, 1.0]


def test_a_reference_variable_has_no_kernel_on_an_ipu() -> None:
    tf.disable_v2_behavior()
    try:
        with tf.device(IPU):
            v = tf.Variable([1.0, 2.0], name="biases")
            doubled = v * 2.0
        with pytest.raises(errors.InvalidArgumentError) as caught:
            run(doubled)
        text = str(caught.value)
        assert "Cannot assign a device for operation 'biases'" in text
        assert "Could not satisfy explicit device specification '/device:IPU:0'" in text
        assert "VariableV2: CPU" in text
        with scopes.ipu_scope(IPU):
            w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
            result = w * 2.0
        with tf.Session() as session:
            session.run(w.initializer)
            assert session.run(result).tolist() == [2.0, 2.0]
    finally:
        tf.enable_v2_behavior()


def test_savers(tmp_path: Any) -> None:
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        paths = [saver.save(session, str(tmp_path / "m"), step) for step in range(3)]
    assert saver.last_checkpoints == paths[1:]
    assert tf.train.latest_checkpoint(str(tmp_path)) == paths[-1]
    with tf.Session() as session:
        saver.restore(session, paths[-1])
        assert session.run(v).tolist() == [1.0, 1.0]
        with pytest.raises(errors.NotFoundError, match="not a valid checkpoint"):
            saver.restore(session, paths[0])
        with pytest.raises(errors.NotFoundError, match="Key other not found"):
            tf.train.Saver({"other": w}).restore(session, paths[-1])


# --- gradients and optimizers ---------------------------------------------------------


def test_gradients() -> None:
    x = tf.placeholder(tf.float32, [None])
    v = tf.get_variable("v", [], initializer=tf.constant_initializer(3.0))
    unused = tf.get_variable("unused", [])
    hidden = v * x
    y = tf.reduce_sum(hidden * hidden)
    found = tf.gradients(y, [x, v, hidden, unused])
    assert found[3] is None and found[0].shape.as_list() == [None]
    got = run(found[:3], {x: [1.0, 2.0]})
    assert got[0].tolist() == [18.0, 36.0] and got[1] == 30.0
    assert got[2].tolist() == [6.0, 12.0]
    weighted = tf.gradients(hidden, v, [[1.0, 10.0]])
    assert run(weighted, {x: [1.0, 2.0]}) == [21.0]


@pytest.mark.parametrize("place", ["cpu", IPU])
def test_gradients_are_computed_where_the_model_is(place: str) -> None:
    attach()
    x = tf.placeholder(tf.float32, [2])
    with scopes.ipu_scope(place):
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        hidden = tf.tanh(v * x)
    loss = tf.reduce_sum(hidden)  # on the host, of what the device gives
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {x: [0.0, 1.0]})
        wanted = [1.0, 1.0 - 0.5 * (1.0 - np.tanh(1.0) ** 2)]
        np.testing.assert_allclose(session.run(v), wanted, rtol=1e-6)


UPDATES = {
    "GradientDescentOptimizer": ((0.1,), None),
    "MomentumOptimizer": ((0.1, 0.9), None),
    "AdamOptimizer": ((0.1,), None),
    "RMSPropOptimizer": ((0.1,), None),
}


def stepped(name: str, args: Any) -> Any:
    """The updates of TensorFlow's documentation, in NumPy."""
    w = np.array([0.0, 1.0])
    m, v = np.zeros(2), np.zeros(2) + (name == "RMSPropOptimizer")
    for step in range(1, 6):
        g = 2.0 * (w - 3.0)
        if name == "GradientDescentOptimizer":
            w = w - args[0] * g
        elif name == "MomentumOptimizer":
            m = args[1] * m + g
            w = w - args[0] * m
        elif name == "AdamOptimizer":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            rate = args[0] * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            w = w - rate * m / (np.sqrt(v) + 1e-8)
        else:
            v = 0.9 * v + 0.1 * g * g
            w = w - args[0] * g / np.sqrt(v + 1e-10)
    return w


@pytest.mark.parametrize("name", list(UPDATES))
@pytest.mark.parametrize("is_compiled", [False, True])
def test_optimizers(name: str, is_compiled: bool) -> None:
    args = UPDATES[name][0]
    step = tf.train.get_or_create_global_step()

    def model() -> Any:
        w = tf.get_variable("w", initializer=[0.0, 1.0], use_resource=True)
        loss = tf.reduce_sum(tf.square(w - 3.0))
        optimizer = getattr(tf.train, name)(*args)
        return loss, optimizer.minimize(loss, global_step=step)

    with scopes.ipu_scope(IPU):
        train = ipu_compiler.compile(model) if is_compiled else model()[1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(train)
        assert session.run(step) == 5
        (w,) = session.run(tf.trainable_variables())
    np.testing.assert_allclose(w, stepped(name, args), rtol=1e-5)


def test_replicas_and_optimizers_around_others() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32))
    queue, out = IPUInfeedQueue(data.repeat()), IPUOutfeedQueue()

    def body(x: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = ipu.optimizers.CrossReplicaOptimizer(
            tf.train.GradientDescentOptimizer(0.5)
        )
        train = optimizer.minimize(w * x)
        return train, out.enqueue(x)

    with scopes.ipu_scope(IPU):
        loop = ipu_compiler.compile(lambda: loops.repeat(2, body, [], queue))
    dequeue = out.dequeue()
    attach(2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(queue.initializer)
        assert session.run(loop) is None
        assert session.run(dequeue).tolist() == [[0.0, 1.0], [2.0, 3.0]]
        # the means of 0 and 1, then of 2 and 3
        assert session.run(tf.trainable_variables()) == [-0.5 * (0.5 + 2.5)]


def test_accumulation_in_a_session() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(4, dtype=np.float32))
    queue = IPUInfeedQueue(data.repeat())
    step = tf.train.get_or_create_global_step()

    def body(x: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = ipu.optimizers.GradientAccumulationOptimizerV2(
            tf.train.MomentumOptimizer(1.0, 0.5), 2
        )
        return optimizer.minimize(w * x, global_step=step)

    with scopes.ipu_scope(IPU):
        loop = ipu_compiler.compile(lambda: loops.repeat(4, body, [], queue))
    names = [one.name for one in tf.global_variables()]
    assert names == ["global_step:0", "w:0", "w/Momentum:0"]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), queue.initializer])
        session.run(loop)
        # 0 + 1, then half of that and 2 + 3
        assert session.run(tf.trainable_variables()) == [-6.5]
        assert session.run(step) == 2


def test_optimizers_say_what_is_wrong() -> None:
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(tf.constant(1.0))
    tf.get_variable("v", [])
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.minimize(tf.constant(1.0))
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.apply_gradients([(None, v) for v in tf.trainable_variables()])


def test_a_rate_can_be_fed_or_follow_the_step() -> None:
    rate = tf.placeholder(tf.float32, [])
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    decayed = tf.train.exponential_decay(rate, step, 1, 0.5)
    optimizer = tf.train.GradientDescentOptimizer(decayed)
    train = optimizer.minimize(-v, global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        seen = []
        for _ in range(3):
            session.run(train, {rate: 4.0})
            seen.append(float(session.run(v)))
    assert seen == [4.0, 6.0, 7.0]


# --- devices --------------------------------------------------------------------------


def test_what_a_compiled_function_returns() -> None:
    x = tf.placeholder(tf.float32, [2])

    def compiled(function: Any, inputs: Any = None) -> Any:
        with scopes.ipu_scope(IPU):
            return ipu_compiler.compile(function, inputs)

    one = compiled(lambda a: a + 1.0, [x])
    several = compiled(lambda a: (a, 2.0), [x])
    nested = compiled(lambda a: {"a": (a, [a * 2.0])}, [x])
    nothing = compiled(lambda: None)
    around = compiled(lambda: x * 3.0)  # not among its inputs
    got = run([one, several, nested, nothing, around], {x: [1.0, 2.0]})
    assert isinstance(got[0], list) and got[0][0].tolist() == [2.0, 3.0]
    assert got[1][0].tolist() == [1.0, 2.0] and got[1][1] == 2.0
    assert got[2]["a"][1][0].tolist() == [2.0, 4.0] and got[3] is None
    assert got[4][0].tolist() == [3.0, 6.0]
    with pytest.raises(Exception, match="not placed on an IPU"):
        ipu_compiler.compile(lambda: None)


def test_host_and_device_take_turns() -> None:
    x = tf.placeholder(tf.float64, [])
    with scopes.ipu_scope(IPU):
        y = tf.cast(x, tf.float32) * 2.0
    z = tf.py_func(lambda value: value + 1.0, [y], tf.float32)
    z.set_shape([])
    with scopes.ipu_scope(IPU):
        (last,) = ipu_compiler.compile(lambda a: a * 10.0, [z])
    assert run([last, y], {x: 3.0}) == [70.0, 6.0]


def test_variables_of_a_function_are_made_once() -> None:
    calls: list[int] = []

    def model(x: Any) -> Any:
        calls.append(1)
        y = tf.layers.dense(x, 3, name="first")
        y = tf.layers.dense(y, 2, activation=tf.nn.relu)
        y = tf.keras.layers.Dense(2)(y)
        return tf.reduce_sum(y)

    x = tf.placeholder(tf.float32, [None, 4])
    with scopes.ipu_scope(IPU):
        out = ipu_compiler.compile(model, [x])
    names = [v.name for v in tf.trainable_variables()]
    assert names[:4] == [
        "first/kernel:0",
        "first/bias:0",
        "dense/kernel:0",
        "dense/bias:0",
    ]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for rows in (2, 3, 2):
            session.run(out, {x: np.ones((rows, 4))})
    assert [v.name for v in tf.trainable_variables()] == names and len(names) == 6


def test_a_program_on_several_ipus_is_not_replicated() -> None:
    attach(4)

    def body() -> Any:
        with scopes.ipu_shard(0):
            v = tf.get_variable("v", [], initializer=tf.ones_initializer())
            y = v * 2.0
        with scopes.ipu_shard(3), scopes.ipu_shard(2):
            return y + 1.0, queue.enqueue(y)

    queue = IPUOutfeedQueue()
    with scopes.ipu_scope(IPU):
        (out,) = ipu_compiler.compile(body)
    dequeue = queue.dequeue()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(out) == 3.0
        # one replica: no axis of replicas
        assert session.run(dequeue).shape == (1,)
    with pytest.raises(ValueError, match="integer of 0 or more"), scopes.ipu_shard(-1):
        pass


def test_queues_are_operations() -> None:
    queue = IPUInfeedQueue(tf.data.Dataset.range(10).map(lambda i: tf.to_float(i)))
    out = IPUOutfeedQueue(outfeed_mode=IPUOutfeedMode.LAST)
    with pytest.raises(ValueError, match="outfeed which has not been enqueued"):
        out.dequeue()
    start, stop = queue.initializer, queue.deleter
    with pytest.raises(ValueError, match="can only be accessed once"):
        _ = queue.initializer

    def body(total: Any, x: Any) -> Any:
        assert queue.dequeued
        return total + x, out.enqueue(x)

    def net() -> Any:
        return loops.repeat(3, body, [0.0], queue)

    with scopes.ipu_scope(IPU):
        result = ipu_compiler.compile(net)
    last, free = out.dequeue(), out.deleter
    assert last.shape == () and out.enqueued
    with tf.Session() as session:
        with pytest.raises(errors.FailedPreconditionError, match="last value"):
            session.run(last)
        with pytest.raises(errors.FailedPreconditionError, match="initialize"):
            session.run(result)
        session.run(start)
        assert session.run(result) == [3.0] and session.run(last) == 2.0
        assert session.run(result) == [12.0] and session.run(last) == 5.0
        session.run(stop)
        session.run(start)
        assert session.run(result) == [3.0]
        session.run(free)


def test_another_thread_has_another_default_graph(graph: Any) -> None:
    seen: list[Any] = []
    session = tf.Session()
    x = tf.constant(2.0)

    def other() -> None:
        seen.append(session.run(x))
        seen.append(tf.get_default_graph() is graph)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [2.0, False]


# --- control flow, functions, data ----------------------------------------------------


def test_control_flow_in_a_graph() -> None:
    n = tf.placeholder(tf.int32, [])
    step = tf.constant(2)
    i, total = tf.while_loop(
        lambda i, total: i < n, lambda i, total: (i + 1, total + i * step), (0, 0)
    )
    chosen = tf.cond(n > 3, lambda: total + 100, lambda: total)
    assert run([i, total, chosen], {n: 3}) == [3, 6, 6]
    assert run([i, total, chosen], {n: 4}) == [4, 12, 112]


def test_functions_and_iterators() -> None:
    @tf.function
    def double(x: Any) -> Any:
        return x * 2

    dataset = tf.data.Dataset.range(2)
    following = tf.data.make_one_shot_iterator(dataset).get_next()
    iterator = tf.data.make_initializable_iterator(dataset)
    result = double(following)
    again = iterator.get_next()
    with tf.Session() as session:
        assert [int(session.run(result)) for _ in range(2)] == [0, 2]
        with pytest.raises(errors.OutOfRangeError):
            session.run(result)
        with pytest.raises(
            errors.FailedPreconditionError, match="not been initialized"
        ):
            session.run(again)
        for _ in range(2):
            session.run(iterator.initializer)
            assert session.run(again) == 0


def test_losses_and_layers() -> None:
    x = tf.placeholder(tf.float32, [2, 4, 4, 1])
    y = tf.layers.conv2d(x, 2, 3, padding="same", use_bias=False)
    y = tf.layers.max_pooling2d(y, 2, 2)
    y = tf.layers.batch_normalization(y, training=True)
    logits = tf.layers.dense(tf.layers.flatten(y), 3)
    loss = tf.losses.sparse_softmax_cross_entropy([0, 2], logits)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(updates):
        train = tf.train.AdamOptimizer(0.01).minimize(loss)
    assert logits.shape == (2, 3) and len(updates) == 2
    rows = np.random.RandomState(0).normal(size=(2, 4, 4, 1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train], {x: rows})[0] for _ in range(5)]
        moved = session.run("batch_normalization/moving_mean/Assign") is None
    assert losses[-1] < losses[0] and moved
    assert tf.losses.get_losses() == [loss]


def normalized_and_dropped(x: Any, training: Any) -> list[Any]:
    y = tf.layers.batch_normalization(x, momentum=0.5, training=training)
    loss = tf.reduce_mean(tf.square(y - x))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    return [loss, tf.layers.dropout(y, 0.5, seed=3, training=training), train]


def test_layers_are_told_in_the_run_whether_they_train() -> None:
    rows = np.random.RandomState(0).normal(2, size=(64, 3)).astype(np.float32)

    def results(fixed: bool, training: bool) -> list[Any]:
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [64, 3])
            told = tf.placeholder_with_default(False, ())
            fetches = normalized_and_dropped(x, training if fixed else told)
            session.run(tf.global_variables_initializer())
            feeds = {x: rows} if fixed else {x: rows, told: training}
            values = session.run(fetches, feeds)[:2]
            return [*values, *session.run(tf.global_variables())]

    for training in (False, True):
        loss, dropped, *variables = results(False, training)
        wanted = results(True, training)
        np.testing.assert_allclose(loss, wanted[0], rtol=1e-6)
        assert 0.3 < np.mean(dropped == 0) < 0.7 if training else dropped.all()
        for value, other in zip(variables, wanted[2:], strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6)


def test_graphs_know_their_operations(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.name_scope("scope"):
        y = tf.add(x, 1.0, name="y")
        again = tf.add(x, 1.0, name="y")
    assert y.name == "scope/y:0" and again.op.name == "scope/y_1"
    assert graph.get_tensor_by_name("scope/y:0") is y and y.op in x.consumers()
    assert graph.get_operation_by_name("x") is x.op
    with pytest.raises(KeyError, match="not in the graph"):
        graph.get_operation_by_name("z")
    with pytest.raises(ValueError, match="invalid"):
        graph.get_tensor_by_name("x")
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        _ = x + 1.0


def test_gradients_cannot_be_cut_in_two() -> None:
    with scopes.ipu_scope(IPU):
        v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        a = v * 2.0
    b = tf.py_func(lambda value: value + 1.0, [a], tf.float32)
    b.set_shape([])
    with scopes.ipu_scope(IPU):
        loss = a * b
        (gradient,) = tf.gradients(loss, [v])
    with pytest.raises(errors.InvalidArgumentError, match="cut in two"):
        run(gradient)


def test_printing_and_checks_run_in_sessions(capsys: Any) -> None:
    x = tf.placeholder(tf.float32, [2])
    shown = tf.print("x is", x)
    passed = tf.Print(x * 2.0, [x], "again")
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    positive = tf.debugging.assert_positive(x)
    like_v = tf.debugging.assert_equal(x, v)
    with tf.control_dependencies([positive]):
        checked = tf.debugging.check_numerics(x + 1.0, "sum")
    with tf.Session() as session:
        session.run(v.initializer)
        assert capsys.readouterr().err == ""
        session.run(shown, {x: [1.0, 2.0]})
        assert session.run(passed, {x: [1.0, 2.0]}).tolist() == [2.0, 4.0]
        assert "x is [1 2]" in capsys.readouterr().err
        assert session.run(like_v, {x: [1.0, 1.0]}) is None
        with pytest.raises(errors.InvalidArgumentError, match="assertion failed"):
            session.run(like_v, {x: [1.0, 2.0]})
        assert session.run(checked, {x: [1.0, 2.0]}).tolist() == [2.0, 3.0]
        with pytest.raises(errors.InvalidArgumentError, match="x > 0"):
            session.run(checked, {x: [-1.0, 2.0]})
        with pytest.raises(errors.InvalidArgumentError, match="NaN or Inf"):
            session.run(checked, {x: [np.inf, 2.0]})


def test_gradients_of_ones_own_in_a_graph() -> None:
    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        return x * 2.0, lambda upstream: upstream * 10.0

    x = tf.placeholder(tf.float32, [2])
    y = scaled(x)
    assert run([y, tf.gradients(y, x)[0]], {x: [1.0, 2.0]})[1].tolist() == [10.0, 10.0]


def test_older_names_of_arguments() -> None:
    x = tf.constant([[1.0, 4.0], [3.0, 2.0]])
    got = run(
        [
            tf.reduce_sum(x, reduction_indices=[1], keep_dims=True),
            tf.argmax(x, dimension=1),
            tf.expand_dims(x, dim=0)[0],
            tf.nn.softmax(x, dim=0),
            tf.nn.dropout(x, keep_prob=1.0),
        ]
    )
    assert got[0].tolist() == [[5.0], [5.0]] and got[1].tolist() == [1, 0]
    assert got[2].shape == (2, 2) and got[3].sum(axis=0) == pytest.approx([1.0, 1.0])
    assert got[4].tolist() == [[1.0, 4.0], [3.0, 2.0]]
