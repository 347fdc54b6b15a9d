# SPDX-License-Identifier: MIT
"""Counts, sizes and axes: whatever holds an integer is one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf
from ipu.ipu_infeed_queue import IPUInfeedQueue
from ipu.ipu_outfeed_queue import IPUOutfeedQueue

X = np.ones((8, 4), np.float32)
Y = np.ones((8, 1), np.float32)
PICTURE = np.ones((1, 6, 6, 4), np.float32)
STEPS = np.ones((1, 6, 4), np.float32)
L = keras.layers


class Index:
    """An integer to Python's operators alone."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number


KINDS: dict[str, Callable[[int], Any]] = {
    "index": Index,
    "numpy": np.int64,
    "array": np.array,
    "tensor": tf.constant,
    "int64 tensor": lambda n: tf.constant(n, tf.int64),
}


def model(**options: Any) -> Any:
    made = keras.Sequential([L.Dense(1, input_shape=(4,))])
    made.compile("sgd", "mse", **options)
    return made


def fit(data: Any = None, **options: Any) -> Any:
    given = (X, Y) if data is None else (data,)
    return model().fit(*given, verbose=0, **options).epoch


def batches(count: int | None = None) -> Any:
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(2, True).repeat(count)


def on_device(function: Callable[[], Any]) -> Any:
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        return strategy.run(tf.function(function))


def configured(n: Any) -> Any:
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = n
    config.io_tiles.num_io_tiles = n
    return config.auto_select_ipus, config.io_tiles.num_io_tiles


def accumulated(n: Any) -> Any:
    with ipu.ipu_strategy.IPUStrategy().scope():
        made = model(steps_per_execution=n)
        made.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=n
        )
        return made.fit(X, Y, batch_size=2, verbose=0).epoch


def piped(n: Any) -> Any:
    with ipu.ipu_strategy.IPUStrategy().scope():
        entry = keras.Input((4,))
        with keras.PipelineStage(0):
            inside = L.Dense(4)(entry)
        with keras.PipelineStage(n):
            made = keras.Model(entry, L.Dense(1)(inside))
        return made.get_pipeline_stage_assignment()[-1].pipeline_stage


def features() -> Any:
    return tf.data.Dataset.range(8).map(lambda x: tf.cast(x, tf.float32))


