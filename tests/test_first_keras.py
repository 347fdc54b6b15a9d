# SPDX-License-Identifier: MIT
"""`tensorflow.python.ipu.keras` of the first generation: `Model` and `Sequential`."""

import numpy as np
import pytest
from first_keras_models import (  # noqa: F401 - fixtures
    BATCH,
    RATE,
    X,
    Y,
    batches,
    functional,
    stacked,
    strategy,
)
from simulated_ipus import attach

import ipu
from ipu import drop_in, keras, tf
from ipu.drop_in import first_keras

BOTH = pytest.mark.parametrize("make", [functional, stacked])


class Oracle:
    """The same layer and SGD in float64 NumPy."""

    def __init__(self):
        self.w, self.b = np.ones((4, 1)), np.zeros(1)

    def loss(self, x, y):
        return float(np.mean((x @ self.w + self.b - y) ** 2))

    def train(self, x, y, steps, start=0):
        """The losses of so many mini-batches from a place in the data on."""
        losses = []
        for i in range(start, start + steps):
            at = i * BATCH % len(x)
            xs, ys = x[at : at + BATCH], y[at : at + BATCH]
            losses.append(self.loss(xs, ys))
            self.update([self.gradients(xs, ys)])
        return losses

    def accumulate(self, x, y, batches, count):
        """The losses of so many mini-batches with an update after every `count`."""
        losses = []
        for i in range(0, batches * BATCH, count * BATCH):
            parts = [slice(at, at + BATCH) for at in range(i, i + count * BATCH, BATCH)]
            losses += [self.loss(x[part], y[part]) for part in parts]
            self.update([self.gradients(x[part], y[part]) for part in parts])
        return losses

    def gradients(self, x, y):
        error = 2 * (x @ self.w + self.b - y) / len(x)
        return x.T @ error, error.sum(0)

    def update(self, gradients):
        self.w = self.w - RATE * sum(w for w, _ in gradients)
        self.b = self.b - RATE * sum(b for _, b in gradients)


# --- where they are


def test_they_are_served_to_old_programs_only():
    drop_in.install()
    try:
        from tensorflow.python import ipu as served
        from tensorflow.python.ipu.keras import Sequential

        assert served.keras.Model is first_keras.Model
        assert Sequential is first_keras.Sequential
        assert served.keras.layers is not keras.layers
    finally:
        drop_in.uninstall()
    assert ipu.keras.Model is not first_keras.Model
    assert issubclass(first_keras.Model, keras.Model)
    assert issubclass(first_keras.Sequential, keras.Sequential)


# --- numbers


@BOTH
def test_fit_trains_like_numpy(make):
    model, oracle = make(metrics=["mae"]), Oracle()
    history = model.fit(batches(), epochs=3, verbose=0)
    means = [np.mean(oracle.train(X, Y, 12)) for _ in range(3)]
    np.testing.assert_allclose(history.history["loss"], means, rtol=1e-5)
    assert list(history.history) == ["loss", "mae"] and history.epoch == [0, 1, 2]
    assert {type(value) for value in history.history["loss"]} == {np.float64}
    assert {type(value) for value in history.history["mae"]} == {np.float32}
    np.testing.assert_allclose(model.get_weights()[0], oracle.w, rtol=1e-4)
    assert model.history is history and int(model.optimizer.iterations) == 36


@BOTH
@pytest.mark.parametrize("per_run", [None, 1, 3, 12])
def test_the_calls_of_the_device_change_no_number(make, per_run):
    model, other = make(metrics=["mae"]), make(metrics=["mae"])
    ours = model.fit(batches(), epochs=2, steps_per_run=per_run, verbose=0)
    theirs = other.fit(batches(), epochs=2, verbose=0)
    assert ours.history == theirs.history
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


@BOTH
@pytest.mark.parametrize("count", [2, 3, 12])
def test_gradients_of_a_step_are_summed(make, count):
    model, oracle = make(accumulation_count=count, metrics=["mae"]), Oracle()
    history = model.fit(batches(), epochs=2, verbose=0)
    means = [np.mean(oracle.accumulate(X, Y, 12, count)) for _ in range(2)]
    np.testing.assert_allclose(history.history["loss"], means, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], oracle.w, rtol=1e-4)
    assert int(model.optimizer.iterations) == 2 * 12 // count
    errors = np.abs(X @ oracle.w + oracle.b - Y)
    _, mae = model.evaluate(batches(), verbose=0)
    np.testing.assert_allclose(mae, errors.mean(), rtol=1e-4)


