"""Callbacks: when hooks are called, with what, and what the ready-made ones do."""

from __future__ import annotations

import csv
import fcntl
import io
import math
import os
import pty
import struct
import subprocess
import sys
import termios
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.keras.callbacks.callback import looks
from ipu.keras.callbacks.monitor import Monitor

RNG = np.random.default_rng(2)
X = RNG.normal(size=(24, 4)).astype(np.float32)
Y = X @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32)


def regression(k: int = 2, rate: float = 0.05) -> keras.Model:
    tf.random.set_seed(0)
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(4,))])
    model.compile(keras.optimizers.SGD(rate), "mse", ["mae"], steps_per_execution=k)
    return model


def fit(model: keras.Model, *callbacks: object, **kwargs: object) -> object:
    arguments = {"batch_size": 4, "shuffle": False, "verbose": 0, **kwargs}
    return model.fit(X, Y, callbacks=list(callbacks), **arguments)


class Recorder(keras.callbacks.Callback):
    """Notes every hook with its number and the names in its logs."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple] = []

    def __getattribute__(self, name: str) -> object:
        if name.startswith("on_") and "batch" not in name.split("_")[1]:
            calls = object.__getattribute__(self, "calls")
            return lambda *args: calls.append((name[3:], *args[:-1], sorted(args[-1])))
        return object.__getattribute__(self, name)


def test_hooks_in_order_with_numbers_of_first_and_last_steps() -> None:
    recorder = Recorder()
    model = regression(3)
    fit(model, recorder, epochs=1, validation_data=(X[:12], Y[:12]))
    results = ["loss", "mae"]
    assert recorder.calls == [
        ("train_begin", []),
        ("epoch_begin", 0, []),
        ("train_batch_begin", 0, []),
        ("train_batch_end", 2, results),
        ("train_batch_begin", 3, []),
        ("train_batch_end", 5, results),
        ("test_begin", []),
        ("test_batch_begin", 0, []),
        ("test_batch_end", 2, results),
        ("test_end", results),
        ("epoch_end", 0, ["loss", "mae", "val_loss", "val_mae"]),
        ("train_end", ["loss", "mae", "val_loss", "val_mae"]),
    ]
    assert recorder.model is model
    assert recorder.params == {"verbose": 0, "epochs": 1, "steps": 6}
    recorder.calls.clear()
    model.predict(X, batch_size=4, callbacks=[recorder])
    assert [call[0] for call in recorder.calls] == [
        "predict_begin",
        "predict_batch_begin",
        "predict_batch_end",
        "predict_batch_begin",
        "predict_batch_end",
        "predict_end",
    ]


def test_any_object_with_a_hook_will_do() -> None:
    class Plain:
        def __init__(self) -> None:
            self.seen: list = []

        def on_epoch_end(self, epoch: int, logs: dict) -> None:
            self.seen.append((epoch, logs["loss"]))

    plain = Plain()
    history = fit(regression(), plain, epochs=2)
    assert plain.seen == list(enumerate(history.history["loss"]))


def test_old_names_of_batch_hooks() -> None:
    seen = []
    fit(regression(2), keras.callbacks.LambdaCallback(on_batch_end=None))

    class Old(keras.callbacks.Callback):
        def on_batch_end(self, batch: int, logs: object = None) -> None:
            seen.append(batch)

    fit(regression(2), Old())
    assert seen == [1, 3, 5]


def test_lambda_callback() -> None:
    seen: list = []
    callback = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: seen.append(epoch),
        on_train_end=lambda logs: seen.append("end"),
        on_test_end=lambda logs: seen.append("tested"),
    )
    fit(regression(), callback, epochs=2, validation_data=(X[:8], Y[:8]))
    assert seen == [0, "tested", 1, "tested", "end"]


def test_history() -> None:
    model = regression(6)
    history = fit(model, epochs=2)
    assert model.history is history
    assert set(history.steps) == {"loss", "mae"} and len(history.steps["mae"]) == 12
    # a metric's value at the last step of an epoch is that of the epoch
    assert history.steps["mae"][5] == history.history["mae"][0]
    mean = np.mean(history.steps["loss"][6:])
    np.testing.assert_allclose(history.history["loss"][1], mean, rtol=1e-5)
    assert str(history).splitlines()[0].split() == ["epoch", "loss", "mae"]
    assert history._repr_html_().count("<tr>") == 3
    assert "<svg" not in history._repr_html_()
    assert "2 epochs" in repr(history)


def test_early_stopping() -> None:
    stopper = keras.callbacks.EarlyStopping(
        monitor="loss", min_delta=1e6, patience=2, restore_best_weights=True
    )
    model = regression()
    weights: list = []
    keep = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: weights.append(model.get_weights())
    )
    history = fit(model, keep, stopper, epochs=10)
    assert history.epoch == [0, 1, 2] and stopper.stopped_epoch == 2
    assert stopper.best_epoch == 0
    for best, now in zip(weights[0], model.get_weights(), strict=True):
        np.testing.assert_array_equal(best, now)
    with pytest.warns(UserWarning, match="`val_loss` which is not available"):
        fit(model, keras.callbacks.EarlyStopping(), epochs=1)
    rising = keras.callbacks.EarlyStopping("accuracy", patience=1)
    rising.model = model
    for epoch, value in enumerate([0.1, 0.5, 0.4]):
        model.stop_training = False
        rising.on_epoch_end(epoch, {"accuracy": value})
        assert model.stop_training is (epoch == 2)


class Fake:
    """A model whose weights are the number of the epoch."""

    stop_training = False
    epoch = -1

    def get_weights(self) -> list[int]:
        return [self.epoch]

    def set_weights(self, weights: list[int]) -> None:
        (self.epoch,) = weights


NAN = math.nan
EARLY_STOPPING: list[tuple[dict[str, Any], list[float], tuple[int, int, int]]] = [
    # options, values by epoch: where it stops, the best epoch, that of the weights
    ({}, [5, 4, 4, 3], (2, 1, 2)),
    ({"restore_best_weights": True}, [5, 4, 4, 3], (2, 1, 1)),
    ({}, [NAN, NAN, NAN], (1, 0, 1)),  # not after the first epoch
    ({"restore_best_weights": True, "patience": 2}, [NAN, NAN], (1, 0, 0)),
    ({"restore_best_weights": True, "patience": 1}, [5, 4, 3], (0, 2, 2)),
    ({"start_from_epoch": 2}, [1, 2, 3, 4], (3, 2, 3)),
    ({"start_from_epoch": 2, "restore_best_weights": True}, [1, 2, 3, 4], (3, 2, 2)),
    ({"baseline": 3.5, "patience": 2}, [5, 4, 3, 3, 3, 3], (4, 2, 4)),
    ({"baseline": 3.5, "patience": 2}, [5, 6, 7], (1, 0, 1)),
    ({"baseline": 3.5, "patience": 2, "mode": "max"}, [5, 5, 6, 6, 6], (4, 2, 4)),
]


@pytest.mark.parametrize("options, values, wanted", EARLY_STOPPING)
def test_where_early_stopping_stops(
    options: dict[str, Any],
    values: list[float],
    wanted: tuple[int, int, int],
    capsys: pytest.CaptureFixture,
) -> None:
    stopper = keras.callbacks.EarlyStopping("x", verbose=1, **options)
    assert (stopper.wait, stopper.stopped_epoch, stopper.best_epoch) == (0, 0, 0)
    for _ in range(2):  # it may be used again
        stopper.set_model(model := Fake())
        stopper.on_train_begin()
        for model.epoch, value in enumerate(values):
            stopper.on_epoch_end(model.epoch, {"x": value})
            if model.stop_training:
                break
        stopper.on_train_end()
        assert (stopper.stopped_epoch, stopper.best_epoch, model.epoch) == wanted
        told = f"Epoch {wanted[0] + 1:05d}: early stopping\n" if wanted[0] else ""
        assert capsys.readouterr().out == told
    stopper.verbose = 0
    stopper.on_train_end()
    assert capsys.readouterr().out == ""
    with pytest.warns(UserWarning, match="`x` which is not available"):
        stopper.on_epoch_end(0)


def test_terminate_on_nan(capsys: pytest.CaptureFixture) -> None:
    history = fit(regression(1, 1e9), keras.callbacks.TerminateOnNaN(), epochs=20)
    assert not math.isfinite(history.history["loss"][-1])
    assert len(history.steps["loss"]) < 120
    assert "Invalid loss, terminating training" in capsys.readouterr().out
    strict = keras.callbacks.TerminateOnNaN(raise_error=True)
    strict.on_batch_end(3)
    strict.on_batch_end(3, {"loss": 1.0})
    with pytest.raises(RuntimeError, match=r"Batch 3: the loss is inf\."):
        strict.on_batch_end(3, {"loss": math.inf})


def test_a_callback_has_no_model_at_first() -> None:
    made = keras.callbacks
    for one in (
        *(made.EarlyStopping(), made.TerminateOnNaN(), made.ReduceLROnPlateau()),
        *(made.History(), made.ModelCheckpoint("m.keras"), made.CSVLogger("log.csv")),
        *(made.LambdaCallback(), made.BackupAndRestore("b"), made.ProgbarLogger()),
        *(made.SwapEMAWeights(), made.PipelineRecorder()),
        made.LearningRateScheduler(lambda epoch: 0.1),
    ):
        assert one.model is None and one.params is None


def test_learning_rate_scheduler_makes_no_new_program(
    capsys: pytest.CaptureFixture,
) -> None:
    seen: list = []

    def schedule(epoch: int, rate: float) -> float:
        seen.append(round(rate, 6))
        return rate / 2

    model = regression(3, 0.08)
    traces = []
    call = model.layers[0].call
    model.layers[0].call = lambda *a, **k: (traces.append(1), call(*a, **k))[1]
    scheduler = keras.callbacks.LearningRateScheduler(schedule, verbose=1)
    history = fit(model, scheduler, epochs=3)
    assert seen == [0.08, 0.04, 0.02]
    np.testing.assert_allclose(history.history["lr"], [0.04, 0.02, 0.01])
    assert "Epoch 00001: LearningRateScheduler setting" in capsys.readouterr().out
    assert len(traces) == 1
    with pytest.raises(ValueError, match="should be float"):
        fit(model, keras.callbacks.LearningRateScheduler(lambda epoch: "fast"))
    one = fit(regression(3), keras.callbacks.LearningRateScheduler(lambda epoch: 0.0))
    assert one.history["lr"] == [0.0] and capsys.readouterr().out == ""


PLATEAU: list[tuple[dict[str, Any], list[float], list[float]]] = [
    # options, values by epoch: the rate after each
    ({"patience": 2}, [3, 3, 3, 2, 2, 2], [1, 1, 0.5, 0.5, 0.5, 0.25]),
    ({"patience": 2}, [3, 3, 3, 3, 3], [1, 1, 0.5, 0.5, 0.25]),
    ({"patience": 1, "min_lr": 0.3}, [3, 3, 3, 3], [1, 0.5, 0.3, 0.3]),
    ({"patience": 1, "min_delta": 0.5}, [3, 2.6, 2.4], [1, 0.5, 0.5]),
    ({"patience": 1, "epsilon": 0.5}, [3, 2.6, 2.4], [1, 0.5, 0.5]),
    ({"patience": 1, "mode": "max"}, [3, 2, 4], [1, 0.5, 0.5]),
    (
        {"patience": 1, "cooldown": 2},  # as Keras 2.6 does
        [3, 3, 3, 3, 3, 3],
        [1, 0.5, 0.5, 0.25, 0.25, 0.125],
    ),
    ({"patience": 2, "cooldown": 1}, [3, 3, 3, 3, 3], [1, 1, 0.5, 0.5, 0.25]),
]


@pytest.mark.parametrize("options, values, wanted", PLATEAU)
def test_rates_on_a_plateau(
    options: dict[str, Any],
    values: list[float],
    wanted: list[float],
    capsys: pytest.CaptureFixture,
) -> None:
    plateau = keras.callbacks.ReduceLROnPlateau("x", 0.5, verbose=1, **options)
    model = regression()
    plateau.set_model(model)
    plateau.on_epoch_end(0, {"x": values[0]})  # without a beginning, too
    for begin in (0, 7):  # it may be used again
        model.optimizer.learning_rate = 1.0
        plateau.on_train_begin()
        assert (plateau.wait, plateau.cooldown_counter) == (0, 0)
        for epoch, (value, rate) in enumerate(zip(values, wanted, strict=True)):
            before = float(model.optimizer.learning_rate)
            plateau.on_epoch_end(begin + epoch, logs := {"x": value})
            assert logs["lr"] == before
            now = float(model.optimizer.learning_rate)
            assert now == pytest.approx(rate)
            told = f"\nEpoch {begin + epoch + 1:05d}: ReduceLROnPlateau reducing "
            told += f"learning rate to {now}.\n"
            assert capsys.readouterr().out == (told if now < before else "")
    plateau.verbose = 0
    for epoch in range(9):
        plateau.on_epoch_end(epoch, {"x": math.nan})
    assert capsys.readouterr().out == ""
    with pytest.warns(UserWarning, match="metric `x` which is not available"):
        plateau.on_epoch_end(0)


def test_what_a_plateau_refuses() -> None:
    with pytest.raises(ValueError, match=r"factor >= 1\.0"):
        keras.callbacks.ReduceLROnPlateau(factor=1.0)
    keras.callbacks.ReduceLROnPlateau(factor=0.99)
    plateau = keras.callbacks.ReduceLROnPlateau("loss")
    model = regression()
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 3, 0.7)
    model.compile(keras.optimizers.SGD(rate), "mse")
    with pytest.raises(ValueError, match="with a number as its learning rate"):
        fit(model, plateau)


def test_csv_logger(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    model = regression()
    history = fit(model, keras.callbacks.CSVLogger(path), epochs=2)
    fit(
        model,
        keras.callbacks.CSVLogger(path, append=True),
        epochs=3,
        initial_epoch=2,
    )
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [row["epoch"] for row in rows] == ["0", "1", "2"]
    assert list(rows[0]) == ["epoch", "loss", "mae"]
    assert [float(row["loss"]) for row in rows[:2]] == history.history["loss"]


def test_model_checkpoint(tmp_path: Path) -> None:
    pattern = str(tmp_path / "w-{epoch:02d}-{loss:.3f}")
    model = regression()
    history = fit(
        model,
        keras.callbacks.ModelCheckpoint(pattern, save_weights_only=True),
        epochs=2,
    )
    names = [
        f"w-{i + 1:02d}-{loss:.3f}.safetensors"
        for i, loss in enumerate(history.history["loss"])
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(names)
    other = regression()
    other.load_weights(tmp_path / names[-1])
    np.testing.assert_array_equal(other.get_weights()[0], model.get_weights()[0])

    best = tmp_path / "best.safetensors"
    checkpoint = keras.callbacks.ModelCheckpoint(
        best, monitor="loss", save_best_only=True, save_weights_only=True
    )
    fit(model, checkpoint, epochs=1)
    stamp = best.stat().st_mtime_ns
    checkpoint.best = -1.0
    fit(model, checkpoint, epochs=1)
    assert best.stat().st_mtime_ns == stamp

    every = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "e{epoch}"), save_weights_only=True, save_freq=4
    )
    saved: list = []
    every._save = lambda epoch, logs: saved.append(epoch)  # type: ignore[method-assign]
    fit(model, every, epochs=2)
    assert saved == [0, 1, 1]  # after steps 4, 8 and 12 of 12
    with pytest.raises(ValueError, match=r"ends in .safetensors"):
        keras.callbacks.ModelCheckpoint("x.npz")
    missing = keras.callbacks.ModelCheckpoint(
        str(tmp_path / "{val_loss}"), save_weights_only=True
    )
    with pytest.raises(KeyError, match="no 'val_loss'"):
        fit(model, missing)


def test_the_best_is_saved(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = str(tmp_path / "best.safetensors")
    options = {"save_best_only": True, "save_weights_only": True}
    made = keras.callbacks.ModelCheckpoint(
        path, "x", verbose=1, initial_value_threshold=5.0, **options
    )
    made.set_model(model := regression())
    saved: list[Any] = []
    model.save_weights = saved.append
    worse = "\nEpoch 00002: x did not improve from {:0.5f}\n"
    for value, told in ((6, worse.format(5)), (4, ""), (4.5, worse.format(4))):
        made.on_epoch_end(1, {"x": value})
        told = told or f"\nEpoch 00002: saving model to {path}\n"
        assert capsys.readouterr().out == told
    assert saved == [path]
    with pytest.warns(UserWarning, match="only with x available, skipping"):
        made.on_epoch_end(1)
    made.verbose = 0
    for value in (4.5, 3):
        made.on_epoch_end(1, {"x": value})
    assert saved == [path] * 2 and capsys.readouterr().out == ""
    with pytest.raises(TypeError, match=r"Unrecognized arguments: \['period'\]"):
        keras.callbacks.ModelCheckpoint(path, period=2)
    with pytest.raises(ValueError, match=r"save_freq=2\.5"):
        keras.callbacks.ModelCheckpoint(path, save_freq=2.5)


def test_steps_between_files_are_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "w")
    made = keras.callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=4)
    made.set_model(regression())
    saved: list[Any] = []
    made._save = lambda epoch, logs: saved.append(epoch)  # type: ignore[method-assign]

    def save_after(*batches: int) -> int:
        saved.clear()
        for batch in batches:
            made.on_train_batch_end(batch)
        return len(saved)

    assert save_after(2) == 0 and made._steps_to_save() == 1
    assert save_after(3) == 1 and saved == [0]  # of whoever has not begun an epoch
    assert save_after(4, 6) == 0 and save_after(0) == 1  # in the next epoch
    assert save_after(0, 0, 0) == 0 and save_after(0) == 1  # of one step
    assert save_after(1, 2) == 0
    made.on_train_begin()
    assert save_after(2) == 0 and save_after(3) == 1
    made.on_train_batch_end(1)
    made.on_train_begin()
    made.on_epoch_begin(5)
    assert save_after(3) == 1 and saved == [5] and made._steps_to_save() == 4


def test_what_cannot_be_saved_is_said_before_training(tmp_path: Path) -> None:
    model = regression()

    def get_config() -> None:
        raise NotImplementedError("none")

    model.get_config = get_config
    path = tmp_path / "{epoch}" / "model.keras"
    with pytest.raises(NotImplementedError):
        fit(model, keras.callbacks.ModelCheckpoint(path), epochs=0)
    assert not [*tmp_path.iterdir()]
    path = tmp_path / "new" / "model.weights.h5"
    made = keras.callbacks.ModelCheckpoint(path, save_weights_only=True)
    made.on_train_begin()
    assert path.parent.exists()
    fit(model, made)
    assert path.exists()


def test_a_logger_of_rows_may_be_used_again(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("old\n")

    def run(logger: Any, *logs: Any) -> list[str]:
        logger.on_train_begin()
        file = logger._file
        for epoch, one in enumerate(logs):
            logger.on_epoch_end(epoch, one)
            rows = path.read_text().splitlines()  # is there at once
        logger.on_train_end()
        assert logger._file is None and file.closed
        return rows

    logger = keras.callbacks.CSVLogger(path, separator=";")
    assert run(logger, {"b": 1, "a": 2}, {"b": 3}) == ["epoch;a;b", "0;2;1", "1;NA;3"]
    assert run(logger, {"c": 4}, None) == ["epoch;c", "0;4", "1;NA"]
    logger = keras.callbacks.CSVLogger(path, append=True)
    assert run(logger, {"c": 5}) == ["epoch;c", "0;4", "1;NA", "0,5"]
    for text, head in (("", "epoch,c"), ("\n", "")):
        path.write_text(text)
        assert run(logger, {"c": 5}) == [head, "0,5"]
    path.unlink()
    assert run(logger, {"c": 6}) == ["epoch,c", "0,6"]


def test_callbacks_in_a_list(tmp_path: Path) -> None:
    seen: list[Any] = []
    made = keras.callbacks.CallbackList(
        [history := keras.callbacks.History()], add_history=True, model="a model"
    )
    assert made.callbacks == [history] and made.model == "a model"
    assert history.model == "a model"

    class Late(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            seen.append((epoch, logs))

        def set_params(self, params: Any) -> None:
            seen.append(params)

        def set_model(self, model: Any) -> None:
            seen.append(model)

        on_train_batch_end = on_epoch_end

    made = keras.callbacks.CallbackList([], verbose=0, steps=3)
    assert made.steps_to_look("train") is None
    made.on_epoch_end(1)
    made.append(Late())
    made.on_epoch_end(2)
    made.on_epoch_end(3, logs={"loss": 1.0})
    assert seen == [(2, {}), (3, {"loss": 1.0})]
    assert made.steps_to_look("train") == 1
    seen.clear()
    made.set_steps(3)  # as it was
    made.set_steps(4)
    assert seen == [{"verbose": 0, "steps": 4}] and made.params["steps"] == 4
    seen.clear()
    keras.callbacks.CallbackList([Late()])
    keras.callbacks.CallbackList([Late()], model="a model")
    assert seen == [{}, {}, "a model"]

    @looks(lambda one: 3)
    def hook(*given: Any) -> None:
        seen.append(given)

    class Third(keras.callbacks.Callback):
        on_train_batch_end = hook

    made = keras.callbacks.CallbackList([Third(), keras.callbacks.Callback()])
    assert made.steps_to_look("train") == 3 and made.steps_to_look("test") is None


def test_which_quantities_are_better_when_high() -> None:
    for name, is_high in (
        *(("loss", False), ("val_acc", True), ("auc", True), ("fmeasure", True)),
        *(("auc_loss", False), ("a_fmeasure", False)),
    ):
        monitor = Monitor(name, "auto", -0.5)
        assert monitor.name == name
        assert monitor.is_better(2.0, 1.0) is is_high
        assert monitor.is_better(1.0, 2.0) is not is_high
        assert not monitor.is_better(1.5, 1.0) and not monitor.is_better(1.0, 1.5)
    with pytest.warns(UserWarning, match="mode 'most' is unknown"):
        assert Monitor("auc", "most").is_better(2.0, 1.0)


def test_a_history_is_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    history = keras.callbacks.History()
    model = regression()
    fit(model, history, epochs=2)
    model.history = None
    found = fit(model, history, epochs=1)
    assert found is history is model.history
    assert history.epoch == [0] and len(history.steps["loss"]) == 6
    history.on_epoch_end(1)
    assert history.epoch == [0, 1]
    history.history.clear()
    with pytest.raises(KeyError, match="learning_rate"):
        history.history["learning_rate"]
    history.history["lr"] = [0.1, 0.2]
    assert history.history["learning_rate"] == [0.1, 0.2]
    with pytest.raises(KeyError, match="loss"):
        history.history["loss"]
    assert str(history).splitlines()[-2:] == ["    1  0.1000", "    2  0.2000"]
    history.epoch.append(2)  # without results so far
    assert str(history).splitlines()[-1] == "    2  0.2000"
    history.set_model(SimpleNamespace(history=None))
    for epoch in range(3, 30):
        history.on_epoch_end(epoch, {"lr": 0.5})
    assert history.model.history is history
    table, _, curve = str(history).partition("\n\n")
    assert "..." in table and curve.startswith("lr  ") and curve.endswith("-> 0.5000")
    assert history._repr_html_().count("<svg") == 1
    monkeypatch.setattr("ipu._text.notebook.cell", lambda: 7)
    history._shown_in = 7
    assert history._ipython_display_() is None
    for history._shown_in, cell in ((None, 7), (6, 7), (None, None)):
        monkeypatch.setattr("ipu._text.notebook.cell", lambda cell=cell: cell)
        with pytest.raises(NotImplementedError):
            history._ipython_display_()


def test_plain_log_has_one_line_an_epoch(capsys: pytest.CaptureFixture) -> None:
    model = regression(2)
    fit(model, epochs=2, verbose=1)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("Epoch 1/2 - 6/6 - ") and "mae: " in lines[0]
    model.evaluate(X, Y, batch_size=4)
    assert capsys.readouterr().out.startswith("6/6 - ")
    model.predict(X, batch_size=4)
    assert capsys.readouterr().out == ""


def test_bar_counts_executed_steps_in_a_terminal() -> None:
    program = textwrap.dedent(
        """
        import numpy as np
        from ipu import keras, tf
        x = np.ones((64, 256), np.float32)
        data = tf.data.Dataset.from_tensors((x, x)).repeat()
        model = keras.Sequential([keras.layers.Dense(256, input_shape=(256,))])
        model.compile("sgd", "mse", steps_per_execution=3000)
        model.fit(data, steps_per_epoch=3000, epochs=2)
        """
    )
    text = in_a_terminal(program)
    assert "3000/3000" in text and "Epoch 2/2" in text and "loss: " in text
    counts = {
        int(part.split("/")[0].split()[-1])
        for part in text.split("\r")
        if "/3000 [" in part
    }
    # the whole epoch is one execution, and still the bar moved during it
    assert any(0 < count < 3000 for count in counts), counts


def in_a_terminal(program: str, columns: int = 0) -> str:
    """What a program writes to a terminal of so many columns."""
    parent, child = pty.openpty()
    size = struct.pack("HHHH", 24, columns, 0, 0)
    fcntl.ioctl(child, termios.TIOCSWINSZ, size)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=child, stderr=child
    ) as process:
        os.close(child)
        output = b""
        while True:
            try:
                piece = os.read(parent, 4096)
            except OSError:
                break
            if not piece:
                break
            output += piece
        process.wait(timeout=60)
    os.close(parent)
    text = output.decode()
    assert process.returncode == 0, text
    return text


def on_screen(text: str) -> list[str]:
    """The lines that a terminal shows when all has been written."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown: list[str] = []
        for part in line.split("\r"):
            shown[: len(part)] = part
        lines.append("".join(shown).rstrip())
    return lines