# each takes 2
TAKES: dict[str, Callable[[Any], Any]] = {
    "steps_per_execution": lambda n: (
        model(steps_per_execution=n).fit(X, Y, batch_size=2, verbose=0).epoch
    ),
    "fit batch_size": lambda n: fit(batch_size=n),
    "fit epochs": lambda n: fit(epochs=n),
    "fit initial_epoch": lambda n: fit(epochs=3, initial_epoch=n),
    "fit steps_per_epoch": lambda n: fit(batches(), steps_per_epoch=n),
    "fit validation_steps": lambda n: fit(
        validation_data=batches(), validation_steps=n
    ),
    "fit validation_freq": lambda n: fit(
        validation_data=batches(2), validation_freq=n, epochs=3
    ),
    "evaluate steps": lambda n: len(model().predict(batches(), steps=n)),
    "predict steps": lambda n: len(model().predict(batches(), steps=n)),
    "accumulation": accumulated,
    "PipelineStage": piped,
    "configuration": configured,
    "prefetch_depth": lambda n: IPUInfeedQueue(features(), prefetch_depth=n)._depth,
    "buffer_depth": lambda n: IPUOutfeedQueue(buffer_depth=n) and 2,
    "num_mini_batches": lambda n: (
        ipu.optimizers.GradientAccumulationOptimizerV2(
            tf.compat.v1.train.GradientDescentOptimizer(0.1), n
        )._num_mini_batches
    ),
    "loops.repeat": lambda n: np.asarray(
        on_device(lambda: ipu.loops.repeat(n, lambda x: x + 1.0, [0.0]))
    ),
    "num_parallel_calls": lambda n: list(
        tf.data.Dataset.from_tensor_slices(["1", "2"]).map(tf.strings.to_number, n)
    ),
    "interleave": lambda n: list(
        tf.data.Dataset.range(4).interleave(lambda x: tf.data.Dataset.range(2), n, n, n)
    ),
    "Dense": lambda n: L.Dense(n)(X).shape,
    "Conv2D": lambda n: L.Conv2D(n, n, strides=n)(PICTURE).shape,
    "Conv2D pair": lambda n: L.Conv2D(n, (n, 3), groups=n)(PICTURE).shape,
    "Conv1D": lambda n: L.Conv1D(n, n, dilation_rate=n)(STEPS).shape,
    "Conv2DTranspose": lambda n: L.Conv2DTranspose(n, n)(PICTURE).shape,
    "DepthwiseConv2D": lambda n: L.DepthwiseConv2D(n)(PICTURE).shape,
    "MaxPool2D": lambda n: L.MaxPool2D(n)(PICTURE).shape,
    "UpSampling2D": lambda n: L.UpSampling2D(n)(PICTURE).shape,
    "ZeroPadding2D": lambda n: L.ZeroPadding2D(n)(PICTURE).shape,
    "Cropping1D": lambda n: L.Cropping1D(n)(STEPS).shape,
    "Embedding": lambda n: L.Embedding(n, n)(np.zeros((1, 2), np.int32)).shape,
    "LSTM": lambda n: L.LSTM(n)(STEPS).shape,
    "MultiHeadAttention": lambda n: L.MultiHeadAttention(n, n)(STEPS, STEPS).shape,
    "RepeatVector": lambda n: L.RepeatVector(n)(X).shape,
    "Reshape": lambda n: L.Reshape((n, n))(X).shape,
    "Permute": lambda n: L.Permute((n, 1))(STEPS).shape,
    "BatchNormalization": lambda n: L.BatchNormalization(axis=n)(STEPS).shape,
    "LayerNormalization": lambda n: L.LayerNormalization(axis=n)(STEPS).shape,
    "Softmax": lambda n: L.Softmax(axis=n)(STEPS).shape,
    "Concatenate": lambda n: L.Concatenate(axis=n)([STEPS, STEPS]).shape,
    "Dot": lambda n: L.Dot(axes=n)([STEPS, STEPS]).shape,
    "add_weight": lambda n: L.Layer().add_weight(name="w", shape=(n, n)).shape,
    "to_categorical": lambda n: keras.utils.to_categorical([0, 1], n).shape,
    "top_k": lambda n: tf.math.top_k(X, n).values.shape,
    "reshape": lambda n: tf.reshape(X, (n, 16)).shape,
    "zeros": lambda n: tf.zeros((n, n)).shape,
    "one_hot": lambda n: tf.one_hot([0], n).shape,
    "tile": lambda n: tf.tile(X, [n, 1]).shape,
    "range": lambda n: tf.range(n).shape,
    "eye": lambda n: tf.eye(n).shape,
    "reduce_sum": lambda n: tf.reduce_sum(STEPS, n).shape,
    "squeeze": lambda n: tf.squeeze(np.ones((2, 3, 1), np.float32), n).shape,
    "roll": lambda n: tf.roll(X, n, 0).shape,
    "linspace": lambda n: tf.linspace(0.0, 1.0, n).shape,
    "random.normal": lambda n: tf.random.normal((n,), seed=1).shape,
}


pytestmark = pytest.mark.usefixtures("one_ipu")


@pytest.mark.parametrize("name", TAKES)
def test_whatever_holds_an_integer_counts(name: str) -> None:
    take = TAKES[name]
    expected = take(2)
    for kind in KINDS.values():
        np.testing.assert_equal(take(kind(2)), expected)


@pytest.mark.parametrize(
    "wrong",
    [True, 1.5, "2", np.array([2]), np.float32(1.5), tf.constant([2]), np.True_],
)
def test_other_things_do_not_count(wrong: Any) -> None:
    for name in ("steps_per_execution", "prefetch_depth", "Dense", "fit epochs"):
        with pytest.raises((TypeError, ValueError)):
            TAKES[name](wrong)


def test_a_config_of_a_layer_has_plain_integers(tmp_path: Path) -> None:
    made = keras.Sequential([L.Dense(np.int64(3), input_shape=(np.int64(4),))])
    assert type(made.layers[0].get_config()["units"]) is int
    made.save(tmp_path / "m.keras")
    assert keras.models.load_model(tmp_path / "m.keras").layers[0].units == 3


OLD = """
import warnings
import numpy as np
import tensorflow as tf
x = np.ones((8, 4), np.float32)
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(2, drop_remainder=True)
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
model.compile("sgd", "mse")
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    history = model.fit(data, batch_size=4, validation_data=data, verbose=0)
    model.evaluate(data, batch_size=4, verbose=0)
    rows = tf.data.Dataset.from_tensor_slices(x).batch(2, drop_remainder=True)
    assert len(model.predict(rows, batch_size=4)) == 8
texts = [str(one.message) for one in seen]
assert [text[:23] for text in texts] == 3 * ["`batch_size` is ignored"], texts
assert seen[0].filename == "<string>" and len(history.epoch) == 1
"""


def test_a_batch_size_beside_a_data_set() -> None:
    """An error here; in a program of the port's a warning, after which it goes on."""
    for call in ("fit", "evaluate", "predict"):
        with pytest.raises(ValueError, match="must not be specified"):
            getattr(model(), call)(batches(1), batch_size=4)
    code = "from ipu import drop_in; drop_in.install()\n" + OLD
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
