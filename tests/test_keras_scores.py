# SPDX-License-Identifier: MIT
"""F scores, ``R2Score``, correlations, and ``top_k`` of ``Precision`` and ``Recall``.

The numbers are what Keras 3.15.1 gave for the same arrays, with batches of six samples,
rounded to five digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras

RNG = np.random.default_rng(3)
OUTPUTS = RNG.uniform(size=(3, 6, 4)).astype("f")
LABELS = np.eye(4, dtype="f")[RNG.integers(0, 4, (3, 6))]
WEIGHTS = RNG.uniform(0.2, 2, (3, 6)).astype("f")
VALUES = RNG.normal(size=(3, 6, 2)).astype("f")
GUESSES = (VALUES + RNG.normal(size=VALUES.shape) * 0.5).astype("f")

F1: list[tuple[Any, Any, Any, Any]] = [
    (None, None, [0.0, 0.25, 0.36364, 0.33333], [0.0, 0.35051, 0.29391, 0.44403]),
    (None, 0.5, [0.4, 0.26667, 0.26667, 0.33333], [0.35475, 0.26825, 0.21377, 0.42592]),
    ("micro", None, 0.22222, 0.25357),
    ("micro", 0.5, 0.31579, 0.30993),
    ("macro", None, 0.23674, 0.27211),
    ("macro", 0.5, 0.31667, 0.31567),
    ("weighted", None, 0.21044, 0.26204),
    ("weighted", 0.5, 0.32593, 0.32485),
]
FBETA: list[tuple[Any, float, Any, Any, Any]] = [
    (None, 0.5, None, [0.0, 0.25, 0.3125, 0.41667], [0.0, 0.3731, 0.24896, 0.54383]),
    (None, 2.0, None, [0.0, 0.25, 0.43478, 0.27778], [0.0, 0.3305, 0.35865, 0.37518]),
    ("micro", 0.5, 0.5, 0.25862, 0.25453),
    ("micro", 2.0, 0.5, 0.40541, 0.39615),
    ("macro", 0.5, None, 0.24479, 0.29147),
    ("macro", 2.0, 0.5, 0.40299, 0.39515),
    ("weighted", 0.5, 0.5, 0.27337, 0.27497),
    ("weighted", 2.0, None, 0.2139, 0.25265),
]
CORRELATIONS: list[tuple[str, Any, float]] = [
    ("PearsonCorrelation", 0, 0.88813),
    ("PearsonCorrelation", (0, 1), 0.86716),
    ("ConcordanceCorrelation", 0, 0.8114),
    ("ConcordanceCorrelation", [0, 1], 0.84803),
]
R2: list[tuple[Any, int, Any, Any]] = [
    (None, 0, [0.80452, 0.81984], [0.79047, 0.84997]),
    (None, 2, [0.79267, 0.80892], [0.77777, 0.84087]),
    ("uniform_average", 0, 0.81218, 0.82022),
    ("uniform_average", 2, 0.8008, 0.80932),
    ("variance_weighted_average", 0, 0.81028, 0.8163),
    ("variance_weighted_average", 2, 0.79879, 0.80517),
]


def result(metric: Any, targets: Any, outputs: Any, weights: Any) -> Any:
    for i in range(3):
        weight = None if weights is None else weights[i]
        metric.update_state(targets[i], outputs[i], weight)
    return metric.result().numpy()


@pytest.mark.parametrize(("average", "threshold", "plain", "weighted"), F1)
def test_f1_score(average: Any, threshold: Any, plain: Any, weighted: Any) -> None:
    for weights, expected in ((None, plain), (WEIGHTS, weighted)):
        metric = keras.metrics.F1Score(average, threshold)
        found = result(metric, LABELS, OUTPUTS, weights)
        np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize(("average", "beta", "threshold", "plain", "weighted"), FBETA)
def test_fbeta_score(
    average: Any, beta: float, threshold: Any, plain: Any, weighted: Any
) -> None:
    for weights, expected in ((None, plain), (WEIGHTS, weighted)):
        metric = keras.metrics.FBetaScore(average, beta, threshold)
        found = result(metric, LABELS, OUTPUTS, weights)
        np.testing.assert_allclose(found, expected, atol=2e-5)
        assert keras.metrics.get(keras.metrics.serialize(metric)).beta == beta


def test_an_example_of_keras() -> None:
    metric = keras.metrics.FBetaScore(beta=2.0, threshold=0.5)
    outputs = np.array([[0.2, 0.6, 0.7], [0.2, 0.6, 0.6], [0.6, 0.8, 0.0]])
    metric.update_state([[1, 1, 1], [1, 0, 0], [1, 1, 0]], outputs)
    expected = [0.3846154, 0.90909094, 0.8333334]
    np.testing.assert_allclose(metric.result(), expected, rtol=1e-6)


@pytest.mark.parametrize(("kind", "axis", "expected"), CORRELATIONS)
def test_correlations(kind: str, axis: Any, expected: float) -> None:
    metric = getattr(keras.metrics, kind)(axis=axis)
    assert result(metric, VALUES, GUESSES, None) == pytest.approx(expected, abs=2e-5)
    assert type(metric).from_config(metric.get_config()).get_config()["axis"] == axis


@pytest.mark.parametrize(("aggregation", "regressors", "plain", "weighted"), R2)
def test_r2_score(aggregation: Any, regressors: int, plain: Any, weighted: Any) -> None:
    for weights, expected in ((None, plain), (WEIGHTS, weighted)):
        metric = keras.metrics.R2Score(aggregation, regressors)
        found = result(metric, VALUES, GUESSES, weights)
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_scores_of_a_model() -> None:
    model = keras.Sequential([keras.layers.Dense(2, input_shape=(2,))])
    model.compile("sgd", "mse", metrics=[keras.metrics.R2Score()])
    x, y = GUESSES.reshape(18, 2), VALUES.reshape(18, 2)
    model.fit(x, y, 5, epochs=2, verbose=0)
    found = model.evaluate(x, y, 5, verbose=0, return_dict=True)["r2_score"]
    metric = keras.metrics.R2Score()
    metric.update_state(y, model.predict(x))
    np.testing.assert_allclose(found, float(metric.result()), rtol=1e-4)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="`average` must be"):
        keras.metrics.F1Score("mean")
    with pytest.raises(ValueError, match="`threshold` must be"):
        keras.metrics.F1Score(threshold=2.0)
    with pytest.raises(ValueError, match="`beta` must be a positive number"):
        keras.metrics.FBetaScore(beta=0.0)
    with pytest.raises(ValueError, match="`axis` must be an integer, or a list or a"):
        keras.metrics.PearsonCorrelation(axis="rows")
    with pytest.raises(ValueError, match="`class_aggregation` must be"):
        keras.metrics.R2Score("mean")
    with pytest.raises(ValueError, match="of one shape"):
        keras.metrics.R2Score().update_state(np.ones(3), np.ones(3))


@pytest.mark.parametrize(
    ("k", "precision", "recall"),
    [(1, (0.5, 0.25), (0.25, 0.125)), (2, (0.5, 0.5), (0.5, 0.5)), (3, (2 / 3,), (1,))],
)
def test_only_the_best_classes_are_decided_for(
    k: int, precision: tuple[float, ...], recall: tuple[float, ...]
) -> None:
    """Keras 3.15.1's numbers for ``top_k``, plain and, where they differ, weighted."""
    labels = np.array([[0, 1, 0, 1, 0], [1, 0, 0, 0, 1]], np.float32)
    outputs = np.array([[0.1, 0.9, 0.8, 0.7, 0.2], [0.3, 0.2, 0.6, 0.1, 0.5]], "f")
    weights = np.repeat([[1.0], [3.0]], 5, axis=1).astype("f")
    for kind, expected in (("Precision", precision), ("Recall", recall)):
        for sample_weight, value in zip((None, weights), expected, strict=False):
            metric = getattr(keras.metrics, kind)(top_k=k)
            metric.update_state(labels, outputs, sample_weight)
            assert float(metric.result()) == pytest.approx(value, rel=1e-6)
