# SPDX-License-Identifier: MIT
"""Any number of samples outside of a strategy: losses, metrics and steps as in Keras.

The numbers in EXPECTED are what the same functions of this file gave with
tensorflow-cpu 2.21.0 and tf_keras 2.21.0 in the place of ``ipu.tf`` and ``ipu.keras``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

N, FEATURES, CLASSES, BATCH = 45, 6, 3, 8
_GRID = np.arange(N * FEATURES, dtype=np.float32).reshape(N, FEATURES)
X = np.sin(_GRID * 1.7)
Y = (np.arange(N) * 7 % CLASSES).astype(np.int32)
W = (1.0 + np.arange(N) % 5).astype(np.float32)
layers = keras.layers


def numbered(shape: tuple[int, ...], start: int) -> np.ndarray:
    count = int(np.prod(shape))
    return np.cos(np.arange(start, start + count) * 2.3).reshape(shape).astype("f") / 2


def number_weights(model: Any) -> Any:
    model.set_weights([numbered(w.shape, i) for i, w in enumerate(model.get_weights())])
    return model


def built(k: int = 1, metrics: Any = "accuracy", loss: Any = None, **more: Any) -> Any:
    model = keras.Sequential(
        [
            layers.Dense(5, activation="tanh", input_shape=(FEATURES,)),
            layers.Dense(CLASSES),
        ]
    )
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        loss or keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=metrics if isinstance(metrics, list) else [metrics],
        steps_per_execution=k,
        **more,
    )
    return number_weights(model)


def fitted(model: Any, *args: Any, **more: Any) -> dict[str, list[float]]:
    """The history of a fit, and a sum of the weights after it."""
    more = {"batch_size": BATCH, "shuffle": False, "verbose": 0, "epochs": 2, **more}
    history = dict(model.fit(*args, **more).history)
    total = sum(float(np.abs(w).sum()) for w in model.get_weights())
    return {**history, "weights": [total]}


def pairs(*arrays: np.ndarray) -> Any:
    return tf.data.Dataset.from_tensor_slices(arrays or (X, Y))


def generated(lengths: tuple[int, ...] = (8, 8, 5, 8, 3)) -> Any:
    """Batches of any length, whose number is not known."""

    def batches() -> Iterator[Any]:
        start = 0
        for length in lengths:
            yield X[start : start + length], Y[start : start + length]
            start += length

    signature = (
        tf.TensorSpec((None, FEATURES), tf.float32),
        tf.TensorSpec((None,), tf.int32),
    )
    return tf.data.Dataset.from_generator(batches, output_signature=signature)


# --- what Keras gives -----------------------------------------------------------------


def arrays() -> Any:
    return fitted(built(), X, Y)


def weighted_arrays() -> Any:
    model = built(weighted_metrics=["accuracy"])
    return fitted(model, X, Y, sample_weight=W)


def validation_split() -> Any:
    return fitted(built(), X, Y, validation_split=0.3, sample_weight=W)


def validation_data() -> Any:
    data = (X[:19], Y[:19], W[:19])
    return fitted(built(), X, Y, validation_data=data, validation_batch_size=7)


def validation_steps() -> Any:
    more = {"validation_data": (X[:19], Y[:19]), "validation_steps": 2}
    return fitted(built(), X, Y, validation_batch_size=7, **more)


def class_weights() -> Any:
    return fitted(built(), X, Y, class_weight={0: 1.0, 1: 2.0, 2: 0.5})


def regularized() -> Any:
    inputs = keras.Input((FEATURES,))
    hidden = layers.Dense(
        4, activation="tanh", kernel_regularizer="l2", activity_regularizer="l1"
    )(inputs)
    model = number_weights(keras.Model(inputs, layers.Dense(1)(hidden)))
    model.compile("sgd", "mse", metrics=["mae"])
    return fitted(model, X, X[:, :1])


def two_outputs() -> Any:
    inputs = keras.Input((FEATURES,))
    one = layers.Dense(1, name="one")(inputs)
    two = layers.Dense(2, name="two")(inputs)
    model = keras.Model(inputs, [one, two])
    model.compile(
        "sgd",
        ["mse", "mae"],
        metrics=["mae"],
        weighted_metrics=["mae", "mse"],
        loss_weights=[1.0, 3.0],
    )
    model.set_weights([numbered(w.shape, i) for i, w in enumerate(model.get_weights())])
    return fitted(model, X, [X[:, :1], X[:, 1:3]], sample_weight=[W, W[::-1].copy()])


def masked() -> Any:
    inputs = keras.Input((4, 2))
    steps = layers.Masking(0.0)(inputs)
    model = number_weights(keras.Model(inputs, layers.Dense(1)(steps)))
    # not the mean: newer versions of Keras divide it by the steps that count
    loss = keras.losses.MeanSquaredError(reduction="sum")
    rate = keras.optimizers.SGD(0.001)
    model.compile(rate, loss, metrics=["mae"], weighted_metrics=["mse"])
    x = X[:42, 2:].reshape(-1, 4, 2)[:21].copy()
    x[::3, 2:] = 0.0
    return fitted(model, x, x[..., :1] * 2.0)


def reduction_none() -> Any:
    loss = keras.losses.MeanSquaredError(reduction="none")
    model = built(loss=loss, metrics="mae")
    model.optimizer.learning_rate = 0.01
    return fitted(model, X, X[:, :3])


def reduction_sum() -> Any:
    loss = keras.losses.MeanSquaredError(reduction="sum")
    model = built(loss=loss, metrics="mae")
    model.optimizer.learning_rate = 0.01
    return fitted(model, X, X[:, :3])


def fewer_steps() -> Any:
    return fitted(built(), X, Y, steps_per_epoch=4, epochs=3)


def steps_over_the_end() -> Any:
    return fitted(built(), X, Y, steps_per_epoch=7, epochs=3)


def steps_alone() -> Any:
    return fitted(built(), X, Y, steps_per_epoch=4, batch_size=None)


def executions() -> Any:
    return fitted(built(4), X, Y)


def a_data_set() -> Any:
    return fitted(built(), pairs().batch(BATCH), batch_size=None)


def a_mapped_data_set() -> Any:
    data = pairs().batch(BATCH).map(lambda x, y: (x * 2.0, y))
    return fitted(built(), data, batch_size=None)


def a_repeated_data_set() -> Any:
    data = pairs().batch(BATCH).repeat()
    return fitted(built(), data, batch_size=None, steps_per_epoch=5, epochs=3)


def a_repeated_mapped_data_set() -> Any:
    data = pairs().batch(BATCH).map(lambda x, y: (x * 2.0, y)).repeat()
    return fitted(built(), data, batch_size=None, steps_per_epoch=5, epochs=3)


def a_generator() -> Any:
    return fitted(built(), generated(), batch_size=None, validation_data=generated())


def evaluation() -> Any:
    metrics = ["accuracy", "sparse_categorical_crossentropy"]
    model = built(metrics=metrics)
    full = model.evaluate(X, Y, verbose=0)
    weighed = model.evaluate(X, Y, sample_weight=W, verbose=0)
    few = model.evaluate(X, Y, batch_size=7, steps=3, verbose=0)
    data = model.evaluate(generated(), verbose=0)
    return {"full": full, "weighed": weighed, "few": few, "data": data}


def stateful_metrics() -> Any:
    keras.backend.clear_session()
    model = keras.Sequential([layers.Dense(1, "sigmoid", input_shape=(FEATURES,))])
    model.compile(
        "sgd",
        "binary_crossentropy",
        metrics=["AUC", keras.metrics.Precision(name="p"), "binary_accuracy"],
        weighted_metrics=[keras.metrics.Recall(name="r")],
    )
    number_weights(model)
    return fitted(model, X, (Y > 0).astype("f"), sample_weight=W)


def prediction() -> Any:
    rows = built().predict(X, verbose=0)
    data = built(3).predict(pairs().batch(BATCH), verbose=0)
    return {
        "rows": [*rows.shape, *rows[0], *rows[-1]],
        "data": [*data.shape, *data[0], *data[-1]],
    }


EXPECTED: dict[str, dict[str, list[float]]] = {
    "arrays": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "weights": [15.04635],
    },
    "weighted_arrays": {
        "loss": [3.742535, 3.415131],
        "accuracy": [0.2888889, 0.2888889],
        "weighted_accuracy": [0.2962963, 0.3111111],
        "weights": [13.44045],
    },
    "validation_split": {
        "loss": [3.650398, 3.410689],
        "accuracy": [0.3548387, 0.3870968],
        "val_loss": [3.844431, 4.677731],
        "val_accuracy": [0.1428571, 0.07142857],
        "weights": [14.70567],
    },
    "validation_data": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "val_loss": [3.155618, 3.3192],
        "val_accuracy": [0.368421, 0.3157895],
        "weights": [15.04635],
    },
    "validation_steps": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "val_loss": [1.08767, 1.131723],
        "val_accuracy": [0.5, 0.3571429],
        "weights": [15.04635],
    },
    "class_weights": {
        "loss": [1.485411, 1.202949],
        "accuracy": [0.3333333, 0.3333333],
        "weights": [17.39583],
    },
    "regularized": {
        "loss": [0.3540259, 0.2968485],
        "mae": [0.4945497, 0.4460274],
        "weights": [10.90145],
    },
    "two_outputs": {
        "loss": [14.3685, 10.68084],
        "one_loss": [1.523118, 0.5959576],
        "two_loss": [4.281794, 3.361627],
        "one_mae": [0.6149341, 0.382338],
        "one_weighted_mae": [0.6027129, 0.3752219],
        "one_mse": [0.5077059, 0.1986525],
        "two_mae": [1.421716, 1.115763],
        "two_weighted_mae": [1.427265, 1.120542],
        "two_mse": [2.60424, 1.63351],
        "weights": [4.329292],
    },
    "masked": {
        "loss": [28.23373, 24.39131],
        "mae": [0.9502578, 0.8870585],
        "mse": [1.155298, 0.9981432],
        "weights": [1.247368],
    },
    "reduction_none": {
        "loss": [0.3722765, 0.06782629],
        "mae": [0.4886746, 0.2215986],
        "weights": [17.93216],
    },
    "reduction_sum": {
        "loss": [2.85412, 0.5200015],
        "mae": [0.4886746, 0.2215986],
        "weights": [17.93216],
    },
    "fewer_steps": {
        "loss": [1.231356, 1.112715, 1.137563],
        "accuracy": [0.34375, 0.3103448, 0.3103448],
        "weights": [15.04635],
    },
    "steps_over_the_end": {
        "loss": [1.190283, 1.135983, 1.115839],
        "accuracy": [0.3207547, 0.3207547, 0.3448276],
        "weights": [14.8795],
    },
    "steps_alone": {
        "loss": [1.197493, 1.1289],
        "accuracy": [0.3111111, 0.3333333],
        "weights": [15.60113],
    },
    "executions": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "weights": [15.04635],
    },
    "a_data_set": {
        "loss": [1.200557, 1.125253],
        "accuracy": [0.2888889, 0.3555556],
        "weights": [15.04635],
    },
    "a_mapped_data_set": {
        "loss": [1.24557, 1.139868],
        "accuracy": [0.2666667, 0.3111111],
        "weights": [14.90809],
    },
    "a_repeated_data_set": {
        "loss": [1.193874, 1.134994, 1.136579],
        "accuracy": [0.325, 0.3243243, 0.3243243],
        "weights": [14.93106],
    },
    "a_repeated_mapped_data_set": {
        "loss": [1.222063, 1.174608, 1.1458],
        "accuracy": [0.3, 0.2972973, 0.2972973],
        "weights": [14.63046],
    },
    "a_generator": {
        "loss": [1.235769, 1.1139],
        "accuracy": [0.375, 0.34375],
        "val_loss": [1.118542, 1.072015],
        "val_accuracy": [0.375, 0.40625],
        "weights": [14.9089],
    },
    "evaluation": {
        "full": [1.199468, 0.3333333, 6.098225],
        "weighed": [3.599972, 0.3333333, 6.098225],
        "few": [1.194876, 0.3333333, 5.88614],
        "data": [1.250434, 0.375, 6.431026],
    },
    "stateful_metrics": {
        "loss": [2.398002, 2.355144],
        "auc": [0.4922222, 0.4911111],
        "p": [0.6470588, 0.6470588],
        "binary_accuracy": [0.4444444, 0.4444444],
        "r": [0.3555556, 0.3555556],
        "weights": [2.222855],
    },
    "prediction": {
        "rows": [
            45.0,
            3.0,
            0.2832237,
            -0.2102351,
            -0.003074571,
            0.6299927,
            -0.8713301,
            0.5310999,
        ],
        "data": [
            45.0,
            3.0,
            0.2832237,
            -0.2102351,
            -0.003074571,
            0.6299927,
            -0.8713301,
            0.5310999,
        ],
    },
}
CASES: list[Callable[[], Any]] = [
    arrays,
    weighted_arrays,
    validation_split,
    validation_data,
    validation_steps,
    class_weights,
    regularized,
    two_outputs,
    masked,
    reduction_none,
    reduction_sum,
    fewer_steps,
    steps_over_the_end,
    steps_alone,
    executions,
    a_data_set,
    a_mapped_data_set,
    a_repeated_data_set,
    a_repeated_mapped_data_set,
    a_generator,
    evaluation,
    stateful_metrics,
    prediction,
]


@pytest.mark.filterwarnings("ignore:The data ended")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_numbers_are_keras_s(case: Callable[[], Any]) -> None:
    found, expected = case(), EXPECTED[case.__name__]
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=2e-5, err_msg=name)


# --- the arithmetic of steps ----------------------------------------------------------


class Recorder(keras.callbacks.Callback):
    """Keeps the names and the numbers of the batch hooks."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int]] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.seen.append(("begin", batch))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(("end", batch))

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append((f"{len(logs['outputs'])} rows", batch))


