# SPDX-License-Identifier: MIT

"""`strategy.run`: whole programs, as people write them, and what it refuses."""

from __future__ import annotations

import functools
import threading

import numpy as np
import pytest

from ipu import config, keras, tf
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy, IPUStrategyV1

RNG = np.random.default_rng(5)
X = RNG.normal(size=(64, 6)).astype(np.float32)
Y = X[:, :3].argmax(1).astype(np.int32)


def create_model() -> keras.Model:
    tf.random.set_seed(7)
    return keras.Sequential(
        [
            keras.layers.Flatten(input_shape=(6,)),
            keras.layers.Dense(8, activation="relu"),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )


def create_dataset() -> tf.data.Dataset:
    return (
        tf.data.Dataset.from_tensor_slices((X, Y))
        .batch(8, drop_remainder=True)
        .repeat()
    )


def test_a_product():
    strategy = IPUStrategyV1()

    @tf.function(jit_compile=True)
    def matmul_fn(x, y):
        return tf.matmul(x, y)

    a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3])
    b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2])
    with strategy.scope():
        c = strategy.run(matmul_fn, args=(a, b))
    np.testing.assert_array_equal(c.numpy(), [[22, 28], [49, 64]])


def test_a_loop_on_the_device():
    strategy = IPUStrategyV1()
    with strategy.scope():
        model, opt = create_model(), keras.optimizers.Adam()
        loss_object = keras.losses.SparseCategoricalCrossentropy()
        outfeed_queue = IPUOutfeedQueue()
        steps_per_execution, losses = 16, []

        @tf.function(jit_compile=True)
        def training_loop(iterator):
            for _ in tf.range(steps_per_execution):
                features, labels = next(iterator)
                with tf.GradientTape() as tape:
                    predictions = model(features, training=True)
                    prediction_loss = loss_object(labels, predictions)
                    loss = tf.reduce_mean(prediction_loss)
                grads = tape.gradient(loss, model.trainable_variables)
                opt.apply_gradients(zip(grads, model.trainable_variables, strict=True))
                outfeed_queue.enqueue(loss)

        iterator = iter(create_dataset())
        for _ in range(6):
            strategy.run(training_loop, args=(iterator,))
            losses.append(float(sum(outfeed_queue) / steps_per_execution))
    assert losses[-1] < losses[0]
    assert training_loop.experimental_get_tracing_count() == 1
    # the same steps by fit
    with strategy.scope():
        other = create_model()
        other.compile("adam", "sparse_categorical_crossentropy", steps_per_execution=16)
    other.fit(create_dataset(), steps_per_epoch=96, verbose=0)
    for mine, theirs in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("jit", [{}, {"experimental_compile": True}])
def test_the_first_generation_s_loop(jit):
    strategy = IPUStrategy(enable_dataset_iterators=False)

    def step(x, y, model, opt):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = tf.reduce_mean(
                keras.losses.sparse_categorical_crossentropy(y, logits)
            )
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables, strict=True))
        return loss

    training_step = tf.function(step, **jit)
    losses = []
    with strategy.scope():
        opt, model = keras.optimizers.SGD(0.5), create_model()
        for (x, y), c in zip(create_dataset(), range(100), strict=False):
            loss = strategy.experimental_run_v2(training_step, args=[x, y, model, opt])
            if c % 20 == 0:
                losses.append(float(loss.numpy()))
    assert losses[-1] < losses[0] / 2
    assert training_step.experimental_get_tracing_count() == 1


def test_data_sets_stay_on_the_host_under_the_first_generation_s_configuration():
    assert IPUStrategy().enable_dataset_iterators is True
    from ipu._device import devices

    config.reset_ipu_configuration()
    devices.configure(devices.Layout(generation=1))
    try:
        assert IPUStrategy().enable_dataset_iterators is False
        assert IPUStrategy(enable_dataset_iterators=True).enable_dataset_iterators
    finally:
        config.reset_ipu_configuration()


# --- arguments and results ---------------------------------------------------------


def test_objects_are_arguments_by_identity():
    traces = []
    with IPUStrategy().scope():
        models = [create_model(), create_model()]
        queues = [IPUOutfeedQueue(), IPUOutfeedQueue()]

    @tf.function
    def f(x, model, queue, scale=1.0):
        traces.append(model)
        queue.enqueue(tf.reduce_sum(model(x)) * scale)

    strategy = IPUStrategy()
    for i in (0, 1, 0, 1):
        strategy.run(f, args=(X[:4], models[i], queues[i]), kwargs={"scale": 2.0})
    assert len(traces) == 2
    for queue in queues:
        np.testing.assert_allclose(queue.dequeue(), [8.0, 8.0], rtol=1e-5)
    strategy.run(f, (X[:4], models[0], queues[0]), {"scale": 3.0})
    assert len(traces) == 3


def test_results_keep_their_structure():
    f = tf.function(lambda x: {"a": (x, x + 1), "b": [x * 2, None], "c": 5})
    out = IPUStrategy().run(f, args=(np.float32(3),))
    assert float(out["a"][1]) == 4 and float(out["b"][0]) == 6
    assert out["b"][1] is None and int(out["c"]) == 5


def test_a_plain_function():
    strategy = IPUStrategy()
    with pytest.raises(ValueError, match="does not support eager execution"):
        strategy.run(lambda x: x, args=(1.0,))
    eager = pytest.raises(ValueError, match="does not support eager execution")
    with eager, strategy.scope():
        strategy.run(functools.partial(lambda x: x, 1.0))
    with pytest.raises(TypeError, match="fn must be callable"):
        strategy.run(3)

    @tf.function
    def outer(x):
        return strategy.run(lambda v: v * 2.0, args=(x,))

    assert float(outer(tf.constant(4.0))) == 8.0
    bound = functools.partial(tf.function(lambda x, y: x - y), np.float32(5))
    assert float(strategy.run(bound, args=(np.float32(2),))) == 3.0


