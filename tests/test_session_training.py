# SPDX-License-Identifier: MIT
"""Gradients, optimizers and layers in sessions; expected values are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from session_runs import run
from simulated_ipus import attach

import ipu
from ipu import ipu_compiler, keras, loops, scopes
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.tf import errors
from ipu.tf.compat import v1 as tf

pytestmark = pytest.mark.usefixtures("graph")

IPU = "/device:IPU:0"


# --- gradients ------------------------------------------------------------------------


def test_gradients() -> None:
    x = tf.placeholder(tf.float32, [None])
    v = tf.get_variable("v", [], initializer=tf.constant_initializer(3.0))
    unused = tf.get_variable("unused", [])
    hidden = v * x
    y = tf.reduce_sum(hidden * hidden)
    found = tf.gradients(y, [x, v, hidden, unused])
    assert found[3] is None and found[0].shape.as_list() == [None]
    got = run(found[:3], {x: [1.0, 2.0]})
    assert got[0].tolist() == [18.0, 36.0] and got[1] == 30.0
    assert got[2].tolist() == [6.0, 12.0]
    weighted = tf.gradients(hidden, v, [[1.0, 10.0]])
    assert run(weighted, {x: [1.0, 2.0]}) == [21.0]


@pytest.mark.parametrize("place", ["cpu", IPU])
def test_gradients_are_computed_where_the_model_is(place: str) -> None:
    attach(1)
    x = tf.placeholder(tf.float32, [2])
    with scopes.ipu_scope(place):
        v = tf.get_variable("v", [2], initializer=tf.ones_initializer())
        hidden = tf.tanh(v * x)
    loss = tf.reduce_sum(hidden)  # on the host, of what the device gives
    train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, {x: [0.0, 1.0]})
        wanted = [1.0, 1.0 - 0.5 * (1.0 - np.tanh(1.0) ** 2)]
        np.testing.assert_allclose(session.run(v), wanted, rtol=1e-6)


def test_gradients_cannot_be_cut_in_two() -> None:
    with scopes.ipu_scope(IPU):
        v = tf.get_variable("v", [], initializer=tf.ones_initializer())
        a = v * 2.0
    b = tf.py_func(lambda value: value + 1.0, [a], tf.float32)
    b.set_shape([])
    with scopes.ipu_scope(IPU):
        loss = a * b
        (gradient,) = tf.gradients(loss, [v])
    with pytest.raises(errors.InvalidArgumentError, match="cut in two"):
        run(gradient)


# --- optimizers -----------------------------------------------------------------------


UPDATES = {
    "GradientDescentOptimizer": ((0.1,), None),
    "MomentumOptimizer": ((0.1, 0.9), None),
    "AdamOptimizer": ((0.1,), None),
    "RMSPropOptimizer": ((0.1,), None),
}


def stepped(name: str, args: Any) -> Any:
    """The updates of TensorFlow's documentation, in NumPy."""
    w = np.array([0.0, 1.0])
    m, v = np.zeros(2), np.zeros(2) + (name == "RMSPropOptimizer")
    for step in range(1, 6):
        g = 2.0 * (w - 3.0)
        if name == "GradientDescentOptimizer":
            w = w - args[0] * g
        elif name == "MomentumOptimizer":
            m = args[1] * m + g
            w = w - args[0] * m
        elif name == "AdamOptimizer":
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            rate = args[0] * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
            w = w - rate * m / (np.sqrt(v) + 1e-8)
        else:
            v = 0.9 * v + 0.1 * g * g
            w = w - args[0] * g / np.sqrt(v + 1e-10)
    return w


@pytest.mark.parametrize("name", list(UPDATES))
@pytest.mark.parametrize("is_compiled", [False, True])
def test_optimizers(name: str, is_compiled: bool) -> None:
    args = UPDATES[name][0]
    step = tf.train.get_or_create_global_step()

    def model() -> Any:
        w = tf.get_variable("w", initializer=[0.0, 1.0], use_resource=True)
        loss = tf.reduce_sum(tf.square(w - 3.0))
        optimizer = getattr(tf.train, name)(*args)
        return loss, optimizer.minimize(loss, global_step=step)

    with scopes.ipu_scope(IPU):
        train = ipu_compiler.compile(model) if is_compiled else model()[1]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(train)
        assert session.run(step) == 5
        (w,) = session.run(tf.trainable_variables())
    np.testing.assert_allclose(w, stepped(name, args), rtol=1e-5)