def with_dropout(k: int) -> Any:
    tf.random.set_seed(3)
    model = keras.Sequential(
        [
            layers.Dense(32, activation="relu", input_shape=(FEATURES,)),
            layers.Dropout(0.4),
            layers.Dense(CLASSES),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], steps_per_execution=k)
    return model


def bits(k: int, data: Any = None) -> list[np.ndarray]:
    """The losses of all steps and the weights after a fit."""
    model = with_dropout(k)
    if data is None:
        history = model.fit(X, Y, BATCH, epochs=3, verbose=0)
    else:
        history = model.fit(data, epochs=3, verbose=0)
    return [np.array(history.steps["loss"]), *model.get_weights()]


@pytest.mark.parametrize("k", [2, 4, 5, 6, 100])
def test_the_same_bits_for_any_steps_per_execution(k: int) -> None:
    for one, other in zip(bits(1), bits(k), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_bits_for_any_number_of_threads() -> None:
    threads = ipu.num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            ipu.set_num_threads(count)
            found.append(bits(3))
    finally:
        ipu.set_num_threads(threads)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("k", [1, 4])
def test_batches_read_on_the_host_give_the_same_bits(k: int) -> None:
    known = pairs().batch(BATCH)
    open_sizes = known.map(lambda x, y: (x, y))
    for one, other in zip(bits(k, known), bits(k, open_sizes), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("data", ["arrays", "known", "open"])
def test_hooks_and_history_of_a_shorter_execution(data: str) -> None:
    model, recorder = built(4), Recorder()
    known = pairs().batch(BATCH)
    args: Any = {
        "arrays": (X, Y, BATCH),
        "known": (known,),
        "open": (known.map(lambda x, y: (x, y)),),
    }[data]
    history = model.fit(*args, epochs=2, verbose=0, callbacks=[recorder])
    numbers = [("begin", 0), ("end", 3), ("begin", 4), ("end", 5)]
    assert recorder.seen == numbers * 2
    assert len(history.steps["loss"]) == len(history.steps["accuracy"]) == 12
    assert history.params["steps"] == 6


def test_steps_of_history_are_losses_of_their_own_batches() -> None:
    model = keras.Sequential([layers.Dense(1, input_shape=(1,))])
    model.compile(keras.optimizers.SGD(0.0), "mse", steps_per_execution=2)
    model.set_weights([np.zeros((1, 1)), np.zeros(1)])
    x = np.arange(5, dtype=np.float32).reshape(5, 1)
    history = model.fit(x, x, batch_size=2, shuffle=False, verbose=0)
    assert history.steps["loss"] == [0.5, 6.5, 16.0]
    assert history.history["loss"] == [6.0]


def test_steps_that_are_not_known_before(capsys: pytest.CaptureFixture[str]) -> None:
    model, recorder = built(2), Recorder()
    model.fit(generated(), epochs=2, verbose=2, callbacks=[recorder])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" - ")[1] for line in lines] == ["5/5", "5/5"]
    ends = [number for name, number in recorder.seen if name == "end"]
    assert ends == [1, 3, 4, 1, 3, 4]


