# SPDX-License-Identifier: MIT
"""What each layer makes of a mask and which one it hands on, as Keras 2 does.

``mask_numbers.json`` holds what Keras 2 gives for ``differential/mask_programs.py``;
the comparison of both sides (``test_differential.py``) keeps it true.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "differential"))
import mask_programs  # noqa: E402
import run  # noqa: E402

L = keras.layers
EXPECTED = json.loads((HERE / "mask_numbers.json").read_text())
CASES = mask_programs.cases()
SIDE = run.side("ipu")


def assert_near(found: Any, expected: Any) -> None:
    if isinstance(found, list):
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other)
    elif found is None or expected is None:
        assert found is expected
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", CASES)
def test_as_keras(name: str) -> None:
    kind, *found = run.evaluate(lambda: CASES[name](SIDE))
    if EXPECTED[name] == "raises":
        assert kind == "raises"
        return
    assert kind == "gives", found
    assert_near(found[0], EXPECTED[name])


def test_no_case_is_forgotten() -> None:
    assert set(EXPECTED) == set(CASES)


def test_in_a_strategy() -> None:
    """Training, with the mask in the loss and in what is around a layer."""
    words = np.array([[[1, 2], [3, 0]], [[2, 0], [0, 0]]], "i4")
    targets = np.ones((2, 2, 1), "f4")
    found = []
    for scope in (False, True):
        tf.random.set_seed(1)
        with ipu.ipu_strategy.IPUStrategy().scope() if scope else nullcontext():
            inputs = keras.Input((2, 2), 2, dtype="int32")
            x = L.Embedding(4, 2, mask_zero=True)(inputs)
            x = L.GRU(3, return_sequences=True)(L.TimeDistributed(L.LSTM(2))(x))
            model = keras.Model(inputs, L.TimeDistributed(L.Dense(1))(x))
            model.compile("sgd", "mse", steps_per_execution=1)
            history = model.fit(words, targets, 2, epochs=3, verbose=0)
            shown = model.predict(words, batch_size=2, verbose=0)
            np.testing.assert_array_equal(shown[1, 0], shown[1, 1])  # of no words
            found.append([history.history["loss"], shown])
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)


def test_a_layer_that_takes_no_mask_says_so() -> None:
    with pytest.raises(TypeError, match="flatten does not support masking"):
        L.Flatten(name="flatten").compute_mask(tf.ones((2, 3)), tf.ones((2, 3)))
    assert L.Flatten().compute_mask(tf.ones((2, 3))) is None
