# SPDX-License-Identifier: MIT
"""Training loops of the user's own: optimizers and models in functions, own steps."""

from __future__ import annotations

import numpy as np
import pytest

from ipu import keras, loops, tf
from ipu.ipu_infeed_queue import IPUOwnedIterator
from ipu.ipu_outfeed_queue import IPUOutfeedQueue
from ipu.ipu_strategy import IPUStrategy
from ipu.tf._functions.function import DeviceFunction

RNG = np.random.default_rng(3)
SAMPLES, FEATURES, CLASSES, BATCH = 48, 6, 3, 8
X = RNG.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
Y = (X[:, :CLASSES].argmax(1)).astype(np.int32)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def batches() -> tf.data.Dataset:
    data = tf.data.Dataset.from_tensor_slices((X, Y))
    return data.batch(BATCH, drop_remainder=True).repeat()


def network(kind=keras.Sequential, **kwargs):
    tf.random.set_seed(1)
    return kind(
        [
            keras.layers.Dense(5, activation="tanh", input_shape=(FEATURES,), **kwargs),
            keras.layers.Dense(CLASSES),
        ]
    )


def weights(model) -> np.ndarray:
    return np.concatenate([w.ravel() for w in model.get_weights()])


def fitted(optimizer, steps=6, model=None) -> np.ndarray:
    model = model or network()
    model.compile(optimizer, LOSS, steps_per_execution=steps)
    model.fit(batches(), steps_per_epoch=steps, verbose=0)
    return weights(model)


OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "amsgrad": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, centered=True),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0),
    "adamax": lambda: keras.optimizers.Adamax(0.01),
    "nadam": lambda: keras.optimizers.Nadam(0.01),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
}


# --- functions ---------------------------------------------------------------------


@pytest.mark.parametrize("how", ["apply", "minimize", "callable", "compute"])
@pytest.mark.parametrize("name", ["momentum", "adam"])
def test_a_loop_of_one_s_own_gives_the_weights_of_fit(name, how):
    strategy = IPUStrategy()
    outfeed = IPUOutfeedQueue()
    with strategy.scope():
        model, optimizer = network(), OPTIMIZERS[name]()
        iterator = iter(batches())

    def step() -> None:
        x, y = next(iterator)

        def loss():
            return LOSS(y, model(x, training=True))

        v = model.trainable_variables
        if how == "callable":
            optimizer.minimize(loss, v)
            return
        value = loss()
        outfeed.enqueue(value)
        if how == "apply":
            optimizer.apply_gradients(zip(tf.gradients(value, v), v, strict=True))
        elif how == "minimize":
            optimizer.minimize(value, lambda: v)
        else:
            optimizer.apply_gradients(optimizer.compute_gradients(value, v))

    train = DeviceFunction(lambda n, it: loops.repeat(n, step, []))
    strategy.run(train, args=(np.int32(4), iterator))
    strategy.run(train, args=(np.int32(2), iterator))
    np.testing.assert_array_equal(weights(model), fitted(OPTIMIZERS[name]()))
    assert int(optimizer.iterations) == 6
    if how != "callable":
        assert outfeed.dequeue().shape == (6,)


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimizer_creates_what_it_needs_in_a_function(name):
    v = tf.Variable(np.array([1.0, -2.0], np.float32))
    optimizer = OPTIMIZERS[name]()

    def step() -> None:
        optimizer.minimize(tf.reduce_sum(tf.square(v - 3.0)), [v])

    before = float(tf.reduce_sum(tf.square(v - 3.0)))
    DeviceFunction(lambda: loops.repeat(20, step, []))()
    assert float(tf.reduce_sum(tf.square(v - 3.0))) < before
    eager = tf.Variable(np.array([1.0, -2.0], np.float32))
    other = OPTIMIZERS[name]()
    for _ in range(20):
        gradient = 2.0 * (eager.value() - 3.0)
        other.apply_gradients([(gradient, eager)])
    np.testing.assert_allclose(eager.numpy(), v.numpy(), rtol=1e-5)


