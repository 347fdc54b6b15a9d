# SPDX-License-Identifier: MIT
"""Activations and a regularizer that Keras has since version 3.

The numbers are what Keras 3.15.1 gave, rounded to five digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.ipu_strategy import IPUStrategy

A = keras.activations
X = np.array([[-4.0, -1.5, -0.75, -0.3, 0.0, 0.2, 0.9, 1.2, 3.5, 7.0]], "f")
# fmt: off
VALUES = {
    "celu": [
        -0.98168, -0.77687, -0.52763, -0.25918, 0.0, 0.2, 0.9, 1.2, 3.5, 7.0,
    ],
    "glu": [
        -2.19934, -1.06642, -0.57639, -0.29121, 0.0,
    ],
    "hard_shrink": [
        -4.0, -1.5, -0.75, 0.0, 0.0, 0.0, 0.9, 1.2, 3.5, 7.0,
    ],
    "hard_silu": [
        0.0, -0.375, -0.28125, -0.135, 0.0, 0.10667, 0.585, 0.84, 3.5, 7.0,
    ],
    "hard_tanh": [
        -1.0, -1.0, -0.75, -0.3, 0.0, 0.2, 0.9, 1.0, 1.0, 1.0,
    ],
    "leaky_relu": [
        -0.8, -0.3, -0.15, -0.06, 0.0, 0.2, 0.9, 1.2, 3.5, 7.0,
    ],
    "log_sigmoid": [
        -4.01815, -1.70141, -1.13687, -0.85436, -0.69315, -0.59814,
        -0.34115, -0.26328, -0.02975, -0.00091,
    ],
    "log_softmax": [
        -11.03808, -8.53808, -7.78809, -7.33809, -7.03809, -6.83809,
        -6.13809, -5.83809, -3.53809, -0.03809,
    ],
    "mish": [
        -0.07259, -0.2981, -0.27649, -0.15113, 0.0, 0.1326, 0.76121,
        1.07795, 3.49399, 6.99999,
    ],
    "relu6": [
        0.0, 0.0, 0.0, 0.0, 0.0, 0.2, 0.9, 1.2, 3.5, 6.0,
    ],
    "silu": [
        -0.07194, -0.27364, -0.24062, -0.12767, 0.0, 0.10997, 0.63985,
        0.92223, 3.39741, 6.99362,
    ],
    "soft_shrink": [
        -3.5, -1.0, -0.25, 0.0, 0.0, 0.0, 0.4, 0.7, 3.0, 6.5,
    ],
    "sparse_plus": [
        0.0, 0.0, 0.01562, 0.1225, 0.25, 0.36, 0.9025, 1.2, 3.5, 7.0,
    ],
    "sparse_sigmoid": [
        0.0, 0.0, 0.125, 0.35, 0.5, 0.6, 0.95, 1.0, 1.0, 1.0,
    ],
    "sparsemax": [
        0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0,
    ],
    "squareplus": [
        0.23607, 0.5, 0.693, 0.86119, 1.0, 1.10499, 1.54659, 1.76619,
        3.76556, 7.14005,
    ],
    "tanh_shrink": [
        -3.00067, -0.59485, -0.11485, -0.00869, 0.0, 0.00262, 0.1837,
        0.36635, 2.50182, 6.0,
    ],
}
# fmt: on


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    function = A.get(name)
    np.testing.assert_allclose(function(X), [VALUES[name]], atol=6e-6)
    assert A.get(A.serialize(function)) is function
    assert getattr(A, name) is function


def test_arguments() -> None:
    found = A.celu(X, 0.5)[0, :4]
    np.testing.assert_allclose(found, [-0.49983, -0.47511, -0.38843, -0.22559], 1e-4)
    found = A.squareplus(X, 1.0)[0, 3:6]
    np.testing.assert_allclose(found, [0.37202, 0.5, 0.6099], 1e-4)
    expected = [[-2] * 6 + [0.9, 1.2, 3.5, 7.0]]
    np.testing.assert_allclose(A.threshold(X, 0.2, -2.0), expected, 1e-6)
    assert A.hard_swish is A.get("hard_swish") is A.hard_silu and A.silu is A.swish


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sparsemax_is_the_nearest_point(axis: int) -> None:
    x = np.random.default_rng(2).normal(size=(3, 4, 5)).astype("f")
    low = x.max(axis, keepdims=True) - 1
    high = low + 1
    for _ in range(60):
        middle = (low + high) / 2
        is_low = np.maximum(x - middle, 0).sum(axis, keepdims=True) >= 1
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    found = A.sparsemax(tf.constant(x), axis).numpy()
    np.testing.assert_allclose(found, np.maximum(x - low, 0), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis), 1, rtol=1e-6)


@pytest.mark.parametrize("name", [*VALUES, "softplus"])
def test_gradients(name: str) -> None:
    x = tf.constant(X)
    factors = np.random.default_rng(1).normal(size=X.shape).astype("f")
    function = A.get(name)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
        value = tf.reduce_sum(y * factors[:, : y.shape[1]])
    found = tape.gradient(value, x).numpy()[0]
    for i in range(10):
        if np.abs(X[0, i]) in (0.5, 1.0, 3.0, 6.0) or (X[0, i] == 0 and "relu" in name):
            continue
        step = np.zeros_like(X)
        step[0, i] = 5e-3
        ends = [function(X + s * step) for s in (1, -1)]
        slope = np.sum((ends[0] - ends[1]).numpy() * factors[:, : y.shape[1]]) / 1e-2
        assert found[i] == pytest.approx(slope, rel=1e-2, abs=2e-3), i


@pytest.mark.parametrize("name", ["sparsemax", "glu", "mish", "log_softmax", "celu"])
def test_layers_on_a_device(name: str) -> None:
    x = np.random.default_rng(3).normal(size=(8, 4)).astype("f")
    with IPUStrategy().scope():
        dense = keras.layers.Dense(6, activation=name, input_shape=(4,))
        model = keras.Sequential([dense, keras.layers.Dense(1)])
        model.compile("sgd", "mse", steps_per_execution=2)
        model.fit(x, x[:, :1], 4, verbose=0)
        found = model.predict(x, 4)
    kernel, bias, last, shift = (w.numpy() for w in model.weights)
    middle = A.get(name)(tf.constant(x @ kernel + bias)).numpy()
    np.testing.assert_allclose(found, middle @ last + shift, rtol=1e-4, atol=1e-5)
    again = keras.Sequential.from_config(model.get_config())
    assert again.layers[0].activation is A.get(name)


@pytest.mark.parametrize("mode", ["rows", "columns"])
def test_orthogonal_regularizer(mode: str) -> None:
    weight = np.random.default_rng(2).normal(size=(3, 4)).astype("f")
    penalty = keras.regularizers.OrthogonalRegularizer(0.5, mode)
    rows = weight if mode == "rows" else weight.T
    cosines = [
        abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b)
        for i, a in enumerate(rows)
        for b in rows[:i]
    ]
    assert float(penalty(weight)) == pytest.approx(0.5 * np.mean(cosines), rel=1e-5)
    again: Any = keras.regularizers.deserialize(keras.regularizers.serialize(penalty))
    assert again.get_config() == {"factor": 0.5, "mode": mode}
    assert isinstance(keras.regularizers.get("orthogonal_regularizer"), type(penalty))
    layer = keras.layers.Dense(2, kernel_regularizer="OrthogonalRegularizer")
    layer(tf.zeros((1, 3)))
    assert len(layer.losses) == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: A.glu(tf.zeros((2, 3))), "(2, 3) and axis=-1."),
        (lambda: A.sparsemax(tf.zeros(3), axis=1), "axis 1 of a tensor of shape (3,)"),
        (lambda: A.celu(X, 0), "`alpha` must be a number other than 0. Received: 0."),
        (lambda: A.hard_shrink(X, -1), "`threshold` must be a number of 0 or more."),
        (lambda: A.squareplus(X, "b"), "`b` must be a number of 0 or more."),
        (lambda: A.log_softmax(X, None), "`axis` must be an integer. Received: None."),
        (
            lambda: keras.regularizers.OrthogonalRegularizer(mode="both"),
            "`mode` must be 'rows' or 'columns'. Received: mode='both'.",
        ),
        (
            lambda: keras.regularizers.OrthogonalRegularizer()(tf.zeros(3)),
            "OrthogonalRegularizer needs a matrix. Received: a weight of shape (3,).",
        ),
    ],
)
def test_what_does_not_fit(make: Any, words: str) -> None:
    with pytest.raises(ValueError) as caught:
        make()
    assert words in str(caught.value)
