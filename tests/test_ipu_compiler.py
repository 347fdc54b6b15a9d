# SPDX-License-Identifier: MIT
"""`ipu.ipu_compiler.compile` in eager code and inside functions."""

import collections

import numpy as np
import pytest

import ipu
from ipu import ipu_compiler, loops, scopes, tf
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.ops import normalization_ops
from ipu.tf._functions.function import DeviceFunction
from ipu.tf.compat import v1

Pair = collections.namedtuple("Pair", "a b")


def compiled(computation, inputs=None):
    with scopes.ipu_scope("/device:IPU:0"):
        return ipu_compiler.compile(computation, inputs)


def test_one_tensor_is_a_list_of_one():
    [result] = compiled(
        lambda a, b, c: a + b + (a + c),
        [np.float32([1, 1]), np.float32([0, 1]), np.float32([1, 5])],
    )
    np.testing.assert_array_equal(result, [3.0, 8.0])


def test_several_tensors_are_a_list_in_order():
    results = compiled(lambda x: (x + 1.0, x * 3.0), [2.0])
    assert type(results) is list
    assert [float(one) for one in results] == [3.0, 6.0]
    flat = compiled(lambda x: Pair(x, x + 1.0), [2.0])
    assert type(flat) is list and len(flat) == 2


def test_nested_results_keep_their_structure():
    result = compiled(lambda x: {"a": x, "b": (x + 1.0, [x * 2.0])}, [1.0])
    assert float(result["a"]) == 1.0
    assert type(result["b"]) is tuple and type(result["b"][1]) is list
    assert float(result["b"][1][0]) == 2.0
    nested = compiled(lambda x: (x, [x]), [1.0])
    assert type(nested) is tuple


def test_numbers_become_tensors():
    one, two = compiled(lambda: (1, 2.5))
    assert one.dtype == tf.int32 and two.dtype == tf.float32
    assert float(two) == 2.5


def test_a_list_of_numbers_is_a_list_of_scalars():
    def computation(pair, rest):
        assert isinstance(pair, list) and pair[0].shape == ()
        return pair[0] + pair[1] + rest["x"]

    [result] = compiled(computation, [[1.0, 2.0], {"x": tf.constant([1.0, 2.0])}])
    np.testing.assert_array_equal(result, [4.0, 5.0])


def test_operations_after_tensors_run_and_are_left_out():
    queue = IPUOutfeedQueue()
    results = compiled(lambda x: (x * 2.0, queue.enqueue(x)), [3.0])
    assert [float(one) for one in results] == [6.0]
    assert queue.dequeue().numpy().tolist() == [3.0]


def test_only_operations_give_none():
    queue = IPUOutfeedQueue()
    assert compiled(lambda: queue.enqueue(1.0)) is None
    assert compiled(lambda: None) is None
    assert compiled(lambda: []) is None
    assert queue.dequeue().numpy().tolist() == [1.0]


def test_a_loop_without_tensors_is_an_operation():
    queue = IPUOutfeedQueue()

    def net():
        return loops.repeat(3, lambda: queue.enqueue(1.0))

    assert compiled(net) is None
    assert compiled(lambda x: (x, loops.repeat(0, lambda: None)), [2.0])[0] == 2.0
    assert queue.dequeue().shape == (3,)


def test_a_tensor_after_an_operation_is_an_error():
    with pytest.raises(ValueError, match="followed by zero or more Operations"):
        compiled(lambda x: (None, x), [1.0])
    assert compiled(lambda x: {"a": x, "b": None}, [1.0]) == {"a": 1.0, "b": None}


def test_not_placed_on_an_ipu():
    with pytest.raises(Exception, match="not placed on an IPU"):
        ipu_compiler.compile(lambda: 1.0)
    with (
        scopes.ipu_scope("/device:CPU:0"),
        pytest.raises(Exception, match="not placed on an IPU"),
    ):
        ipu_compiler.compile(lambda: 1.0)


def test_bad_arguments():
    with pytest.raises(TypeError, match="must be callable"):
        compiled(3)
    with pytest.raises(TypeError, match="list or tuple"):
        compiled(lambda x: x, tf.constant(1.0))


class EstimatorSpec:
    pass


def test_an_estimator_spec_is_an_error():
    with pytest.raises(ValueError, match="contains an EstimatorSpec"):
        compiled(lambda: EstimatorSpec())


def test_variables_are_updated_on_the_device():
    with IPUStrategy().scope():
        v = tf.Variable(1.0)
        for _ in range(3):
            [now] = ipu_compiler.compile(lambda: v.assign_add(2.0))
        assert float(now) == 7.0
        [read] = ipu_compiler.compile(lambda: v)
    assert float(v) == 7.0 and float(read) == 7.0


def test_loops_inside():
    with IPUStrategy().scope():
        [result] = ipu_compiler.compile(
            lambda x: loops.repeat(5, lambda y: y * 2.0, [x]), [1.0]
        )
    assert float(result) == 32.0


def test_inside_a_function_it_becomes_part_of_it():
    def function(x):
        [y] = ipu_compiler.compile(lambda z: z + 1.0, [x])
        return y * 2.0

    strategy = IPUStrategy()
    with strategy.scope():
        assert float(strategy.run(DeviceFunction(function), args=(1.0,))) == 4.0


def test_every_call_traces_anew():
    seen = []
    for step in range(2):
        compiled(lambda x, step=step: seen.append(step) or x, [1.0])
    assert seen == [0, 1]


def test_it_is_there_under_its_known_address():
    assert ipu.ipu_compiler.compile is ipu_compiler.compile


def test_get_variable_outside_of_graphs():
    ones = v1.ones_initializer()
    first, other = (v1.get_variable("w", [2], initializer=ones) for _ in range(2))
    assert first is not other and first.numpy().tolist() == [1.0, 1.0]
    with v1.variable_scope("scope", reuse=v1.AUTO_REUSE):
        shared, again = (v1.get_variable("w", [2]) for _ in range(2))
    assert shared is again and shared.name == "scope/w:0"


def test_norms_outside_of_graphs():
    x = tf.random.normal([2, 4, 4, 4], seed=1)
    eager = normalization_ops.group_norm(x, 2)
    traced = tf.function(lambda x: normalization_ops.group_norm(x, 2))(x)
    np.testing.assert_allclose(eager, traced, atol=1e-6)
    assert abs(float(tf.reduce_mean(eager))) < 1e-5
