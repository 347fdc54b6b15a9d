# SPDX-License-Identifier: MIT
"""Embeddings on the host: rows, updates against NumPy, what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import ipu_compiler, loops, scopes, tf
from ipu.config import IPUConfig, reset_ipu_configuration
from ipu.ipu_strategy import IPUStrategy
from ipu.ops import replication_ops
from ipu.ops.embedding_ops import (
    HostEmbedding,
    HostEmbeddingOptimizerSpec,
    HostEmbeddingSGDGAOptimizerSpec,
    create_host_embedding,
)
from ipu.tf import errors
from ipu.tf._functions.tracing import trace_program
from ipu.tf.compat import v1

START = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
IDS = np.int32([[0, 3], [3, 9]])  # 9 is clipped to 5
RATE = 0.25


def embedding(spec: Any = None, dtype: str = "float32") -> HostEmbedding:
    return create_host_embedding(
        "table", START.shape, dtype, "ENCODING", spec, lambda *_, **__: START
    )


def train(table: HostEmbedding, weights: Any, steps: int) -> Any:
    """The losses of some steps in a loop on the device: the gradient is `weights`."""

    def step(total: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(table.lookup(IDS) * weights)
        assert tape.gradient(loss, tape.watched_variables()) is not None
        return total + tf.cast(loss, tf.float32)

    program = tf.function(lambda: loops.repeat(steps, step, [0.0]), jit_compile=True)
    with table.register():
        return IPUStrategy().run(program)


def after(start: Any, weights: Any, steps: int) -> Any:
    table = start.astype(np.float64)
    for _ in range(steps):
        np.subtract.at(table, IDS.clip(0, 5), RATE * weights)
    return table


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sgd_in_a_loop(dtype: str) -> None:
    weights = np.arange(16).reshape(2, 2, 4).astype(dtype) / 16
    table = embedding(HostEmbeddingOptimizerSpec(RATE), dtype)
    first = table.get_embedding_tensor().numpy()
    total = train(table, weights, 3)
    step = [after(first, weights, n)[IDS.clip(0, 5)] * weights for n in range(3)]
    close = 1e-5 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(total, np.sum(step), rtol=close, atol=close)
    wanted = after(first, weights, 3)
    np.testing.assert_allclose(
        table.get_embedding_tensor(), wanted, rtol=close, atol=close
    )


@pytest.mark.parametrize(("factor", "steps"), [(1, 3), (2, 5), (3, 6)])
def test_accumulated_gradients(factor: int, steps: int) -> None:
    weights = np.arange(16, dtype=np.float32).reshape(2, 2, 4) / 16
    table = embedding(HostEmbeddingSGDGAOptimizerSpec(RATE, factor))
    train(table, weights, steps)
    wanted = after(START, weights, steps // factor * factor)
    np.testing.assert_allclose(
        table.get_embedding_tensor(), wanted, rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("spec", [None, HostEmbeddingOptimizerSpec(0.0)])
def test_what_is_not_trained_stays(spec: Any) -> None:
    table = embedding(spec)
    train(table, np.ones((2, 2, 4), np.float32), 2)
    np.testing.assert_array_equal(table.get_embedding_tensor(), START)


def test_eager_calls_train_too() -> None:
    table = embedding(HostEmbeddingOptimizerSpec(RATE))
    weights = np.ones((2, 2, 4), np.float32)
    with table.register(), tf.GradientTape() as tape:
        loss = tf.reduce_sum(table.lookup(IDS) * weights)
    tape.gradient(loss, tape.watched_variables())
    wanted = after(START, weights, 1)
    np.testing.assert_allclose(table.get_embedding_tensor(), wanted, rtol=1e-6)


def test_a_program_writes_rows_alone() -> None:
    table = embedding(HostEmbeddingOptimizerSpec(RATE))

    def body(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(table.lookup(IDS) ** 2)
        tape.gradient(loss, tape.watched_variables())
        return x

    spec = tf.TensorSpec((), "float32")
    traced = trace_program(lambda x: loops.repeat(3, body, [x]), [spec])
    text = str(traced.program.text)
    assert "gather_sgd_update." in text
    assert "gather_grad." not in text


def test_replicas_update_one_table() -> None:
    config = IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    table = embedding(HostEmbeddingOptimizerSpec(RATE))

    def step() -> None:
        with tf.GradientTape() as tape:
            factor = tf.cast(replication_ops.replication_index() + 1, tf.float32)
            loss = tf.reduce_sum(table.lookup(IDS)) * factor
        tape.gradient(loss, tape.watched_variables())

    try:
        with table.register():
            IPUStrategy().run(tf.function(step, jit_compile=True))
        found = table.get_embedding_tensor().numpy()
    finally:
        reset_ipu_configuration()
    wanted = after(START, np.full((2, 2, 4), 3.0), 1)  # 1 and 2
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_in_a_session() -> None:
    with v1.Graph().as_default(), v1.Session() as session:
        table = embedding(HostEmbeddingOptimizerSpec(RATE))
        ids = v1.placeholder(np.int32, IDS.shape)

        def net(ids: Any) -> Any:
            rows = table.lookup(ids)
            optimizer = v1.train.GradientDescentOptimizer(0.1)
            return rows, optimizer.minimize(v1.reduce_sum(rows))

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(net, [ids])
        session.run(v1.global_variables_initializer())
        with pytest.raises(ValueError, match="requires a session"):
            table.register()
        with pytest.raises(errors.FailedPreconditionError, match="not registered"):
            session.run(run, {ids: IDS})
        with table.register(session):
            rows = session.run(run, {ids: IDS})[0]
        end = session.run(table.get_embedding_tensor())
    np.testing.assert_array_equal(rows, START[IDS.clip(0, 5)])
    np.testing.assert_allclose(end, after(START, np.ones((2, 2, 4)), 1), rtol=1e-6)


def test_lookups_outside_of_a_registration() -> None:
    table = embedding()
    with pytest.raises(errors.FailedPreconditionError, match="'table' is looked up"):
        table.lookup(IDS)
    function = tf.function(table.lookup, jit_compile=True)
    with pytest.raises(errors.FailedPreconditionError, match="register"):
        function(tf.constant(IDS))
    with table.register() as same:
        assert same is table
        np.testing.assert_array_equal(function(tf.constant(IDS)), START[IDS.clip(0, 5)])
        with pytest.raises(errors.InvalidArgumentError):
            table.lookup(IDS, clip_indices=False)


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"shape=\[rows, size\]"):
        create_host_embedding("table", [4], "float32")
    with pytest.raises(ValueError, match="is not a tensorflow tensor"):
        HostEmbedding("table", START)  # an array
    with pytest.raises(ValueError, match="Unknown partition strategy ROWS"):
        create_host_embedding("table", (2, 2), "float32", "ROWS")
    with pytest.raises(ValueError, match="is not a HostEmbeddingOptimizerSpec"):
        create_host_embedding("table", (2, 2), "float32", optimizer_spec=0.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="needs a variable as its table"):
        spec = HostEmbeddingOptimizerSpec(0.5)
        HostEmbedding("table", tf.constant(START), optimizer_spec=spec)
    with pytest.raises(NotImplementedError, match="Use lookup"):
        embedding()(IDS)