def test_replicas_and_optimizers_around_others() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(8, dtype=np.float32))
    queue, out = IPUInfeedQueue(data.repeat()), IPUOutfeedQueue()

    def body(x: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = ipu.optimizers.CrossReplicaOptimizer(
            tf.train.GradientDescentOptimizer(0.5)
        )
        train = optimizer.minimize(w * x)
        return train, out.enqueue(x)

    with scopes.ipu_scope(IPU):
        loop = ipu_compiler.compile(lambda: loops.repeat(2, body, [], queue))
    dequeue = out.dequeue()
    attach(2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(queue.initializer)
        assert session.run(loop) is None
        assert session.run(dequeue).tolist() == [[0.0, 1.0], [2.0, 3.0]]
        # the means of 0 and 1, then of 2 and 3
        assert session.run(tf.trainable_variables()) == [-0.5 * (0.5 + 2.5)]


def test_accumulation_in_a_session() -> None:
    data = tf.data.Dataset.from_tensor_slices(np.arange(4, dtype=np.float32))
    queue = IPUInfeedQueue(data.repeat())
    step = tf.train.get_or_create_global_step()

    def body(x: Any) -> Any:
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        optimizer = ipu.optimizers.GradientAccumulationOptimizerV2(
            tf.train.MomentumOptimizer(1.0, 0.5), 2
        )
        return optimizer.minimize(w * x, global_step=step)

    with scopes.ipu_scope(IPU):
        loop = ipu_compiler.compile(lambda: loops.repeat(4, body, [], queue))
    names = [one.name for one in tf.global_variables()]
    assert names == ["global_step:0", "w:0", "w/Momentum:0"]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), queue.initializer])
        session.run(loop)
        # 0 + 1, then half of that and 2 + 3
        assert session.run(tf.trainable_variables()) == [-6.5]
        assert session.run(step) == 2


def test_optimizers_say_what_is_wrong() -> None:
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="No variables to optimize"):
        optimizer.minimize(tf.constant(1.0))
    tf.get_variable("v", [])
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.minimize(tf.constant(1.0))
    with pytest.raises(ValueError, match="No gradients provided for any variable"):
        optimizer.apply_gradients([(None, v) for v in tf.trainable_variables()])


def test_a_rate_can_be_fed_or_follow_the_step() -> None:
    rate = tf.placeholder(tf.float32, [])
    v = tf.get_variable("v", [], initializer=tf.zeros_initializer())
    step = tf.train.get_or_create_global_step()
    decayed = tf.train.exponential_decay(rate, step, 1, 0.5)
    optimizer = tf.train.GradientDescentOptimizer(decayed)
    train = optimizer.minimize(-v, global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        seen = []
        for _ in range(3):
            session.run(train, {rate: 4.0})
            seen.append(float(session.run(v)))
    assert seen == [4.0, 6.0, 7.0]


def test_training_on_placeholders_without_a_shape() -> None:
    x, y = tf.placeholder("float"), tf.placeholder("float")
    w, b = tf.Variable(0.5, name="w"), tf.Variable(-0.5, name="b")
    unused, stopped = tf.Variable(1.0), tf.Variable(2.0)
    error = tf.add(tf.multiply(x, w), b) - y * tf.stop_gradient(stopped)
    loss = tf.reduce_sum(tf.pow(error, 2)) / 4.0
    found = tf.gradients(loss, [w, b, x, unused, stopped])
    assert found[0].shape == () and found[2].shape.rank is None
    assert found[3] is None and found[4] is None
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    xs, ys = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    wanted = [0.5, -0.5]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for rows in (slice(0, 1), slice(0, 2)):
            feed = {x: xs[rows], y: ys[rows]}
            off = xs[rows] * wanted[0] + wanted[1] - 2.0 * ys[rows]
            slopes = [np.sum(off * xs[rows]) / 2.0, np.sum(off) / 2.0]
            got = session.run(found[:3], feed)
            np.testing.assert_allclose(got[:2], slopes, rtol=1e-6)
            np.testing.assert_allclose(got[2], off * wanted[0] / 2.0, rtol=1e-6)
            session.run(train, feed)
            wanted = [
                one - 0.01 * slope for one, slope in zip(wanted, slopes, strict=True)
            ]
            np.testing.assert_allclose(session.run([w, b]), wanted, rtol=1e-6)


# --- layers ---------------------------------------------------------------------------


def test_losses_and_layers() -> None:
    x = tf.placeholder(tf.float32, [2, 4, 4, 1])
    y = tf.layers.conv2d(x, 2, 3, padding="same", use_bias=False)
    y = tf.layers.max_pooling2d(y, 2, 2)
    y = tf.layers.batch_normalization(y, training=True)
    logits = tf.layers.dense(tf.layers.flatten(y), 3)
    loss = tf.losses.sparse_softmax_cross_entropy([[0], [2]], logits)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(updates):
        train = tf.train.AdamOptimizer(0.01).minimize(loss)
    assert logits.shape == (2, 3) and len(updates) == 2
    rows = np.random.RandomState(0).normal(size=(2, 4, 4, 1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train], {x: rows})[0] for _ in range(5)]
        moved = session.run("batch_normalization/moving_mean/Assign") is None
    assert losses[-1] < losses[0] and moved
    assert tf.losses.get_losses() == [loss]


