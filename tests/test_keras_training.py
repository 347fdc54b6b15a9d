"""fit, evaluate and predict: numbers against NumPy, and the arithmetic of steps."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from trained_classifiers import (
    BATCH,
    CLASSES,
    FEATURES,
    SAMPLES,
    STEPS,
    X,
    Y,
    batches,
    classifier,
)

import ipu
from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy


class Oracle:
    """The same network and SGD with momentum, in float64 NumPy."""

    def __init__(
        self, weights: list, rate: float = 0.01, momentum: float = 0.0
    ) -> None:
        self.w = [weight.astype(np.float64) for weight in weights]
        self.v = [np.zeros_like(weight) for weight in self.w]
        self.rate, self.momentum = rate, momentum

    def forward(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hidden = np.tanh(x @ self.w[0] + self.w[1])
        return hidden, hidden @ self.w[2] + self.w[3]

    @staticmethod
    def loss(logits: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
        e = np.exp(logits - logits.max(1, keepdims=True))
        p = e / e.sum(1, keepdims=True)
        rows = np.arange(len(y))
        gradient = p.copy()
        gradient[rows, y] -= 1
        return float(-np.log(p[rows, y]).mean()), gradient / len(y)

    def step(self, x: np.ndarray, y: np.ndarray) -> tuple[float, int]:
        hidden, logits = self.forward(x)
        loss, d = self.loss(logits, y)
        dh = (d @ self.w[2].T) * (1 - hidden**2)
        gradients = [x.T @ dh, dh.sum(0), hidden.T @ d, d.sum(0)]
        for i, gradient in enumerate(gradients):
            self.v[i] = self.momentum * self.v[i] - self.rate * gradient
            self.w[i] = self.w[i] + self.v[i]
        return loss, int((logits.argmax(1) == y).sum())

    def epoch(self) -> tuple[list[float], float, float]:
        losses, hits = [], 0
        for i in range(STEPS):
            part = slice(i * BATCH, (i + 1) * BATCH)
            loss, right = self.step(X[part], Y[part])
            losses.append(loss)
            hits += right
        return losses, float(np.mean(losses)), hits / SAMPLES


# --- numbers --------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_fit_is_numpy(k: int) -> None:
    model = classifier(k, keras.optimizers.SGD(0.1, momentum=0.9))
    oracle = Oracle(model.get_weights(), 0.1, 0.9)
    history = model.fit(batches(), epochs=3, verbose=0)
    steps: list[float] = []
    for epoch in range(3):
        losses, mean, accuracy = oracle.epoch()
        steps += losses
        np.testing.assert_allclose(history.history["loss"][epoch], mean, rtol=1e-4)
        np.testing.assert_allclose(history.history["accuracy"][epoch], accuracy)
    np.testing.assert_allclose(history.steps["loss"], steps, rtol=1e-4)
    for weight, expected in zip(model.get_weights(), oracle.w, strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-3, atol=1e-5)
    assert int(model.optimizer.iterations) == 18
    assert all(type(v) is float for v in history.history["loss"])
    assert list(history.history) == ["loss", "accuracy"] and history.epoch == [
        0,
        1,
        2,
    ]


def test_evaluate_and_predict_are_numpy() -> None:
    model = classifier(3)
    oracle = Oracle(model.get_weights())
    _, logits = oracle.forward(X)
    loss, accuracy = model.evaluate(batches(), verbose=0)
    np.testing.assert_allclose(loss, Oracle.loss(logits, Y)[0], rtol=1e-5)
    np.testing.assert_allclose(accuracy, (logits.argmax(1) == Y).mean(), rtol=1e-6)
    named = model.evaluate(X, Y, batch_size=16, verbose=0, return_dict=True)
    np.testing.assert_allclose(named["loss"], loss, rtol=1e-5)
    np.testing.assert_allclose(model.predict(X, batch_size=8), logits, atol=1e-5)
    np.testing.assert_allclose(model.predict(batches()), logits, atol=1e-5)
    few = model.predict(X[:5])
    np.testing.assert_allclose(few, logits[:5], atol=1e-5)
    assert model.metrics_names == ["loss", "accuracy"]


def test_one_loss_alone_is_a_number() -> None:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(FEATURES,))])
    model.compile("sgd", "mse")
    assert isinstance(model.evaluate(X, X[:, :1], batch_size=BATCH, verbose=0), float)


def test_same_bits_for_every_thread_count_and_steps_per_execution() -> None:
    results = []
    before = ipu.num_threads()
    try:
        for threads, k in [(1, 1), (2, 3), (3, 6)]:
            ipu.set_num_threads(threads)
            model = classifier(k, keras.optimizers.Adam(0.01))
            model.fit(batches(), epochs=2, verbose=0)
            results.append(model.get_weights())
    finally:
        ipu.set_num_threads(before)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def test_shuffling_differs_by_epoch_and_repeats_with_the_seed() -> None:
    def order() -> list[float]:
        tf.random.set_seed(3)
        model = classifier(2)
        history = model.fit(X, Y, batch_size=BATCH, epochs=2, verbose=0)
        return history.steps["loss"]

    first, again = order(), order()
    assert first == again
    model, found = classifier(2), []
    weights = model.get_weights()
    for _ in range(2):  # of one model, too
        tf.random.set_seed(3)
        model.set_weights(weights)
        found.append(model.fit(X, Y, batch_size=BATCH, verbose=0).steps["loss"])
    assert found[0] == found[1]
    fixed = classifier(2).fit(
        X, Y, batch_size=BATCH, epochs=1, shuffle=False, verbose=0
    )
    expected, _, _ = Oracle(classifier().get_weights()).epoch()
    np.testing.assert_allclose(fixed.steps["loss"], expected, rtol=1e-4)
    assert not np.allclose(first[:STEPS], expected, rtol=1e-4)


def test_several_outputs_losses_and_metrics() -> None:
    a = keras.Input((FEATURES,), name="a")
    b = keras.Input((2,), name="b")
    both = keras.layers.Concatenate()([a, b])
    model = keras.Model(
        {"a": a, "b": b},
        [
            keras.layers.Dense(CLASSES, name="kind")(both),
            keras.layers.Dense(1, name="size")(both),
        ],
    )
    model.compile(
        "sgd",
        {"kind": keras.losses.SparseCategoricalCrossentropy(True), "size": "mse"},
        metrics={"kind": "accuracy", "size": ["mae"]},
        loss_weights={"kind": 1.0, "size": 0.5},
        steps_per_execution=STEPS,
    )
    size = X[:, :1] * 2
    x = {"a": X, "b": X[:, :2]}
    logits, guessed = model.predict(x, batch_size=BATCH)
    results = model.evaluate(x, [Y, size], BATCH, verbose=0, return_dict=True)
    names = ["loss", "kind_loss", "size_loss", "kind_accuracy", "size_mae"]
    assert list(results) == names
    np.testing.assert_allclose(
        results["kind_loss"], Oracle.loss(logits, Y)[0], rtol=1e-4
    )
    mse = ((guessed - size) ** 2).mean()
    np.testing.assert_allclose(results["size_loss"], mse, rtol=1e-4)
    np.testing.assert_allclose(
        results["loss"],
        results["kind_loss"] + 0.5 * results["size_loss"],
        rtol=1e-5,
    )
    history = model.fit(x, {"kind": Y, "size": size}, BATCH, epochs=3, verbose=0)
    assert list(history.history) == names
    assert history.history["loss"][-1] < history.history["loss"][0]
    with pytest.raises(ValueError, match="unexpected key 'sise'"):
        model.compile("sgd", {"kind": "mse", "sise": "mse"})
        model.evaluate(x, [Y, size], BATCH, verbose=0)


def test_sample_weights() -> None:
    model = classifier(STEPS)
    weight = (np.arange(SAMPLES) % 3).astype(np.float32)
    _, logits = Oracle(model.get_weights()).forward(X)
    e = np.exp(logits - logits.max(1, keepdims=True))
    each = -np.log((e / e.sum(1, keepdims=True))[np.arange(SAMPLES), Y])
    loss, _ = model.evaluate(X, Y, BATCH, verbose=0, sample_weight=weight)
    np.testing.assert_allclose(loss, (each * weight).mean(), rtol=1e-4)


def test_regularizers_and_add_loss() -> None:
    model = keras.Sequential(
        [
            keras.layers.Dense(
                2,
                input_shape=(FEATURES,),
                kernel_regularizer=keras.regularizers.L2(0.5),
                activity_regularizer="l1",
            )
        ]
    )
    model.compile("sgd", "mse")
    target = X[:, :2]
    kernel = model.get_weights()[0]
    output = X[:BATCH] @ kernel
    expected = (
        ((output - target[:BATCH]) ** 2).mean()
        + 0.5 * (kernel**2).sum()
        + 0.01 * np.abs(output).sum() / BATCH
    )
    value = model.evaluate(X[:BATCH], target[:BATCH], verbose=0)
    np.testing.assert_allclose(value, expected, rtol=1e-4)


def test_subclassed_model_and_users_metric_and_optimizer() -> None:
    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.a = keras.layers.Dense(4)
            self.b = keras.layers.Dense(CLASSES)
            self.drop = keras.layers.Dropout(0.2)

        def call(self, inputs: object, training: object = None) -> object:
            return self.b(self.drop(self.a(inputs), training=training))

    class Doubled(keras.optimizers.SGD):
        def apply_gradients(
            self, grads_and_vars: object, name: object = None
        ) -> object:
            return super().apply_gradients((2.0 * g, v) for g, v in grads_and_vars)

    def largest(y_true: object, y_pred: object) -> object:
        return tf.reduce_max(y_pred, axis=-1)

    model = Net()
    model.compile(
        Doubled(0.05),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=[largest, keras.metrics.SparseCategoricalAccuracy(name="hit")],
        steps_per_execution=2,
    )
    history = model.fit(X, Y, batch_size=BATCH, epochs=8, verbose=0)
    assert list(history.history) == ["loss", "largest", "hit"]
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert model.predict(X, batch_size=BATCH).shape == (SAMPLES, CLASSES)


def test_softmax_and_from_logits_trains_on_the_logits() -> None:
    def train(activation: str | None) -> list[float]:
        tf.random.set_seed(1)
        model = keras.Sequential(
            [keras.layers.Dense(CLASSES, activation, input_shape=(FEATURES,))]
        )
        model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(True))
        return model.fit(batches(), verbose=0).steps["loss"]

    with pytest.warns(UserWarning, match="does not represent logits"):
        with_softmax = train("softmax")
    assert with_softmax == train(None)


def test_a_model_of_the_strategy_runs_outside_of_its_scope() -> None:
    strategy = IPUStrategy()
    with strategy.scope():
        model = classifier(2)
    history = model.fit(batches(), verbose=0)
    assert len(history.steps["loss"]) == STEPS


def test_wide_dtypes_are_cast() -> None:
    oracle, _, _ = Oracle(classifier().get_weights()).epoch()
    for x, y in [
        (X.astype(np.float64), Y.astype(np.int64)),
        (X.tolist(), Y.tolist()),
    ]:
        model = classifier(2)
        history = model.fit(
            np.asarray(x), np.asarray(y), BATCH, shuffle=False, verbose=0
        )
        np.testing.assert_allclose(history.steps["loss"], oracle, rtol=1e-4)
    data = tf.data.Dataset.from_tensor_slices(
        (X.astype(np.float64), Y.astype(np.int64))
    )
    history = classifier(2).fit(data.batch(BATCH, drop_remainder=True), verbose=0)
    np.testing.assert_allclose(history.steps["loss"], oracle, rtol=1e-4)
    with pytest.raises(ValueError, match="do not fit into the device's int32"):
        classifier().fit(X, Y.astype(np.int64) + 2**40, BATCH, verbose=0)


# --- steps ----------------------------------------------------------------------------


def test_a_finite_data_set_with_fewer_steps_goes_on_where_it_stopped() -> None:
    model = classifier(1)
    losses, _, _ = Oracle(model.get_weights()).epoch()
    history = model.fit(batches(), steps_per_epoch=2, epochs=3, verbose=0)
    np.testing.assert_allclose(history.steps["loss"], losses, rtol=1e-4)


def test_initial_epoch_and_infinite_data() -> None:
    model = classifier(2)
    history = model.fit(
        batches(repeat=True),
        steps_per_epoch=4,
        epochs=5,
        initial_epoch=3,
        verbose=0,
    )
    assert history.epoch == [3, 4] and len(history.steps["loss"]) == 8
    assert model.fit(X, Y, BATCH, epochs=1, initial_epoch=1, verbose=0).epoch == []


def test_validation() -> None:
    model = classifier(2)
    history = model.fit(
        batches(),
        validation_data=(X[:16], Y[:16]),
        epochs=3,
        verbose=0,
        batch_size=None,
        validation_batch_size=8,
        validation_freq=2,
    )
    assert len(history.history["val_loss"]) == 1
    history = model.fit(
        batches(), validation_data=batches(), validation_steps=1, epochs=3, verbose=0
    )
    expected, _ = model.evaluate(X[:BATCH], Y[:BATCH], verbose=0)
    # the same first batch every time
    np.testing.assert_allclose(history.history["val_loss"][-1], expected, rtol=1e-5)
    split = classifier(1).fit(X, Y, 6, validation_split=0.25, epochs=2, verbose=0)
    assert len(split.steps["loss"]) == 12 and len(split.history["val_accuracy"]) == 2
    with pytest.raises(ValueError, match="not sufficient to split"):
        model.fit(X[:4], Y[:4], validation_split=0.999, verbose=0)


def test_more_steps_per_execution_than_steps_warns() -> None:
    with IPUStrategy().scope():
        model = classifier(500)
        with pytest.warns(
            UserWarning, match=r"\(500\) is larger than the number of st"
        ):
            history = model.fit(batches(), verbose=0)
    assert len(history.steps["loss"]) == STEPS


def test_fit_again_continues() -> None:
    model = classifier(3)
    losses = [
        loss for _ in range(2) for loss in model.fit(batches(), verbose=0).steps["loss"]
    ]
    oracle = Oracle(classifier().get_weights())
    np.testing.assert_allclose(losses, oracle.epoch()[0] + oracle.epoch()[0], rtol=1e-4)


def test_a_model_without_trainable_weights_measures(caplog) -> None:
    model = keras.Sequential([keras.layers.Flatten(input_shape=(FEATURES,))])
    model.compile("sgd", "mse", metrics=["mae"])
    history = model.fit(X, X + 2.0, BATCH, epochs=2, verbose=0)
    assert history.history["loss"] == pytest.approx([4.0, 4.0], rel=1e-5)
    assert "has no trainable weights" in caplog.text
    assert int(model.optimizer.iterations) == 0

    frozen = keras.Sequential([keras.layers.Dense(1, input_shape=(FEATURES,))])
    frozen.trainable = False
    frozen.compile("adam", "mse")
    before = frozen.get_weights()
    frozen.train_on_batch(X, Y)
    for left, right in zip(before, frozen.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_stack_is_made_again_from_its_configuration() -> None:
    first = keras.layers.Dense(3, "relu", input_shape=(4,))
    declared = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="a")
    for model in (keras.Sequential([first, keras.layers.Dense(2)]), declared):
        again = keras.Sequential.from_config(model.get_config())
        assert again.get_config() == model.get_config()
        assert [w.shape for w in again.weights] == [w.shape for w in model.weights]
        again.set_weights(model.get_weights())
        data = np.ones((2, 4), np.float32)
        np.testing.assert_array_equal(again(data), model(data))
    with pytest.raises(ValueError, match="Dens"):
        layers = [{"class_name": "Dens", "config": {}}]
        keras.Sequential.from_config({"layers": layers})


def test_a_metric_object_is_copied_for_each_output() -> None:
    x = keras.Input((2,))
    one, two = (keras.layers.Lambda(lambda v, n=n: v * n, name=f"o{n}") for n in (2, 3))
    model = keras.Model(x, [one(x), two(x)])
    model.compile(loss="mse", metrics=["mae", keras.metrics.MeanSquaredError("square")])
    ones = np.ones((4, 2), np.float32)
    results = model.evaluate(ones, [ones, ones], return_dict=True, verbose=0)
    expected = {
        "loss": 5,
        "o2_loss": 1,
        "o3_loss": 4,
        "o2_mae": 1,
        "o2_square": 1,
        "o3_mae": 2,
        "o3_square": 4,
    }
    assert results == pytest.approx(expected)


def test_a_step_without_targets_has_the_added_losses() -> None:
    class Summing(keras.layers.Layer):
        def call(self, inputs):
            self.add_loss(tf.reduce_sum(inputs))
            return inputs

    class Own(keras.Model):
        def train_step(self, data):
            return super().train_step(data)

    x = keras.Input((1,))
    y = keras.layers.Dense(1, kernel_initializer="ones")(x)
    model = Own(x, Summing()(y))
    model.compile("sgd", "mse")
    history = model.fit(np.ones((4, 1), np.float32), batch_size=4, verbose=0)
    assert history.history["loss"] == [4.0]
    model = keras.Model(x, [Summing()(y), Summing()(2.0 * y)])  # several outputs, too
    model.layers[1].set_weights([np.ones((1, 1)), np.zeros(1)])
    model.compile("sgd")
    history = model.fit(np.ones((4, 1), np.float32), batch_size=4, verbose=0)
    assert history.history == {"loss": [12.0]}


def test_whole_results_stay_whole() -> None:
    class Answer(keras.metrics.Metric):
        def update_state(self, y_true, y_pred, sample_weight=None):
            del y_true, y_pred, sample_weight

        def result(self):
            return tf.constant(42)

    model = keras.Sequential([keras.layers.Dense(1, input_shape=(FEATURES,))])
    model.compile("sgd", "mse", metrics=[Answer("answer")])
    history = model.fit(X, Y, BATCH, verbose=0)
    assert type(history.history["answer"][0]) is int
    assert type(history.history["loss"][0]) is float
    assert model.train_on_batch(X[:BATCH], Y[:BATCH], return_dict=True)["answer"] == 42


def test_inputs_alone_come_to_a_step_as_they_are() -> None:
    seen = []

    class Watching(keras.Model):
        def predict_step(self, data):
            seen.append(tf.nest.map_structure(lambda x: x.shape, data))
            return super().predict_step(data)

    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    one, two = Watching(a, a * 2.0), Watching([a, b], a + b)
    data = np.ones((8, 3), np.float32)
    one.predict(data, batch_size=4)
    two.predict([data, data], batch_size=4)
    two.predict({"a": data, "b": data}, batch_size=4)
    assert seen[0] == (4, 3)
    assert set(map(str, seen)) == {
        "(4, 3)",
        "(((4, 3), (4, 3)),)",
        "{'a': (4, 3), 'b': (4, 3)}",
    }


def test_nested_lists_of_numbers_are_one_array() -> None:
    model = keras.Sequential([keras.layers.Dense(1, "linear", input_shape=(2,))])
    model.compile("sgd", "mse")
    rows, targets = [[1.0, 2.0], [3.0, 4.0]], [[1.0], [2.0]]
    expected = model.predict(np.array(rows, np.float32), batch_size=2)
    np.testing.assert_array_equal(model.predict(rows, batch_size=2), expected)
    model.fit(rows, targets, batch_size=2, verbose=0)
    with pytest.raises(ValueError, match=r"`x` is .* of different lengths"):
        model.fit([[1.0, 2.0], [3.0]], targets, batch_size=2, verbose=0)


@pytest.mark.parametrize(("steps", "expected"), [(None, 32), (10, 10), (96, 1)])
def test_steps_without_a_batch_size_cut_the_arrays(steps, expected) -> None:
    sizes = []

    class Sizes(keras.Model):
        def call(self, x):
            sizes.append(x.shape[0])
            return x

    model = Sizes()
    model.compile(loss="mse")
    data = np.ones((96 if steps != 10 else 100, 2), np.float32)
    model.evaluate(data, data, steps=steps, verbose=0)
    model.predict(data, steps=steps)
    history = model.fit(data, data, steps_per_epoch=steps, epochs=2, verbose=0)
    assert set(sizes) == {expected}
    assert len(history.history["loss"]) == 2


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_at_a_step_and_the_model_stays_usable() -> None:
    program = textwrap.dedent(
        """
        import os, signal, threading
        import numpy as np
        from ipu import keras, tf
        x = np.ones((64, 512), np.float32)
        data = tf.data.Dataset.from_tensors((x, x)).repeat()
        model = keras.Sequential([keras.layers.Dense(512, input_shape=(512,))])
        model.compile("sgd", "mse", steps_per_execution=10_000_000)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            model.fit(data, steps_per_epoch=10_000_000, verbose=0)
        except KeyboardInterrupt:
            done = int(model.optimizer.iterations)
            assert 0 < done < 10_000_000, done
            weights = model.get_weights()
            assert all(np.isfinite(w).all() for w in weights)
            model.compile("sgd", "mse")
            model.fit(data, steps_per_epoch=3, verbose=0)
            print("usable after", done, "steps")
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "usable after" in done.stdout


