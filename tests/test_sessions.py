# SPDX-License-Identifier: MIT
"""Sessions of TensorFlow 1; expected values are NumPy's."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from session_runs import run
from simulated_ipus import attach

from ipu import ipu_compiler, loops, scopes
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue
from ipu.tf import errors
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

IPU = "/device:IPU:0"


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


# --- the values of variables ----------------------------------------------------------


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


def test_savers(tmp_path: Any) -> None:
    v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
    w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        paths = [saver.save(session, str(tmp_path / "m"), step) for step in range(3)]
    assert saver.last_checkpoints == paths[1:]
    assert tf.train.latest_checkpoint(str(tmp_path)) == paths[-1]
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == paths[-1]
    assert state.all_model_checkpoint_paths == paths[1:]
    assert tf.train.checkpoint_exists(paths[1])
    assert not tf.train.checkpoint_exists(paths[0])
    with tf.Session() as session:
        saver.restore(session, paths[-1])
        assert session.run(v).tolist() == [1.0, 1.0]
        with pytest.raises(errors.NotFoundError, match="not a valid checkpoint"):
            saver.restore(session, paths[0])
        with pytest.raises(errors.NotFoundError, match="Key other not found"):
            tf.train.Saver({"other": w}).restore(session, paths[-1])


# --- devices --------------------------------------------------------------------------


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


# --- data -----------------------------------------------------------------------------


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


# --- variables in functions for a device, and outside of graphs -----------------------


def test_first_values_of_variables_of_a_compiled_function() -> None:
    def body() -> Any:
        with tf.variable_scope("scope"):
            first = tf.constant([1.0, 2.0]) * 2.0
            w = tf.get_variable("w", initializer=first)
            kernel = tf.get_variable("kernel", [2], initializer=tf.ones_initializer())
            gathered = tf.Variable(tf.zeros_like(kernel.initialized_value()))
        gradient = tf.gradients(w * kernel, kernel)[0]
        return [w + 0.0, gathered.assign_add(gradient)]

    with scopes.ipu_scope(IPU):
        results = ipu_compiler.compile(body, [])
    names = [v.op.name for v in tf.global_variables()]
    assert names == ["scope/w", "scope/kernel", "scope/Variable"]
    for found in run(results):
        np.testing.assert_array_equal(found, [2.0, 4.0])


def test_the_initializer_and_the_initial_value_agree_in_a_run() -> None:
    w = tf.get_variable("w", [3])
    with tf.Session() as session:
        session.run(w.initializer)  # before anything asks for the tensor
        doubled = w.initial_value * 2.0
        _, twice = session.run([w.initializer, doubled])
        np.testing.assert_array_equal(session.run(w) * 2.0, twice)
        assert not np.array_equal(session.run(w.initial_value) * 2.0, twice)


def test_places_of_variables() -> None:
    with tf.device("cpu"):
        step = tf.train.get_or_create_global_step()
    with scopes.ipu_scope(IPU):
        w = tf.get_variable("w", initializer=1.0)
        loss = w * 2.0
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss, step)
    free = tf.get_variable("free", [2])
    assert (step.device, w.device, free.device) == ("/device:CPU:0", IPU, "")
    assert run([loss, train])[0] == 2.0
    assert (step.device, w.device) == ("/device:CPU:0", IPU)


def test_files_and_texts_of_what_is_fed(tmp_path: Any) -> None:
    path = tf.placeholder(tf.string, [])
    lines = tf.strings.upper(tf.io.read_file(path))
    whole = tf.strings.length(lines) + tf.strings.to_number("2", tf.int32)
    (tmp_path / "text").write_text("abc")
    with tf.Session() as session:
        for _ in range(2):
            found = session.run([lines, whole], {path: str(tmp_path / "text")})
            assert found == [b"ABC", 5]
            (tmp_path / "text").write_text("abc")
        (tmp_path / "other").write_text("abcd")
        assert session.run(whole, {path: str(tmp_path / "other")}) == 6


def test_texts_that_functions_give() -> None:
    @tf.function
    def named(x: Any) -> Any:
        return {"name": tf.constant(["a", "b"]), "value": x * 2.0}

    name, again = run(named(tf.constant(1.0))), run(tf.tuple([tf.constant("c")]))
    assert name["name"].tolist() == [b"a", b"b"] and name["value"] == 2.0
    assert again == [b"c"]


def test_gradients_of_what_the_host_and_a_device_share() -> None:
    w = tf.get_variable("w", initializer=2.0, use_resource=True)
    shared = w * w
    with scopes.ipu_scope(IPU):
        there = shared * 3.0
        of_device = tf.gradients(there, w)[0]
    here = shared * 5.0 + there
    of_host, of_shared = tf.gradients(here, w)[0], tf.gradients(shared, w)[0]
    assert run(of_device) == 12.0 and run(of_host) == 32.0 and run(of_shared) == 4.0
    fetches = [there, here, of_host, of_shared, of_device]
    assert run(fetches) == [12.0, 32.0, 32.0, 4.0, 12.0]


def test_training_on_the_host_and_a_device_in_turn() -> None:
    w = tf.get_variable("w", initializer=1.0, use_resource=True)
    shared = tf.square(w * tf.placeholder(tf.float32, [], name="x"))
    optimizer = tf.train.GradientDescentOptimizer(0.125)
    with scopes.ipu_scope(IPU):
        there = optimizer.minimize(shared)
    here = optimizer.minimize(shared * 2.0)
    with tf.Session() as session:
        session.run(w.initializer)
        for train, value in ((there, 0.75), (here, 0.375), ([there, here], 0.09375)):
            session.run(train, {"x:0": 1.0})
            assert session.run(w) == value


def test_a_saver_names_what_is_missing_or_damaged(tmp_path: Any) -> None:
    tf.get_variable("v", [2], initializer=tf.zeros_initializer())
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match=r"Parent directory of .*doesn't exist"):
            saver.save(session, str(tmp_path / "no" / "model"))
        path = saver.save(session, str(tmp_path / "model"))
        for file in tmp_path.glob("model*safetensors"):
            file.write_bytes(b"damaged")
        with pytest.raises(errors.DataLossError, match=r"model.* is damaged"):
            saver.restore(session, path)