def normalized_and_dropped(x: Any, training: Any) -> list[Any]:
    y = tf.layers.batch_normalization(x, momentum=0.5, training=training)
    loss = tf.reduce_mean(tf.square(y - x))
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    return [loss, tf.layers.dropout(y, 0.5, seed=3, training=training), train]


def test_layers_are_told_in_the_run_whether_they_train() -> None:
    rows = np.random.RandomState(0).normal(2, size=(64, 3)).astype(np.float32)

    def results(fixed: bool, training: bool) -> list[Any]:
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [64, 3])
            told = tf.placeholder_with_default(False, ())
            fetches = normalized_and_dropped(x, training if fixed else told)
            session.run(tf.global_variables_initializer())
            feeds = {x: rows} if fixed else {x: rows, told: training}
            values = session.run(fetches, feeds)[:2]
            return [*values, *session.run(tf.global_variables())]

    for training in (False, True):
        loss, dropped, *variables = results(False, training)
        wanted = results(True, training)
        np.testing.assert_allclose(loss, wanted[0], rtol=1e-6)
        assert 0.3 < np.mean(dropped == 0) < 0.7 if training else dropped.all()
        for value, other in zip(variables, wanted[2:], strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6)


def test_the_share_that_is_dropped_can_be_fed() -> None:
    x = tf.placeholder(tf.float32, [None, 50])
    kept = tf.placeholder(tf.float32)
    y = tf.nn.dropout(x, kept)
    z = tf.layers.dropout(x, rate=1.0 - kept, training=True)
    assert y.shape.as_list() == z.shape.as_list() == [None, 50]
    ones = np.ones([40, 50])
    with tf.Session() as session:
        for one in session.run([y, z], {x: ones, kept: 1.0}):
            assert (one == 1.0).all()
        for one in session.run([y, z], {x: ones, kept: 0.25}):
            assert set(np.unique(one)) == {0.0, 4.0}
            assert 0.2 < np.mean(one != 0.0) < 0.3


def test_rates_that_follow_the_step() -> None:
    step = tf.placeholder(tf.int32, [])
    rates = [
        tf.train.inverse_time_decay(1.0, step, 10, 0.5),
        tf.train.inverse_time_decay(1.0, step, 10, 0.5, staircase=True),
        tf.train.polynomial_decay(1.0, step, 10, 0.1, 2.0),
        tf.train.polynomial_decay(1.0, step, 10, 0.1, cycle=True),
        tf.train.piecewise_constant(step, [10, 20], [1.0, 0.5, 0.25]),
    ]
    with tf.Session() as session:
        for now in (0, 5, 10, 15, 21):
            cycle = 10 * max(1, int(np.ceil(now / 10)))
            wanted = [
                1 / (1 + 0.05 * now),
                1 / (1 + 0.5 * (now // 10)),
                0.9 * (1 - min(now, 10) / 10) ** 2 + 0.1,
                0.9 * (1 - now / cycle) + 0.1,
                1.0 if now <= 10 else 0.5 if now <= 20 else 0.25,
            ]
            found = session.run(rates, {step: now})
            np.testing.assert_allclose(found, wanted, rtol=1e-5)
    with pytest.raises(ValueError, match="1 less than the length of values"):
        tf.train.piecewise_constant(step, [1], [1.0])


# --- what results know of themselves --------------------------------------------------


def test_a_loss_finds_the_logits_that_a_layer_was_given() -> None:
    """Of probabilities that have rounded to 0 the loss is 16.1, with no gradient."""
    x = tf.placeholder(tf.float32, (1, 2))
    losses = []
    for make in (
        keras.layers.Activation("softmax"),
        keras.layers.Softmax(),
        keras.Sequential([keras.layers.Activation("softmax")]),
        keras.activations.softmax,
    ):
        loss = keras.losses.categorical_crossentropy([[0.0, 1.0]], make(x))
        losses += [loss, tf.gradients(loss, x)[0]]
    found = run(losses, {x: [[200.0, 0.0]]})
    for loss, gradient in zip(found[::2], found[1::2], strict=True):
        assert loss.tolist() == [200.0] and gradient.tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize("places", [("cpu", "cpu"), (IPU, "cpu"), ("cpu", IPU)])
def test_masks_cross_between_host_and_device(places: tuple[str, str]) -> None:
    attach(1)
    x = tf.placeholder(tf.int32, (2, 2))
    rows = tf.constant_initializer([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0], [6.0, 7.0]])
    with scopes.ipu_scope(places[0]):
        embedding = keras.layers.Embedding(
            4, 2, mask_zero=True, embeddings_initializer=rows
        )
        looked_up = embedding(x)
    with scopes.ipu_scope(places[1]):
        mean = keras.layers.GlobalAveragePooling1D()(looked_up)
    feed = {x: [[1, 2], [3, 0]]}
    assert run(mean, feed).tolist() == [[2.0, 3.0], [6.0, 7.0]]