def test_outputs_of_executions_are_rows() -> None:
    model, recorder = built(4), Recorder()
    model.predict(X, BATCH, callbacks=[recorder])
    assert recorder.seen == [("32 rows", 3), ("13 rows", 5)]


def test_shuffled_arrays_are_seen_once_an_epoch() -> None:
    x = np.arange(10, dtype=np.float32).reshape(10, 1)
    for shuffle in (True, "batch"):
        model = keras.Sequential([layers.Dense(1, input_shape=(1,))])
        model.compile(keras.optimizers.SGD(0.0), "mae")
        model.set_weights([np.zeros((1, 1)), np.zeros(1)])
        history = model.fit(x, x, 4, epochs=4, shuffle=shuffle, verbose=0)
        np.testing.assert_allclose(history.history["loss"], [4.5] * 4)
        # epochs differ in their order
        assert (
            len(
                {
                    tuple(np.reshape(history.steps["loss"], (4, 3))[i])
                    for i in (0, 1, 2, 3)
                }
            )
            > 1
        )


@pytest.mark.parametrize("batch_size", [32, 128, 1000, 5000])
def test_slices_of_any_size(batch_size: int) -> None:
    x = np.resize(X, (3001, FEATURES))
    y = np.resize(Y, 3001)
    model = built()
    whole = built().evaluate(x, y, batch_size=3001, verbose=0)
    found = model.evaluate(x, y, batch_size=batch_size, verbose=0)
    np.testing.assert_allclose(found, whole, rtol=1e-5)
    rows = model.predict(x, batch_size=batch_size)
    np.testing.assert_allclose(rows, model.predict(x, batch_size=3001), rtol=1e-5)


