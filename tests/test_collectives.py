# SPDX-License-Identifier: MIT
"""What replicas send to each other, and what the shards of one exchange."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import (
    all_to_all_op,
    cross_replica_ops,
    ipu_compiler,
    reduce_scatter_op,
    replication_ops,
    scopes,
    sharding,
    tf,
    within_replica_ops,
)
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.tf import errors
from ipu.tf.compat import v1

VALUES = np.random.default_rng(2).normal(size=(4, 4, 6)).astype("f4")
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ADD": np.sum,
    "MUL": np.prod,
    "MIN": np.min,
    "MAX": np.max,
    "LOGICAL_AND": np.all,
    "LOGICAL_OR": np.any,
    "SQUARE_ADD": lambda x, axis: np.sum(x * x, axis),
    "MEAN": np.mean,
}


@pytest.fixture(autouse=True)
def _one_ipu_again() -> Iterator[None]:
    yield
    attach(1)


def of_replicas(function: Callable[[Any], Any], values: Any) -> Any:
    """What each replica gets from ``function(values[replica])``."""
    values = np.asarray(values)
    attach(len(values))
    out = IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def run(all_values: Any) -> None:
        own = tf.gather(all_values, replication_ops.replication_index())
        out.enqueue(function(own))

    with scopes.ipu_scope("/device:IPU:0"):
        run(tf.constant(values))
    results = tf.nest.map_structure(lambda x: np.asarray(x)[0], out.dequeue())
    attach(1)
    return results


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "?"])
def test_all_gather(dtype: str) -> None:
    values = (VALUES[:, 0] > 0).astype(dtype) if dtype == "?" else VALUES.astype(dtype)
    found = of_replicas(lambda x: all_to_all_op.all_gather(x, 4), values)
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, [values] * 4)


def test_all_gather_in_groups() -> None:
    found = of_replicas(lambda x: all_to_all_op.all_gather(x, 2), VALUES)
    np.testing.assert_array_equal(found, [VALUES[:2]] * 2 + [VALUES[2:]] * 2)
    with pytest.raises(errors.InvalidArgumentError, match="3"):
        of_replicas(lambda x: all_to_all_op.all_gather(x, 3), VALUES)


@pytest.mark.parametrize("axes", [(0, 0), (0, 1), (0, 2), (2, 0)])
def test_all_to_all(axes: tuple[int, int]) -> None:
    split, concat = axes
    values = np.arange(2 * 4 * 3 * 6).reshape(2, 4, 3, 6).astype("f4")
    found = of_replicas(lambda x: all_to_all_op.all_to_all(x, *axes, 2), values)
    for r in range(2):
        parts = [np.split(value, 2, split)[r] for value in values]
        np.testing.assert_array_equal(found[r], np.concatenate(parts, concat))


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_reduce_scatter(kind: str) -> None:
    values = VALUES[:, 0]
    if "LOGICAL" in kind:
        values = (values > 0).astype("f4")

    def net(x: Any) -> Any:
        op = f"COLLECTIVE_OP_{kind}"
        return reduce_scatter_op.reduce_scatter([x, x[:4]], 4, op)

    long, short = of_replicas(net, values)
    expected = REDUCTIONS[kind](values, axis=0)
    np.testing.assert_allclose(long, [*expected.reshape(3, 2), [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(short, expected[:4, None], rtol=1e-6)


def test_reduce_scatter_of_own_values() -> None:
    values = np.arange(8, dtype="f4").reshape(2, 4)

    def net(x: Any) -> Any:
        return reduce_scatter_op.reduce_scatter(x, 2, "COLLECTIVE_OP_LOCAL")

    np.testing.assert_array_equal(of_replicas(net, values), [[0, 1], [6, 7]])


@pytest.mark.parametrize("which", ["gather", "to_all", "scatter"])
def test_gradients_go_the_other_way(which: str) -> None:
    """The vector-Jacobian product: what a replica's value adds to all of them."""
    values = np.arange(8.0, dtype="f4").reshape(2, 4)

    def net(x: Any) -> Any:
        number = tf.cast(replication_ops.replication_index(), tf.float32)
        if which == "gather":
            y = all_to_all_op.all_gather(x, 2)
        elif which == "to_all":
            y = all_to_all_op.all_to_all(x, 0, 0, 2)
        else:
            y = reduce_scatter_op.reduce_scatter(x, 2)
        weights = 1.0 + np.arange(y.shape.num_elements(), dtype="f4").reshape(y.shape)
        return tf.gradients(y * weights * (number + 1.0), x)[0]

    expected = {
        # slot r of both replicas: weights times 1 and times 2
        "gather": [[3, 6, 9, 12], [15, 18, 21, 24]],
        # part p of replica r is at place r in replica p
        "to_all": [[1, 2, 2, 4], [3, 4, 6, 8]],
        "scatter": [[1, 2, 2, 4]] * 2,
    }[which]
    np.testing.assert_array_equal(of_replicas(net, values), expected)