def test_optimizer_formulas():
    """Those that are compositions, against the formulas in float64."""
    start = RNG.normal(size=5)
    gradients = RNG.normal(size=(4, 5))
    rate, b1, b2, eps = 0.1, 0.9, 0.999, 1e-7

    def run(optimizer) -> np.ndarray:
        v = tf.Variable(start.astype(np.float32))
        for g in gradients:
            optimizer.apply_gradients([(tf.constant(g, tf.float32), v)])
        return v.numpy()

    w, a = start.copy(), np.full(5, 0.1)
    for g in gradients:
        a += g * g
        w -= rate * g / (np.sqrt(a) + eps)
    np.testing.assert_allclose(run(keras.optimizers.Adagrad(rate)), w, rtol=1e-5)

    w, a, b = start.copy(), np.zeros(5), np.zeros(5)
    for g in gradients:
        a = 0.95 * a + 0.05 * g * g
        d = np.sqrt(b + eps) / np.sqrt(a + eps) * g
        b = 0.95 * b + 0.05 * d * d
        w -= rate * d
    np.testing.assert_allclose(run(keras.optimizers.Adadelta(rate)), w, rtol=1e-5)

    w, m, v = start.copy(), np.zeros(5), np.zeros(5)
    for t, g in enumerate(gradients, 1):
        m = b1 * m + (1 - b1) * g
        v = np.maximum(b2 * v, abs(g))
        w -= rate / (1 - b1**t) * m / (v + eps)
    np.testing.assert_allclose(run(keras.optimizers.Adamax(rate)), w, rtol=1e-5)

    w, m, v, product = start.copy(), np.zeros(5), np.zeros(5), 1.0
    for t, g in enumerate(gradients, 1):
        u, after = (b1 * (1 - 0.5 * 0.96 ** (0.004 * k)) for k in (t, t + 1))
        product *= u
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        mean = (1 - u) * g / (1 - product) + after * m / (1 - product * after)
        w -= rate * mean / (np.sqrt(v / (1 - b2**t)) + eps)
    for options in ({}, {"decay": 0.5}):  # Keras's takes no notice of it
        found = run(keras.optimizers.Nadam(rate, **options))
        np.testing.assert_allclose(found, w, rtol=1e-4)

    w, m, v, most = start.copy(), np.zeros(5), np.zeros(5), np.zeros(5)
    for t, g in enumerate(gradients, 1):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        most = np.maximum(most, v)
        alpha = rate * np.sqrt(1 - b2**t) / (1 - b1**t)
        w -= alpha * m / (np.sqrt(most) + eps)
    got = run(keras.optimizers.Adam(rate, amsgrad=True))
    np.testing.assert_allclose(got, w, rtol=1e-4)

    for l1, l2, power, shrinkage in ((0.0, 0.0, -0.5, 0.0), (0.05, 0.02, -0.7, 0.01)):
        w, a, z = start.copy(), np.full(5, 0.1), np.zeros(5)
        for g in gradients:
            after = a + g * g
            scaled, before = after**-power, a**-power
            z += g + 2 * shrinkage * w - (scaled - before) / rate * w
            w = (np.sign(z) * l1 - z) / (scaled / rate + 2 * l2)
            w[abs(z) <= l1] = 0
            a = after
        got = run(
            keras.optimizers.Ftrl(
                rate,
                power,
                l1_regularization_strength=l1,
                l2_regularization_strength=l2,
                l2_shrinkage_regularization_strength=shrinkage,
            )
        )
        np.testing.assert_allclose(got, w, rtol=1e-4, atol=1e-7)


