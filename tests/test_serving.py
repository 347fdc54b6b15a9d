# SPDX-License-Identifier: MIT
"""Functions and models as folders; tests/programs/third_serving.py has a program."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, serving, tf
from ipu.ipu_strategy import IPUStrategy
from ipu.tf import errors

SPEC = tf.TensorSpec([2], tf.float32, "x")


def exported(folder: Path, step: Any = None, **options: Any) -> Any:
    given = {"iterations": 1, "predict_step_signature": [SPEC], **options}
    return serving.export_single_step(step or (lambda x: x), folder, **given)


def test_another_process_gives_the_same_numbers(tmp_path: Path) -> None:
    weight = tf.Variable(np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3))
    count = tf.Variable(3)

    def step(x: Any, n: Any) -> Any:
        y = tf.nn.softmax(tf.matmul(x, weight))
        for _ in tf.range(count):
            y = y * 2.0
        return {"y": y, "next": n + 1}

    specs = [tf.TensorSpec([1, 2], tf.float32, "x"), tf.TensorSpec([], tf.int32, "n")]
    here = serving.export_single_step(step, tmp_path / "a", 1, specs)
    x = np.array([[1.0, -2.0]], np.float32)
    found = here(x, n=4)
    weight.assign(tf.zeros_like(weight))  # the folder has the values of then
    assert sorted(found) == ["next", "y"] and int(found["next"]) == 5
    program = (
        "import json, sys\nfrom ipu import serving\n"
        "run = serving.load(sys.argv[1])\n"
        "out = run(x=[[1.0, -2.0]], n=4)\n"
        "print(json.dumps({k: v.numpy().tolist() for k, v in out.items()}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    there = json.loads(done.stdout)
    assert there == {"next": 5, "y": found["y"].numpy().tolist()}
    assert str(Path(__file__)) not in (tmp_path / "a" / "program.txt").read_text()


def test_steps_before_and_after_and_data_sets(tmp_path: Path) -> None:
    pairs = tf.data.Dataset.from_tensor_slices((np.ones((4, 2), np.float32), [1] * 4))
    run = serving.export_single_step(
        lambda a, b: (a * tf.cast(b, tf.float32), b),
        tmp_path / "a",
        2,
        input_dataset=pairs,
        preprocessing_step=lambda a, b: (a + 1.0, b + 1),
        postprocessing_step=lambda a, b: [a - 1.0, b],
        output_names=["scaled", "by"],
    )
    scaled, by = run([1.0, 2.0], 2)
    assert scaled.numpy().tolist() == [5.0, 8.0] and int(by) == 3
    assert [spec.name for spec in run.outputs] == ["scaled", "by"]
    assert run.signature["iterations"] == 2


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"input_dataset": tf.data.Dataset.range(2)}, ValueError, "Both"),
        ({"predict_step_signature": None}, ValueError, "not known"),
        ({"predict_step_signature": []}, ValueError, "is empty"),
        ({"predict_step_signature": SPEC}, TypeError, "a list or a tuple"),
        ({"predict_step_signature": [3]}, TypeError, "TensorSpec objects"),
        (
            {"predict_step_signature": [tf.TensorSpec([None])]},
            ValueError,
            "fully known",
        ),
        ({"iterations": 0}, ValueError, "at least 1"),
        ({"iterations": 1.5}, TypeError, "an integer"),
        ({"output_names": ["a", "b"]}, ValueError, "each of 1 outputs"),
        ({"preprocessing_step_signature": [SPEC]}, ValueError, "without"),
        ({"postprocessing_step_signature": [SPEC]}, ValueError, "without"),
    ],
)
def test_arguments_are_checked(
    tmp_path: Path, options: Any, error: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        exported(tmp_path / "a", **options)
    assert not (tmp_path / "a").exists()


def test_folders_that_are_not_empty(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    with pytest.raises(ValueError, match="not empty"):
        exported(tmp_path)
    assert (tmp_path / "other").exists()
    exported(tmp_path, purge_export_dir=True)
    assert not (tmp_path / "other").exists()


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    counter = tf.Variable(0.0)
    large = tf.constant(np.zeros((300, 300), np.float32))

    def counts(x: Any) -> Any:
        counter.assign_add(1.0)
        return x + counter

    for step, words in (
        (counts, "variable"),
        (lambda x: tf.reduce_sum(large) + x, "large array"),
        (lambda x: None, "must return tensors"),
        (lambda x: tf.py_function(lambda v: v, [x], tf.float32), "cannot be used"),
    ):
        with pytest.raises((ValueError, NotImplementedError), match=words):
            exported(tmp_path / "a", step)


def test_runners_check_their_inputs(tmp_path: Path) -> None:
    run = exported(tmp_path / "a")
    for args, kwargs in (((), {}), (([1.0, 2.0], 3), {}), (([1.0, 2.0],), {"y": 1})):
        with pytest.raises(TypeError, match="The program takes x"):
            run(*args, **kwargs)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        run([1.0])
    (tmp_path / "a" / "signature.json").write_text('{"format": 7}')
    with pytest.raises(ValueError, match="format 7"):
        serving.load(tmp_path / "a")
    with pytest.raises(errors.NotFoundError, match="no file"):
        serving.load(tmp_path)


def test_keras_models(tmp_path: Path) -> None:
    outside = keras.Sequential([keras.layers.Dense(2, input_shape=(3,))])
    with pytest.raises(ValueError, match="scope of an IPUStrategy"):
        serving.export_keras(outside, tmp_path / "a", batch_size=2)
    with IPUStrategy().scope():
        a, b = keras.Input((3,)), keras.Input((3,))
        model = keras.Model([a, b], [keras.layers.Dense(2)(a - b), a + b])
        with pytest.raises(ValueError, match="batch_size"):
            serving.export_keras(model, tmp_path / "a")
        with pytest.raises(ValueError, match="not known"):
            serving.export_keras(
                keras.Sequential([keras.layers.Dense(2)]), tmp_path / "a", 2
            )
        run = model.export_for_ipu_serving(tmp_path / "a", batch_size=2)
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        expected = model.predict([x, 2 * x], batch_size=2)
    for found, wanted in zip(run(x, 2 * x), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_pipelines_have_stages(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one stage"):
        serving.export_pipeline([], tmp_path, 1, predict_step_signature=[SPEC])
    with pytest.raises(ValueError, match="an IPU for each stage"):
        serving.export_pipeline(
            [abs], tmp_path, 1, device_mapping=[0, 1], predict_step_signature=[SPEC]
        )
    run = serving.export_pipeline(
        [lambda k, x: (x * k, x), lambda y, x: y + x],
        tmp_path,
        4,
        inputs=[3.0],
        device_mapping=[0, 1],
        predict_step_signature=[SPEC],
    )
    assert run([1.0, 2.0]).numpy().tolist() == [4.0, 8.0]
    assert run.signature["device_mapping"] == [0, 1]
