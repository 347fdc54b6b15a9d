# SPDX-License-Identifier: MIT
"""``distributed_batch_norm_replica_group_size``: statistics of several replicas.

Two replicas that share statistics train as one that gets the batches of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

X = np.random.default_rng(0).normal(2.0, 3.0, (32, 4, 4, 3)).astype(np.float32)
Y = X.mean((1, 2))[:, :2]


def configure(ipus: int, group: int) -> None:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = ipus
    config.norms.experimental.distributed_batch_norm_replica_group_size = group
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def one_ipu_afterwards() -> Iterator[None]:
    yield
    configure(1, 1)


def trained(ipus: int, group: int, batch: int, dtype: str = "float32") -> Any:
    configure(ipus, group)
    keras.utils.set_random_seed(1)
    with IPUStrategy().scope():
        model = keras.Sequential(
            [
                keras.layers.Conv2D(4, 1, input_shape=(4, 4, 3)),
                keras.layers.BatchNormalization(dtype=dtype),
                keras.layers.ReLU(),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(2),
            ]
        )
        loss = keras.losses.MeanSquaredError(reduction="sum")
        model.compile(keras.optimizers.SGD(0.002), loss, steps_per_execution=2)
        model.fit(X, Y, batch, epochs=2, shuffle=False, verbose=0)
        return model.get_weights(), model.predict(X, 8)


@pytest.mark.parametrize("replicas", [2, 4])
def test_replicas_that_share_statistics_are_one_with_the_whole_batch(
    replicas: int,
) -> None:
    whole, outputs = trained(1, 1, 16)
    shared, found = trained(replicas, replicas, 16 // replicas)
    for one, other in zip(whole, shared, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(outputs, found, rtol=2e-4, atol=1e-5)
    alone, _ = trained(replicas, 1, 16 // replicas)
    assert not np.allclose(whole[0], alone[0], rtol=1e-3)


def test_groups_are_of_consecutive_replicas() -> None:
    configure(4, 2)
    rows = np.arange(8.0, dtype=np.float32).reshape(4, 2, 1) ** 2
    data = tf.data.Dataset.from_tensor_slices(rows).repeat()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data)
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    gamma, beta = tf.Variable([2.0]), tf.Variable([1.0])

    @tf.function(jit_compile=True)
    def program() -> None:
        def body(x: Any) -> None:
            x = tf.reshape(x, (2, 1, 1, 1))
            with tf.GradientTape() as tape:
                tape.watch(x)
                y, mean, variance = tf.compat.v1.nn.fused_batch_norm(x, gamma, beta)
                loss = tf.reduce_sum(y * y * x)
            outfeed.enqueue((y, mean, variance, tape.gradient(loss, x)))

        ipu.loops.repeat(1, body, infeed_queue=infeed)

    assert infeed.initializer is None
    IPUStrategy().run(program)
    y, mean, variance, slope = (one.numpy()[0] for one in outfeed.dequeue())
    for first in (0, 2):
        group = rows[first : first + 2].astype(np.float64).ravel()
        assert mean[first] == mean[first + 1] == pytest.approx(group.mean())
        assert variance[first] == pytest.approx(group.var(ddof=1), rel=1e-5)

        def output(x: Any) -> Any:
            return 2.0 * (x - x.mean()) / np.sqrt(x.var() + 0.001) + 1.0

        found = y[first : first + 2].ravel()
        np.testing.assert_allclose(found, output(group), rtol=1e-5)
        steps = []
        for i in range(4):
            shift = np.eye(4)[i] * 1e-5
            up, down = group + shift, group - shift
            change = (output(up) ** 2 * up).sum() - (output(down) ** 2 * down).sum()
            steps.append(change / 2e-5)
        np.testing.assert_allclose(slope[first : first + 2].ravel(), steps, rtol=1e-3)


def test_a_group_that_does_not_divide_the_replicas() -> None:
    configure(4, 3)
    f = tf.function(
        lambda x: tf.compat.v1.nn.fused_batch_norm(x, [1.0], [0.0])[0], jit_compile=True
    )
    with pytest.raises(tf.errors.OpError, match="replica_group_size 3 does not divide"):
        IPUStrategy().run(f, (tf.ones((2, 1, 1, 1)),))


def test_inference_and_the_host_ask_no_other_replica() -> None:
    configure(2, 2)
    layer = keras.layers.BatchNormalization()
    x = tf.constant(X)
    want = layer(x, training=True).numpy()  # op by op: on the host
    assert abs(want.mean()) < 1e-4
    f = tf.function(lambda x: layer(x, training=False))
    assert IPUStrategy().run(f, (x,)).shape == x.shape
