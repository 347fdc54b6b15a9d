# SPDX-License-Identifier: MIT
"""Steps and executions over data whose last batch is smaller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from partial_batches import (
    BATCH,
    CLASSES,
    FEATURES,
    N,
    X,
    Y,
    built,
    generated,
    layers,
    pairs,
)

import ipu
from ipu import keras, tf


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