def test_predictions_of_several_outputs_and_inputs() -> None:
    one, two = keras.Input((FEATURES,)), keras.Input((1,))
    outputs = {"sum": layers.Add()([one, two]), "same": two}
    model = keras.Model([one, two], outputs)
    found = model.predict([X, X[:, :1]], batch_size=BATCH)
    np.testing.assert_array_equal(found["sum"], X + X[:, :1])
    np.testing.assert_array_equal(found["same"], X[:, :1])


@pytest.mark.parametrize("lengths", [(3, 8, 2), (8, 8), (1,)])
def test_prediction_of_a_generator(lengths: tuple[int, ...]) -> None:
    count = sum(lengths)
    rows = built(2).predict(generated(lengths))
    np.testing.assert_allclose(rows, built().predict(X)[:count], rtol=1e-5)


def test_data_that_end_early_end_the_run_with_a_warning() -> None:
    data = pairs().batch(BATCH)
    message = "The data ended after {} of {} steps"
    model = built(2)
    with pytest.warns(UserWarning, match=message.format(2, 4)):
        history = model.fit(data, steps_per_epoch=4, epochs=4, verbose=0)
    assert history.epoch == [0, 1] and len(history.steps["loss"]) == 6
    with pytest.warns(UserWarning, match=message.format(0, 3)):
        history = model.fit(data, steps_per_epoch=3, epochs=4, verbose=0)
    assert history.epoch == [0, 1]
    with pytest.warns(UserWarning, match=message.format(6, 9) + ".*the evaluation"):
        found = model.evaluate(data, steps=9, verbose=0)
    np.testing.assert_allclose(found, model.evaluate(X, Y, verbose=0), rtol=1e-5)
    with pytest.warns(UserWarning, match=message.format(6, 7) + ".*the prediction"):
        assert len(model.predict(data, steps=7)) == N
    full = pairs().batch(BATCH, drop_remainder=True)
    with pytest.warns(UserWarning, match=message.format(5, 8)):
        model.fit(full, steps_per_epoch=8, verbose=0)
    with pytest.warns(UserWarning, match=message.format(5, 6)):
        history = model.fit(generated(), steps_per_epoch=6, epochs=2, verbose=0)
    assert history.epoch == [0]


