# SPDX-License-Identifier: MIT
"""Schedules that a program writes itself, and schedules by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras

TEXT = """
schedule: mine
training: yes
one micro-batch at a time: yes
micro-batches: 4
time steps: 12
stage:    0 1
position: 0 1
ipu:      0 1
stash:    3 2

step  | 0     | 1     | 2     | 3     | 4     | 5     | 6     | 7     | 8     | 9 | 10    | 11    |
ipu 0 | F0(0) | F0(1) | F0(2) |       | B0(0) | F0(3) |       | B0(1) | B0(2) |   |       | B0(3) |
ipu 1 |       | F1(0) | F1(1) | B1(0) | B1(1) | F1(2) | B1(2) | F1(3) |       |   | B1(3) |       |
"""  # noqa: E501
X = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def model(schedule: Any, count: int = 4) -> Any:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.configure_ipu_system()
    keras.utils.set_random_seed(1)
    layers = [
        keras.layers.Dense(16, activation="tanh", input_shape=(8,)),
        keras.layers.Dropout(0.1),
        keras.layers.Dense(1),
    ]
    with ipu.ipu_strategy.IPUStrategy().scope():
        made = keras.Sequential(layers)
        made.set_pipeline_stage_assignment([0, 0, 1])
        made.set_pipelining_options(count, pipeline_schedule=schedule)
        made.compile("adam", "mse", steps_per_execution=count)
    return made


def results(schedule: Any) -> list[Any]:
    made = model(schedule)
    history = made.fit(X, Y, 4, epochs=2, verbose=0).history
    return [*made.get_weights(), history["loss"], made.evaluate(X, Y, 4, verbose=0)]


@pytest.fixture(scope="module")
def one_by_one() -> list[Any]:
    return results("Sequential")


@pytest.mark.parametrize(
    "schedule",
    [
        ipu.Timetable.parse(TEXT),
        ipu.Timetable.parse(ipu.Timetable("ZeroBubble", 2, micro_batches=4).grid),
        ipu.Timetable("GPipe", 2, micro_batches=4),
        "1F1B",
        "grouped",
    ],
    ids=lambda one: getattr(one, "schedule", one),
)
def test_own_schedules_train_to_the_same_bits(
    schedule: Any, one_by_one: list[Any]
) -> None:
    for found, wanted in zip(results(schedule), one_by_one, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_a_model_shows_its_own_schedule() -> None:
    shown = model(ipu.Timetable.parse(TEXT)).pipeline_schedule()
    assert shown.schedule == "mine" and shown.time_steps == 12
    assert [*shown.legal_counts] == [4]
    assert ipu.Timetable(ipu.Timetable.parse(TEXT)).grid == shown.grid


@pytest.mark.parametrize(
    ("schedule", "count", "words"),
    [
        (ipu.Timetable("1F1B", 2, micro_batches=8), 4, "gradient_accumulation_count=8"),
        (ipu.Timetable("1F1B", 3, micro_batches=4), 4, "of 3 stages, but"),
        (ipu.Timetable("1F1B", 2, [1, 0], 4), 4, "has stage 0 on IPU 1, but"),
        (ipu.Timetable("1F1B", 2, None, 4, training=False), 4, "is one of inference"),
        ("1F2B", 4, "Did you mean '1F1B'"),
    ],
)
def test_a_schedule_of_another_pipeline_says_what_differs(
    schedule: Any, count: int, words: str
) -> None:
    with pytest.raises(
        (ipu.tf.errors.FailedPreconditionError, ValueError), match=words
    ):
        model(schedule, count).fit(X, Y, 4, verbose=0)


def test_backward_passes_are_split_all_or_none() -> None:
    head, _, _ = TEXT.replace("batches: 4", "batches: 1").partition("step  |")
    rows = (
        "step  | 0     | 1     | 2     | 3     | 4     |",
        "ipu 0 | F0(0) |       |       | B0(0) |       |",
        "ipu 1 |       | F1(0) | I1(0) |       | W1(0) |",
    )
    text = head.replace("steps: 12", "steps: 5") + "\n".join(rows)
    parsed = ipu.Timetable.parse(text)
    with pytest.raises(NotImplementedError, match="write all of them one way"):
        ipu.Timetable(parsed)


def test_a_saved_pipeline_keeps_its_schedule(tmp_path: Path) -> None:
    made = keras.SequentialPipelineModel(
        [[keras.layers.Dense(4, input_shape=(8,))], [keras.layers.Dense(1)]],
        gradient_accumulation_count=4,
        pipeline_schedule=ipu.Timetable.parse(TEXT),
    )
    made.build((None, 8))
    made.save(tmp_path / "model.safetensors")
    loaded = keras.models.load_model(tmp_path / "model.safetensors")
    assert loaded.pipeline_schedule().schedule == "mine"
