"""Losses and metrics against TensorFlow's numbers.

The expected numbers are those of TensorFlow 2.21 with Keras 3.15 for the inputs below:
``loss(t, P)`` and ``loss(t, P, sample_weight=W)``; for metrics the result after
``update_state(t, P)`` and ``update_state(t, P, sample_weight=W)``. What changed since
Keras 2.6 are names only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf

Y = np.array(
    [[0.63, 0.9, 0.78], [0.23, 0.3, 0.87], [0.01, 0.82, 0.8], [0.47, 0.3, 0.28]],
    np.float32,
)
P = np.array(
    [[0.28, 0.45, 0.5], [0.55, 0.95, 0.76], [0.61, 0.94, 0.24], [0.19, 0.6, 0.09]],
    np.float32,
)
B = np.array(
    [[0.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]], np.float32
)
ONE_HOT = np.eye(3, dtype=np.float32)[[0, 2, 1, 1]]
W = np.array([1, 2, 0.5, 0], np.float32)
# which targets; Y where nothing is said
TARGETS = {
    "Huber": Y * 3,
    **dict.fromkeys(["CategoricalHinge", "TopKCategoricalAccuracy"], ONE_HOT),
    **dict.fromkeys(
        """Hinge SquaredHinge BinaryCrossentropy Precision Recall TruePositives
        TrueNegatives FalsePositives FalseNegatives AUC SensitivityAtSpecificity
        SpecificityAtSensitivity PrecisionAtRecall RecallAtPrecision""".split(),
        B,
    ),
}

LOSSES = {
    "MeanAbsolutePercentageError": [568.496643, 326.720978],
    "MeanSquaredLogarithmicError": [0.071358, 0.065339],
    "Huber": [0.787958, 0.695517],
    "LogCosh": [0.07321, 0.072376],
    "KLDivergence": [0.599615, 0.257291],
    "Poisson": [0.951527, 0.840689],
    "CosineSimilarity": [-0.829223, -0.763119],
    "Hinge": [0.961667, 0.600417],
    "SquaredHinge": [1.25925, 0.721896],
    "CategoricalHinge": [0.9175, 0.98375],
    "BinaryCrossentropy": [0.63242, 0.473502],
}

METRICS: list[tuple[str, dict[str, Any], Any]] = [
    ("Precision", {}, 0.769231),
    ("Precision", {"thresholds": [0.3, 0.6]}, [0.705882, 0.666667]),
    ("Recall", {"top_k": 2}, 0.75),
    ("Recall", {"class_id": 1}, 0.666667),
    ("TruePositives", {}, 10.0),
    ("FalseNegatives", {"thresholds": [0.2, 0.7]}, [0.0, 6.0]),
    ("TrueNegatives", {}, 7.5),
    ("FalsePositives", {}, 3.0),
    ("AUC", {}, 0.789683),
    ("AUC", {"curve": "PR"}, 0.792064),
    ("AUC", {"num_thresholds": 5, "summation_method": "majoring"}, 0.904762),
    ("AUC", {"multi_label": True, "num_labels": 3}, 0.722222),
    ("SensitivityAtSpecificity", {"specificity": 0.5}, 1.0),
    ("SpecificityAtSensitivity", {"sensitivity": 0.5}, 0.857143),
    ("PrecisionAtRecall", {"recall": 0.5}, 0.8),
    ("RecallAtPrecision", {"precision": 0.6}, 1.0),
    ("TopKCategoricalAccuracy", {"k": 2}, 0.733333),
    ("CosineSimilarity", {}, 0.849249),
    ("LogCoshError", {}, 0.077646),
    ("KLDivergence", {}, 0.457016),
    ("Poisson", {}, 0.955848),
    ("Hinge", {}, 0.833111),
    ("CategoricalHinge", {}, 1.014),
    ("MeanAbsolutePercentageError", {}, 477.449402),
    ("RootMeanSquaredError", {}, 0.403005),
]


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name: str) -> None:
    loss = getattr(keras.losses, name)()
    target = TARGETS.get(name, Y)
    got = [float(loss(target, P)), float(loss(target, P, sample_weight=W))]
    np.testing.assert_allclose(got, LOSSES[name], rtol=1e-5, atol=2e-6)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert float(again(target, P)) == got[0]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"), METRICS, ids=lambda v: str(v)[:30]
)
def test_metric(name: str, arguments: dict[str, Any], expected: Any) -> None:
    metric = getattr(keras.metrics, name)(**arguments)
    target = TARGETS.get(name, Y)

    def update() -> None:
        metric.update_state(target, P)
        metric.update_state(target, P, sample_weight=W)

    update()
    eager = metric.result().numpy()
    np.testing.assert_allclose(eager, expected, rtol=1e-5, atol=2e-6)
    again = keras.metrics.deserialize(keras.metrics.serialize(metric))
    tf.function(lambda: (again.update_state(target, P), None)[1])()
    again.update_state(target, P, sample_weight=W)
    np.testing.assert_array_equal(again.result().numpy(), eager)
    metric.reset_state()
    update()
    np.testing.assert_array_equal(metric.result().numpy(), eager)


def test_every_name_stands_for_something() -> None:
    for module in (keras.losses, keras.metrics):
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert keras.losses.get("mape") is keras.losses.mean_absolute_percentage_error
    assert keras.losses.get("Huber").get_config()["delta"] == 1.0
    assert keras.metrics.get("AUC").num_thresholds == 200
    with pytest.raises(ValueError, match="Did you mean 'cosine_similarity'"):
        keras.losses.get("cosine_simlarity")


def test_metrics_of_fit_are_those_of_the_predictions() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 4)).astype(np.float32)
    y = (x[:, :1] > 0).astype(np.float32)
    model = keras.Sequential([keras.layers.Dense(1, "sigmoid", input_shape=(4,))])
    kinds = ["AUC", "Precision", "Recall", "TruePositives"]
    metrics = [getattr(keras.metrics, kind)(name=kind) for kind in kinds]
    model.compile("sgd", "binary_crossentropy", metrics=metrics, steps_per_execution=2)
    model.fit(x, y, batch_size=8, epochs=2, verbose=0)
    found = model.evaluate(x, y, batch_size=8, verbose=0, return_dict=True)
    p = model.predict(x, batch_size=8)
    for kind in kinds:
        metric = keras.metrics.get(kind)
        metric.update_state(y, p)
        np.testing.assert_allclose(found[kind], float(metric.result()), rtol=1e-6)


def test_metric_errors() -> None:
    with pytest.raises(ValueError, match=r"Threshold values must be in \[0, 1\]"):
        keras.metrics.Precision(thresholds=[0.5, 2.0])
    with pytest.raises(ValueError, match="Invalid AUC `curve`: 'ROCK'"):
        keras.metrics.AUC(curve="ROCK")
    mean = keras.metrics.MeanTensor()
    with pytest.raises(ValueError, match="does not have any value yet"):
        mean.result()
    mean.update_state([1.0, 2.0])
    with pytest.raises(ValueError, match="always have the same shape"):
        mean.update_state([1.0])
