# SPDX-License-Identifier: MIT
"""What graphs of TensorFlow 1 hold; expected values are NumPy's."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from session_runs import run

from ipu import scopes
from ipu.tf import errors
from ipu.tf.compat import v1 as tf

IPU = "/device:IPU:0"
pytestmark = pytest.mark.usefixtures("graph")


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


def test_sizes_follow_what_is_fed() -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    flat = tf.reshape(x, [tf.shape(x)[0] * 2, 2])
    assert flat.shape.as_list() == [None, 2]
    with tf.Session() as session:
        assert session.run(flat, {x: np.zeros((3, 4))}).shape == (6, 2)
        assert session.run(tf.shape(x), {x: np.zeros((5, 4))}).tolist() == [5, 4]


def test_graphs_know_their_operations(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [], name="x")
    with tf.name_scope("scope"):
        y = tf.add(x, 1.0, name="y")
        again = tf.add(x, 1.0, name="y")
    assert y.name == "scope/y:0" and again.op.name == "scope/y_1"
    assert graph.get_tensor_by_name("scope/y:0") is y and y.op in x.consumers()
    assert graph.get_operation_by_name("x") is x.op
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    assert run([graph.get_tensor_by_name("v:0"), "v:0"]) == [1.0, 1.0]
    assert v.name == "v:0"
    with pytest.raises(KeyError, match="not in the graph"):
        graph.get_operation_by_name("z")
    with pytest.raises(ValueError, match="invalid"):
        graph.get_tensor_by_name("x")
    graph.finalize()
    with pytest.raises(RuntimeError, match="finalized"):
        _ = x + 1.0


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


def test_constants_come_after_what_they_depend_on() -> None:
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    with tf.control_dependencies([v.assign_add(1.0)]):
        one, text, sizes = tf.constant(1.0), tf.constant("x"), tf.shape(tf.zeros([2]))
    with tf.control_dependencies([one]):
        late = tf.constant(2)
    fetches = [one, text, sizes, late, one * 2.0, sizes + 1, late + 1, tf.group(one)]
    with tf.Session() as session:
        session.run(v.initializer)
        for count, fetch in enumerate(fetches, start=1):
            session.run(fetch)
            assert session.run(v) == count, fetch
        session.run(v.initializer)
        assert session.run(one * 2.0, {one: 4.0}) == 8.0
        assert session.run(v) == 0.0


def test_arrays_are_copied_when_an_operation_is_made_of_them() -> None:
    x = np.arange(3.0, dtype=np.float32)
    results = [tf.add(x, 1.0), tf.ones(3) * x, tf.stack([x, x]), tf.identity(x)]
    results.append(tf.as_string(x))
    with tf.Session() as session:
        before = [np.asarray(one).tolist() for one in session.run(results)]
        x[:] = 9.0
    with tf.Session() as session:
        after = [np.asarray(one).tolist() for one in session.run(results)]
    assert before == after and before[0] == [1.0, 2.0, 3.0]


def test_random_numbers_are_drawn_once_in_a_run() -> None:
    x = tf.random_uniform([4])
    with tf.Session() as session:
        one, same = session.run([x, tf.identity(x)])
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, session.run(x))


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


# --- variables ------------------------------------------------------------------------


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


# --- functions ------------------------------------------------------------------------


def test_control_flow_in_a_graph() -> None:
    n = tf.placeholder(tf.int32, [])
    step = tf.constant(2)
    i, total = tf.while_loop(
        lambda i, total: i < n, lambda i, total: (i + 1, total + i * step), (0, 0)
    )
    chosen = tf.cond(n > 3, lambda: total + 100, lambda: total)
    assert run([i, total, chosen], {n: 3}) == [3, 6, 6]
    assert run([i, total, chosen], {n: 4}) == [4, 12, 112]


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


# --- shapes that are fed --------------------------------------------------------------


def test_a_placeholder_without_a_shape() -> None:
    x, y = tf.placeholder("float"), tf.placeholder(tf.float32)
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    line = x * 2.0 + y
    assert line.shape.rank is None and tf.reduce_mean(line).shape == ()
    with tf.Session() as session:
        assert session.run(line, {x: 1.0, y: 3.0}) == 5.0
        assert session.run(line, {x: [1.0, 2.0], y: 3.0}).tolist() == [5.0, 7.0]
        got = session.run(line, {x: rows, y: rows[0]})
        np.testing.assert_array_equal(got, rows * 2.0 + rows[0])


@pytest.mark.parametrize("shape", [None, [None, None], [None, 4]])
def test_what_is_known_of_open_shapes(shape: Any) -> None:
    x = tf.placeholder(tf.float32, shape)
    w = tf.get_variable("w", initializer=np.arange(12, dtype=np.float32).reshape(4, 3))
    y = tf.matmul(x, w)
    assert y.shape.as_list() == [None, 3]
    pictures = tf.reshape(x, [-1, 2, 2, 1])
    kernel = tf.ones([2, 2, 1, 5])
    filtered = tf.nn.conv2d(pictures, kernel, [1, 1, 1, 1], "SAME")
    assert filtered.shape.as_list() == [None, 2, 2, 5]
    chosen = tf.argmax(y, 1)
    assert chosen.shape.as_list() == [None] and chosen.dtype == tf.int64
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    got = run([y, filtered, chosen], {x: rows})
    np.testing.assert_allclose(got[0], rows @ np.arange(12).reshape(4, 3))
    assert got[1].shape == (2, 2, 2, 5) and got[2].tolist() == [2, 2]


def test_sizes_of_what_has_no_shape() -> None:
    x = tf.placeholder(tf.float32)
    count = tf.shape(x)[0]
    split = tf.reshape(x, tf.stack([count, 2, -1]))
    with scopes.ipu_scope(IPU):
        twice = tf.reshape(x, [count * 2, -1]) + 1.0
    zeros, half = tf.zeros([count, 3]), tf.split(x, 2, axis=1)[1]
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    with tf.Session() as session:
        got = session.run([split, twice, zeros, half, count, tf.rank(x)], {x: rows})
        assert [one.shape for one in got[:4]] == [(2, 2, 2), (4, 2), (2, 3), (2, 2)]
        assert got[4:] == [2, 2]
        assert session.run(twice, {x: rows[:1]}).tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_one_program_for_each_shape_that_is_fed() -> None:
    calls: list[Any] = []

    @tf.function
    def double(x: Any) -> Any:
        calls.append(x.shape)
        return x * 2.0

    x = tf.placeholder(tf.float32)
    y = double(x)
    calls.clear()
    with tf.Session() as session:
        for shape in ([2], [3], [2], [3], [2, 1]):
            assert session.run(y, {x: np.ones(shape)}).shape == tuple(shape)
    assert len(calls) <= 3


def test_errors_of_open_shapes() -> None:
    x = tf.placeholder(tf.float32)
    with pytest.raises(ValueError, match="has to be known when the graph is made"):
        tf.layers.dense(x, 3)
    with pytest.raises(ValueError, match="The number of results depends on a s"):
        tf.unstack(x)
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        tf.reduce_sum(x, axes=1)
    with pytest.raises(errors.InvalidArgumentError, match="matmul"):
        tf.matmul(tf.placeholder(tf.float32, [None, 3]), tf.zeros([4, 5]))
    y = tf.matmul(x, tf.zeros([4, 5]))
    with pytest.raises(errors.InvalidArgumentError, match="matmul"):
        run(y, {x: np.zeros([2, 3])})
    with pytest.raises(errors.InvalidArgumentError, match=r"with dtype float\. Pass"):
        run(y)


# --- work that grows with the graph, and no faster ------------------------------------


def calls_of(function: Callable[[], Any]) -> int:
    """How many functions are called on the way."""
    count = 0

    def note(_: Any, event: str, __: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def chain(length: int) -> Any:
    x = tf.constant([1.0, 2.0])
    for _ in range(length):
        x = x + x * 0.0
    return x


def long_run(length: int) -> None:
    x = y = tf.placeholder(tf.float32, [2])
    for _ in range(length):
        y = y + 1.0
    with tf.Session() as session:
        assert session.run(y, {x: [1.0, 2.0]}).tolist() == [length + 1.0, length + 2.0]


def many_variables(count: int) -> None:
    with tf.variable_scope(f"of_{count}"):
        for k in range(count):
            tf.get_variable(f"v{k}", [2])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(tf.global_variables())


def test_values_of_constants_are_computed_once() -> None:
    x = chain(300)
    np.testing.assert_array_equal(np.asarray(x), [1.0, 2.0])
    assert calls_of(lambda: np.asarray(x)) < 1e5


@pytest.mark.parametrize("work", [chain, long_run, many_variables])
def test_work_grows_with_the_graph(work: Callable[[int], Any]) -> None:
    work(10)
    calls = [
        calls_of(lambda count=count: in_a_graph(work, count)) for count in (100, 400)
    ]
    assert calls[1] < 6 * calls[0], calls


def in_a_graph(work: Callable[[int], Any], count: int) -> None:
    with tf.Graph().as_default():
        work(count)