def test_optimizers_by_name_and_their_arguments():
    for name in ("Adagrad", "Adadelta", "Adamax", "Nadam", "Ftrl"):
        optimizer = keras.optimizers.get(name.lower())
        assert type(optimizer).__name__ == name
        again = type(optimizer).from_config(optimizer.get_config())
        assert again.get_config() == optimizer.get_config()
    with pytest.raises(ValueError, match="initial_accumulator_value"):
        keras.optimizers.Adagrad(initial_accumulator_value=-1.0)
    with pytest.raises(ValueError, match="LearningRateSchedules"):
        keras.optimizers.Nadam(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5))


class CastGradientsSGD(keras.optimizers.SGD):
    """Gets gradients of a wider dtype than its variables have."""

    def apply_gradients(self, grads_and_vars, name=None):
        cast = [(tf.cast(g, v.dtype), v) for (g, v) in grads_and_vars]
        return super().apply_gradients(cast, name)


def test_a_subclass_overrides_apply_gradients():
    v = tf.Variable(np.ones(3, np.float16))
    optimizer = CastGradientsSGD(0.5)

    def step() -> None:
        wide = tf.cast(v, tf.float32) * 2.0
        optimizer.apply_gradients([(wide, v)])

    DeviceFunction(lambda: loops.repeat(1, step, []))()
    np.testing.assert_array_equal(v.numpy(), np.zeros(3))
    # and fit goes through it
    np.testing.assert_array_equal(
        fitted(CastGradientsSGD(0.1)), fitted(OPTIMIZERS["sgd"]())
    )


def test_a_subclass_written_for_keras():
    class Plain(keras.optimizers.Optimizer):
        def __init__(self, rate=0.1, name="Plain", **kwargs):
            super().__init__(name, **kwargs)
            self._set_hyper("learning_rate", rate)
            self._set_hyper("factor", 1.0)

        def _create_slots(self, var_list):
            for var in var_list:
                self.add_slot(var, "count")

        def _resource_apply_dense(self, grad, var, apply_state=None):
            rate = self._decayed_lr(var.dtype) * self._get_hyper("factor", var.dtype)
            self.get_slot(var, "count").assign_add(tf.ones_like(grad))
            return var.assign_sub(rate * grad)

    optimizer = Plain()
    assert optimizer.name == "Plain"
    np.testing.assert_allclose(
        fitted(optimizer), fitted(OPTIMIZERS["sgd"]()), rtol=1e-5, atol=1e-7
    )
    slots = [s.numpy() for s in optimizer.weights[1:]]
    assert all((slot == 6).all() for slot in slots) and len(slots) == 4


def test_gradients_are_transformed_and_weights_constrained():
    def flip(pairs):
        return [(-g, v) for g, v in pairs]

    v = tf.Variable([1.0])
    optimizer = keras.optimizers.SGD(0.5, gradient_transformers=[flip])
    optimizer.apply_gradients([(tf.constant([1.0]), v)])
    assert v.numpy().tolist() == [1.5]

    model = network(
        kernel_constraint=keras.constraints.MaxNorm(0.5), bias_constraint="non_neg"
    )
    fitted(keras.optimizers.SGD(1.0), model=model)
    kernel, bias = model.get_weights()[:2]
    assert np.linalg.norm(kernel, axis=0).max() <= 0.5 + 1e-6
    assert bias.min() >= 0


def test_constraints_against_numpy():
    w = RNG.normal(size=(4, 3)).astype(np.float32)
    norms = np.linalg.norm(w, axis=0, keepdims=True)
    get = keras.constraints.get
    np.testing.assert_array_equal(get("non_neg")(tf.constant(w)), np.maximum(w, 0))
    np.testing.assert_allclose(get("unit_norm")(tf.constant(w)), w / norms, rtol=1e-5)
    np.testing.assert_allclose(
        keras.constraints.MinMaxNorm(0.5, 1.0, rate=0.5)(tf.constant(w)),
        w * (0.5 * np.clip(norms, 0.5, 1.0) + 0.5 * norms) / norms,
        rtol=1e-5,
    )
    assert keras.constraints.MaxNorm(3).get_config() == {"max_value": 3, "axis": 0}
    with pytest.raises(ValueError, match="constraint"):
        get("positive")
    with pytest.raises(TypeError, match="constraint"):
        get(3)


