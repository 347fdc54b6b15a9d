# SPDX-License-Identifier: MIT
"""Asking for the IPU of operations, and spreading them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import autoshard, scopes, sharding
from ipu.tf.compat import v1 as tf

IPU = "/device:IPU:0"
pytestmark = pytest.mark.usefixtures("graph")


def test_the_ipu_of_an_operation() -> None:
    with scopes.ipu_scope(IPU):
        x = tf.placeholder(tf.float32, [2])
        with scopes.ipu_shard(2):
            y = tf.tanh(x)
        z = y + 1.0
    assert sharding.get_sharding(y.op) == sharding.get_sharding(y) == [2]
    assert sharding.get_sharding(z.op) is None
    assert sharding.has_attr(y.op, "_XlaSharding")
    assert not sharding.has_attr(z.op, "_XlaSharding")
    assert not sharding.has_attr(y.op, "other")
    assert sharding.get_shard_from_colocation(y.op) == 2
    assert sharding.dependencies([z]) >= {x.op, y.op, z.op}
    sharding.propagate_sharding(tf.get_default_graph())
    with pytest.raises(TypeError, match="An operation of a graph is needed"):
        sharding.get_sharding(3)
    with pytest.raises(TypeError, match=r"must be a tf\.Graph"):
        sharding.propagate_sharding(None)


def model(x: Any) -> Any:
    hidden = x
    for _ in range(4):
        hidden = tf.layers.dense(hidden, 8, activation=tf.nn.relu)
    return tf.reduce_mean(hidden)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_model_is_spread_and_trains(count: int) -> None:
    attach(count)
    x = tf.placeholder(tf.float32, [4, 8])
    with scopes.ipu_scope(IPU), autoshard.ipu_autoshard():
        loss = model(x)
    autoshard.automatic_sharding(count, x, loss)
    shards = [
        sharding.get_shard_from_colocation(op)
        for op in tf.get_default_graph().get_operations()
        if sharding.get_sharding(op) is not None
    ]
    assert shards == sorted(shards) and set(shards) == set(range(count))
    assert max(map(shards.count, shards)) < len(shards) / count + 4
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    rows = np.ones([4, 8])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train], {x: rows})[0] for _ in range(3)]
    assert losses[2] < losses[0]


def test_what_cannot_be_spread() -> None:
    x = tf.placeholder(tf.float32, [4])
    with pytest.raises(ValueError, match="No ops are on an IPU"):
        autoshard.automatic_sharding(2, x, tf.tanh(x))
    with scopes.ipu_scope(IPU):
        y = tf.exp(tf.tanh(x))
    with pytest.raises(RuntimeError, match="cannot be split in 3 parts"):
        autoshard.automatic_sharding(3, x, y)
    with pytest.raises(RuntimeError, match="where edge_filter allows it"):
        autoshard.automatic_sharding(2, x, y, edge_filter=lambda edge: True)
