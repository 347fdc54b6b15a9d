# SPDX-License-Identifier: MIT
"""``Model.export``: a folder that ``ipu.serving`` loads, for batches of any size."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, serving, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.keras import layers

X = np.random.default_rng(0).normal(size=(70, 3)).astype(np.float32)


def check(model: Any, path: Path, x: Any, **kwargs: Any) -> Any:
    model.export(path, verbose=False, **kwargs)
    loaded = serving.load(path)
    given, expected = loaded.serve(x), model.predict(x)
    tf.nest.map_structure(np.testing.assert_array_equal, given, expected)
    return loaded


def plain() -> Any:
    norm = layers.BatchNormalization()
    return keras.Sequential([keras.Input((3,)), layers.Dense(2), norm])


@pytest.mark.parametrize("rows", [1, 32, 70])
def test_batches_of_any_size(rows: int, tmp_path: Path) -> None:
    loaded = check(plain(), tmp_path / "a", X[:rows])
    assert loaded.inputs[0].shape.as_list() == [None, 3]
    with pytest.raises(ValueError, match=r"the shape \(None, 3\)"):
        loaded(X[:, :2])
    with pytest.raises(ValueError, match=r"the shape \(None, 3\)"):
        loaded(X[:0])


def test_several_inputs(tmp_path: Path) -> None:
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    parts = {"sum": a + 2 * b, "dense": layers.Dense(2)(a)}
    by_name = keras.Model({"b": b, "a": a}, parts)
    loaded = check(by_name, tmp_path / "a", {"a": X, "b": X[::-1]})
    with pytest.raises(ValueError, match=r"as many rows. Received: 1, 2"):
        loaded(a=X[:1], b=X[:2])
    listed = keras.Model([a, b], [a - b, layers.Dense(2)(b)])
    check(listed, tmp_path / "b", [X, 2 * X])


def test_numbers_of_words(tmp_path: Path) -> None:
    inputs = keras.Input((None,), dtype="int64")
    x = layers.Embedding(9, 4)(inputs)
    model = keras.Model(inputs, layers.GlobalAveragePooling1D()(x))
    with pytest.raises(ValueError, match=r"Received: an input of shape \(None, None"):
        model.export(tmp_path / "a")
    words = np.random.default_rng(0).integers(0, 9, (40, 6))
    signature = [tf.TensorSpec((None, 6), "int64")]
    check(model, tmp_path / "a", words, input_signature=signature)


def test_subclasses_know_their_inputs_after_a_call(tmp_path: Path) -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = layers.Dense(2)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

    model = Own()
    with pytest.raises(ValueError, match=r"inputs are not known\. Call it on data"):
        model.export(tmp_path / "a")
    model(X)
    check(model, tmp_path / "a", X)


def test_rows_that_depend_on_each_other(tmp_path: Path) -> None:
    inputs = keras.Input((3,))
    for outputs in (inputs - tf.reduce_mean(inputs, 0), tf.reduce_sum(inputs)):
        model = keras.Model(inputs, outputs)
        with pytest.raises(ValueError, match="depends on the others of the batch"):
            model.export(tmp_path / "a")
        assert not (tmp_path / "a").exists()
    centred = keras.Model(inputs, inputs - tf.reduce_mean(inputs, 0))
    fixed = [keras.InputSpec(shape=(4, 3))]
    check(centred, tmp_path / "a", X[:4], input_signature=fixed)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"format='onnx'\. For another format save"):
        plain().export(tmp_path / "a", format="onnx")
    text = keras.Input((1,), dtype="string")
    lookup = keras.Model(text, layers.StringLookup(vocabulary=["a"])(text))
    with pytest.raises(ValueError, match="an input of string"):
        lookup.export(tmp_path / "a")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="files that were not exported"):
        plain().export(tmp_path)


def test_a_folder_is_replaced_and_told_of(tmp_path: Path, capsys: Any) -> None:
    check(plain(), tmp_path / "a", X)
    check(plain(), tmp_path / "a", X)
    plain().export(tmp_path / "a")
    told = capsys.readouterr().out.splitlines()
    assert "ipu.serving.load" in told[0]
    assert "float32 (None, 3)" in told[1] and "float32 (None, 2)" in told[2]


def test_models_of_a_strategy(tmp_path: Path) -> None:
    with IPUStrategy().scope():
        model = plain()
    check(model, tmp_path / "a", X[:32])