def test_float64():
    strategy = IPUStrategy()
    f = tf.function(lambda x: x)
    for value in (np.ones(2), tf.constant(1.0, tf.float64), [np.float64(3)]):
        with pytest.raises(TypeError, match="Unsupported data type for input: float64"):
            strategy.run(f, args=(value,))
    with pytest.raises(TypeError, match="Unsupported data type for input: float64"):
        strategy.run(f, kwargs={"x": np.ones(2)})
    wide = tf.constant(1.0, tf.float64)
    with pytest.raises(TypeError, match="float64"):
        strategy.run(tf.function(lambda: wide))
    widen = tf.function(lambda x: tf.cast(x, tf.float64))
    with pytest.raises(TypeError, match="Unsupported data type for output: float64"):
        strategy.run(widen, args=(np.float32(1),))


def test_int64_becomes_int32():
    f = tf.function(lambda x: x + 1)
    result = IPUStrategy().run(f, args=(np.arange(3),))
    assert result.dtype == tf.int32
    np.testing.assert_array_equal(result, [1, 2, 3])
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not fit"):
        IPUStrategy().run(f, args=(np.array([2**40]),))


# --- tf.distribute -----------------------------------------------------------------


def test_distribute():
    strategy = IPUStrategy()
    assert isinstance(strategy, tf.distribute.Strategy)
    assert not tf.distribute.has_strategy()
    assert tf.distribute.get_strategy().num_replicas_in_sync == 1
    assert tf.distribute.get_strategy().run(lambda x: x + 1, args=(1,)) == 2
    assert tf.distribute.get_replica_context().replica_id_in_sync_group == 0
    with strategy.scope():
        assert tf.distribute.has_strategy()
        assert tf.distribute.get_strategy() is strategy
        assert tf.distribute.get_replica_context() is None
        assert tf.distribute.in_cross_replica_context()

    @tf.function
    def f(x):
        context = tf.distribute.get_replica_context()
        total = context.all_reduce(tf.distribute.ReduceOp.SUM, x)
        mean = strategy.reduce(tf.distribute.ReduceOp.MEAN, x)
        return total + mean

    assert float(strategy.run(f, args=(np.float32(2),))) == 4.0
    with pytest.raises(ValueError, match="reduce_op must be"):
        strategy.run(
            tf.function(lambda x: strategy.reduce("product", x)), args=(np.float32(2),)
        )


def test_variables_move_to_new_devices():
    """Their numbers may be other variables' on the new device."""

    def configured(ipus):
        made = config.IPUConfig()
        made.auto_select_ipus = ipus
        made.configure_ipu_system()
        return IPUStrategy()

    config.reset_ipu_configuration()
    outside = tf.Variable(5.0)  # on the device that is there without a configuration

    @tf.function
    def read(x):
        return x * old + outside

    @tf.function
    def add(x):
        return old.assign_add(x)

    strategy = configured(1)
    with strategy.scope():
        old = tf.Variable(2.0)
    x = tf.constant(3.0)
    known = read.get_concrete_function(x)
    assert float(strategy.run(read, (x,))) == 11.0
    assert float(strategy.run(add, (x,))) == 5.0
    value = 5.0
    for ipus in (2, [1, 1], 4, None, 1):
        if ipus is None:  # the default device
            config.reset_ipu_configuration()
            strategy = IPUStrategy()
        else:
            strategy = configured(ipus)
        with strategy.scope():
            new = tf.Variable([100.0, 1.0])
        with tf.GradientTape() as tape:
            y = old * outside
        assert float(tape.gradient(y, old)) == 5.0
        old.assign_add(1.0)
        value += 1.0
        assert float(known(x)) == 3.0 * value + 5.0
        assert float(strategy.run(read, (x,))) == 3.0 * value + 5.0
        with tf.GradientTape() as tape:
            y = read(x)
        assert float(tape.gradient(y, old)) == 3.0
        assert float(strategy.run(add, (x,))) == value + 3.0
        value += 3.0
        assert float(old.numpy()) == value
        assert new.numpy().tolist() == [100.0, 1.0]
    configured(1)


def test_a_variable_of_another_device_is_refused():
    made = config.IPUConfig()
    made.auto_select_ipus = [1, 1]
    made.configure_ipu_system()
    with IPUStrategy("/device:IPU:1").scope():
        other = tf.Variable(2.0)
    function = tf.function(lambda: other + 1.0)
    with pytest.raises(tf.errors.FailedPreconditionError, match="is on /device:IPU:1"):
        IPUStrategy().run(function)
    made.auto_select_ipus = 1
    made.configure_ipu_system()
    assert float(IPUStrategy().run(function)) == 3.0


def test_runs_of_another_thread_while_devices_are_replaced():
    """Each is on one device or the next; no update is lost, no program is torn."""

    def configured(ipus):
        made = config.IPUConfig()
        made.auto_select_ipus = ipus
        made.configure_ipu_system()

    configured(1)
    v = tf.Variable(0)
    host = tf.Variable(0)

    @tf.function
    def step():
        return v.assign_add(1)

    failures = []

    def work():
        try:
            for _ in range(200):
                step()
                host.assign_add(1)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    read = tf.function(lambda: host + 0)
    for i in range(12):
        configured([1] * (1 + i % 2))
        read()
        host.numpy()
    thread.join(60)
    assert not failures, failures
    assert int(v) == 200
    assert int(host) == 200
    configured(1)