def test_no_warnings_in_a_plain_run() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = classifier(2)
        model.fit(batches(), validation_data=batches(), verbose=0)
        model.evaluate(batches(), verbose=0)
        model.predict(batches())


def test_steps_settle_the_batch_size_of_arrays() -> None:
    x = np.arange(30, dtype=np.float32).reshape(30, 1)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.set_weights([np.ones((1, 1)), np.zeros(1)])
    history = model.fit(x, x, steps_per_epoch=30, epochs=3, verbose=0)
    assert len(history.steps["loss"]) == 90  # batches of one; each epoch starts anew
    assert model.predict(x, steps=2).shape == (30, 1)  # two batches of 15
    assert model.predict(x, batch_size=5, steps=2).shape == (10, 1)


def test_an_epoch_goes_on_in_the_arrays_where_the_last_one_ended() -> None:
    x = np.arange(8, dtype=np.float32).reshape(8, 1)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    model.set_weights([np.zeros((1, 1)), np.zeros(1)])
    history = model.fit(
        x, x, batch_size=2, steps_per_epoch=2, epochs=4, shuffle=False, verbose=0
    )
    assert history.steps["loss"] == [0.5, 6.5, 20.5, 42.5] * 2


@pytest.mark.parametrize(
    "metric",
    ["mae", keras.metrics.mean_absolute_error, keras.metrics.MeanAbsoluteError],
)
def test_a_metric_alone(metric: Any) -> None:
    metric = metric() if isinstance(metric, type) else metric
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile(keras.optimizers.SGD(0.0), "mse", metrics=metric)
    model.set_weights([np.zeros((1, 1)), np.zeros(1)])
    x = np.arange(4, dtype=np.float32).reshape(4, 1)
    assert model.evaluate(x, x, verbose=0) == [3.5, 1.5]