MANY = """
import logging, sys
import numpy as np
from ipu import keras
logging.basicConfig(format="%(message)s")
class Words(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            print("printed", end="")
            print(" in parts")
            logging.warning("logged")
            print("an error", file=sys.stderr)
x, y = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
model = keras.Sequential([keras.layers.Dense(1, input_shape=(4,))])
model.compile("sgd", "mse", metrics=["mae", "mape", "msle", "logcosh", "accuracy"])
before = sys.stdout, sys.stderr
model.fit(x, y, 8, epochs=2, validation_data=(x, y), callbacks=[Words()])
assert before == (sys.stdout, sys.stderr)
"""


@pytest.mark.parametrize("columns", [40, 80, 300])
def test_no_result_is_lost_in_a_narrow_terminal(columns: int) -> None:
    text = in_a_terminal(MANY, columns)
    lines = on_screen(text)
    assert lines[:3] == ["printed in parts", "logged", "an error"]
    assert max(map(len, lines)) <= columns
    ended = " ".join("\n".join(lines[3:]).split())
    first, second = ended.split("printed in parts")
    for epoch, shown in (("1/2", first), ("2/2", second)):
        assert f"Epoch {epoch} - 8/8 - " in shown
        for name in ("loss", "mae", "mape", "msle", "logcosh", "accuracy"):
            assert f" {name}: " in shown and f" val_{name}: " in shown
    assert (" step/s" in first) == (columns == 300)
    bars = [part for part in text.split("\r") if "%|" in part]
    assert bars and all(len(bar) <= columns for bar in bars)


