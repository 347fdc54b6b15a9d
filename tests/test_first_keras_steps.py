# SPDX-License-Identifier: MIT
"""The steps of the first Keras of the IPU: their arithmetic, and what callbacks see."""

import numpy as np
import pytest
from first_keras_models import (  # noqa: F401 - fixtures
    BATCH,
    X,
    Y,
    batches,
    functional,
    stacked,
    strategy,
)
from hypothesis import given, strategies as st

from ipu import keras, tf
from ipu.drop_in.first_keras import runs
from ipu.drop_in.first_keras.feeds import Feed
from ipu.drop_in.first_keras.steps import plan_steps
from ipu.keras.engine.training.step_plan import INFINITE, UNKNOWN


@pytest.mark.usefixtures("two_ipus")
def test_replicas_predict_in_the_order_of_the_data():
    rows = X.sum(1)
    got = functional().predict(X, batch_size=BATCH, steps_per_run=2)
    np.testing.assert_allclose(got, rows, rtol=1e-4, atol=1e-5)
    (got,) = stacked(units=2).predict(X, batch_size=BATCH)
    np.testing.assert_allclose(got[:, 1], rows, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="2 must divide steps"):
        stacked().predict(X[:44], batch_size=BATCH)


# --- data


def test_data_are_checked():
    model = functional()
    rows = tf.data.Dataset.from_tensor_slices((X, Y))
    with pytest.raises(ValueError, match=r"Do not specify `batch_size` in Model\.fit"):
        model.fit(batches(), batch_size=4)
    with pytest.raises(ValueError, match="`batch_size` or `steps` is required for"):
        model.fit(X, Y)
    for wrong in (
        X,
        batches().map(lambda x, y: (x, y, y)),
        batches().map(lambda x, y: x),
    ):
        size = {"batch_size": 4} if wrong is X else {}
        with pytest.raises(
            ValueError, match=r"fit\(\) requires .* a tuple of 2 elements"
        ):
            model.fit(wrong, **size)
    with pytest.raises(ValueError, match=r"predict\(\) .* a tuple of 1 elements"):
        model.predict(batches())
    with pytest.raises(ValueError, match="drop_remainder=True"):
        model.fit(rows.batch(5))
    with pytest.raises(ValueError, match="multiple of the accumulated batch size"):
        model.fit(X, Y, batch_size=100)
    model.fit(X, Y, steps_per_epoch=6, verbose=0)
    assert model.predict(X, steps=3).shape == (48,)


def test_data_of_unknown_size_that_end_too_early():
    model = functional()
    few = batches().filter(lambda x, y: True).take(3)
    with pytest.raises(tf.errors.OutOfRangeError):
        model.fit(few, steps_per_epoch=5, verbose=0)
    before = model.get_weights()
    model.fit(batches(), epochs=2, verbose=0)
    assert not np.array_equal(model.get_weights()[0], before[0])


# --- the arithmetic of steps


def plan(size, steps=None, a=1, r=1, per_run=None, dropped=False):
    feed = Feed(None, size, dropped)
    got = plan_steps("Model", feed, steps, "steps_per_epoch", a, r, per_run)
    return got.steps, got.per_run, got.restarts


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"size": 12}, (12, 12, True)),
        ({"size": 12, "a": 4}, (3, 3, True)),
        ({"size": 12, "a": 4, "steps": 2}, (2, 2, True)),
        ({"size": 11, "a": 4, "dropped": True}, (2, 2, True)),
        ({"size": UNKNOWN, "steps": 6}, (6, 6, True)),
        ({"size": INFINITE, "steps": 768, "a": 16}, (768, 768, False)),
        ({"size": INFINITE, "steps": 768, "a": 16, "per_run": 256}, (768, 256, False)),
        ({"size": INFINITE, "steps": 768, "a": 16, "r": 2}, (384, 384, False)),
        ({"size": 24, "a": 2, "r": 2, "per_run": 3}, (6, 3, True)),
        ({"size": 12, "steps": 48 / 4, "per_run": np.int64(3)}, (12, 3, True)),
    ],
)
def test_steps(arguments, expected):
    assert plan(**arguments) == expected


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"size": INFINITE}, "must provide the number of steps per epoch"),
        ({"size": UNKNOWN}, "must provide the number of steps per epoch"),
        (
            {"size": 12, "steps": 4, "a": 4},
            r"Steps per epoch times accumulation count \(4 x 4\) is greater",
        ),
        (
            {"size": 10, "a": 4},
            r"number of batches in the dataset \(10\) to be a multiple of the "
            r"accumulated batch size \(4\).*take\(8\)",
        ),
        ({"size": 3, "a": 4}, "to be a multiple of the accumulated batch size"),
        ({"size": 0}, "to be a multiple of the accumulated batch size"),
        ({"size": 12, "per_run": 5}, r"'steps_per_run' \(5\) to divide .* \(12\)"),
        ({"size": 12, "per_run": 0}, "`steps_per_run` must be a positive integer"),
        ({"size": 12, "steps": 2.5}, "`steps_per_epoch` must be a positive integer"),
        ({"size": 12, "steps": "a"}, "`steps_per_epoch` must be a positive integer"),
        ({"size": 12, "steps": True}, "`steps_per_epoch` must be a positive integer"),
        ({"size": 9, "r": 2}, "2 must divide steps_per_epoch"),
    ],
)
def test_steps_that_do_not_go_together(arguments, words):
    with pytest.raises(ValueError, match=words):
        plan(**arguments)


