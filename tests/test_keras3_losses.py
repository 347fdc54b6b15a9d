# SPDX-License-Identifier: MIT
"""Losses that Keras has since version 3.

The numbers are what Keras 3.15.1 gave for the same arrays, rounded to five digits, or
those of its documentation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

losses = keras.losses
RNG = np.random.default_rng(7)
ONE_HOT = np.eye(3, dtype="f")[RNG.integers(0, 3, (4, 5))]
LOGITS = RNG.normal(size=ONE_HOT.shape).astype("f")
PARTS = (np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)).astype("f")
SIGMOIDS = (1 / (1 + np.exp(-LOGITS))).astype("f")
YES = (RNG.uniform(size=ONE_HOT.shape) < 0.4).astype("f")
WEIGHTS = RNG.uniform(0.2, 2, (4, 5)).astype("f")
NUMBERS = ONE_HOT.argmax(-1)
_POINTS = RNG.normal(size=(8, 4))
POINTS = (_POINTS / np.linalg.norm(_POINTS, axis=1, keepdims=True)).astype("f")
KINDS = np.array([0, 1, 2, 0, 1, 0, 3, 1])
TIMES = RNG.normal(size=(3, 7, 5)).astype("f")
WORDS = np.array([[1, 2, 0, 0], [3, 3, 1, 0], [4, 2, 2, 1]])
EACH = np.arange(1, 9, dtype="f")

CASES: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "dice": (losses.Dice(), YES, SIGMOIDS, None, 0.60119),
    "dice of samples": (
        losses.Dice(axis=(1, 2), reduction="none"),
        YES,
        SIGMOIDS,
        None,
        [0.73354, 0.53804, 0.62581, 0.54205],
    ),
    "tversky": (losses.Tversky(0.3, 0.7), YES, SIGMOIDS, None, 0.61136),
    "tversky of columns": (
        losses.Tversky(0.3, 0.7, axis=1, reduction="none"),
        YES[:2],
        SIGMOIDS[:2],
        None,
        [[0.41338, 1.0, 0.93205], [0.52971, 0.44317, 0.57287]],
    ),
    "focal": (losses.CategoricalFocalCrossentropy(), ONE_HOT, PARTS, None, 0.2011),
    "focal, weighed": (
        losses.CategoricalFocalCrossentropy(),
        ONE_HOT,
        PARTS,
        WEIGHTS,
        0.22749,
    ),
    "focal, of classes": (
        losses.CategoricalFocalCrossentropy([0.1, 0.2, 0.7], gamma=1.5),
        ONE_HOT,
        PARTS,
        None,
        0.45259,
    ),
    "focal, smoothed": (
        losses.CategoricalFocalCrossentropy(label_smoothing=0.1),
        ONE_HOT,
        PARTS,
        None,
        0.20217,
    ),
    "focal, of logits": (
        losses.CategoricalFocalCrossentropy(from_logits=True),
        ONE_HOT,
        LOGITS,
        None,
        0.2011,
    ),
    "binary focal": (losses.BinaryFocalCrossentropy(), YES, SIGMOIDS, None, 0.35481),
    "binary focal, balanced": (
        losses.BinaryFocalCrossentropy(True, 0.4, 1.5),
        YES,
        SIGMOIDS,
        WEIGHTS,
        0.25247,
    ),
    "binary focal, smoothed": (
        losses.BinaryFocalCrossentropy(label_smoothing=0.1),
        YES,
        SIGMOIDS,
        None,
        0.32687,
    ),
    "binary focal, of logits": (
        losses.BinaryFocalCrossentropy(from_logits=True),
        YES,
        LOGITS,
        None,
        0.35481,
    ),
    "generalized": (
        losses.CategoricalGeneralizedCrossEntropy(0.7),
        NUMBERS,
        PARTS,
        WEIGHTS,
        0.90749,
    ),
    "circle": (losses.Circle(), KINDS, POINTS, None, 175.05145),
    "circle, weighed": (losses.Circle(2.0, 0.2), KINDS, POINTS, EACH, 27.5222),
    "circle, with oneself": (
        losses.Circle(2.0, remove_diagonal=False),
        KINDS[:, None],
        POINTS,
        None,
        4.59703,
    ),
    "circle, summed": (
        losses.Circle(2.0, 0.2, reduction="sum"),
        KINDS,
        POINTS,
        None,
        35.63947,
    ),
    "ctc": (
        losses.CTC(reduction="none"),
        WORDS,
        TIMES,
        None,
        [7.20782, 6.79727, 7.07697],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_values(case: str) -> None:
    loss, y_true, y_pred, weights, expected = CASES[case]
    found = loss(y_true, y_pred, weights)
    np.testing.assert_allclose(found, expected, rtol=3e-5)
    again = losses.deserialize(losses.serialize(loss))
    assert again.get_config() == loss.get_config()
    np.testing.assert_array_equal(again(y_true, y_pred, weights), found)
    assert type(losses.get(type(loss).__name__)) is type(loss)


def test_circle_with_references() -> None:
    found = losses.circle(KINDS, POINTS, KINDS[:3], POINTS[:3], gamma=2.0)
    expected = [0, 0, 0, 3.63652, 2.15995, 1.14714, 0, 0.96535]
    np.testing.assert_allclose(found, expected, rtol=3e-5)


def test_examples_of_keras() -> None:
    y_true = [[[[1.0], [1.0]], [[0.0], [0.0]]]] * 2
    y_pred = [[[[0.0], [1.0]], [[0.0], [1.0]]], [[[0.4], [0.0]], [[0.0], [0.9]]]]
    found = losses.get("dice")(y_true, y_pred, axis=(1, 2, 3))
    np.testing.assert_allclose(found, [0.5, 0.75757575], rtol=1e-6)
    assert float(losses.Dice()(y_true, y_pred)) == pytest.approx(0.6164384)
    y_true, y_pred = [[0, 1, 0], [0, 0, 1]], [[0.05, 0.9, 0.05], [0.1, 0.85, 0.05]]
    found = losses.get("categorical_focal_crossentropy")(y_true, y_pred)
    np.testing.assert_allclose(found, [2.63401289e-04, 6.75912094e-01], rtol=1e-4)


@pytest.mark.parametrize("case", [c for c in CASES if "of samples" not in c])
def test_gradients(case: str) -> None:
    """Along a random direction, against differences of the loss."""
    loss, y_true, y_pred, weights, _ = CASES[case]
    step = np.random.default_rng(1).normal(size=y_pred.shape).astype("f") * 1e-2
    x = tf.constant(y_pred)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_sum(loss(y_true, x, weights))
    slope = float(np.sum(tape.gradient(value, x).numpy() * step))
    ends = [
        float(tf.reduce_sum(loss(y_true, y_pred + s * step, weights))) for s in (1, -1)
    ]
    scale = abs(slope) + 1e-3 * abs(float(value))
    assert abs((ends[0] - ends[1]) / 2 - slope) < 0.03 * scale


STRINGS = {
    "dice": (YES, 3),
    "tversky": (YES, 3),
    "categorical_focal_crossentropy": (ONE_HOT, 3),
    "binary_focal_crossentropy": (YES, 3),
    "circle": (np.tile([0, 1], 10).reshape(4, 5), 3),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", STRINGS)
def test_trains_on_a_device(name: str) -> None:
    y_true = STRINGS[name][0].reshape(20, -1)
    x = LOGITS.reshape(20, 3)
    with IPUStrategy().scope():
        layers: list[Any] = [keras.layers.Dense(3, "softmax", input_shape=(3,))]
        if name == "circle":
            layers = [
                keras.layers.Dense(3, input_shape=(3,)),
                keras.layers.UnitNormalization(),
            ]
        model = keras.Sequential(layers)
        model.compile("adam", name, steps_per_execution=2)
        model.fit(x, y_true, 10, epochs=2, verbose=0)
        found = model.evaluate(x, y_true, 10, verbose=0)
        outputs = model.predict(x, 10)
    given = losses.get(name)
    each = [np.mean(given(y_true[i : i + 10], outputs[i : i + 10])) for i in (0, 10)]
    assert found == pytest.approx(np.mean(each), rel=1e-4)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: losses.Dice(axis="all"), "`axis` must be an integer, or a list or a"),
        (lambda: losses.Tversky(alpha="a"), "`alpha` must be a number. Received: 'a'."),
        (
            lambda: losses.CategoricalFocalCrossentropy(gamma=-1),
            "`gamma` must be a number of 0 or more. Received: -1.",
        ),
        (
            lambda: losses.CategoricalFocalCrossentropy([0.1, 0.9])(ONE_HOT, PARTS),
            "a number for each of the 3 classes. Received: 2 numbers.",
        ),
        (
            lambda: losses.BinaryFocalCrossentropy(label_smoothing=2),
            "`label_smoothing` must be a number in [0, 1]. Received: 2.",
        ),
        (
            lambda: losses.CategoricalGeneralizedCrossEntropy(1.0),
            "`q` must be a number between 0 and 1. Received: 1.0.",
        ),
        (
            lambda: losses.CategoricalGeneralizedCrossEntropy()(ONE_HOT, PARTS),
            "needs one class number for each row of predictions.",
        ),
        (lambda: losses.Circle(gamma=None), "`gamma` must be a number."),  # type: ignore[arg-type]
        (
            lambda: losses.circle(KINDS[:3], POINTS),
            "in `y_true` one class number for each. Received: embeddings of shape "
            "(8, 4) and class numbers of shape (3,).",
        ),
        (
            lambda: losses.dice(YES, SIGMOIDS[:2]),
            "dice needs a target for each output. Received: targets of shape (4, 5, 3) "
            "and predictions of shape (2, 5, 3).",
        ),
        (
            lambda: losses.ctc(WORDS, TIMES[0]),
            "targets of shape (3, 4) and predictions of shape (7, 5).",
        ),
    ],
)
def test_what_does_not_fit(make: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)