def test_batches_must_fill_steps_everywhere():
    model = stacked(accumulation_count=5)
    words = r"number of batches in the dataset \(12\) to be a multiple of the accum"
    for call in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=words):
            call(batches(), verbose=0)
    with pytest.raises(ValueError, match=words):
        model.predict(X, batch_size=BATCH)
    assert model.fit(X, Y, batch_size=5, epochs=2, steps_per_epoch=1, verbose=0)
    with pytest.raises(ValueError, match=r"accumulation count \(3 x 5\) is greater"):
        model.fit(batches(), steps_per_epoch=3, verbose=0)


def test_the_dtype_of_sums():
    seen = []

    class Noting(keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            pairs = [(g, v) for g, v in grads_and_vars]
            seen.extend(g.dtype for g, _ in pairs)
            pairs = [(tf.cast(g, v.dtype), v) for g, v in pairs]
            return super().apply_gradients(pairs, *args, **kwargs)

    for dtype in ("float16", lambda variable: tf.float16):
        model = stacked(Noting(RATE), accumulation_count=4, accumulation_dtype=dtype)
        model.fit(batches(), verbose=0)
    assert seen == [tf.float16] * 4


def test_the_names_of_the_next_release():
    x = keras.Input((4,))
    model = first_keras.Model(
        x, keras.layers.Dense(1)(x), gradient_accumulation_count=4
    )
    model.compile("sgd", "mse")
    model.fit(batches(), verbose=0)
    assert int(model.optimizer.iterations) == 3
    model = stacked(
        gradient_accumulation_count=6, gradient_accumulation_dtype="float32"
    )
    model.fit(batches(), verbose=0)
    assert int(model.optimizer.iterations) == 2


def test_the_loss_is_a_mean_and_metrics_are_the_last_value():
    model = functional(keras.optimizers.SGD(0.0), metrics=["mae"])
    got = model.fit(batches(), steps_per_epoch=5, verbose=0).history
    errors = (X.sum(1, keepdims=True) - Y)[: 5 * BATCH]
    np.testing.assert_allclose(got["loss"], [np.mean(errors**2)], rtol=1e-5)
    np.testing.assert_allclose(got["mae"], [np.mean(np.abs(errors))], rtol=1e-5)
    values = model.evaluate(batches(), verbose=0)
    errors = X.sum(1, keepdims=True) - Y
    expected = [np.mean(errors**2), np.mean(np.abs(errors))]
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_evaluate_gives_a_list_for_the_loss_alone():
    model = stacked()
    (loss,) = model.evaluate(X, Y, batch_size=BATCH, verbose=0)
    np.testing.assert_allclose(loss, Oracle().loss(X, Y), rtol=1e-5)


@pytest.mark.parametrize("kind", ["infinite", "finite", "arrays", "unknown"])
def test_where_an_epoch_starts(kind):
    model, oracle = functional(), Oracle()
    data = {
        "infinite": (batches().repeat(),),
        "finite": (batches(),),
        "arrays": (X, Y),
        "unknown": (batches().filter(lambda x, y: True),),
    }[kind]
    size = {"batch_size": BATCH} if kind == "arrays" else {}
    got = model.fit(*data, epochs=3, steps_per_epoch=5, verbose=0, **size)
    starts = [0, 5, 10] if kind == "infinite" else [0, 0, 0]
    means = [np.mean(oracle.train(X, Y, 5, start)) for start in starts]
    np.testing.assert_allclose(got.history["loss"], means, rtol=1e-5)


def test_data_sets_that_shuffle_do_so_in_every_epoch():
    rows = tf.data.Dataset.from_tensor_slices((X, Y)).shuffle(48, seed=5)
    model = functional(keras.optimizers.SGD(0.0), metrics=["mae"])
    data = rows.batch(BATCH, drop_remainder=True)
    history = model.fit(data, epochs=3, steps_per_epoch=5, verbose=0).history
    assert len(set(history["loss"])) == 3


def test_arrays_keep_their_order_and_drop_a_rest():
    model, oracle = functional(), Oracle()
    got = model.fit(X[:47], Y[:47], batch_size=BATCH, epochs=2, shuffle=True, verbose=0)
    means = [np.mean(oracle.train(X[:44], Y[:44], 11)) for _ in range(2)]
    np.testing.assert_allclose(got.history["loss"], means, rtol=1e-5)


def test_fit_twice_goes_on():
    model, oracle = functional(), Oracle()
    expected = [np.mean(oracle.train(X, Y, 12)) for _ in range(2)]
    losses = [
        model.fit(batches(), verbose=0).history["loss"][0],
        model.fit(batches(), verbose=0).history["loss"][0],
    ]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_rates_that_change_need_no_new_weights():
    model = functional()
    seen = []

    def schedule(epoch):
        seen.append(epoch)
        return [RATE, 0.0, RATE][epoch]

    callback = keras.callbacks.LearningRateScheduler(schedule)
    history = model.fit(batches(), epochs=3, verbose=0, callbacks=[callback])
    oracle = Oracle()
    first = np.mean(oracle.train(X, Y, 12))
    rest = oracle.loss(X, Y)
    np.testing.assert_allclose(history.history["loss"][:2], [first, rest], rtol=1e-4)
    model.optimizer.learning_rate = 0.0
    before = model.get_weights()
    model.fit(batches(), verbose=0)
    np.testing.assert_array_equal(model.get_weights()[0], before[0])
    assert seen == [0, 1, 2]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_wide_data_are_narrowed(kind):
    data = batches(X.astype(kind), Y.astype(kind))
    losses = functional().fit(data, verbose=0).history["loss"]
    np.testing.assert_allclose(losses, [np.mean(Oracle().train(X, Y, 12))], rtol=1e-5)


# --- results of predict


def test_what_predict_returns():
    rows = X.sum(1)
    got = functional().predict(X, batch_size=BATCH)
    assert got.shape == (48,)
    np.testing.assert_allclose(got, rows, rtol=1e-4, atol=1e-5)
    (got,) = stacked(units=2).predict(X, batch_size=BATCH)
    assert got.shape == (48, 2)
    (got,) = stacked().predict(tf.data.Dataset.from_tensor_slices(X).batch(8, True))
    assert got.shape == (48, 1)
    inputs = keras.Input((4,))
    sums = keras.layers.Dense(1, kernel_initializer="ones")(inputs)
    wide = keras.layers.Dense(3)(inputs)
    model = first_keras.Model(inputs, [sums, wide])
    got = model.predict(X[:47], batch_size=BATCH, steps=7, steps_per_run=7)
    assert isinstance(got, tuple) and [a.shape for a in got] == [(28,), (28, 3)]
    np.testing.assert_allclose(got[0], rows[:28], rtol=1e-4, atol=1e-5)


def test_several_inputs_and_outputs():
    one, two = keras.Input((4,)), keras.Input((4,))
    both = keras.layers.Concatenate()([one, two])
    outputs = [keras.layers.Dense(1)(both), keras.layers.Dense(1)(both)]
    model = first_keras.Model([one, two], outputs)
    model.compile("sgd", ["mse", "mae"], metrics=["mse"], loss_weights=[1.0, 0.5])
    history = model.fit([X, X], [Y, Y], batch_size=BATCH, verbose=0).history
    assert next(iter(history)) == "loss" and len(history) == 5
    assert list(history)[1:3] == ["output_0_loss", "output_1_loss"]
    values = model.evaluate([X, X], [Y, Y], batch_size=BATCH, verbose=0)
    np.testing.assert_allclose(values[0], values[1] + 0.5 * values[2], rtol=1e-5)
    data = tf.data.Dataset.from_tensor_slices(((X, X),)).batch(BATCH, True)
    assert len(model.predict(data)) == 2


def test_outputs_by_name_keep_their_names():
    x = keras.Input((4,))
    outputs = [keras.layers.Dense(1, name=n)(x) for n in ("left", "right")]
    model = first_keras.Model(x, outputs)
    model.compile("sgd", {"left": "mse", "right": "mse"})
    history = model.fit(X, [Y, Y], batch_size=BATCH, verbose=0).history
    assert list(history) == ["loss", "left_loss", "right_loss"]


# --- what they do not do


@BOTH
def test_they_cannot_be_called(make):
    model = make()
    name = type(model).__name__
    for call in (model, model.call, model.predict_on_batch):
        with pytest.raises(ValueError, match=f"{name} can only be called through the"):
            call(X)
    with pytest.raises(ValueError, match="can only be called through the"):
        keras.Sequential([model, keras.layers.Dense(1)])(X)
    model.predict(X, batch_size=BATCH)
    with pytest.raises(ValueError, match="can only be called through the"):
        model(X)


@BOTH
@pytest.mark.parametrize("call", ["compile", "fit", "evaluate", "predict"])
def test_arguments_of_keras_that_are_refused(make, call):
    model = make()
    words = rf"do not support these parameters to {call}\(\): class_weight, workers"
    with pytest.raises(NotImplementedError, match=words):
        getattr(model, call)(X, workers=1, class_weight=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'bach_size'"):
        getattr(model, call)(X, bach_size=1)


def test_compile_is_checked():
    model = functional()
    with pytest.raises(ValueError, match="native Tensorflow optimizer, or a Keras V2"):
        model.compile(object(), "mse")
    with pytest.raises(ValueError, match="can only be specified as a list"):
        model.compile("sgd", "mse", loss_weights=0.5)
    fresh = first_keras.Sequential([keras.layers.Dense(1)])
    for call in (fresh.fit, fresh.evaluate):
        with pytest.raises(RuntimeError, match="You must compile your model before"):
            call(X, Y, batch_size=BATCH)
    assert fresh.predict(X, batch_size=BATCH)[0].shape == (48, 1)


def test_optimizers_of_tensorflow_1():
    drop_in.install()
    try:
        from tensorflow.python.training import gradient_descent

        model, oracle = (
            functional(gradient_descent.GradientDescentOptimizer(RATE)),
            Oracle(),
        )
    finally:
        drop_in.uninstall()
    model.fit(batches(), verbose=0)
    oracle.train(X, Y, 12)
    np.testing.assert_allclose(model.get_weights()[0], oracle.w, rtol=1e-4)


def test_constructors_are_checked():
    x = keras.Input((4,))
    y = keras.layers.Dense(1)(x)
    for wrong in ((), (x,)):
        with pytest.raises(ValueError, match="was not provided with 'inputs' and"):
            first_keras.Model(*wrong)
    with pytest.raises(TypeError, match="unexpected argument 'inputz'"):
        first_keras.Model(inputz=x, outputs=y)
    with pytest.raises(TypeError, match="additional argument 'inputs'"):
        first_keras.Model(x, y, inputs=x)
    with pytest.raises(TypeError, match="Received: 5 arguments"):
        first_keras.Model(x, y, "name", True, 3)
    with pytest.raises(ValueError, match="`accumulation_count` must be a positive"):
        first_keras.Model(x, y, accumulation_count=0)
    named = first_keras.Model(inputs=x, outputs=y, name="mine", trainable=False)
    assert named.name == "mine" and named.trainable_variables == []
    for wrong in (None, (keras.layers.Dense(1),), keras.layers.Dense(1)):
        with pytest.raises(ValueError, match="requires a list of Layers"):
            first_keras.Sequential(wrong)
    with pytest.raises(ValueError, match="may only contain Keras Layers"):
        first_keras.Sequential([keras.layers.Dense(1), "relu"])
    with pytest.raises(TypeError, match="'name'"):
        first_keras.Sequential([keras.layers.Dense(1)], name="mine")
    with pytest.raises(ValueError, match="should have unique names"):
        first_keras.Sequential([keras.layers.Dense(1, name="a")] * 2)
    model = first_keras.Sequential([keras.layers.Dense(1)])
    assert not hasattr(model, "add") and not hasattr(model, "pop")


def test_a_model_without_weights_is_not_trained():
    model = first_keras.Sequential([keras.layers.Flatten()])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Sequential must have at least one trainable"):
        model.fit(X, X, batch_size=BATCH)
    assert model.evaluate(X, X, batch_size=BATCH, verbose=0) == [0.0]
    x = keras.Input((4,))
    model = first_keras.Model(x, keras.layers.Flatten()(x))
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match="Model must have at least one trainable"):
        model.fit(X, X, batch_size=BATCH)


def test_a_stack_has_no_variables_before_it_is_built():
    declared = keras.layers.Dense(1, input_shape=(4,))
    assert first_keras.Sequential([declared]).weights == []
    model = stacked()
    assert model.weights == [] == model.trainable_variables
    with pytest.raises(ValueError, match="has not yet been built"):
        model.summary()
    model.build((BATCH, 4))
    assert [tuple(v.shape) for v in model.trainable_variables] == [(4, 1), (1,)]
    model.summary(print_fn=lambda line: None)
    before = model.get_weights()
    model.set_weights([2 * w for w in before])
    np.testing.assert_array_equal(model.get_weights()[0], 2 * before[0])


def test_files(tmp_path):
    model = functional()
    with pytest.raises(
        NotImplementedError, match="do not support the `save` interface"
    ):
        model.save(tmp_path / "all")
    with pytest.raises(tf.errors.NotFoundError, match="nothing"):
        model.load_weights(str(tmp_path / "nothing"))
    path = str(tmp_path / "w")
    weights = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    model.fit(batches(), callbacks=[weights], verbose=0)
    other = functional()
    other.load_weights(path)
    np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])