def test_alone() -> None:
    x = tf.constant([1.0, 2.0])
    for made in (
        all_to_all_op.all_to_all(x, 0, 0, 1),
        all_to_all_op.all_gather(x, 1)[0],
        reduce_scatter_op.reduce_scatter(x, 1),
    ):
        np.testing.assert_array_equal(made, x)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: all_to_all_op.all_gather([1.0], 0), "positive integer"),
        (lambda: all_to_all_op.all_to_all([1.0], 1, 0, 1), "split_dimension must be"),
        (lambda: all_to_all_op.all_to_all([1.0], 0, 2, 1), "concat_dimension must be"),
        (lambda: all_to_all_op.all_to_all([1.0], 0, 0, 2), "2 equal parts"),
        (lambda: reduce_scatter_op.reduce_scatter([[[1.0]]], 1), "takes vectors"),
        (lambda: reduce_scatter_op.reduce_scatter([1.0], 1, "SUM"), "COLLECTIVE_OP_"),
        (lambda: within_replica_ops.all_gather([]), "tensor of each shard"),
        (
            lambda: within_replica_ops.all_gather([np.ones(1), np.ones(1, int)]),
            "the same dtype",
        ),
        (lambda: within_replica_ops.all_gather([1.0, [1.0]]), "number of axes"),
        (
            lambda: within_replica_ops.all_gather([np.ones((1, 2)), np.ones((1, 3))]),
            "same sizes but for axis 0",
        ),
        (
            lambda: within_replica_ops.all_reduce([np.ones((1, 2))], "ADD"),
            "scalars or vectors",
        ),
        (lambda: within_replica_ops.all_reduce([1.0], 3), "`op` must be one of"),
    ],
)
def test_wrong_arguments(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


def test_a_shard_gives_one_tensor() -> None:
    x = tf.constant([1.0])
    with pytest.raises(ValueError, match="a tensor twice"):
        within_replica_ops.all_gather([x, x])


# --- shards of one replica


def sharded(function: Callable[[list[Any]], Any], values: Any) -> Any:
    attach(len(values))

    def net(*inputs: Any) -> Any:
        placed = []
        for i, x in enumerate(inputs):
            with scopes.ipu_shard(i):
                placed.append(tf.identity(x))
        return function(placed)

    with v1.Graph().as_default():
        constants = [v1.constant(value) for value in values]
        with scopes.ipu_scope("/device:IPU:0"):
            compiled = ipu_compiler.compile(net, constants)
        with v1.Session() as session:
            return session.run(compiled)


@pytest.mark.parametrize("kind", REDUCTIONS)
def test_shards_reduce(kind: str) -> None:
    values = VALUES[:, 1]
    if "LOGICAL" in kind:
        values = (values > 0).astype("f4")
    op = f"COLLECTIVE_OP_{kind}"
    expected = REDUCTIONS[kind](values, axis=0)
    found = sharded(lambda x: within_replica_ops.all_reduce(x, op), values)
    np.testing.assert_allclose(found, [expected] * 4, rtol=1e-6)
    found = sharded(lambda x: within_replica_ops.reduce_scatter(x, op), values)
    np.testing.assert_allclose(found, [*expected.reshape(3, 2), [0, 0]], rtol=1e-6)


def test_shards_of_several_lengths() -> None:
    values = [np.float32([1, 2]), np.float32([3])]
    found = sharded(within_replica_ops.all_gather, values)
    np.testing.assert_array_equal(found, [[1, 2, 3]] * 2)
    found = sharded(
        lambda x: within_replica_ops.all_reduce(x, "COLLECTIVE_OP_ADD"), values
    )
    np.testing.assert_array_equal(found, [[4, 2]] * 2)
    wide = [np.ones((1, 2, 3), "f4"), np.zeros((1, 3, 3), "f4")]
    found = sharded(lambda x: within_replica_ops.all_gather(x, 1), wide)
    np.testing.assert_array_equal(found, [np.concatenate(wide, 1)] * 2)


def test_shards_and_gradients() -> None:
    def net(shards: list[Any]) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(shards)
            gathered = within_replica_ops.all_gather(shards)
            loss = sum(tf.reduce_mean(one**2) for one in gathered)
        return tape.gradient(loss, shards)

    found = sharded(net, np.float32([[1, 1], [2, 2]]))
    np.testing.assert_array_equal(found, [[1, 1], [2, 2]])


def test_results_are_on_their_shards() -> None:
    with v1.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
        shards = [v1.constant([1.0]), v1.constant([2.0])]
        made = within_replica_ops.all_gather(shards)
        assert [sharding.get_sharding(x.op) for x in made] == [[0], [1]]


def test_the_number_of_a_replica_in_a_graph() -> None:
    """It is an op of the graph, also where nothing is compiled."""
    attach(2)
    with v1.Graph().as_default(), scopes.ipu_scope("/device:IPU:0"):
        number = tf.cast(replication_ops.replication_index(), tf.float32)
        total = cross_replica_ops.cross_replica_sum(number + 1.0)
        with v1.Session() as session:
            assert session.run(total) == 3.0