def test_a_model_is_built_by_its_first_call_in_a_function():
    strategy = IPUStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.1)

    def step(x, y):
        loss = tf.reduce_mean(tf.square(model(x) - y))
        optimizer.minimize(loss, model.trainable_variables)
        return loss

    run = DeviceFunction(step)
    x, y = X[:BATCH], X[:BATCH, :1].copy()
    first = float(strategy.run(run, args=(x, y)))
    assert [w.shape for w in model.get_weights()] == [(6, 2), (2,), (2, 1), (1,)]
    for _ in range(30):
        last = float(strategy.run(run, args=(x, y)))
    assert last < first / 2


def test_a_metric_in_a_function():
    mean = keras.metrics.Mean()
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    model = network()

    def step(x, y):
        logits = model(x)
        mean.update_state(LOSS(y, logits))
        accuracy.update_state(y, logits)
        return mean.result(), accuracy.result()

    run = DeviceFunction(step)
    expected = (model.predict(X, BATCH).argmax(1) == Y).mean()
    for i in range(0, SAMPLES, BATCH):
        loss, hits = run(X[i : i + BATCH], Y[i : i + BATCH])
    assert float(hits) == pytest.approx(expected)
    assert float(loss) == pytest.approx(float(mean.result()))
    mean.reset_states()
    assert float(mean.result()) == 0.0


# --- steps of one's own ------------------------------------------------------------


