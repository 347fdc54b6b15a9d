# SPDX-License-Identifier: MIT
"""Intersection over union, against counts in NumPy and the examples of Keras 3."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras

RNG = np.random.default_rng(5)
TARGETS = RNG.integers(0, 4, (3, 5, 6))
FOUND = np.where(
    RNG.uniform(size=TARGETS.shape) < 0.5, TARGETS, RNG.integers(0, 4, TARGETS.shape)
)
WEIGHTS = RNG.uniform(0.2, 2, TARGETS.shape).astype("f")
ONE_HOT = np.eye(4, dtype="f")[TARGETS]
SCORES = (RNG.uniform(size=ONE_HOT.shape) + np.eye(4)[FOUND]).astype("f")


def expected(
    targets: Any, found: Any, weights: Any, classes: Any, ignored: Any = None
) -> float:
    """The mean over classes that there are, counted one class at a time."""
    counts = weights * (targets != ignored) if ignored is not None else weights
    parts = []
    for number in classes:
        one, other = targets == number, found == number
        either = (counts * (one | other)).sum()
        if either:
            parts.append((counts * (one & other)).sum() / either)
    return float(np.mean(parts))


CASES: dict[str, tuple[Any, Any, Any, Any, Any]] = {
    "IoU": (keras.metrics.IoU(4, [0, 2]), TARGETS, FOUND, [0, 2], None),
    "one class": (keras.metrics.IoU(4, (3,)), TARGETS, FOUND, [3], None),
    "ignored": (
        keras.metrics.IoU(4, [0, 2], ignore_class=1),
        TARGETS,
        FOUND,
        [0, 2],
        1,
    ),
    "void": (
        keras.metrics.MeanIoU(4, ignore_class=255),
        np.where(TARGETS == 3, 255, TARGETS),
        FOUND,
        [0, 1, 2, 3],
        255,
    ),
    "scores": (
        keras.metrics.IoU(4, [0, 2], sparse_y_pred=False),
        TARGETS,
        SCORES,
        [0, 2],
        None,
    ),
    "mean": (keras.metrics.MeanIoU(5), TARGETS, FOUND, range(5), None),
    "one-hot": (keras.metrics.OneHotIoU(4, [1, 2]), ONE_HOT, SCORES, [1, 2], None),
    "one-hot targets": (
        keras.metrics.OneHotIoU(4, [1, 2], ignore_class=3, sparse_y_pred=True),
        ONE_HOT,
        FOUND,
        [1, 2],
        3,
    ),
    "one-hot mean": (keras.metrics.OneHotMeanIoU(4), ONE_HOT, SCORES, range(4), None),
    "classes first": (
        keras.metrics.OneHotMeanIoU(4, axis=1),
        np.moveaxis(ONE_HOT, -1, 2),
        np.moveaxis(SCORES, -1, 2),
        range(4),
        None,
    ),
    "binary": (
        keras.metrics.BinaryIoU([1], threshold=0.75),
        TARGETS > 1,
        SCORES[..., 0],
        [1],
        None,
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_all_batches_count(case: str, weighted: bool) -> None:
    metric, targets, found, classes, ignored = CASES[case]
    metric.reset_state()
    for i in range(3):
        metric.update_state(targets[i], found[i], WEIGHTS[i] if weighted else None)
    numbers = np.where(targets == 255, 255, TARGETS) if case == "void" else TARGETS
    if case == "binary":
        numbers, found = targets, found >= 0.75
    elif found is not FOUND:
        found = SCORES.argmax(-1)
    weights = WEIGHTS if weighted else np.ones_like(WEIGHTS)
    want = expected(numbers, found, weights, classes, ignored)
    assert float(metric.result()) == pytest.approx(want, rel=1e-5)
    again = type(metric).from_config(metric.get_config())
    assert again.get_config() == metric.get_config()


def test_a_weight_for_each_sample_counts_for_all_of_it() -> None:
    weights = np.array([0.5, 2.0, 1.0, 0.0, 3.0], "f")
    metric = keras.metrics.MeanIoU(4)
    metric.update_state(TARGETS[0], FOUND[0], weights)
    every = np.repeat(weights[:, None], 6, axis=1)
    want = expected(TARGETS[0], FOUND[0], every, range(4))
    assert float(metric.result()) == pytest.approx(want, rel=1e-6)


def test_examples_of_keras() -> None:
    metric: Any = keras.metrics.MeanIoU(2)
    numbers = ([0, 0, 1, 1], [0, 1, 0, 1])
    metric.update_state(*numbers, sample_weight=[0.3, 0.3, 0.3, 0.1])
    assert float(metric.result()) == pytest.approx(0.23809525)
    metric = keras.metrics.BinaryIoU(target_class_ids=[0, 1], threshold=0.3)
    found = [0.1, 0.2, 0.4, 0.7]
    metric.update_state([0, 1, 0, 1], found, sample_weight=[0.2, 0.3, 0.4, 0.1])
    assert float(metric.result()) == pytest.approx(0.17361112)


def test_on_a_device() -> None:
    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(4, "softmax", input_shape=(4,))])
        metrics = [keras.metrics.OneHotMeanIoU(4, name="iou"), "PearsonCorrelation"]
        model.compile("sgd", "mse", metrics, steps_per_execution=3)
        x, y = SCORES.reshape(90, 4), ONE_HOT.reshape(90, 4)
        logs = model.evaluate(x, y, 30, verbose=0, return_dict=True)
        found = model.predict(x, 30)
    want = expected(TARGETS.ravel(), found.argmax(-1), np.ones(90), range(4))
    assert logs["iou"] == pytest.approx(want, rel=1e-5)
    each = [np.corrcoef(a, b)[0, 1] for a, b in zip(y, found, strict=True)]
    assert logs["pearson_correlation"] == pytest.approx(np.mean(each), rel=1e-4)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: keras.metrics.MeanIoU(0),
            "`num_classes` must be a positive integer. Received: 0.",
        ),
        (
            lambda: keras.metrics.IoU(2, [2]),
            "`target_class_ids` must be a list of class numbers, from 0 to "
            "num_classes - 1 = 1. Received: target_class_ids=[2].",
        ),
        (lambda: keras.metrics.IoU(2, 1), "Received: target_class_ids=1."),
        (lambda: keras.metrics.BinaryIoU(()), "Received: target_class_ids=()."),
        (
            lambda: keras.metrics.BinaryIoU(threshold="high"),
            "`threshold` must be a number. Received: 'high'.",
        ),
        (
            lambda: keras.metrics.MeanIoU(2, ignore_class=0.5),
            "`ignore_class` must be an integer. Received: 0.5.",
        ),
        (
            lambda: keras.metrics.OneHotMeanIoU(2, axis=None),  # type: ignore[arg-type]
            "`axis` must be an integer. Received: None.",
        ),
        (
            lambda: keras.metrics.IoU(2, [0]).update_state([1, 0], [1, 0, 0]),
            "IoU needs a prediction for each target. Received: 2 targets and 3 "
            "predictions.",
        ),
    ],
)
def test_what_does_not_fit(make: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)
