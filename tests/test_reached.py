# SPDX-License-Identifier: MIT
"""What of a compiled function runs in a graph of TensorFlow 1: what it returns, what
that is made of, and what has to run before it. Nothing else does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from session_runs import run

from ipu import ipu_compiler, loops, scopes
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ops import internal_ops
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

Body = Callable[[Any], Any]


def after(body: Body) -> float:
    """The value of a variable, at first 0, after a function of it has run."""
    v = tf.get_variable("v", initializer=0.0, use_resource=True)
    with scopes.ipu_scope("/device:IPU:0"):
        done = ipu_compiler.compile(lambda: body(v), [])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(done)
        return float(session.run(v))


def ignored(v: Any) -> Any:
    v.assign_add(1.0)
    return tf.constant(1.0)


def returned(v: Any) -> Any:
    return tf.constant(1.0), v.assign_add(1.0)


def returned_operation(v: Any) -> Any:
    return tf.constant(1.0), v.assign_add(1.0).op


def used(v: Any) -> Any:
    return v.assign_add(1.0) * 2.0


def read_behind(v: Any) -> Any:
    v.assign_add(1.0)
    return v * 2.0


def in_a_group(v: Any) -> Any:
    return tf.group(v.assign_add(1.0), tf.no_op())


def in_an_ignored_group(v: Any) -> Any:
    tf.group(v.assign_add(1.0))
    return tf.no_op()


def waited_for(v: Any) -> Any:
    with tf.control_dependencies([v.assign_add(1.0)]):
        return tf.identity(3.0)


def waited_for_in_vain(v: Any) -> Any:
    x = tf.constant(3.0) * 2.0
    with tf.control_dependencies([v.assign_add(1.0)]):
        tf.identity(3.0)
    return x


def waited_for_operation(v: Any) -> Any:
    with tf.control_dependencies([tf.group(v.assign_add(1.0))]):
        return tf.no_op(), tf.identity(1.0).op


def waited_for_by_a_constant(v: Any) -> Any:
    with tf.control_dependencies([v.assign_add(1.0)]):
        return tf.constant(3.0)


def waited_for_by_a_constant_in_vain(v: Any) -> Any:
    with tf.control_dependencies([v.assign_add(1.0)]):
        tf.constant(3.0)
    return tf.constant(3.0)


def waited_for_by_constants(v: Any) -> Any:
    with tf.control_dependencies([v.assign_add(1.0)]):
        with tf.control_dependencies([v.assign_add(10.0)]):
            one = tf.constant(3.0)
        other = tf.convert_to_tensor(4.0)
    with tf.control_dependencies([one]):
        return tf.no_op(), tf.group(other)


def waited_for_by_a_constant_in_a_branch(v: Any) -> Any:
    return tf.cond(v < 1.0, lambda: waited_for_by_a_constant(v), lambda: 2.0)


def waited_for_by_a_tuple(v: Any) -> Any:
    return tf.tuple([tf.constant(1.0)], control_inputs=[v.assign_add(1.0)])


def a_tuple(v: Any) -> Any:
    return tf.tuple([tf.constant(1.0), v.assign_add(1.0), None])[0]


def one_of_two(v: Any) -> Any:
    v.assign_add(10.0)
    kept = v.assign_add(1.0)
    v.assign_add(100.0)
    return kept


def a_chain(v: Any) -> Any:
    first = v.assign_add(1.0)
    with tf.control_dependencies([first]):
        second = v.assign_add(2.0)
    with tf.control_dependencies([second]):
        return v.read_value(), tf.no_op()


def trained(v: Any) -> Any:
    return tf.train.GradientDescentOptimizer(1.0).minimize(2.0 * v)


def not_trained(v: Any) -> Any:
    loss = 2.0 * v
    tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    return loss


def trained_before(v: Any) -> Any:
    loss = 2.0 * v
    with tf.control_dependencies([tf.train.MomentumOptimizer(1.0, 0.9).minimize(loss)]):
        return tf.identity(loss)


def of_a_function(v: Any) -> Any:
    @tf.function
    def counted(x: Any) -> Any:
        v.assign_add(1.0)
        return x * 2.0

    return counted(tf.constant(1.0))


def of_an_ignored_function(v: Any) -> Any:
    @tf.function
    def counted(x: Any) -> Any:
        v.assign_add(1.0)
        return x * 2.0

    counted(tf.constant(1.0))
    return tf.constant(1.0)


def in_a_branch(v: Any) -> Any:
    def increased() -> Any:
        v.assign_add(10.0)
        return v.assign_add(1.0)

    return tf.cond(v.read_value() < 1.0, increased, v.read_value)


def operations_of_branches(v: Any) -> Any:
    def increased() -> Any:
        v.assign_add(10.0)
        return v.assign_add(1.0).op

    return tf.cond(v.read_value() < 1.0, increased, tf.no_op)


def repeated(v: Any) -> Any:
    return loops.repeat(3, lambda: v.assign_add(1.0).op, [])


def repeated_and_ignored(v: Any) -> Any:
    loops.repeat(3, lambda: v.assign_add(1.0).op, [])
    return tf.no_op()


def ignored_in_a_loop(v: Any) -> Any:
    def body(x: Any) -> Any:
        v.assign_add(1.0)
        return x + 1.0

    return loops.repeat(3, body, [0.0])


def returned_in_a_loop(v: Any) -> Any:
    def body(x: Any) -> Any:
        v.assign_add(10.0)
        return x + 1.0, v.assign_add(1.0).op

    return loops.repeat(3, body, [0.0])


def waited_for_in_a_loop(v: Any) -> Any:
    def body(x: Any) -> Any:
        with tf.control_dependencies([v.assign_add(1.0)]):
            return x + 1.0

    return loops.repeat(3, body, [0.0])


def in_a_loop_in_a_loop(v: Any) -> Any:
    def body() -> Any:
        v.assign_add(100.0)
        return loops.repeat(2, lambda: v.assign_add(1.0).op, [])

    return loops.repeat(3, body, [])


def ignored_loop_in_a_loop(v: Any) -> Any:
    def body(x: Any) -> Any:
        loops.repeat(2, lambda: v.assign_add(1.0).op, [])
        return x + 1.0

    return loops.repeat(3, body, [0.0])


def in_a_while_loop(v: Any) -> Any:
    def body(i: Any) -> Any:
        v.assign_add(10.0)
        with tf.control_dependencies([v.assign_add(1.0)]):
            return i + 1

    return tf.while_loop(lambda i: i < 4, body, [0])


def trained_in_a_loop(v: Any) -> Any:
    def body() -> Any:
        return tf.train.GradientDescentOptimizer(1.0).minimize(-2.0 * v)

    return loops.repeat(3, body, [])


def not_trained_in_a_loop(v: Any) -> Any:
    def body(x: Any) -> Any:
        loss = 2.0 * v
        tf.train.AdamOptimizer(1.0).minimize(loss)
        return x + loss

    return loops.repeat(3, body, [0.0])


def scattered(v: Any) -> Any:
    table = tf.get_variable("table", initializer=np.zeros(3, np.float32))
    table.scatter_nd_add([[0]], [5.0])
    with tf.control_dependencies([table.scatter_nd_add([[1]], [7.0])]):
        return v.assign_add(tf.reduce_sum(table.read_value()))


def delayed(v: Any) -> Any:
    return loops.repeat(
        3, lambda: v.assign_add(internal_ops.fifo(v.read_value() + 1.0, 1)).op, []
    )


@pytest.mark.parametrize(
    "body, value",
    [
        (ignored, 0),
        (returned, 1),
        (returned_operation, 1),
        (used, 1),
        (read_behind, 0),
        (in_a_group, 1),
        (in_an_ignored_group, 0),
        (waited_for, 1),
        (waited_for_in_vain, 0),
        (waited_for_operation, 1),
        (waited_for_by_a_constant, 1),
        (waited_for_by_a_constant_in_vain, 0),
        (waited_for_by_constants, 11),
        (waited_for_by_a_constant_in_a_branch, 1),
        (waited_for_by_a_tuple, 1),
        (a_tuple, 1),
        (one_of_two, 1),
        (a_chain, 3),
        (trained, -2),
        (not_trained, 0),
        (trained_before, -2),
        (of_a_function, 1),
        (of_an_ignored_function, 0),
        (in_a_branch, 1),
        (operations_of_branches, 1),
        (repeated, 3),
        (repeated_and_ignored, 0),
        (ignored_in_a_loop, 0),
        (returned_in_a_loop, 3),
        (waited_for_in_a_loop, 3),
        (in_a_loop_in_a_loop, 6),
        (ignored_loop_in_a_loop, 0),
        (in_a_while_loop, 4),
        (trained_in_a_loop, 6),
        (not_trained_in_a_loop, 0),
        (scattered, 7),
        (delayed, 2),
    ],
)
def test_what_runs(body: Body, value: float) -> None:
    assert after(body) == value


def test_what_runs_prints_and_the_rest_does_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    def body(x: Any) -> Any:
        tf.print("ignored", x)
        with tf.control_dependencies([tf.print("needed", x)]):
            return x * 2.0

    with scopes.ipu_scope("/device:IPU:0"):
        doubled = ipu_compiler.compile(body, [tf.constant(3.0)])
    assert run(doubled) == [6.0]
    assert "needed 3" in capfd.readouterr().err.replace("ignored", "needed needed")


def test_elements_are_taken_and_only_what_is_returned_is_enqueued() -> None:
    data = tf.data.Dataset.range(100).map(lambda i: tf.cast(i, tf.float32))
    infeed = IPUInfeedQueue(data)
    kept, ignored_queue = IPUOutfeedQueue(), IPUOutfeedQueue()

    def body(total: Any, x: Any) -> Any:
        ignored_queue.enqueue(x)
        return total + x, kept.enqueue(x * 2.0)

    def blind(x: Any) -> Any:  # takes an element for nothing
        return kept_2.enqueue(tf.constant(1.0))

    kept_2 = IPUOutfeedQueue()
    with scopes.ipu_scope("/device:IPU:0"):
        total = ipu_compiler.compile(
            lambda: loops.repeat(4, body, [0.0], infeed_queue=infeed), []
        )
        skipped = ipu_compiler.compile(
            lambda: loops.repeat(2, blind, [], infeed_queue=infeed), []
        )
    results = kept.dequeue()
    with tf.Session() as session:
        session.run(infeed.initializer)
        assert session.run(total) == [6.0]
        session.run(skipped)
        assert session.run(total) == [6.0 + 7.0 + 8.0 + 9.0]
        assert session.run(results).tolist() == [0, 2, 4, 6, 12, 14, 16, 18]


def test_penalties_and_updates_of_a_compiled_function_are_collected_there() -> None:
    def body(x: Any, moves: bool) -> Any:
        y = tf.layers.dense(
            x,
            1,
            kernel_initializer=tf.ones_initializer(),
            kernel_regularizer=tf.reduce_sum,
            name="layer",
            reuse=tf.AUTO_REUSE,
        )
        y = tf.layers.batch_normalization(
            y, training=True, momentum=0.5, name="norm", reuse=tf.AUTO_REUSE
        )
        tf.losses.mean_squared_error(y, y - 1.0)
        updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates if moves else []):
            penalty = tf.losses.get_regularization_loss()
            return tf.losses.get_total_loss(), tf.identity(penalty)

    x = tf.constant([[1.0, 2.0], [3.0, 6.0]])
    with scopes.ipu_scope("/device:IPU:0"):
        still = ipu_compiler.compile(lambda x: body(x, False), [x])
        moving = ipu_compiler.compile(lambda x: body(x, True), [x])
    mean = next(v for v in tf.global_variables() if "moving_mean" in v.name)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([still, mean])[0] == [3.0, 2.0]
        assert session.run(mean).tolist() == [0.0]
        for _ in range(2):
            session.run(moving)
        assert session.run(mean).tolist() == [4.5]
    assert tf.get_collection(tf.GraphKeys.UPDATE_OPS) == []
