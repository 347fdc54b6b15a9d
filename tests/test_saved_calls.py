# SPDX-License-Identifier: MIT
"""Files of functional models that call functions: operators, ops, Lambda layers."""

from __future__ import annotations

import copy
import inspect
import json
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.keras import _functions
from ipu.keras._files import keras3_ops
from ipu.keras.engine.files import op_names

layers = keras.layers
FORMATS = [".safetensors", ".keras", ".h5"]
KERAS_3 = Path(__file__).parent / "keras_3_calls.json"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4, 6)).astype(np.float32)


def halved(x: Any) -> Any:
    """A user's function."""
    return x / 2


def with_calls() -> Any:
    """A model with every kind of call."""
    inputs = keras.Input((4, 6))
    first = inputs[:, 0]
    rest = inputs[:, 1:, ::2]
    last = inputs[..., -1]
    both = tf.concat([first * 2, 1 - first, 2.0**first], axis=-1)
    rest = tf.transpose(rest, [0, 2, 1]) + np.ones((3, 3), np.float32)
    rest = tf.reshape(rest, (-1, 9))
    mean = tf.reduce_mean(inputs, axis=[1, 2], keepdims=False)
    flags = tf.cast(first > 0.0, tf.float32)
    chosen = tf.where(last > 0.0, last, -abs(last))
    deep = tf.stack([first, tf.clip_by_value(first, -0.5, 0.5)], axis=1)
    deep = tf.squeeze(tf.expand_dims(tf.reduce_max(deep, 1), -1), -1)
    soft = tf.nn.softmax(tf.nn.relu(first) @ np.eye(6, dtype=np.float32))
    soft = layers.Lambda(tf.exp)(layers.Lambda(halved)(soft))
    parts = [both, rest, mean[:, None], flags, chosen, deep, soft]
    x = layers.Dense(3)(layers.Concatenate()(parts))
    return keras.Model(inputs, tf.math.rsqrt(1 + tf.square(x)) - first[:, :3])


@pytest.mark.parametrize("suffix", FORMATS)
def test_calls_are_read_as_they_were_written(tmp_path: Path, suffix: str) -> None:
    model = with_calls()
    model.save(tmp_path / f"m{suffix}")
    names = {"halved": halved}
    other = keras.models.load_model(tmp_path / f"m{suffix}", names)
    np.testing.assert_array_equal(model.predict(X), other.predict(X))
    assert [layer.name for layer in other.layers] == [
        layer.name for layer in model.layers
    ]
    with pytest.raises(ValueError, match=r"'halved'.*custom_objects"):
        keras.models.load_model(tmp_path / f"m{suffix}")


def test_copies_of_models_with_calls() -> None:
    model = with_calls()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(model.predict(X), other.predict(X))


@pytest.mark.parametrize("suffix", FORMATS)
def test_lambdas_are_code_that_has_to_be_trusted(tmp_path: Path, suffix: str) -> None:
    by = 3.0
    layer = layers.Lambda(lambda x, more=1: tf.reduce_sum(x * by, axis=1) + more)
    model = keras.Sequential([keras.Input((4, 6)), layer, layers.Dense(2)])
    path = tmp_path / f"m{suffix}"
    model.save(path)
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.models.load_model(path)
    other = keras.models.load_model(path, safe_mode=False)
    for one in (other, copy.deepcopy(model)):
        np.testing.assert_array_equal(model.predict(X), one.predict(X))
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.models.load_model(path)  # the trust was for one file


