"""What a profile says of IPUs beside what it measured here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu._device.observers import observers
from ipu.profiler import Profile


def fit(stages: int = 1) -> Any:
    layers = keras.layers
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = stages
    config.configure_ipu_system()
    with ipu.ipu_strategy.IPUStrategy().scope():
        if stages == 1:
            model: Any = keras.Sequential([keras.Input((8,)), layers.Dense(4)])
        else:
            model = keras.SequentialPipelineModel(
                [[layers.Dense(4, input_shape=(8,))], [layers.Dense(4)]], 4
            )
        model.compile("sgd", "mse", steps_per_execution=4)
        x, y = np.ones((64, 8), np.float32), np.ones((64, 4), np.float32)
        model.fit(x, y, batch_size=8, verbose=0)
    return model


def test_a_step_here_and_on_an_ipu() -> None:
    with Profile() as profile:
        model = fit()
    assert len(observers) == 1  # nobody watches after it
    [one] = [one for one in profile.programs if one.ipu is not None]
    assert one.ipu.machine == "1 x Machine('gc200')"
    spec = tf.TensorSpec([8, 8]), tf.TensorSpec([8, 4])
    account = model.account(*spec)
    # four steps share what is done once
    assert one.ipu.step_ns == pytest.approx(1e9 * account.seconds, rel=0.25)
    assert sum(one.ipu.classes.values()) == pytest.approx(one.ipu.step_ns, rel=0.01)
    assert one.ipu.classes["products"] > 0 < one.ipu.classes["infeed and outfeed"]
    text = str(profile)
    assert "here and on 1 x Machine('gc200'), as predicted" in text
    assert "a step, from begin to end" in text
    lines = text[text.index("by line") :]
    assert "  IPU, " in lines.splitlines()[1]
    json.dumps(profile.to_dict())


def test_programs_of_before_have_no_prediction() -> None:
    with ipu.ipu_strategy.IPUStrategy().scope():

        @tf.function
        def double(x: Any) -> Any:
            return x + x

        double(tf.ones([4]))
        with Profile() as profile:
            double(tf.ones([4]))
    assert [one.ipu for one in profile.programs] == [None]
    assert "as predicted" not in str(profile)


def test_a_trace_has_the_ipus_clock(tmp_path: Path) -> None:
    with Profile(tmp_path / "trace.json") as profile:
        fit(stages=2)
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    names = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event["name"] == "process_name"
    }
    assert len(names) == len(
        [event for event in events if event["name"] == "process_name"]
    )
    own = [p for p, name in names.items() if name.endswith("clock of Machine('gc200')")]
    found = {
        process: [e for e in events if e["pid"] == process and e["ph"] == "X"]
        for process in own
    }
    passes = [e for of in found.values() for e in of if e["cat"] == "pass"]
    assert {e["name"] for e in passes} == {f"{k}{i}" for k in "FB" for i in range(4)}
    for event in passes:
        assert event["dur"] == pytest.approx(event["args"]["cycles"] / 1330)
        assert {"stage", "micro-batch", "first cycle"} <= event["args"].keys()
    assert profile.programs


def test_pictures_of_accounts_count_cycles() -> None:
    layers = keras.layers
    model = keras.SequentialPipelineModel(
        [[layers.Dense(4, input_shape=(8,))], [layers.Dense(4)]], 4
    )
    model.compile("sgd", "mse")
    [one] = model.account(tf.TensorSpec([8, 8]), tf.TensorSpec([8, 4])).pipelines
    end = max(row[5] for row in one.timetable.recorded)
    assert f"on IPUs: {end * 1.33:,.0f} cycles" in str(one.timetable)
    assert "cycles</text>" in one.timetable._repr_html_()
    measured = ipu.Timetable(
        "GPipe", 1, micro_batches=1, recorded=[(0, "F", 0, 0, 0, 9)]
    )
    assert "cycles" not in str(measured)
