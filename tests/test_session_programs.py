# SPDX-License-Identifier: MIT
"""What programs of TensorFlow 1 are framed by: flags, logging, files, measures."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu.tf import errors
from ipu.tf.compat import v1 as tf
from ipu.tf.compat.v1 import _app, _flags

pytestmark = pytest.mark.usefixtures("graph")


def test_measures_over_runs() -> None:
    rng = np.random.RandomState(0)
    labels, guesses = rng.randint(0, 2, (2, 3, 5))
    weights = rng.uniform(size=(3, 5))
    x, y, w = (tf.placeholder(tf.float32, [None]) for _ in range(3))
    names = [name for name in tf.metrics.__all__ if name not in ("auc", "mean")]
    pairs = {name: getattr(tf.metrics, name)(y, x, w) for name in names}
    pairs["true_positives"] = tf.metrics.true_positives(y, x, w, name="again")
    average, _ = pairs["average"] = tf.metrics.mean(
        x, w, metrics_collections="values", updates_collections=["updates"]
    )
    assert tf.get_collection("values") == [average]
    assert len(tf.global_variables()) == 0
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for rows in zip(guesses, labels, weights, strict=True):
            feed = dict(zip((x, y, w), rows, strict=True))
            updated = session.run({k: update for k, (_, update) in pairs.items()}, feed)
        found = session.run({name: value for name, (value, _) in pairs.items()})
    assert found == updated
    right, hit = labels == 1, guesses == 1
    wanted = {
        "accuracy": np.average(labels == guesses, weights=weights),
        "average": np.average(guesses, weights=weights),
        "precision": weights[right & hit].sum() / weights[hit].sum(),
        "recall": weights[right & hit].sum() / weights[right].sum(),
        "true_positives": weights[right & hit].sum(),
        "true_negatives": weights[~right & ~hit].sum(),
        "false_positives": weights[~right & hit].sum(),
        "false_negatives": weights[right & ~hit].sum(),
        "mean_squared_error": np.average(labels != guesses, weights=weights),
        "mean_absolute_error": np.average(labels != guesses, weights=weights),
    }
    wanted["root_mean_squared_error"] = np.sqrt(wanted["mean_squared_error"])
    for name, value in found.items():
        assert value == pytest.approx(wanted[name], rel=1e-5), name


def test_flags_without_absl(capsys: Any) -> None:
    flags = _flags.FlagValues(["p", "--steps", "5", "-rate=2e-1", "--nofast", "x"])
    flags.define("steps", 1, int, "how many")
    flags.define("rate", 1.0, float, "")
    flags.define("fast", True, bool, "")
    flags.define("name", "a", str, "")
    assert (flags.steps, flags.rate, flags.fast, flags.name) == (5, 0.2, False, "a")
    assert flags.unparsed == ["x"] and "steps" in flags.flag_values_dict()
    flags.steps = 7
    assert flags.steps == 7
    with pytest.raises(AttributeError):
        _ = flags.nothing
    assert flags(["p", "--fast", "--name=b", "--", "--y"]) == ["p", "--y"]
    assert flags.fast and flags.name == "b"
    with pytest.raises(SystemExit, match="Unknown command line flag 'sleps'"):
        flags(["p", "--sleps=3"])
    with pytest.raises(SystemExit, match="flag --steps=many: invalid literal"):
        flags(["p", "--steps=many"])
    with pytest.raises(SystemExit):
        flags(["p", "--help"])
    assert "--steps: how many (default: 1)" in capsys.readouterr().out


def test_the_main_function(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tf.app.flags is tf.flags and callable(tf.flags.DEFINE_integer)
    # as where no program has asked for absl's
    monkeypatch.delitem(_app.sys.modules, "absl.flags", raising=False)
    seen: list[Any] = []
    with pytest.raises(SystemExit):
        tf.app.run(seen.append, ["p", "rest"])
    assert seen == [["p", "rest"]]


def test_logging_and_files(tmp_path: Path, caplog: Any) -> None:
    before = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.INFO)
    with caplog.at_level(logging.INFO, "tensorflow"):
        tf.logging.info("step %d", 3)
    tf.logging.set_verbosity(before)
    assert "step 3" in caplog.text
    folder = tmp_path / "a" / "b"
    tf.gfile.MakeDirs(str(folder))
    with tf.gfile.GFile(str(folder / "x"), "w") as file:
        file.write("text")
    assert tf.gfile.Exists(str(folder / "x")) and tf.gfile.IsDirectory(str(folder))
    assert tf.gfile.ListDirectory(str(folder)) == ["x"]
    tf.gfile.DeleteRecursively(str(tmp_path / "a"))
    assert not tf.gfile.Exists(str(folder))
    with pytest.raises(errors.NotFoundError):
        tf.gfile.FastGFile(str(folder / "x"))
