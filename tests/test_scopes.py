# SPDX-License-Identifier: MIT
"""`ipu.scopes`."""

import threading

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import scopes, tf


def test_ipu_scope_places_variables():
    with scopes.ipu_scope("/device:IPU:0"):
        v = tf.Variable(1.0)
        assert float(v + 1.0) == 2.0


@pytest.mark.parametrize("wrong", ["/device:TPU:0", "gpu:0", ""])
def test_ipu_scope_needs_a_device(wrong):
    with pytest.raises(ValueError, match="device"), scopes.ipu_scope(wrong):
        pass


def test_jit_scope_is_accepted():
    with scopes.ipu_jit_scope(0):
        assert float(tf.constant(2.0)) == 2.0


def test_shard_zero_is_the_whole_device():
    with scopes.ipu_shard(0), scopes.ipu_shard([0, 0]):
        assert float(tf.constant(2.0)) == 2.0


@pytest.mark.parametrize("index", [1, [0, 1]])
def test_a_shard_needs_as_many_ipus(index):
    @tf.function
    def body(x):
        with scopes.ipu_shard(index):
            return x + 1.0

    attach(1)
    with tf.device("/device:IPU:0"), pytest.raises(tf.errors.InternalError):
        body(tf.constant(1.0))
    attach(2)
    try:
        with tf.device("/device:IPU:0"):
            assert float(body(tf.constant(1.0))) == 2.0
            assert body.traced(tf.constant(1.0)).program.replicas == 1
    finally:
        attach(1)
    with scopes.ipu_shard(index):  # what runs at once has no shard
        assert float(tf.constant(1.0) + 1.0) == 2.0


@pytest.mark.parametrize("index", [-1, 0.5, "a", True, None, [0, -1]])
def test_shards_are_counted_from_zero(index):
    with pytest.raises(ValueError, match="0 or more"), scopes.ipu_shard(index):
        pass


def test_outside_compilation_scope_needs_a_function():
    with (
        pytest.raises(ValueError, match="inside a function"),
        scopes.outside_compilation_scope(),
    ):
        pass


def test_frontend_attribute_is_checked():
    with scopes.frontend_attribute("a", "b", restore_to="c"):
        pass
    with (
        pytest.raises(TypeError, match="attribute_value"),
        scopes.frontend_attribute("a", 1),
    ):
        pass


def test_stochastic_rounding():
    for override in (False, True):  # what it does: tests/test_float_behaviour.py
        with scopes.stochastic_rounding(override):
            assert float(tf.constant(2.0) + 1.0) == 3.0
    with pytest.raises(TypeError, match="bool"), scopes.stochastic_rounding(1):
        pass


@pytest.mark.parametrize("wrong", ["int32", tf.float64, "floaty", None])
def test_partials_are_float16_or_float32(wrong):
    with (
        pytest.raises(ValueError, match="Only support float16, float32, provided"),
        scopes.partials_type(wrong),
    ):
        pass


def test_sums_are_float32_whatever_the_partials():
    x = tf.constant([[2048.0, 1.0, 1.0, 1.0, 1.0]], tf.float16)
    for kind in (tf.float32, "float16", np.float16):
        with scopes.partials_type(kind):
            product = tf.matmul(x, tf.ones([5, 1], tf.float16))
        assert float(product[0, 0]) == 2052.0


def test_tensors_say_where_they_were_placed():
    place = "/job:localhost/replica:0/task:0/device:"
    assert tf.constant(1.0).device == place + "CPU:0"
    with tf.device("/device:IPU:0"):
        a = tf.constant([1.0, 2.0])
        found = [a, a + a, tf.matmul([[1.0]], [[2.0]]), tf.function(lambda x: x * x)(a)]
        with tf.device("cpu"):
            inner = a + 1.0
        with tf.device("IPU:1"):
            other = tf.zeros(2)
        found.append(a - 1.0)
    assert [one.device for one in found] == [place + "IPU:0"] * 5
    assert inner.device == place + "CPU:0"
    assert other.device == place + "IPU:1"
    assert (a + a).device == place + "CPU:0"
    seen = []

    def work():
        seen.append(tf.zeros(1).device)

    with tf.device("IPU:0"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [place + "CPU:0"]
