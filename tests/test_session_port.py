# SPDX-License-Identifier: MIT
"""What graphs of TensorFlow 1 do with the parts of the IPU's own API."""

import numpy as np
import pytest
from session_runs import run
from simulated_ipus import attach

import ipu
from ipu import ipu_compiler, scopes
from ipu.ops import pipelining_ops, rand_ops
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")
IPU = "/device:IPU:0"


# --- ipu_compiler.compile -------------------------------------------------------------


def test_nested_results_keep_none_and_operations() -> None:
    attach(1)
    x = tf.placeholder(tf.float32, [2])

    def computation(x):
        v = tf.get_variable("v", initializer=tf.zeros([2]), use_resource=True)
        added = tf.assign_add(v, x)
        with tf.control_dependencies([added]):
            done = tf.no_op()
        return {"twice": x * 2, "rest": [None, (done, x)], "none": None}

    with scopes.ipu_scope(IPU):
        found = ipu_compiler.compile(computation, [x])
    assert found["none"] is None and found["rest"][0] is None
    done, same = found["rest"][1]
    assert isinstance(done, tf.Operation)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run([found["twice"], done, same], {x: [1.0, 2.0]})
        assert got[0].tolist() == [2, 4] and got[1] is None
        assert got[2].tolist() == [1, 2]
        session.run(done, {x: [1.0, 2.0]})
        assert session.run(tf.global_variables()[0]).tolist() == [2, 4]


def test_a_computation_that_nobody_placed() -> None:
    x = tf.placeholder(tf.float32, [1])
    with tf.device("/device:CPU:0"):
        with pytest.raises(Exception, match="not placed on an IPU device"):
            ipu_compiler.compile(lambda a: a + a, inputs=[x])
        nothing = ipu_compiler.compile(tf.no_op)
    with tf.Session() as session:
        assert session.run(nothing) is None


# --- functions of the port ------------------------------------------------------------


def test_dropout_takes_what_programs_give_it() -> None:
    attach(1)
    x = tf.placeholder(tf.float32, [2, 4])

    def computation(x):
        whole = rand_ops.dropout(x, rate=0.5, seed=[1, 2], ref=False)
        rows = rand_ops.dropout(x, rate=0.5, seed=[1, 2], noise_shape=[2, 1], ref=True)
        return whole, rows

    with scopes.ipu_scope(IPU):
        found = ipu_compiler.compile(computation, [x])
    whole, rows = run(found, {x: np.ones([2, 4])})
    assert set(whole.ravel()) <= {0.0, 2.0}
    assert (rows == rows[:, :1]).all() and set(rows.ravel()) <= {0.0, 2.0}
    with pytest.raises(ValueError, match="size for each axis"):
        rand_ops.dropout(x, noise_shape=[4])


def test_arguments_of_a_pipeline_come_before_its_place() -> None:
    stages = [lambda x: x, lambda x: x]
    with pytest.raises(ValueError, match="must be mapped"):
        pipelining_ops.pipeline(stages, 4, inputs=[1.0], device_mapping=[0])
    with pytest.raises(ValueError, match="must be specified"):
        pipelining_ops.pipeline(stages, inputs=[1.0])
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    with pytest.raises(RuntimeError, match="device program"):
        pipelining_ops.pipeline(stages, 4, inputs=[1.0], outfeed_queue=outfeed)


def test_functions_that_a_strategy_runs_reduce_over_replicas() -> None:
    attach(1)
    strategy = ipu.ipu_strategy.IPUStrategyV1()

    def function(x):
        context = tf.distribute.get_replica_context()
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, x)
        [mean] = context.all_reduce(tf.distribute.ReduceOp.MEAN, [x])
        return total + mean

    with strategy.scope():
        first = strategy.experimental_run_v2(function, args=[tf.constant(2.0)])
        second = strategy.run(function, args=[tf.constant(3.0)])
    assert run([first, second]) == [4.0, 6.0]


@pytest.mark.parametrize("kind", ["CrossReplicaOptimizer", "MapGradientOptimizer"])
def test_wrapped_optimizers_tell_their_variables(kind) -> None:
    inner = tf.train.MomentumOptimizer(0.1, 0.9)
    more = [lambda g, v: g] if kind == "MapGradientOptimizer" else []
    optimizer = getattr(ipu.optimizers, kind)(inner, *more)
    v = tf.get_variable("v", [2])
    train = optimizer.minimize(tf.reduce_sum(v))
    slot = optimizer.get_slot(v, "momentum")
    assert slot in optimizer.variables() and optimizer.variables() == inner.variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(slot).tolist() == [1, 1]


# --- segments -------------------------------------------------------------------------


def test_segments_of_no_and_of_unknown_number() -> None:
    x = tf.placeholder(tf.float32, [3, 2])
    ids = tf.placeholder(tf.int32, [3])
    n = tf.placeholder(tf.int32, [])
    none = tf.unsorted_segment_sum(x, ids, 0)
    assert none.shape.as_list() == [0, 2]
    asked = [
        tf.unsorted_segment_sum(x, ids, n),
        tf.segment_sum(x, ids),
        tf.segment_mean(x, ids),
    ]
    assert [one.shape.as_list() for one in asked] == [[None, 2]] * 3
    feed = {x: [[1, 2], [3, 4], [5, 6]], ids: [0, 0, 2], n: 4}
    total, sums, means = run(asked, feed)
    assert total.tolist() == [[4, 6], [0, 0], [5, 6], [0, 0]]
    assert sums.tolist() == [[4, 6], [0, 0], [5, 6]]
    assert means.tolist() == [[2, 3], [0, 0], [5, 6]]
    assert run(none, {x: np.ones([3, 2]), ids: [-1, -1, -1]}).shape == (0, 2)
