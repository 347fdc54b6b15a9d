# SPDX-License-Identifier: MIT
"""``steps_per_execution="auto"``, the default outside of a strategy."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras.engine.training import fit_loops
from ipu.keras.engine.training.program import Program

N, BATCH = 45, 8
X = np.sin(np.arange(N * 4, dtype=np.float32)).reshape(N, 4)
Y = (np.arange(N) % 3).astype(np.int32)


def made(**how: Any) -> Any:
    tf.random.set_seed(5)
    layers = keras.layers
    model = keras.Sequential(
        [layers.Dense(16, input_shape=(4,)), layers.Dropout(0.5), layers.Dense(3)]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], **how)
    return model


class Batches(keras.callbacks.Callback):
    """Keeps which batches it was called for, and after how many updates."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int, int]] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.seen.append(("begin", batch, int(self.model.optimizer.iterations)))

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(("end", batch, int(self.model.optimizer.iterations)))

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append(("rows", batch, len(logs["outputs"])))


@pytest.fixture
def executions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps of each execution, where none takes any time."""
    found: list[int] = []
    run = Program.run

    def noted(loop: Program, count: int, on_part: Any = None) -> Any:
        found.append(count)
        return run(loop, count, on_part)

    monkeypatch.setattr(Program, "run", noted)
    monkeypatch.setattr(fit_loops.time, "perf_counter", lambda: 0.0)
    return found


@pytest.mark.parametrize("how", [{}, {"steps_per_execution": "auto"}])
def test_executions_grow_while_nobody_looks(
    how: dict[str, str], executions: list[int]
) -> None:
    made(**how).fit(X, Y, BATCH, epochs=2, verbose=2)
    assert executions == [1, 5, 6]


def test_every_batch_is_called_for_where_a_callback_looks(
    executions: list[int],
) -> None:
    model, batches = made(), Batches()
    model.fit(X, Y, BATCH, verbose=0, callbacks=[batches])
    assert executions == [1] * 6
    assert batches.seen == [
        entry for i in range(6) for entry in (("begin", i, i), ("end", i, i + 1))
    ]
    batches.seen.clear()
    model.predict(X, BATCH, callbacks=[batches])
    assert batches.seen == [("rows", i, 8) for i in range(5)] + [("rows", 5, 5)]


def test_lambda_and_foreign_callbacks_look_too(executions: list[int]) -> None:
    ends: list[int] = []
    callback = keras.callbacks.LambdaCallback(
        on_batch_end=lambda batch, logs: ends.append(batch)
    )
    made().fit(X, Y, BATCH, verbose=0, callbacks=[callback])

    class Foreign:
        def on_train_batch_end(self, batch: int, logs: Any) -> None:
            ends.append(batch)

    made().fit(X, Y, BATCH, verbose=0, callbacks=[Foreign()])
    assert ends == [*range(6), *range(6)]
    assert executions == [1] * 12


def test_checkpoints_come_after_their_number_of_steps(
    executions: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made()
    saved: list[int] = []
    monkeypatch.setattr(
        type(model),
        "save_weights",
        lambda self, path: saved.append(int(self.optimizer.iterations)),
    )
    checkpoint = keras.callbacks.ModelCheckpoint(
        tmp_path / "c", save_weights_only=True, save_freq=4
    )
    model.fit(X, Y, BATCH, epochs=2, verbose=0, callbacks=[checkpoint])
    assert saved == [4, 8, 12]
    assert executions == [1, 3, 2, 2, 4]


def test_the_same_bits_as_one_step_at_a_time() -> None:
    found = []
    for how in ({}, {"steps_per_execution": 1}):
        model = made(**how)
        history = model.fit(X, Y, BATCH, epochs=3, verbose=0, validation_split=0.3)
        found.append([history.steps, history.history, model.get_weights()])
    assert found[0][:2] == found[1][:2]
    assert len(found[0][0]["loss"]) == 12
    for one, other in zip(found[0][2], found[1][2], strict=True):
        np.testing.assert_array_equal(one, other)


def test_nothing_is_said_of_one_step(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ipu"):
        made().fit(X, Y, BATCH, verbose=0)
        assert "steps_per_execution" not in caplog.text
        with IPUStrategy().scope():
            made().fit(X[:40], Y[:40], BATCH, verbose=0)
        assert "steps_per_execution is 1" in caplog.text


def test_auto_is_refused_in_a_strategy() -> None:
    with IPUStrategy().scope():
        model = keras.Sequential([keras.layers.Dense(3)])
        with pytest.raises(ValueError, match=r"for models outside of a strategy"):
            model.compile("sgd", "mse", steps_per_execution="auto")


@pytest.mark.parametrize("given", [0, -1, 1.5, True, "many", [2], np.ones(2)])
def test_what_is_no_number_of_steps(given: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a positive integer. Received: ste"):
        made(steps_per_execution=given)