class OwnTrainStep(keras.Sequential):
    """The default step, written out with what Keras offers for it."""

    def train_step(self, data):
        x, y = data
        y_pred = self(x, training=True)
        loss = self.compiled_loss(y, y_pred, regularization_losses=self.losses)
        variables = self.trainable_variables
        gradients = tf.gradients(loss, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        self.compiled_metrics.update_state(y, y_pred)
        return {m.name: m.result() for m in self.metrics}


@pytest.mark.parametrize("k", [1, 3])
def test_an_own_train_step_trains_as_the_default_one(k):
    histories = []
    for kind in (keras.Sequential, OwnTrainStep):
        model = network(kind, kernel_regularizer="l2")
        model.compile("adam", LOSS, metrics=["accuracy"], steps_per_execution=k)
        history = model.fit(batches(), steps_per_epoch=6, epochs=2, verbose=0)
        histories.append((history.history, weights(model)))
        assert model.metrics_names == ["loss", "accuracy"]
    assert list(histories[1][0]) == ["loss", "accuracy"]
    assert histories[0][0] == histories[1][0]
    np.testing.assert_array_equal(histories[0][1], histories[1][1])


class OwnMetrics(keras.Model):
    """No loss in compile, a loss and metrics of its own, no `compiled_loss`."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.mean = keras.metrics.Mean(name="loss")
        self.error = keras.metrics.MeanAbsoluteError(name="mae")

    def call(self, x):
        return self.dense(x)

    def train_step(self, data):
        x, y = data
        y_pred = self(x, training=True)
        loss = tf.reduce_mean(tf.square(y - y_pred))
        self.optimizer.minimize(loss, self.trainable_variables)
        self.mean.update_state(loss)
        self.error.update_state(y, y_pred)
        return {"loss": self.mean.result(), "mae": self.error.result()}

    def test_step(self, data):
        x, y = data
        self.error.update_state(y, self(x, training=False))
        return {"mae": self.error.result()}

    def predict_step(self, data):
        return 2.0 * self(data[0] if isinstance(data, tuple) else data)

    @property
    def metrics(self):
        return [self.mean, self.error]


def test_own_metrics_and_steps():
    model = OwnMetrics()
    model.compile(optimizer="sgd", steps_per_execution=3)
    y = X[:, :1] * 2.0
    history = model.fit(X, y, BATCH, epochs=30, verbose=0)
    assert sorted(history.history) == ["loss", "mae"]
    assert history.history["loss"][-1] < history.history["loss"][0] / 4
    error = model.evaluate(X, y, BATCH, verbose=0)
    kernel, bias = model.get_weights()
    assert error == pytest.approx(np.abs(X @ kernel + bias - y).mean(), rel=1e-4)
    predicted = model.predict(X, BATCH)
    np.testing.assert_allclose(predicted, 2 * (X @ kernel + bias), rtol=1e-4, atol=1e-5)


class TwoOptimizers(keras.Model):
    """Two networks, two optimizers, a `compile` and logs of its own: as a GAN."""

    def __init__(self):
        super().__init__()
        self.first = keras.layers.Dense(1)
        self.second = keras.layers.Dense(1)

    def compile(self, first_optimizer, second_optimizer, loss_fn):
        super().compile()
        self.optimizers = (first_optimizer, second_optimizer)
        self.loss_fn = loss_fn

    def train_step(self, data):
        x = data[0] if isinstance(data, tuple) else data
        rows = tf.shape(x)[0]
        noise = 0.0 * tf.random.normal(shape=(rows, FEATURES))
        losses = []
        for layer, optimizer in zip(
            (self.first, self.second), self.optimizers, strict=True
        ):
            loss = self.loss_fn(layer(x + noise))
            optimizer.minimize(loss, layer.trainable_weights)
            losses.append(loss)
        return {"a_loss": losses[0], "b_loss": losses[1]}


def test_two_optimizers_in_one_step():
    model = TwoOptimizers()
    rates = [keras.optimizers.Adam(0.1), keras.optimizers.SGD(0.01)]
    model.compile(*rates, loss_fn=lambda y: tf.reduce_mean(tf.square(y - 1.0)))
    history = model.fit(X, batch_size=BATCH, epochs=5, verbose=0)
    assert sorted(history.history) == ["a_loss", "b_loss"]
    assert len(history.history["a_loss"]) == 5
    assert [int(r.iterations) for r in rates] == [30, 30]


def test_a_step_that_gives_no_dict():
    class Wrong(keras.Sequential):
        def train_step(self, data):
            return self(data[0])

    model = network(Wrong)
    model.compile("sgd", LOSS)
    with pytest.raises(TypeError, match="`train_step` must return a dict"):
        model.fit(X, Y, BATCH, verbose=0)


def test_a_step_that_gives_nothing():
    class Silent(keras.Sequential):
        def train_step(self, data):
            return {}

    model = network(Silent)
    model.compile("sgd", LOSS)
    with pytest.raises(ValueError, match="must return a dict of at least one result"):
        model.fit(X, Y, BATCH, verbose=0)


class OwnFunction(keras.Sequential):
    made = 0

    def make_train_function(self, force=False):
        if self.train_function is None or force:
            OwnFunction.made += 1
            k = self._steps_per_execution

            def train(iterator):
                def body(_):
                    return self.train_step(next(iterator))["loss"]

                return {"loss": loops.repeat(k, body, [0.0])}

            self.train_function = DeviceFunction(train)
        return self.train_function


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("how", ["own", "super"])
def test_an_own_train_function(how, k):
    class Super(keras.Sequential):
        def make_train_function(self, force=False):
            function = super().make_train_function(force)
            return lambda iterator: {"loss": function(iterator)["loss"]}

    kind = OwnFunction if how == "own" else Super
    histories = []
    for one in (keras.Sequential, kind):
        model = network(one)
        model.compile("sgd", LOSS, steps_per_execution=k)
        history = model.fit(batches(), steps_per_epoch=6, epochs=2, verbose=0)
        histories.append(history.history["loss"])
        histories.append(weights(model).tolist())
    assert histories[:2] == histories[2:]


def test_the_functions_of_an_iterator():
    model = network()
    model.compile("sgd", LOSS, metrics=["accuracy"], steps_per_execution=3)
    assert model.make_train_function() is model.make_train_function()
    iterator = IPUOwnedIterator(batches())
    logs = model.make_train_function()(iterator)
    assert sorted(logs) == ["accuracy", "loss"]
    assert int(model.optimizer.iterations) == 3
    assert sorted(model.make_test_function()(iterator)) == ["accuracy", "loss"]
    # the seventh batch is the first one again
    outputs = model.make_predict_function()(iterator)
    np.testing.assert_allclose(outputs, model.predict(X, BATCH)[:BATCH], rtol=1e-5)


# --- single batches, weights of classes --------------------------------------------


def test_single_batches():
    model, other = network(), network()
    for one in (model, other):
        one.compile("adam", LOSS, metrics=["accuracy"])
    for i in range(0, SAMPLES, BATCH):
        logs = model.train_on_batch(X[i : i + BATCH], Y[i : i + BATCH])
        assert len(logs) == 2
    other.fit(X, Y, BATCH, shuffle=False, verbose=0)
    np.testing.assert_array_equal(weights(model), weights(other))
    whole = model.test_on_batch(X, Y, return_dict=True)
    assert whole["loss"] == pytest.approx(
        model.evaluate(X, Y, SAMPLES, verbose=0)[0], rel=1e-5
    )
    np.testing.assert_allclose(
        model.predict_on_batch(X[:BATCH]), model.predict(X[:BATCH]), rtol=1e-5
    )
    model.train_on_batch(X[:4], Y[:4], reset_metrics=False)  # another size
    with pytest.raises(RuntimeError, match="must compile"):
        network().train_on_batch(X, Y)


@pytest.mark.parametrize("targets", ["numbers", "one-hot"])
def test_class_weight(targets):
    table = {0: 1.0, 1: 0.0, 2: 5.0}
    by_sample = np.array([table[int(y)] for y in Y], np.float32)
    y, loss = Y, LOSS
    if targets == "one-hot":
        y = np.eye(CLASSES, dtype=np.float32)[Y]
        loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    results = []
    for keywords in ({"class_weight": table}, {"sample_weight": by_sample}, {}):
        model = network()
        model.compile("sgd", loss)
        history = model.fit(X, y, BATCH, shuffle=False, verbose=0, **keywords)
        results.append((weights(model).tolist(), history.history["loss"]))
    assert results[0] == results[1] != results[2]
    both, half = network(), np.full(SAMPLES, 0.5, np.float32)
    both.compile("sgd", loss)
    both.fit(X, y, BATCH, 1, 0, class_weight=table, sample_weight=half, shuffle=False)
    assert weights(both).tolist() != results[0][0]
    on_batch = network()
    on_batch.compile("sgd", loss)
    first = on_batch.train_on_batch(X[:8], y[:8], class_weight=table)
    again = network()
    again.compile("sgd", loss)
    assert first == again.train_on_batch(X[:8], y[:8], sample_weight=by_sample[:8])


def test_class_weight_errors():
    model = network()
    model.compile("sgd", LOSS)
    with pytest.raises(ValueError, match="a dict from class numbers"):
        model.fit(X, Y, BATCH, verbose=0, class_weight=[1.0, 2.0, 3.0])


def test_minimize_outside_of_functions():
    v = tf.Variable([3.0, -1.0])
    optimizer = keras.optimizers.Adam(0.1)
    for step in range(60):
        loss = lambda k=step: tf.reduce_sum(tf.square(v - 1.0)) + 0.0 * k  # noqa: E731
        optimizer.minimize(loss, [v])
    np.testing.assert_allclose(v.numpy(), [1.0, 1.0], atol=0.2)
    assert int(optimizer.iterations) == 60
    assert len(optimizer._eager) == 1  # one small program, whatever the loss
    with pytest.raises(ValueError, match="`tape` is required"):
        optimizer.minimize(tf.constant(1.0), [v])