@given(
    size=st.one_of(st.integers(0, 60), st.sampled_from([INFINITE, UNKNOWN])),
    steps=st.one_of(st.none(), st.integers(1, 30)),
    a=st.integers(1, 6),
    r=st.integers(1, 4),
    per_run=st.one_of(st.none(), st.integers(1, 8)),
)
def test_steps_of_any_data(size, steps, a, r, per_run):
    wanted = steps * a if steps else size
    legal = (
        wanted > 0
        and wanted % (a * r) == 0
        and (size < 0 or wanted <= size)
        and (per_run is None or wanted // (a * r) % per_run == 0)
    )
    if not legal:
        with pytest.raises(ValueError):
            plan(size, steps, a, r, per_run)
        return
    of_epoch, of_run, restarts = plan(size, steps, a, r, per_run)
    assert of_epoch * a * r == wanted and of_epoch % of_run == 0
    assert of_run == (per_run or of_epoch) and restarts == (size != INFINITE)


# --- callbacks


class Recorder(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __getattribute__(self, name):
        if not name.startswith("on_") or name.count("_") < 2:
            return super().__getattribute__(name)
        return lambda *args: self.calls.append((name[3:], *args))


def test_what_callbacks_see():
    recorder = Recorder()
    model = functional(metrics=["mae"])
    model.fit(
        batches().repeat(),
        steps_per_epoch=6,
        steps_per_run=3,
        epochs=3,
        initial_epoch=1,
        callbacks=[recorder],
        verbose=0,
    )
    names = [call[0] for call in recorder.calls]
    epoch = ["epoch_begin", *["train_batch_begin", "train_batch_end"] * 2, "epoch_end"]
    assert names == ["train_begin", *epoch * 2, "train_end"]
    logs = [{"batch": n, "size": 1, "num_steps": 3} for n in (0, 3)]
    begins = [call[1:] for call in recorder.calls if call[0] == "train_batch_begin"]
    assert begins == [(0, logs[0]), (3, logs[1])] * 2
    ends = [call[1:] for call in recorder.calls if call[0] == "train_batch_end"]
    assert ends == begins
    epochs = [call for call in recorder.calls if call[0] == "epoch_end"]
    assert [call[1] for call in epochs] == [1, 2]
    assert [list(call[2]) for call in epochs] == [["loss", "mae"]] * 2


def test_evaluate_and_predict_call_back_too():
    recorder = Recorder()
    model = functional()
    model.evaluate(batches(), callbacks=[recorder], verbose=0, steps_per_run=6)
    model.predict(X, batch_size=BATCH, callbacks=[recorder])
    names = [call[0] for call in recorder.calls]
    assert names == [
        "test_begin",
        *["test_batch_begin", "test_batch_end"] * 2,
        "test_end",
        "predict_begin",
        "predict_batch_begin",
        "predict_batch_end",
        "predict_end",
    ]


def test_training_stops_at_the_end_of_an_epoch():
    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    model = functional()
    data = batches()
    history = model.fit(data, epochs=4, steps_per_run=3, callbacks=[Stop()], verbose=0)
    assert history.epoch == [0] and int(model.optimizer.iterations) == 12
    assert model.fit(data, epochs=2, verbose=0).epoch == [0, 1]


def test_the_bar_counts_steps(capsys):
    pytest.importorskip("tqdm")
    model = functional()
    model.fit(batches(), epochs=2, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(" - 12/12 - " in line for line in lines)
    moves = []
    model.fit(batches(), steps_per_run=4, verbose=0)
    assert capsys.readouterr().out == ""
    bar = runs._StepBar()
    bar._show = lambda step, logs: moves.append(step)
    model.fit(batches(), steps_per_run=4, callbacks=[bar], verbose=1)
    assert moves == [3, 7, 11]


def test_an_exception_in_a_callback_leaves_the_model_usable():
    class Fail(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            raise KeyboardInterrupt

    model = functional()
    with pytest.raises(KeyboardInterrupt):
        model.fit(batches(), epochs=2, callbacks=[Fail()], verbose=0)
    assert int(model.optimizer.iterations) == 12
    with pytest.raises(ValueError, match="can only be called"):
        model(X)
    model.fit(batches(), verbose=0)
    assert int(model.optimizer.iterations) == 24