def test_empty_data() -> None:
    for empty in (generated(()), pairs().batch(BATCH).take(0), pairs(X[:0]).batch(2)):
        with pytest.raises(ValueError, match="empty"):
            built().predict(empty)


def test_a_generator_s_own_exception_arrives() -> None:
    def fails() -> Iterator[Any]:
        yield X[:8], Y[:8]
        raise KeyError("the second")

    signature = (
        tf.TensorSpec((None, FEATURES), tf.float32),
        tf.TensorSpec((None,), tf.int32),
    )
    data = tf.data.Dataset.from_generator(fails, output_signature=signature)
    model = built()
    with pytest.raises(KeyError, match="the second"):
        model.fit(data, verbose=0)
    model.fit(X, Y, verbose=0)


def test_stopping_in_the_middle_of_an_epoch() -> None:
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.model.stop_training = batch >= 2

    for data in ((X, Y, BATCH), (generated(),)):
        history = built().fit(*data, epochs=3, verbose=0, callbacks=[Stop()])
        assert history.epoch == [0] and len(history.steps["loss"]) == 3


def test_a_step_of_one_s_own_sees_the_rows_that_count() -> None:
    class Model(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[int] = []
            self.dense = layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.dense(x)

        def test_step(self, data: Any) -> Any:
            self.seen.append(data[0].shape[0])
            return {"most": tf.reduce_max(data[1])}

    model = Model()
    model.compile("sgd", "mse")
    values = np.zeros((7, 1), np.float32)
    values[0] = 5.0  # the last batch is filled up with the first rows
    assert model.evaluate(X[:7], values, batch_size=4, verbose=0) == 0.0
    assert set(model.seen) == {4, 3}


def test_names_of_metrics() -> None:
    def names(*metrics: Any, **more: Any) -> list[str]:
        keras.backend.clear_session()
        model = built(metrics=list(metrics), loss="mse", **more)
        return list(model.evaluate(X, X[:, :3], verbose=0, return_dict=True))

    loss = keras.losses.MeanSquaredError()
    assert names(loss, keras.losses.MeanAbsoluteError(name="mine")) == [
        "loss",
        "mean_squared_error",
        "mine",
    ]
    assert names("mae", weighted_metrics=["mae", "mse"]) == [
        "loss",
        "mae",
        "weighted_mae",
        "mse",
    ]
    assert names("AUC") == ["loss", "auc"]
    for twice in (["mae", "mae"], ["mse", keras.metrics.MeanSquaredError("mse")]):
        with pytest.raises(ValueError, match="two metrics with the same name: m"):
            names(*twice)
    with pytest.raises(ValueError, match="two metrics with the same name: weighted_m"):
        names("mae", weighted_metrics=["mae", "mae"])


def test_batches_of_several_lengths() -> None:
    def sequences() -> Iterator[Any]:
        for i in range(23):
            yield np.arange(1, 2 + i % 6, dtype=np.int32), np.float32(i % 2)

    signature = (tf.TensorSpec((None,), tf.int32), tf.TensorSpec((), tf.float32))
    data = tf.data.Dataset.from_generator(sequences, output_signature=signature)
    data = data.padded_batch(4, padded_shapes=([None], []))
    model = keras.Sequential(
        [
            layers.Embedding(10, 4, mask_zero=True),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", steps_per_execution=4)
    history = model.fit(data, epochs=2, validation_data=data, verbose=0)
    assert np.isfinite(history.history["val_loss"]).all()
    assert len(history.steps["loss"]) == 12 and model.predict(data).shape == (23, 1)
    # the mask makes a batch's padding count for nothing: one by one it is the same
    alone = [model.predict(ids[None]) for ids, _ in sequences()]
    np.testing.assert_allclose(model.predict(data), np.concatenate(alone), rtol=1e-5)
