# SPDX-License-Identifier: MIT
"""EinsumDense. `numpy.einsum` is the oracle; shapes of weights are Keras 3.15's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf

EinsumDense = keras.layers.EinsumDense
RNG = np.random.default_rng(2)

# equation, inputs, output_shape, bias_axes: shapes of kernel, bias and result
CASES = [
    ("ab,bc->ac", (4, 5), 3, "c", (5, 3), (3,), (4, 3)),
    ("abc,cd->abd", (4, 5, 6), (None, 7), "d", (6, 7), (7,), (4, 5, 7)),
    ("abc,cd->abd", (4, 5, 6), (None, 7), "bd", (6, 7), (5, 7), (4, 5, 7)),
    ("abc,cd->abd", (4, 5, 6), (5, 7), "b", (6, 7), (5, 1), (4, 5, 7)),
    ("abc,bde->ade", (4, 5, 6), (2, 3), "e", (5, 2, 3), (3,), (4, 2, 3)),
    ("abc,cde->abde", (4, 5, 6), (None, 2, 3), "de", (6, 2, 3), (2, 3), (4, 5, 2, 3)),
    ("...x,xy->...y", (4, 5, 6), 7, "y", (6, 7), (7,), (4, 5, 7)),
    ("...ab,bc->...ac", (4, 5, 6), (None, 7), None, (6, 7), None, (4, 5, 7)),
    ("ab...,bc->ac...", (4, 5, 6), 7, "c", (5, 7), (7, 1), (4, 7, 6)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[3]}")
def test_results(case: Any) -> None:
    equation, shape, sizes, bias_axes, kernel, bias, want = case
    layer = EinsumDense(
        equation, sizes, "tanh", bias_axes, bias_initializer="glorot_normal"
    )
    x = RNG.normal(size=shape).astype(np.float32)
    result = layer(x)
    assert [tuple(w.shape) for w in layer.weights] == [s for s in (kernel, bias) if s]
    made = np.einsum(equation, x, layer.kernel.numpy())
    added = 0.0 if bias is None else layer.bias.numpy()
    np.testing.assert_allclose(result, np.tanh(made + added), rtol=1e-5, atol=1e-6)
    again = keras.layers.deserialize(keras.layers.serialize(layer))
    assert again(x).shape == want == result.shape
    model_input = keras.Input(shape[1:])
    assert tuple(again(model_input).shape) == (None, *want[1:])


def test_it_trains() -> None:
    x = RNG.normal(size=(16, 3, 4)).astype(np.float32)
    model = keras.Sequential(
        [EinsumDense("abc,cd->abd", (None, 5), bias_axes="d"), keras.layers.Flatten()]
    )
    model.compile("sgd", "mse")
    history = model.fit(x, np.zeros((16, 15), np.float32), batch_size=8, epochs=4)
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert model.layers[0](tf.ones((2, 3, 4))).shape == (2, 3, 5)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("ab,bc,ac", 3), "must look like 'ab,bc->ac'"),
        (("...ab,bc->ac", 3), "at the same end"),
        (("ab,bc->ad", 3), "The axis 'd' of the result is neither"),
        (("ab,bc->ac", (3, 4)), r"must have 1 sizes .*Received: .*\(3, 4\)"),
        (("abc,cd->abd", (None, 3)), "is for inputs of 3 axes. Received: .* 2 axes"),
        (("ab,bc->ab", 9), "'b'. Input shape is 5, and output shape is 9"),
        (("ab,bc->ac", (None,)), "axis 'c' of the equation 'ab,bc->ac' is known neit"),
    ],
)
def test_equations_that_do_not_do(arguments: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        EinsumDense(*arguments)(np.ones((4, 5), np.float32))