def test_the_history_keeps_every_mini_batch():
    model, oracle = functional(accumulation_count=3), Oracle()
    steps = model.fit(batches(), epochs=2, steps_per_run=2, verbose=0).steps
    expected = [loss for _ in range(2) for loss in oracle.accumulate(X, Y, 12, 3)]
    np.testing.assert_allclose(steps["loss"], expected, rtol=1e-4)


def test_models_outlive_a_configuration():
    """Old programs make a model first and configure then."""
    model, oracle = functional(metrics=["mae"]), Oracle()
    losses = [model.fit(batches(), verbose=0).history["loss"][0]]
    attach(1)
    losses += [model.fit(batches(), verbose=0).history["loss"][0]]
    expected = [np.mean(oracle.train(X, Y, 12)) for _ in range(2)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], oracle.w, rtol=1e-4)
    assert int(model.optimizer.iterations) == 24


def test_names_of_keras_that_programs_look_at():
    inputs = [keras.Input((2,)), keras.Input((2,))]
    x = keras.layers.Concatenate()(inputs)
    model = first_keras.Model(inputs, keras.layers.Dense(3)(x))
    shapes = [one.get_output_at(0).get_shape() for one in model._input_layers]
    assert [shape.as_list() for shape in shapes] == [[None, 2]] * 2
    (output,) = model._output_layers
    assert output.get_output_at(0).get_shape().as_list() == [None, 3]