def test_lambdas_that_cannot_be_saved(tmp_path: Path) -> None:
    around = np.ones(6, np.float32)
    model = keras.Sequential([keras.Input((4, 6)), layers.Lambda(lambda x: x * around)])
    with pytest.raises(TypeError, match="'around' from around it"):
        model.save(tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_code_of_another_python_or_damaged(tmp_path: Path) -> None:
    model = keras.Sequential([keras.Input((4, 6)), layers.Lambda(lambda x: x)])
    told = json.loads(model.to_json())
    (entry,) = (e for e in told["config"]["layers"] if e["class_name"] == "Lambda")
    code = entry["config"]["function"]["config"]
    with _functions.unsafe(True):
        for change, message in (
            ({"python": "2.7"}, "Python 2.7, which Python 3"),
            ({"code": "AAAA"}, "damaged"),
        ):
            entry["config"]["function"]["config"] = {**code, **change}
            with pytest.raises(ValueError, match=message):
                layers.deserialize(entry)


def test_calls_that_keras_3_does_not_have(tmp_path: Path) -> None:
    def refused(function: Any, message: str) -> None:
        inputs = keras.Input((4, 6))
        model = keras.Model(inputs, function(inputs))
        with pytest.raises(ValueError, match=message):
            model.save(tmp_path / "m.keras")
        model.save(tmp_path / "m.safetensors")
        other = keras.models.load_model(tmp_path / "m.safetensors")
        np.testing.assert_array_equal(model.predict(X), other.predict(X))

    refused(lambda x: tf.math.atan2(x, 2.0), "no operation for atan2|math.atan2")
    refused(lambda x: tf.matmul(x, x, transpose_b=True), "transpose_b=True")
    refused(lambda x: tf.reshape(x, [tf.shape(x)[0], 24]), "shape|sizes")


def test_the_table_names_functions_that_are_there() -> None:
    for row in keras3_ops._rows():
        function = op_names.function_of(row.function)
        assert op_names.name_of(function, "") == row.function
        if not row.function.startswith("operator."):
            known = set(inspect.signature(function).parameters)
            assert known >= {*row.call, *row.own.values()}, row


def test_a_model_that_keras_3_wrote(tmp_path: Path) -> None:
    """Keras 3.15.1 wrote the configuration, and computed the results."""
    import io
    import zipfile

    import h5py

    told = json.loads(KERAS_3.read_text())
    weights = io.BytesIO()
    with h5py.File(weights, "w") as file:
        for path, values in told["weights"].items():
            file[path] = np.asarray(values, np.float32)
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as archive:
        archive.writestr("metadata.json", json.dumps({"keras_version": "3.15.1"}))
        archive.writestr("config.json", json.dumps(told["config"]))
        archive.writestr("model.weights.h5", weights.getvalue())
    model = keras.models.load_model(tmp_path / "m.keras")
    np.testing.assert_allclose(model.predict(X), told["results"], rtol=1e-5, atol=1e-6)
    model.save(tmp_path / "again.keras")
    again = keras.models.load_model(tmp_path / "again.keras")
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


_PROGRAM = """
import sys
import numpy as np
import keras

folder = sys.argv[1]
names = {"halved": lambda x: x / 2, "exp": keras.ops.exp}
model = keras.models.load_model(f"{folder}/m.keras", names, safe_mode=False)
np.save(f"{folder}/theirs.npy", model.predict(np.load(f"{folder}/x.npy"), verbose=0))
"""


@pytest.mark.slow
def test_keras_3_reads_calls(tmp_path: Path) -> None:
    python = os.environ.get("IPU_TEST_TENSORFLOW")
    if not python:
        pytest.skip("IPU_TEST_TENSORFLOW names no Python with Keras 3")
    inputs = keras.Input((4, 6))
    calls = with_calls()(inputs)  # a model in a model
    model = keras.Model(inputs, [calls, layers.Lambda(lambda x: x + 1)(inputs)[:, -1]])
    model = keras.Model(inputs, tf.concat(model(inputs), axis=1))
    model.save(tmp_path / "m.keras")
    np.save(tmp_path / "x.npy", X)
    words = [python, "-c", _PROGRAM, str(tmp_path)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    theirs = np.load(tmp_path / "theirs.npy")
    np.testing.assert_allclose(theirs, model.predict(X), rtol=1e-5, atol=1e-5)