def test_stop_training_in_the_middle_of_an_epoch() -> None:
    model = regression(2)

    def stop(batch: int, logs: dict) -> None:
        model.stop_training = batch >= 3

    history = fit(
        model, keras.callbacks.LambdaCallback(on_train_batch_end=stop), epochs=5
    )
    assert len(history.steps["loss"]) == 4 and history.epoch == [0]


@pytest.mark.parametrize(
    ("mode", "values", "best"),
    [
        ("min", [1.0, -np.inf, 5.0, 4.0], -np.inf),
        ("max", [1.0, np.inf, 5.0, 4.0], np.inf),
        ("min", [np.inf, 5.0, 4.0, np.nan], 4.0),
        ("max", [-np.inf, np.nan, 4.0, 3.0], 4.0),
    ],
)
def test_infinite_values_are_compared(mode: str, values: Any, best: float) -> None:
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(1,))])
    model.compile("sgd", "mse")
    callbacks = keras.callbacks
    for one in (
        callbacks.EarlyStopping("x", patience=9, mode=mode, min_delta=0.1),
        callbacks.ReduceLROnPlateau("x", mode=mode, patience=9),
    ):
        one.set_model(model)
        one.on_train_begin()
        for epoch, value in enumerate(values):
            one.on_epoch_end(epoch, {"x": value})
        assert one.best == best
        assert one.wait == len(values) - 1 - values.index(best)
