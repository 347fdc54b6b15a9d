# SPDX-License-Identifier: MIT
"""``ipu.compare_schedules``: other times and bytes, the same weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from simulated_ipus import attach

import ipu
from ipu import keras, tf
from ipu._reports import compare
from ipu.ops.pipelining_ops import PipelineSchedule


@pytest.fixture(autouse=True)
def _four_ipus() -> Iterator[None]:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 4
    config.configure_ipu_system()
    yield
    ipu.config.reset_ipu_configuration()


def model_of(count: int = 8) -> Any:
    layers = [
        keras.layers.Dense(8, "relu"),
        keras.layers.Dropout(0.5),
        keras.layers.Dense(8, "tanh"),
        keras.layers.Dense(4),
    ]
    model = keras.Sequential(layers)
    model.set_pipeline_stage_assignment([0, 1, 2, 3])
    model.set_pipelining_options(count)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


def data_of(batches: int) -> Any:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4 * batches, 6)).astype("float32")
    y = rng.normal(size=(4 * batches, 4)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4, drop_remainder=True)


def test_every_schedule_in_a_strategy() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = model_of()
        found = ipu.compare_schedules(model, data_of(32))
    assert [row.schedule for row in found] == [s.core_name for s in PipelineSchedule]
    assert all(row.seconds is not None and row.seconds > 0 for row in found)
    by_name = {row.schedule: row for row in found}
    assert by_name["Sequential"].stash_bytes == [0, 0, 0, 0]
    assert by_name["GPipe"].stash_bytes[0] > by_name["1F1B"].stash_bytes[0] > 0
    assert by_name["ZeroBubble"].idle_share < by_name["1F1B"].idle_share
    assert by_name["Grouped"].legal_counts[:2] == range(8, 24, 8)
    assert all(len(row.peak_bytes) == 4 for row in found)
    lines = str(found).splitlines()
    assert lines[0].startswith("schedule") and lines[1].startswith("Grouped")
    assert "the same weights, to the bit, after 4 updates" in lines[-1]
    page = found._repr_html_()
    assert page.count("<tr>") == 8 and "ZeroBubble" in page


def test_the_model_is_left_as_it_was() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = model_of()
        model.compile(keras.optimizers.Adam(0.01), "mse", steps_per_execution=8)
        model.build((4, 6))
        before = [w.copy() for w in model.get_weights()]
        ipu.compare_schedules(model, data_of(8), ["Grouped", "1F1B"], updates=1)
        for a, b in zip(model.get_weights(), before, strict=True):
            np.testing.assert_array_equal(a, b)
        assert model.optimizer.iterations.numpy() == 0
        assert model.pipeline_schedule().schedule == "Grouped"
        model.fit(data_of(8), epochs=1, verbose=0, steps_per_epoch=8)


def test_history_and_metrics_are_left_as_they_were() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = model_of()
        model.compile("sgd", "mse", metrics=["mae"], steps_per_execution=8)
        assert model.history is None
        model.predict(data_of(8), steps=8)
        ipu.compare_schedules(model, data_of(8), ["Grouped", "1F1B"], updates=1)
        assert model.history is None
        history = model.fit(data_of(8), verbose=0, steps_per_epoch=8)
        order = model._data_order.passes
        scores = [float(metric.result()) for metric in model.metrics]
        ipu.compare_schedules(model, data_of(8), ["Grouped", "1F1B"], updates=1)
        assert model.history is history and len(history.epoch) == 1
        assert [float(metric.result()) for metric in model.metrics] == scores
        assert model._data_order.passes == order and len(scores) == 2


@pytest.mark.parametrize("ipus", [8, 16])
def test_each_replica_takes_all_updates(ipus: int) -> None:
    attach(ipus)
    counts: list[int] = []

    run = compare._run

    with ipu.ipu_strategy.IPUStrategy().scope():
        model = model_of()
        with pytest.MonkeyPatch.context() as patch:

            def noted(model: Any, *rest: Any) -> Any:
                row = run(model, *rest)
                counts.append(int(model.optimizer.iterations.numpy()))
                return row

            patch.setattr(compare, "_run", noted)
            data = data_of(2 * 8 * ipus // 4)
            found = ipu.compare_schedules(model, data, ["Grouped", "GPipe"], 2)
    assert counts == [2, 2] and found.updates == 2
    assert all(row.seconds is not None for row in found)


def test_schedules_that_cannot_run_it_say_why() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = model_of(6)
        found = ipu.compare_schedules(
            model, data_of(12), ["Grouped", "Sequential"], updates=2
        )
    assert found[0].seconds is None and "must be a multiple of 8" in found[0].reason
    assert found[1].seconds is not None
    assert "must be a multiple of 8" in str(found)
    assert "must be a multiple of 8" in found._repr_html_()


def test_other_weights_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = compare._run

    def spoilt(model: Any, schedule: Any, *rest: Any) -> Any:
        row = run(model, schedule, *rest)
        if schedule is PipelineSchedule.GPipe:
            model.layers[0].bias.assign_add(np.full(8, 1e-6, "float32"))
        return row

    monkeypatch.setattr(compare, "_run", spoilt)
    with (
        ipu.ipu_strategy.IPUStrategy().scope(),
        pytest.raises(AssertionError, match="Grouped and GPipe gave different values"),
    ):
        ipu.compare_schedules(model_of(), data_of(8), ["Grouped", "GPipe"], 1)


def test_bad_input() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        plain = keras.Sequential([keras.layers.Dense(2)])
        plain.compile("sgd", "mse")
        with pytest.raises(ValueError, match="is not pipelined"):
            ipu.compare_schedules(plain, data_of(4))
        with pytest.raises(
            ValueError, match="The data has 3 batches, but 32 are needed"
        ):
            ipu.compare_schedules(model_of(), data_of(3))
        arrays = (np.zeros((32, 6)), np.zeros((32, 4)))
        with pytest.raises(TypeError, match=r"must be a tf.data.Dataset .*: tuple"):
            ipu.compare_schedules(model_of(), arrays)


def test_one_schedule_needs_no_list() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():
        for one in ("gpipe", PipelineSchedule.GPipe):
            found = ipu.compare_schedules(model_of(), data_of(8), one, 1)
            assert [row.schedule for row in found] == ["GPipe"]