def test_a_mask_ends_at_a_lambda_layer() -> None:
    def summed(mask: Any) -> Any:
        tokens = keras.Input((3,), dtype="int32")
        steps = keras.layers.Embedding(4, 2, mask_zero=True)(tokens)
        sums = keras.layers.Lambda(lambda x: tf.reduce_sum(x, axis=1), mask=mask)(steps)
        model = keras.Model(tokens, keras.layers.Dense(1)(sums))
        model.compile("sgd", "mse")
        x = np.array([[1, 2, 0], [3, 0, 0]], np.int32)
        return model.evaluate(x, np.ones((2, 1), np.float32), verbose=0)

    assert np.isfinite(summed(None))
    first = summed(lambda inputs, mask: None if mask is None else mask[:, 0])
    assert np.isfinite(first)


def test_a_model_may_be_evaluated_without_a_loss() -> None:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile(metrics=["mse"])
    model.set_weights([np.zeros((1, 1)), np.zeros(1)])
    x = np.arange(4, dtype=np.float32).reshape(4, 1)
    assert model.evaluate(x, x, verbose=0) == [0.0, 3.5]
    with pytest.raises(ValueError, match="no loss to optimize"):
        model.fit(x, x, verbose=0)


@pytest.mark.parametrize("scope", [False, True])
def test_any_number_of_inputs_outputs_and_metrics(scope: bool) -> None:
    count = 257
    x, y = np.ones((4, 1), np.float32), np.ones((4, 1), np.float32)
    layers = keras.layers
    with ipu.ipu_strategy.IPUStrategy().scope() if scope else nullcontext():
        inputs = [keras.Input((1,)) for _ in range(count)]
        outputs = [layers.Add()(inputs)] * 2 + inputs
        model = keras.Model(inputs, outputs)
        assert len(model.predict([x] * count, batch_size=2)) == count + 2
        model = keras.Sequential([layers.Dense(1, input_shape=(1,))])
        metrics = [keras.metrics.MeanAbsoluteError(name=f"m{k}") for k in range(count)]
        model.compile("sgd", "mse", metrics=metrics, steps_per_execution=2)
        history = model.fit(x, y, 2, verbose=0).history
        assert len(history) == count + 1 == len(model.evaluate(x, y, 2, verbose=0))
