# SPDX-License-Identifier: MIT
"""What ordinary programs of Keras and TensorFlow do, outside of a strategy.

Numbers in HISTORIES are what the same functions gave with Keras 3.15.1 on TensorFlow
2.21, rounded to five digits. Those of schedules are sums that NumPy makes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

X = np.arange(80, dtype=np.float32).reshape(20, 4) / 80
Y = np.ones((20, 3), np.float32)
layers = keras.layers


def about(expected: dict[str, float]) -> Any:
    return pytest.approx(expected, rel=1e-5)


def last(history: Any) -> dict[str, float]:
    return {name: values[-1] for name, values in history.history.items()}


# --- learning rates -------------------------------------------------------------------


def of_rsqrt(step: Any) -> Any:
    return 0.1 * tf.math.rsqrt(step + 1)


def of_power(step: Any) -> Any:
    return 0.1 * 0.9**step


def of_product(step: Any) -> Any:
    return 0.01 + step * 0.001


def of_quotient(step: Any) -> Any:
    return 0.1 / (1 + step)


def of_branches(step: Any) -> Any:
    if step < 2:
        return 0.1
    return 0.01


def of_transformer(step: Any) -> Any:
    by_step = tf.math.rsqrt(step)
    warming_up = step * (4.0**-1.5)
    return tf.math.rsqrt(tf.cast(64, tf.float32)) * tf.math.minimum(by_step, warming_up)


RATES: list[tuple[Any, Callable[[int], float]]] = [
    (of_rsqrt, lambda n: 0.1 / np.sqrt(n + 1)),
    (of_power, lambda n: 0.1 * 0.9**n),
    (of_product, lambda n: 0.01 + n * 0.001),
    (of_quotient, lambda n: 0.1 / (1 + n)),
    (of_branches, lambda n: 0.1 if n < 2 else 0.01),
    (of_transformer, lambda n: min(n * 4.0**-1.5, n**-0.5 if n else np.inf) / 8),
]


def schedule_of(rate: Any) -> Any:
    class Schedule(keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step: Any) -> Any:
            return rate(step)

    return Schedule()


@pytest.mark.parametrize(("rate", "expected"), RATES, ids=lambda v: v.__name__)
def test_schedules_get_the_step_as_a_float(
    rate: Any, expected: Callable[[int], float]
) -> None:
    # with a gradient of 1 the weight falls by the rates
    total = sum(expected(n) for n in range(5))
    model = keras.Sequential([layers.Dense(1, use_bias=False, input_shape=(1,))])
    model.compile(
        keras.optimizers.SGD(schedule_of(rate)), lambda t, p: tf.reduce_mean(p)
    )
    model.set_weights([np.zeros((1, 1))])
    model.fit(np.ones((5, 1)), np.ones((5, 1)), 1, verbose=0)
    np.testing.assert_allclose(model.get_weights()[0], [[-total]], rtol=1e-5)
    optimizer = keras.optimizers.SGD(schedule_of(rate))
    v = tf.Variable([0.0])
    for _ in range(5):
        optimizer.apply_gradients([(tf.constant([1.0]), v)])
    np.testing.assert_allclose(v.numpy(), [-total], rtol=1e-5)


# --- models ---------------------------------------------------------------------------


def test_a_model_of_the_configuration_of_another() -> None:
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layers.Dense(2)(inputs))
    again = keras.Model.from_config(model.get_config())
    assert again.output_shape == (None, 2) and again.name == model.name
    stack = keras.Sequential([layers.Dense(2, input_shape=(4,))])
    assert keras.Model.from_config(stack.get_config()).output_shape == (None, 2)


def ones(units: int, name: str) -> Any:
    return layers.Dense(units, name=name, kernel_initializer="ones")


def of_dict(subclass: bool, loss: Any, **how: Any) -> Any:
    if subclass:

        class Both(keras.Model):
            def __init__(self) -> None:
                super().__init__()
                self.a, self.b = ones(3, "da"), ones(1, "db")

            def call(self, inputs: Any) -> Any:
                return {"a": self.a(inputs), "b": self.b(inputs)}

        model: Any = Both()
    else:
        inputs = keras.Input((4,))
        outputs = {"a": ones(3, "da")(inputs), "b": ones(1, "db")(inputs)}
        model = keras.Model(inputs, outputs)
    model.compile("sgd", loss, **how)
    return model


BOTH = {"a": "mse", "b": "mae"}
HISTORIES: list[tuple[dict[str, Any], dict[str, float]]] = [
    ({"loss": BOTH}, {"loss": 3.51812, "a_loss": 2.28062, "b_loss": 1.2375}),
    (
        {"loss": BOTH, "loss_weights": {"a": 0.5, "b": 2.0}},
        {"loss": 3.61531, "a_loss": 2.28062, "b_loss": 1.2375},
    ),
    (
        {"loss": BOTH, "metrics": {"b": ["mae"]}},
        {"loss": 3.51812, "a_loss": 2.28062, "b_loss": 1.2375, "b_mae": 1.2375},
    ),
    ({"loss": {"a": "mse"}}, {"loss": 2.28062, "a_loss": 2.28062}),
]


@pytest.mark.parametrize("subclass", [False, True])
@pytest.mark.parametrize(("how", "expected"), HISTORIES)
def test_outputs_by_name(
    subclass: bool, how: dict[str, Any], expected: dict[str, float]
) -> None:
    targets = {"a": Y, "b": Y[:, :1]}
    model = of_dict(subclass, **how)
    assert last(model.fit(X, targets, verbose=0)) == about(expected)
    assert sorted(model.predict(X)) == ["a", "b"]
    found = model.evaluate(X, targets, verbose=0, return_dict=True)
    assert list(found) == list(expected)


def test_losses_for_some_of_the_outputs() -> None:
    model = of_dict(False, {"a": "mse"})
    history = model.fit(X, {"a": Y}, verbose=0)
    assert last(history) == about({"loss": 2.28062, "a_loss": 2.28062})
    with pytest.raises(ValueError, match="targets for 'c', but the outputs are named"):
        model.fit(X, {"a": Y, "c": Y}, verbose=0)
    with pytest.raises(ValueError, match="The loss of output 'b' needs targets"):
        of_dict(False, BOTH).fit(X, {"a": Y}, verbose=0)
    with pytest.raises(ValueError, match="Metric 'b_mae' needs targets of output 'b'"):
        of_dict(False, {"a": "mse"}, metrics={"b": "mae"}).fit(X, {"a": Y}, verbose=0)


def test_losses_by_the_names_of_layers() -> None:
    model = of_dict(False, {"da": "mse", "db": "mae"})
    history = model.fit(X, {"da": Y, "db": Y[:, :1]}, verbose=0)
    names = {"loss": 3.51812, "da_loss": 2.28062, "db_loss": 1.2375}
    assert last(history) == about(names)


def test_terms_that_a_functional_model_adds() -> None:
    inputs = keras.Input((4,))
    hidden = ones(3, "h")(inputs)
    model = keras.Model(inputs, hidden)
    model.add_metric(tf.reduce_sum(hidden), name="total", aggregation="mean")
    model.add_loss(tf.reduce_mean(hidden) * 0.1)
    model.compile("sgd", "mse")
    sums = X.sum(1)
    expected = {
        "loss": round(float(np.mean((sums - 1) ** 2) + 0.1 * sums.mean()), 4),
        "total": round(float(3 * sums.sum()), 4),
    }
    history = model.fit(X, Y, verbose=0).history
    assert {name: round(values[0], 4) for name, values in history.items()} == expected
    assert model.output_shape == (None, 3)
    assert model.predict(X).shape == (20, 3)
    with pytest.raises(ValueError, match="Graph disconnected"):
        model.add_loss(tf.reduce_mean(keras.Input((2,))))
    model.fit(X, Y, verbose=0)


def test_a_model_with_nothing_but_added_losses() -> None:
    inputs = keras.Input((4,))
    outputs = ones(4, "o")(inputs)
    model = keras.Model(inputs, outputs)
    model.add_loss(tf.reduce_mean(tf.square(inputs - outputs), axis=-1))
    model.compile("sgd")
    expected = np.mean((X - X.sum(1, keepdims=True)) ** 2)
    history = model.fit(X, verbose=0)
    np.testing.assert_allclose(history.history["loss"], [expected], rtol=1e-5)


def test_metrics_that_a_layer_adds() -> None:
    class Own(layers.Layer):
        def call(self, inputs: Any) -> Any:
            self.add_loss(tf.reduce_sum(inputs) * 0.01)
            self.add_metric(tf.reduce_mean(inputs), name="middle", aggregation="mean")
            return inputs

    model = keras.Sequential([Own(input_shape=(4,)), ones(3, "d")])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    history = model.fit(X, Y, 10, shuffle=False, verbose=0, epochs=2).history
    np.testing.assert_allclose(history["middle"], [X.mean()] * 2, rtol=1e-5)
    terms = np.mean((X.sum(1) - 1) ** 2) + 0.01 * X.sum() / 2
    np.testing.assert_allclose(history["loss"], [terms] * 2, rtol=1e-5)
    with pytest.raises(ValueError, match="needs a name"):
        Own().add_metric(tf.ones(2))


def test_run_eagerly() -> None:
    sums: list[float] = []

    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = ones(3, "d")

        def call(self, inputs: Any) -> Any:
            outputs = self.dense(inputs)
            sums.append(float(tf.reduce_sum(outputs)))
            return outputs

    model = Own()
    model.compile("sgd", "mse", metrics=["mae"], run_eagerly=True)
    history = model.fit(X, Y, 8, shuffle=False, epochs=2, verbose=0)
    assert len(sums) == 6 and len(history.steps["loss"]) == 6
    stack = keras.Sequential([layers.Dense(3, kernel_initializer="ones")])
    stack.compile("sgd", "mse", metrics=["mae"])
    expected = stack.fit(X, Y, 8, shuffle=False, epochs=2, verbose=0)
    for name, values in expected.history.items():
        np.testing.assert_allclose(history.history[name], values, rtol=1e-5)
    np.testing.assert_allclose(model.predict(X), stack.predict(X), rtol=1e-5)
    found, wanted = model.evaluate(X, Y, verbose=0), stack.evaluate(X, Y, verbose=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    one, other = model.train_on_batch(X, Y), stack.train_on_batch(X, Y)
    np.testing.assert_allclose(one, other, rtol=1e-5)
    with (
        IPUStrategy().scope(),
        pytest.raises(RuntimeError, match="cannot run eagerly when using"),
    ):
        keras.Sequential([layers.Dense(1)]).compile("sgd", "mse", run_eagerly=True)


def test_what_load_weights_gives(tmp_path: Path) -> None:
    model = keras.Sequential([layers.Dense(2, input_shape=(4,))])
    model.save_weights(tmp_path / "w")
    status = model.load_weights(tmp_path / "w")
    assert status.expect_partial() is status
    assert status.assert_consumed().assert_existing_objects_matched() is status


# --- tensors --------------------------------------------------------------------------


def test_arguments_of_numpy_s_dtypes() -> None:
    @tf.function
    def double(x: Any) -> Any:
        return x * 2

    for given in (np.ones(2), np.array([1, 2]), np.float64(2.5), np.int64(3)):
        np.testing.assert_array_equal(double(given), given * 2)
    pair = tf.function(lambda pair, more: pair[0] + more["x"])
    found = pair((np.ones(2), 1), more={"x": np.float64(1.5)})
    assert found.dtype == tf.float32 and found.numpy().tolist() == [2.5, 2.5]
    with pytest.raises(ValueError, match="values from 1 to 8589934592"):
        double(np.array([1, 2**33]))
    wide = tf.constant([2.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(wide)
        y = tf.reduce_sum(double(wide))
    assert tape.gradient(y, wide).numpy().tolist() == [2.0]


def test_labels_of_int64_beside_argmax() -> None:
    @tf.function
    def accuracy(labels: Any, outputs: Any) -> Any:
        hits = tf.equal(tf.cast(labels, tf.int64), tf.argmax(outputs, axis=1))
        return tf.reduce_mean(tf.cast(hits, tf.float32))

    outputs = tf.constant([[0.0, 1.0], [1.0, 0.0], [0.0, 3.0]])
    for labels in (np.array([1, 0, 0]), tf.constant([1, 0, 0], tf.int64)):
        np.testing.assert_allclose(accuracy(labels, outputs), 2 / 3, rtol=1e-6)
        hits = tf.equal(labels, tf.argmax(outputs, 1))
        assert hits.numpy().tolist() == [True, True, False]

    def metric(y_true: Any, y_pred: Any) -> Any:
        labels = tf.squeeze(tf.cast(y_true, tf.int64))
        return tf.cast(tf.equal(labels, tf.argmax(y_pred, -1)), tf.float32)

    model = keras.Sequential([layers.Dense(3, "softmax", kernel_initializer="zeros")])
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=[metric])
    labels = np.arange(20) % 2
    assert model.evaluate(X, labels, verbose=0)[1] == 0.5


def test_masks_and_slices_as_in_numpy() -> None:
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    t = tf.constant(x)
    rows = np.array([True, False, True, False])
    np.testing.assert_array_equal(t[t > 7], x[x > 7])
    np.testing.assert_array_equal(t[rows], x[rows])
    np.testing.assert_array_equal(t[tf.constant(rows)], x[rows])
    np.testing.assert_array_equal(t[rows.tolist()], x[rows])
    one = tf.constant(1)
    np.testing.assert_array_equal(t[one : one + 2], x[1:3])

    @tf.function
    def parts(t: Any, i: Any) -> Any:
        return (
            t[i : i + 2],
            t[:, 2 * i : 2 * (i + 1)],
            t[i - 1 : i, ..., None],
            t[i, 1:3],
            t[..., i],
            t[-1, i : 3 + i],
            t[i, i],
            t[i + 1 : i],
        )

    for i in (1, 2):
        wanted = (
            x[i : i + 2],
            x[:, 2 * i : 2 * (i + 1)],
            x[i - 1 : i, ..., None],
            x[i, 1:3],
            x[..., i],
            x[-1, i : 3 + i],
            x[i, i],
            x[i + 1 : i],
        )
        for found, expected in zip(parts(t, tf.constant(i)), wanted, strict=True):
            np.testing.assert_array_equal(found, expected)

    @tf.function
    def windows(t: Any) -> Any:
        total = 0.0
        for i in tf.range(3):
            total += tf.reduce_sum(t[:, 2 * i : 2 * i + 2]) * tf.cast(i, tf.float32)
        return total

    expected = sum(x[:, 2 * i : 2 * i + 2].sum() * i for i in range(3))
    assert float(windows(t)) == expected


@pytest.mark.parametrize(
    "part",
    [
        lambda t, i: t[i:],
        lambda t, i: t[:i],
        lambda t, i: t[i : i * i],
        lambda t, i: t[i : i + 4 : 2],
        lambda t, i: t[0:i],
    ],
)
def test_slices_of_a_length_that_is_not_known(part: Any) -> None:
    with pytest.raises(TypeError, match="How long a slice is must be known"):
        tf.function(lambda t, i: part(t, i))(tf.ones(5), tf.constant(2))


def test_slices_that_do_not_fit() -> None:
    with pytest.raises(IndexError, match="a slice of 7 is longer than axis 0 with si"):
        tf.function(lambda t, i: t[i : i + 7])(tf.ones(5), tf.constant(0))
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 1"):
        tf.function(lambda t, i: t[i : i + 1, 3])(tf.ones((5, 2)), tf.constant(0))


def test_gradients_of_moving_slices() -> None:
    @tf.function
    def gradient(t: Any, i: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(t)
            y = tf.reduce_sum(tf.square(t[i : i + 2]))
        return tape.gradient(y, t)

    found = gradient(tf.constant([1.0, 2.0, 3.0, 4.0]), tf.constant(1))
    assert found.numpy().tolist() == [0.0, 4.0, 6.0, 0.0]


def test_parts_of_variables_are_assigned() -> None:
    v, w = tf.Variable([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0])
    assert v[0].assign(5.0) is v
    v[1:].assign([7.0, 8.0])
    v[-1].assign_add(1.0)
    v[0].assign_sub(0.5)
    w[0], w[1:] = 5.0, [7.0, 8.0]
    w[-1] += 1.0
    w[0] -= 0.5
    np.testing.assert_array_equal(v, w)
    m = tf.Variable([[1, 2], [3, 4]])
    m[:, 0].assign([5, 6])
    m[1, 1].assign(9)
    m[0].assign(m[1])
    assert m.numpy().tolist() == [[6, 9], [6, 9]]

    @tf.function
    def change(i: Any) -> Any:
        v[i].assign(4.0)
        v[0].assign(tf.reduce_sum(v))

    change(tf.constant(1))
    np.testing.assert_array_equal(v, [4.5 + 4.0 + 9.0, 4.0, 9.0])
    assert not hasattr(tf.constant(1.0), "assign")
    with pytest.raises(AttributeError, match="a tensor has no 'assign': it cannot ch"):
        tf.ones(3)[0].assign(1.0)
    with pytest.raises(IndexError):
        v[3].assign(1.0)
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
        v[:2].assign([1.0, 2.0, 3.0])


def test_bits_of_integers() -> None:
    a, b = np.array([5, 6, -1]), np.array([3, 3, 3])
    for dtype in (tf.int32, tf.int64):
        x, y = tf.constant(a, dtype), tf.constant(b, dtype)
        for found, expected in ((x & y, a & b), (x | y, a | b), (x ^ 1, a ^ 1)):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(~x, ~a)
    found = tf.function(lambda x, y: (x & y, x | y, x ^ y, ~x))(tf.constant(a), b)
    for one, expected in zip(found, (a & b, a | b, a ^ b, ~a), strict=True):
        np.testing.assert_array_equal(one, expected)


# --- arrays of tensors ----------------------------------------------------------------


def test_arrays_that_grow_in_loops() -> None:
    @tf.function
    def squares(n: int) -> Any:
        array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
        for i in tf.range(n):
            array = array.write(i, i * i)
        return array.stack()

    assert squares(4).numpy().tolist() == [0, 1, 4, 9]

    @tf.function
    def sparse() -> Any:
        array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
        for i in tf.range(3):
            array = array.write(2 * i + 1, i)
        return array.stack()

    assert sparse().numpy().tolist() == [0, 0, 0, 1, 0, 2]

    @tf.function
    def rows(x: Any) -> Any:
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i, row in enumerate(x):
            array = array.write(i, row * 2)
        other = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for row in x:
            other = other.write(0, row)
        return array.stack(), other.stack()

    doubled, last = rows(X)
    np.testing.assert_array_equal(doubled, X * 2)
    np.testing.assert_array_equal(last, X[-1:])


def test_arrays_that_cannot_grow_say_so() -> None:
    @tf.function
    def unknown(n: Any) -> Any:
        array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
        for i in tf.range(n):
            array = array.write(i, i)
        return array.stack()

    with pytest.raises(ValueError, match=r"Give it a size: tf.TensorArray"):
        unknown(tf.constant(3))

    @tf.function
    def appended() -> Any:
        array = tf.TensorArray(tf.int32, size=0, dynamic_size=True)
        for i in tf.range(3):
            array = array.write(array.size(), i)
        return array.stack()

    with pytest.raises(ValueError, match="Write to the number of the turn"):
        appended()

    @tf.function
    def begun() -> Any:
        array = tf.TensorArray(tf.int32, size=0, dynamic_size=True).write(0, 7)
        for i in tf.range(3):
            array = array.write(i, i)
        return array.stack()

    with pytest.raises(ValueError, match=r"TensorArray\(dtype, size=2\)|size=3"):
        begun()


# --- the rate of a schedule -----------------------------------------------------------


def test_the_rate_of_a_schedule_is_a_number_and_the_schedule() -> None:
    schedules = keras.optimizers.schedules
    schedule = schedules.InverseTimeDecay(0.5, 1, 1.0)
    optimizer = keras.optimizers.SGD(schedule)
    weight = tf.Variable(1.0)
    for step in range(1, 4):
        optimizer.apply_gradients([(tf.constant(1.0), weight)])
        rate = optimizer.learning_rate
        expected = 0.5 / (1 + step)
        assert float(rate) == rate.numpy() == pytest.approx(expected)
        assert f"{rate:.3f}" == f"{expected:.3f}"
        assert keras.ops.convert_to_numpy(rate) == pytest.approx(expected)
    assert isinstance(rate, schedules.InverseTimeDecay) and rate == schedule
    assert rate.decay_rate == 1.0 and float(rate(1)) == 0.25
    assert schedules.serialize(rate) == schedules.serialize(schedule)
    other = keras.optimizers.SGD(rate)
    assert float(other.learning_rate) == 0.5
    assert copy.deepcopy(rate).get_config() == schedule.get_config()
    with pytest.raises(ValueError, match="a number as its learning"):
        model = keras.Sequential([layers.Dense(3, input_shape=(4,))])
        model.compile(other, "mse")
        halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
        model.fit(X, Y, callbacks=[halve], verbose=0)


def test_rates_of_callbacks_by_both_names() -> None:
    model = keras.Sequential([layers.Dense(3, input_shape=(4,))])
    model.compile(keras.optimizers.SGD(0.5), "mse")
    halve = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate / 2)
    history = model.fit(X, Y, epochs=2, callbacks=[halve], verbose=0).history
    assert history["learning_rate"] == history["lr"] == [0.25, 0.125]
    assert history.get("learning_rate") == [0.25, 0.125] and history.get("x") is None
    assert sorted(history) == ["loss", "lr"]
    with pytest.raises(KeyError, match="'accuracy'"):
        history["accuracy"]
