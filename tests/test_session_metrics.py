# SPDX-License-Identifier: MIT
"""``tf.metrics`` of TensorFlow 1: expected values are those of TensorFlow 2.21's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

from ipu import ipu_compiler, loops, scopes
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

# three batches of RandomState(3): labels, predictions, weights
_RANDOM = np.random.RandomState(3)
LABELS = _RANDOM.randint(0, 2, (3, 5))
FOUND = _RANDOM.randint(0, 2, (3, 5))
WEIGHTS = _RANDOM.rand(3, 5).astype("float32").round(2)


@pytest.mark.parametrize(
    "name, plain, weighted",
    [
        ("accuracy", 0.4, 0.480303),
        ("mean_absolute_error", 0.6, 0.519697),
        ("mean_squared_error", 0.6, 0.519697),
        ("root_mean_squared_error", 0.774597, 0.7209),
        ("precision", 0.4, 0.365854),
        ("recall", 0.25, 0.260417),
    ],
)
def test_values(name: str, plain: float, weighted: float) -> None:
    labels, found = (tf.placeholder(tf.float32, [5]) for _ in range(2))
    weights = tf.placeholder(tf.float32, [5])
    metric = getattr(tf.metrics, name)
    pairs = [metric(labels, found), metric(labels, found, weights)]
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(pairs[0][0]) == 0.0
        for batch in zip(LABELS, FOUND, WEIGHTS, strict=True):
            feed = dict(zip((labels, found, weights), batch, strict=True))
            counted = session.run([update for _, update in pairs], feed)
        values = session.run([value for value, _ in pairs])
    np.testing.assert_allclose(values, [plain, weighted], rtol=1e-5)
    assert values == counted


def test_variables_are_local() -> None:
    tf.metrics.accuracy([1], [1])
    tf.metrics.accuracy([1], [1])
    tf.metrics.precision([1], [1], name="p")
    assert [one.name for one in tf.local_variables()] == [
        "accuracy/total:0",
        "accuracy/count:0",
        "accuracy_1/total:0",
        "accuracy_1/count:0",
        "p/true_positives/count:0",
        "p/false_positives/count:0",
    ]
    assert not tf.global_variables() and not tf.trainable_variables()
    pair = tf.metrics.mean([1.0], None, ["values"], ["updates"])
    assert tf.get_collection("values") == [pair[0]]
    assert tf.get_collection("updates") == [pair[1]]


def test_labels_may_have_a_dimension_of_one_more() -> None:
    _, update = tf.metrics.accuracy(tf.constant([[1], [2]]), tf.constant([1, 3]))
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        assert session.run(update) == 0.5
    with pytest.raises(ValueError, match="incompatible"):
        tf.metrics.accuracy([1, 2], [1, 2, 3])


def test_in_a_loop_on_the_device() -> None:
    attach(1)
    labels = np.array([[0, 1], [2, 3], [4, 5]], np.int32)
    found = np.array([[0, 1], [2, 2], [4, 4]], np.int32)
    dataset = tf.data.Dataset.from_tensor_slices((labels, found)).repeat()
    infeed, outfeed = IPUInfeedQueue(dataset), IPUOutfeedQueue()

    def body(right: Any, given: Any) -> Any:
        return outfeed.enqueue(tf.metrics.accuracy(right, given)[1])

    with scopes.ipu_scope("/device:IPU:0"):
        run = ipu_compiler.compile(lambda: loops.repeat(3, body, [], infeed), [])
    taken = outfeed.dequeue()
    with tf.Session() as session:
        session.run([tf.local_variables_initializer(), infeed.initializer])
        session.run(run)
        np.testing.assert_allclose(session.run(taken), [1.0, 0.75, 4 / 6])
