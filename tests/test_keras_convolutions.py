# SPDX-License-Identifier: MIT
"""Convolutional layers: Keras's numbers, names, defaults and errors.

The numbers of CASES were computed once by TensorFlow 2.21 with Keras 3.15 in float32:
of the layer with weights ``wave(shape, 1.0)``, ``wave(shape, 2.0)``, ..., at the input
``wave(shape, 0.0)``, the result y and the gradients of ``sum(y * wave(shape, 5.0))``
for the input and the weights, each as one number, ``sum(value * wave(shape, 3 + i))``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu import keras, tf

layers = keras.layers


def wave(shape: Any, phase: float) -> Any:
    steps = np.arange(int(np.prod(shape)), dtype="f8")
    return np.sin(steps**2 * 0.37 + phase).astype("f4").reshape(shape)


def number(value: Any, phase: float) -> float:
    wide = np.asarray(value, np.float64)
    return float((wide * wave(wide.shape, phase)).sum())


Shape = tuple[int, ...]

CASES: list[tuple[str, dict[str, Any], Shape, Shape, list[float]]] = [
    (
        "Conv1D",
        {"filters": 4, "kernel_size": 3},
        (2, 7, 3),
        (2, 5, 4),
        [6.1195, 1.6159, -8.773, -2.9761],
    ),
    (
        "Conv1D",
        {
            "filters": 4,
            "kernel_size": 3,
            "padding": "causal",
            "dilation_rate": 2,
            "activation": "tanh",
        },
        (2, 7, 3),
        (2, 7, 4),
        [-2.5784, -7.6314, 2.767, -2.3609],
    ),
    (
        "Conv1D",
        {
            "filters": 4,
            "kernel_size": 2,
            "strides": 2,
            "padding": "same",
            "use_bias": False,
        },
        (2, 7, 3),
        (2, 4, 4),
        [-2.1755, 1.1581, -4.4625],
    ),
    (
        "Conv2D",
        {"filters": 4, "kernel_size": 3},
        (2, 6, 5, 3),
        (2, 4, 3, 4),
        [-8.2348, 9.7652, -10.7077, 0.0036],
    ),
    (
        "Conv2D",
        {
            "filters": 4,
            "kernel_size": (2, 3),
            "strides": (2, 1),
            "padding": "same",
            "activation": "relu",
        },
        (2, 6, 5, 3),
        (2, 3, 5, 4),
        [-5.4405, 2.2595, 8.9171, 0.7162],
    ),
    (
        "Conv2D",
        {"filters": 6, "kernel_size": 3, "groups": 2, "padding": "same"},
        (2, 6, 5, 4),
        (2, 6, 5, 6),
        [53.3616, 69.7061, 7.4239, 13.3081],
    ),
    (
        "Conv2D",
        {"filters": 4, "kernel_size": 2, "dilation_rate": (2, 1)},
        (2, 6, 5, 3),
        (2, 4, 4, 4),
        [-11.3181, 16.7191, 28.4346, 1.7069],
    ),
    (
        "Conv3D",
        {"filters": 2, "kernel_size": 2, "strides": (1, 2, 1), "padding": "same"},
        (1, 4, 5, 3, 2),
        (1, 4, 3, 3, 2),
        [-0.4067, 11.3044, 18.7689, 0.602],
    ),
    (
        "Conv1DTranspose",
        {"filters": 3, "kernel_size": 3, "strides": 2},
        (2, 4, 2),
        (2, 9, 3),
        [-1.4744, -0.7096, -5.4594, -0.3352],
    ),
    (
        "Conv1DTranspose",
        {
            "filters": 3,
            "kernel_size": 4,
            "strides": 3,
            "padding": "same",
            "activation": "tanh",
        },
        (2, 4, 2),
        (2, 12, 3),
        [3.1042, 1.1515, -0.2566, -0.3037],
    ),
    (
        "Conv2DTranspose",
        {"filters": 3, "kernel_size": 3, "strides": 2, "padding": "same"},
        (2, 3, 4, 2),
        (2, 6, 8, 3),
        [2.0022, 4.7459, -3.1499, 8.6753],
    ),
    (
        "Conv2DTranspose",
        {"filters": 3, "kernel_size": (2, 3), "strides": (3, 2), "padding": "valid"},
        (2, 3, 4, 2),
        (2, 9, 9, 3),
        [5.319, 15.8061, 10.903, 10.2952],
    ),
    (
        "Conv2DTranspose",
        {
            "filters": 3,
            "kernel_size": 3,
            "strides": 2,
            "padding": "same",
            "output_padding": 1,
        },
        (2, 3, 4, 2),
        (2, 6, 8, 3),
        [2.0022, 4.7459, -3.1499, 8.6753],
    ),
    (
        "Conv3DTranspose",
        {"filters": 2, "kernel_size": 2, "strides": 2},
        (1, 2, 3, 2, 3),
        (1, 4, 6, 4, 2),
        [-10.0646, -3.4966, 1.8716, 1.7477],
    ),
    (
        "DepthwiseConv1D",
        {"kernel_size": 3, "padding": "same"},
        (2, 6, 3),
        (2, 6, 3),
        [7.6717, -2.865, -4.728, 2.0183],
    ),
    (
        "DepthwiseConv2D",
        {"kernel_size": 3, "depth_multiplier": 2, "activation": "relu"},
        (2, 6, 5, 3),
        (2, 4, 3, 6),
        [-6.4539, 6.6942, 21.1202, -0.4429],
    ),
    (
        "DepthwiseConv2D",
        {"kernel_size": 2, "strides": (2, 2), "padding": "same", "use_bias": False},
        (2, 6, 5, 3),
        (2, 3, 3, 3),
        [-6.112, 0.9329, -1.1353],
    ),
    (
        "SeparableConv1D",
        {"filters": 4, "kernel_size": 3, "padding": "same", "depth_multiplier": 2},
        (2, 6, 3),
        (2, 6, 4),
        [11.5828, 18.198, 11.4002, 7.1727, -5.954],
    ),
    (
        "SeparableConv2D",
        {"filters": 4, "kernel_size": 3, "padding": "same", "activation": "tanh"},
        (2, 6, 5, 3),
        (2, 6, 5, 4),
        [-0.9256, 5.0637, -2.1518, -3.6547, -1.8124],
    ),
]


@pytest.mark.parametrize(
    "name, args, shape, result, numbers",
    CASES,
    ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)],
)
@pytest.mark.parametrize("data_format", ["channels_last", "channels_first"])
def test_numbers_of_keras(
    name: str,
    args: dict[str, Any],
    shape: tuple[int, ...],
    result: tuple[int, ...],
    numbers: list[float],
    data_format: str,
) -> None:
    first = data_format == "channels_first"
    there, back = [0, len(shape) - 1, *range(1, len(shape) - 1)], [*range(len(shape))]
    back = [0, *range(2, len(shape)), 1]
    layer = getattr(layers, name)(**args, data_format=data_format)
    x = tf.constant(wave(shape, 0.0))

    def call(value: Any) -> Any:
        if not first:
            return layer(value)
        return tf.transpose(layer(tf.transpose(value, there)), back)

    call(x)
    weights = layer.get_weights()
    layer.set_weights([wave(w.shape, 1.0 + i) for i, w in enumerate(weights)])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = call(x)
        loss = tf.reduce_sum(y * wave(result, 5.0))
    gradients = tape.gradient(loss, [x, *layer.trainable_weights])
    assert y.shape == result
    assert layer.compute_output_shape(
        tuple(np.array(shape)[there]) if first else shape
    ) == (tuple(np.array(result)[there]) if first else result)
    got = [number(value, 3.0 + i) for i, value in enumerate([y, *gradients])]
    np.testing.assert_allclose(got, numbers, rtol=2e-5, atol=2e-4)
    again = type(layer).from_config(layer.get_config())
    again(tf.transpose(x, there) if first else x)
    assert again.get_config() == layer.get_config()
    assert [w.shape for w in again.weights] == [w.shape for w in layer.weights]


# --- names, shapes, arguments ---------------------------------------------------------


@pytest.mark.parametrize(
    "name, args, shape, weights",
    [
        ("Conv1D", (4, 3), (2, 7, 5), {"kernel": (3, 5, 4), "bias": (4,)}),
        ("Conv2D", (4, (3, 2)), (2, 7, 7, 5), {"kernel": (3, 2, 5, 4), "bias": (4,)}),
        ("Conv3D", (4, 2), (2, 3, 3, 3, 5), {"kernel": (2, 2, 2, 5, 4), "bias": (4,)}),
        ("Conv1DTranspose", (4, 3), (2, 7, 5), {"kernel": (3, 4, 5), "bias": (4,)}),
        (
            "Conv2DTranspose",
            (4, 3),
            (2, 7, 7, 5),
            {"kernel": (3, 3, 4, 5), "bias": (4,)},
        ),
        (
            "DepthwiseConv2D",
            (3,),
            (2, 7, 7, 5),
            {"depthwise_kernel": (3, 3, 5, 1), "bias": (5,)},
        ),
        (
            "SeparableConv2D",
            (4, 3),
            (2, 7, 7, 5),
            {
                "depthwise_kernel": (3, 3, 5, 1),
                "pointwise_kernel": (1, 1, 5, 4),
                "bias": (4,),
            },
        ),
    ],
)
def test_weights_have_the_names_shapes_and_order_of_keras(
    name: str,
    args: tuple[Any, ...],
    shape: tuple[int, ...],
    weights: dict[str, tuple[int, ...]],
) -> None:
    layer = getattr(layers, name)(*args, name="here")
    layer(tf.zeros(shape))
    assert [w.name for w in layer.weights] == [f"here/{n}:0" for n in weights]
    assert [tuple(w.shape) for w in layer.weights] == list(weights.values())


def test_the_order_of_arguments_and_the_defaults_are_those_of_keras() -> None:
    config = layers.Conv2D(4, 3, 2, "same", "channels_first", 1, 2, "relu", False)
    got = config.get_config()
    assert got["strides"] == (2, 2) and got["padding"] == "same"
    assert got["data_format"] == "channels_first" and got["groups"] == 2
    assert got["activation"] == "relu" and got["use_bias"] is False
    default = layers.Conv2D(4, 3).get_config()
    assert default["padding"] == "valid" and default["data_format"] == "channels_last"
    assert default["kernel_initializer"]["class_name"] == "GlorotUniform"
    assert default["bias_initializer"]["class_name"] == "Zeros"
    turned = layers.Conv2DTranspose(4, 3, 2, "same", 1).get_config()
    assert turned["output_padding"] == (1, 1)
    depth = layers.DepthwiseConv2D(3, (1, 1), "same", 2).get_config()
    assert depth["depth_multiplier"] == 2 and "filters" not in depth
    mixed = layers.SeparableConv2D(4, 3, (1, 1), "valid", None, (1, 1), 3).get_config()
    assert mixed["depth_multiplier"] == 3 and mixed["filters"] == 4


def test_aliases() -> None:
    assert layers.Convolution2D is layers.Conv2D
    assert layers.Convolution3DTranspose is layers.Conv3DTranspose
    assert layers.SeparableConvolution1D is layers.SeparableConv1D


def test_regularizers_and_constraints_of_kernels_count() -> None:
    layer = layers.Conv2D(
        2,
        3,
        kernel_regularizer=keras.regularizers.l2(0.5),
        kernel_constraint="non_neg",
        kernel_initializer="ones",
    )
    layer(tf.zeros((1, 5, 5, 1)))
    assert float(layer.losses[0]) == 9.0
    assert layer.kernel.constraint is layer.kernel_constraint


def test_a_small_network_learns() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 8, 8, 1)).astype("f4")
    y = (x[:, 2:6, 2:6].mean((1, 2, 3)) > 0).astype("i4")
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            layers.Conv2D(8, 3, padding="same", activation="relu"),
            layers.SeparableConv2D(8, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(4, 2, strides=2),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    history = model.fit(x, y, batch_size=16, epochs=30, verbose=0, shuffle=False)
    assert history.history["loss"][-1] < 0.7 * history.history["loss"][0]


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, args, words",
    [
        ("Conv2D", {"filters": 0, "kernel_size": 3}, "`filters` of Conv2D must"),
        ("Conv2D", {"filters": 2, "kernel_size": (3, 3, 3)}, "a tuple of 2 integers"),
        ("Conv2D", {"filters": 2, "kernel_size": 0}, "no entry below 1"),
        (
            "Conv2D",
            {"filters": 2, "kernel_size": 3, "strides": "a"},
            "`strides` argument",
        ),
        (
            "Conv2D",
            {"filters": 2, "kernel_size": 3, "padding": "causal"},
            "Causal padding",
        ),
        (
            "Conv2D",
            {"filters": 2, "kernel_size": 3, "padding": "full"},
            "'valid' or 'same'",
        ),
        ("Conv2D", {"filters": 3, "kernel_size": 3, "groups": 2}, "evenly divisible"),
        (
            "Conv2D",
            {"filters": 2, "kernel_size": 3, "strides": 2, "dilation_rate": 2},
            "not supported in conjunction",
        ),
        (
            "Conv1D",
            {"filters": 2, "kernel_size": 3, "data_format": "NHWC"},
            "data_format",
        ),
        (
            "Conv2DTranspose",
            {"filters": 2, "kernel_size": 3, "strides": 2, "output_padding": 2},
            "must be greater than output padding",
        ),
        (
            "DepthwiseConv2D",
            {"kernel_size": 3, "depth_multiplier": 0},
            "depth_multiplier",
        ),
    ],
)
def test_arguments_that_do_not_fit(name: str, args: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        getattr(layers, name)(**args)


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="groups=3 of Conv2D, but the input has 4"):
        layers.Conv2D(6, 3, groups=3)(tf.zeros((1, 5, 5, 4)))
    with pytest.raises(ValueError, match="min_ndim=4, found ndim=3"):
        layers.Conv2D(6, 3)(tf.zeros((5, 5, 4)))
    with pytest.raises(
        ValueError, match="The channel dimension of the inputs of Conv2D"
    ):
        layers.Conv2D(6, 3)(keras.Input((5, 5, None)))
    layer = layers.Conv2D(6, 3)
    layer(tf.zeros((1, 5, 5, 4)))
    with pytest.raises(
        ValueError, match="expected axis -1 of input shape to have value"
    ):
        layer(tf.zeros((1, 5, 5, 3)))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="output size would be neg"
    ):
        layer(tf.zeros((1, 2, 5, 4)))
