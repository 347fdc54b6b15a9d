# SPDX-License-Identifier: MIT
"""Pooling layers and functions: numbers of TensorFlow's, and what they refuse.

The values of REFERENCE are those of TensorFlow 2.21 on a CPU, float32, rounded to six
digits: `layer(x)` with x = waves(shape), and the gradient, with respect to x, of the
sum of `layer(x)` times waves of its shape with the last axis reversed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf

L = keras.layers
Array = np.ndarray[Any, Any]


def waves(*shape: int) -> Array:
    steps = np.arange(np.prod(shape), dtype=np.float64)
    return np.sin(steps * 1.7 + 0.3).reshape(shape).astype(np.float32)


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "max1": (lambda: L.MaxPooling1D(3, 2, "same"), (1, 6, 2)),
    "avg1": (lambda: L.AveragePooling1D(2, 1, "same"), (1, 5, 2)),
    "max2": (lambda: L.MaxPooling2D((3, 2), (2, 1), "same"), (1, 4, 3, 2)),
    "avg2": (lambda: L.AveragePooling2D((3, 2), (2, 1), "same"), (1, 4, 3, 2)),
    "max2v": (lambda: L.MaxPooling2D(2, 1), (1, 3, 3, 1)),
    "max3": (lambda: L.MaxPooling3D(2, 1, "same"), (1, 2, 2, 3, 1)),
    "avg3": (lambda: L.AveragePooling3D(2, 1, "same"), (1, 2, 2, 3, 1)),
}
REFERENCE: dict[str, tuple[tuple[int, ...], list[float], list[float]]] = {
    "max1": (
        (1, 3, 2),
        [0.728969, 0.909297, 0.972008, 0.584917, 0.972008, 0.149877],
        [
            0.0,
            0.29552,
            0.0,
            0.0,
            0.909297,
            -0.529836,
            0.0,
            0.0,
            -0.187847,
            0.0,
            0.0,
            0.728969,
        ],
    ),
    "avg1": (
        (1, 5, 2),
        [
            -0.117158,
            0.068266,
            0.099566,
            -0.093924,
            -0.075363,
            0.113344,
            0.046156,
            -0.125238,
            0.972008,
            0.107754,
        ],
        [
            0.454649,
            0.14776,
            0.068266,
            -0.117158,
            -0.093924,
            0.099566,
            0.113344,
            -0.075363,
            -0.071361,
            0.53216,
        ],
    ),
    "max2": (
        (1, 2, 3, 2),
        [
            0.972008,
            0.909297,
            0.972008,
            0.618835,
            0.728969,
            0.584917,
            0.961153,
            0.92615,
            0.69924,
            0.99155,
            0.69924,
            0.99155,
        ],
        [
            0.0,
            0.29552,
            0.0,
            0.0,
            0.584917,
            0.728969,
            0.0,
            0.0,
            0.136533,
            0.0,
            0.0,
            0.0,
            -0.358229,
            0.0,
            0.0,
            -0.529836,
            0.257631,
            0.0,
            0.0,
            -0.879696,
            0.0,
            0.0,
            0.0,
            -0.027767,
        ],
    ),
    "avg2": (
        (1, 2, 3, 2),
        [
            -0.006593,
            0.017889,
            0.001983,
            -0.0184,
            0.142812,
            -0.021409,
            -0.034053,
            0.038913,
            0.024026,
            -0.045104,
            0.350064,
            0.096264,
        ],
        [
            0.15155,
            0.049253,
            0.022755,
            -0.039053,
            0.066178,
            0.154684,
            0.15155,
            0.049253,
            0.022755,
            -0.039053,
            0.066178,
            0.154684,
            0.061992,
            -0.170671,
            -0.039863,
            -0.015975,
            0.168055,
            -0.102202,
            -0.089557,
            -0.219924,
            -0.062619,
            0.023078,
            0.101877,
            -0.256885,
        ],
    ),
    "max2v": (
        (1, 2, 2, 1),
        [0.909297, 0.909297, 0.728969, 0.972008],
        [0.0, 1.204818, 0.0, 0.0, -0.529836, 0.0, 0.0, 0.0, -0.772765],
    ),
    "max3": (
        (1, 2, 2, 3, 1),
        [
            0.909297,
            0.972008,
            0.972008,
            0.728969,
            0.728969,
            0.584917,
            0.107754,
            0.972008,
            0.972008,
            0.107754,
            0.149877,
            0.149877,
        ],
        [
            0.0,
            0.29552,
            0.0,
            0.0,
            -0.043795,
            0.584917,
            0.0,
            0.0,
            0.99324,
            -0.771942,
            0.0,
            -0.849897,
        ],
    ),
    "avg3": (
        (1, 2, 2, 3, 1),
        [
            -0.121115,
            0.182154,
            0.294241,
            -0.233954,
            0.115997,
            0.367397,
            -0.532486,
            -0.05903,
            0.560942,
            -0.44601,
            -0.424949,
            0.149877,
        ],
        [
            0.03694,
            0.150602,
            -0.018797,
            -0.156251,
            0.139653,
            0.455904,
            -0.182984,
            -0.158879,
            0.37765,
            -0.322298,
            -0.615838,
            0.50234,
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_layers_give_tensorflows_numbers(name: str) -> None:
    make, shape = CASES[name]
    result, values, gradient = REFERENCE[name]
    x = tf.constant(waves(*shape))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = make()(x)
        loss = tf.reduce_sum(y * waves(*result)[..., ::-1].copy())
    assert tuple(y.shape) == result
    np.testing.assert_allclose(y.numpy().ravel(), values, atol=2e-6)
    dx = tape.gradient(loss, x)
    np.testing.assert_allclose(dx.numpy().ravel(), gradient, atol=3e-6)


@pytest.mark.parametrize("name", CASES)
def test_channels_first_is_the_same_with_axes_moved(name: str) -> None:
    make, shape = CASES[name]
    layer = make()
    config = layer.get_config()
    first = type(layer).from_config({**config, "data_format": "channels_first"})
    x = waves(*shape)
    got = first(tf.constant(np.moveaxis(x, -1, 1).copy())).numpy()
    np.testing.assert_array_equal(np.moveaxis(got, 1, -1), layer(x).numpy())


def test_places_of_maxima_are_tensorflows() -> None:
    y, places = tf.nn.max_pool_with_argmax(
        waves(2, 3, 3, 2), 2, 2, "SAME", include_batch_in_index=True
    )
    want = [8, 1, 4, 5, 12, 15, 16, 17, 26, 19, 22, 23, 30, 31, 34, 35]
    assert places.dtype == tf.int64
    assert places.numpy().ravel().tolist() == want
    np.testing.assert_array_equal(y.numpy().ravel(), waves(36)[want])
    x = waves(1, 4, 4, 3)
    y, places = tf.nn.max_pool_with_argmax(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    np.testing.assert_array_equal(x.ravel()[places.numpy()], y.numpy())


def test_windows_may_have_holes() -> None:
    x = tf.reshape(tf.range(6.0), [1, 6, 1])
    got = tf.nn.pool(x, [2], "AVG", dilations=[3], padding="SAME")
    # windows {2}, {0, 3}, {1, 4}, {2, 5}, {3}, {4}
    assert got.numpy().ravel().tolist() == [2, 1.5, 2.5, 3.5, 3, 4]
    assert tf.nn.pool(x, [3], "MAX", strides=[3]).numpy().ravel().tolist() == [2, 5]


def test_explicit_padding_does_not_count() -> None:
    x = -1.0 - waves(1, 3, 3, 1) ** 2
    pads = [[0, 0], [1, 0], [0, 1], [0, 0]]
    got = tf.nn.max_pool2d(x, 2, 1, pads).numpy()
    assert got.shape == (1, 3, 3, 1) and got.max() <= -1.0
    ones = tf.nn.avg_pool2d(np.ones((1, 3, 3, 1), "f4"), 3, 2, "SAME")
    assert (ones.numpy() == 1.0).all()


def test_a_small_network_with_pooling_learns_in_a_function() -> None:
    model = keras.Sequential(
        [
            L.Input((8, 8, 2), batch_size=4),
            L.MaxPooling2D(),
            L.AveragePooling2D(2, padding="same"),
            L.Flatten(),
            L.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    x = waves(8, 8, 8, 2)
    y = x.max(axis=(1, 2, 3))[:, None]
    losses = model.fit(x, y, batch_size=4, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_layers_come_back_from_their_configuration() -> None:
    layer = L.MaxPool2D((3, 2), strides=1, padding="SAME", name="p")
    config = layer.get_config()
    assert config == {
        "name": "p",
        "trainable": True,
        "dtype": "float32",
        "strides": (1, 1),
        "pool_size": (3, 2),
        "padding": "same",
        "data_format": "channels_last",
    }
    again = L.deserialize(L.serialize(layer))
    assert type(again) is L.MaxPooling2D and again.get_config() == config
    assert layer.compute_output_shape((None, 9, 9, 4))[1:] == (9, 9, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: L.MaxPooling2D(0), "`pool_size` .* must have no entry"),
        (lambda x: L.MaxPooling2D((2, 2, 2)), "or a tuple of 2 integers"),
        (lambda x: L.MaxPooling2D(2, padding="full"), "`padding` must be 'valid' or"),
        (lambda x: L.AveragePooling2D(data_format="NHWC"), "`data_format` must be"),
        (lambda x: L.MaxPooling2D()(x[0]), "expected ndim=4, found ndim=3"),
        (lambda x: L.MaxPooling2D(9)(x), "Negative dimension size"),
        (lambda x: tf.nn.max_pool(x, 2, 2, "FULL"), "`padding` must be 'SAME'"),
        (lambda x: tf.nn.max_pool(x, 2, 2, "SAME", "NWC"), "must be 'NHWC' or 'NCHW'"),
        (lambda x: tf.nn.max_pool(x, [2, 2, 2, 2], 2, "SAME"), "1 for batch and ch"),
        (lambda x: tf.nn.max_pool(x, [2, 2, 2], 2, "SAME"), "must have 1, 2 or 4 ent"),
        (lambda x: tf.nn.max_pool(x, 2, 0, "SAME"), "`strides` must be at least 1"),
        (lambda x: tf.nn.max_pool1d(x, 2, 2, "SAME"), "must have 3 axes"),
        (lambda x: tf.nn.max_pool(x[0, 0], 2, 2, "SAME"), "must have 3 to 5 axes"),
        (lambda x: tf.nn.pool(x, 2, "SUM"), "must be 'MAX' or 'AVG'"),
        (
            lambda x: tf.nn.pool(x, 2, "MAX", 2, dilations=2),
            "strides > 1 not supported in conjunction with dilations > 1",
        ),
        (
            lambda x: tf.nn.max_pool(x, 2, 1, [[0, 0], [2, 0], [0, 0], [0, 0]]),
            "must be smaller than the window",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    call: Callable[[Array], Any], message: str
) -> None:
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        call(waves(1, 8, 8, 2))