def test_they_belong_to_an_ipu():
    model = functional()
    assert model.replication_factor == 1 and model.shard_count == 1
    with (
        tf.device("cpu"),
        pytest.raises(ValueError, match="Model can only be used on an"),
    ):
        _ = model.replication_factor


# --- replicas


@pytest.mark.usefixtures("two_ipus")
@pytest.mark.parametrize("count", [1, 3])
@BOTH
def test_replicas_share_the_steps_and_sum_gradients(make, count):
    model, oracle = make(accumulation_count=count, metrics=["mae"]), Oracle()
    assert model.replication_factor == 2
    history = model.fit(batches(), epochs=2, verbose=0)
    means = [np.mean(oracle.accumulate(X, Y, 12, 2 * count)) for _ in range(2)]
    np.testing.assert_allclose(history.history["loss"], means, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], oracle.w, rtol=1e-4)
    assert int(model.optimizer.iterations) == 12 // count
    loss, mae = model.evaluate(batches(), verbose=0)
    errors = X @ oracle.w + oracle.b - Y
    np.testing.assert_allclose(loss, np.mean(errors**2), rtol=1e-4)
    # metrics are those of the last replica, which gets every second batch
    errors = np.abs(errors).reshape(12, -1)[1::2]
    np.testing.assert_allclose(mae, errors.mean(), rtol=1e-4)
