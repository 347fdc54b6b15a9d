# SPDX-License-Identifier: MIT
"""Layers that change pictures at random: alone, in programs and in training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ipu
from ipu import keras, tf

L = keras.layers
RNG = np.random.default_rng(11)

# One image through ImageProjectiveTransformV3 of TensorFlow 2.21, by (mode,
# interpolation), with fill_value -1: turned by 0.4, stretched, moved and tilted.
IMAGE = np.array([[4, 7, 1, 8], [2, 9, 0, 3], [6, 5, 1, 4]], np.float32)
COS, SIN = np.cos(0.4), np.sin(0.4)
TILTED = np.array([[1.1 * COS, -SIN, 1.2, SIN, 0.9 * COS, -1.7, 0.02, -0.01]], "f4")
MOVED = {
    ("constant", "bilinear"): [
        [-1.0, -1.0, -0.07675, -0.99789, -1.0],
        [-0.10408, 0.65619, 5.62828, 1.52764, -1.0],
        [5.01916, 4.63611, 1.91999, 1.74546, -1.0],
    ],
    ("constant", "nearest"): [
        [-1, -1, -1, -1, -1],
        [-1, 1, 8, -1, -1],
        [4, 7, 0, 3, -1],
    ],
    ("nearest", "bilinear"): [
        [5.8, 2.1884, 8.0, 8.0, 8.0],
        [6.45631, 2.16585, 6.28001, 6.58472, 4.79146],
        [5.28928, 4.63611, 1.91999, 3.08285, 3.4298],
    ],
    ("nearest", "nearest"): [[7, 1, 8, 8, 8], [7, 1, 8, 8, 3], [4, 7, 0, 3, 3]],
    ("reflect", "bilinear"): [
        [6.78, 1.71006, 8.0, 8.0, 1.95493],
        [6.45631, 2.16585, 6.28001, 6.58472, 2.37497],
        [5.28928, 4.63611, 1.91999, 3.08285, 2.768],
    ],
    ("reflect", "nearest"): [[9, 1, 8, 8, 1], [7, 1, 8, 8, 0], [4, 7, 0, 3, 3]],
    ("wrap", "bilinear"): [
        [6.3, 1.22443, 6.0, 6.0, 5.13642],
        [5.18123, 1.77723, 3.26286, 3.43389, 5.75103],
        [5.57024, 4.63611, 1.91999, 2.3314, 4.50487],
    ],
    ("wrap", "nearest"): [[9, 1, 6, 6, 5], [5, 1, 4, 4, 9], [6, 7, 0, 2, 2]],
}
LAYERS = {
    "brightness": lambda **words: L.RandomBrightness(0.3, **words),
    "contrast": lambda **words: L.RandomContrast((0.5, 0.8), **words),
    "crop": lambda **words: L.RandomCrop(4, 5, **words),
    "flip": lambda **words: L.RandomFlip(**words),
    "rotation": lambda **words: L.RandomRotation(0.2, **words),
    "translation": lambda **words: L.RandomTranslation(0.3, (-0.1, 0.4), **words),
    "zoom": lambda **words: L.RandomZoom(0.5, **words),
}


def pictures(count: int = 6, height: int = 6, width: int = 8) -> np.ndarray:
    return RNG.uniform(0, 255, (count, height, width, 3)).astype(np.float32)


# --- where pixels come from --------------------------------------------------------


@pytest.mark.parametrize(("mode", "interpolation"), MOVED)
def test_pixels_come_from_where_tensorflow_takes_them(
    mode: str, interpolation: str
) -> None:
    words = {
        "transforms": TILTED,
        "output_shape": (3, 5),
        "fill_value": -1.0,
        "interpolation": interpolation.upper(),
        "fill_mode": mode.upper(),
    }
    call = tf.raw_ops.ImageProjectiveTransformV3
    made = call(images=IMAGE[None, ..., None], **words)
    want = np.array(MOVED[mode, interpolation], np.float32)
    np.testing.assert_allclose(made[0, ..., 0], want, atol=2e-5)
    twice = call(images=np.stack([IMAGE, -IMAGE], -1)[None].repeat(2, 0), **words)
    np.testing.assert_array_equal(twice[0], twice[1])
    np.testing.assert_array_equal(twice[1, ..., 0], made[0, ..., 0])


def test_transforms_that_do_not_fit() -> None:
    call = tf.raw_ops.ImageProjectiveTransformV3
    right = {
        "images": np.ones((2, 3, 3, 1), np.float32),
        "transforms": np.ones((2, 8), np.float32),
        "output_shape": (3, 3),
        "fill_value": 0.0,
        "interpolation": "NEAREST",
    }
    for words, text in (
        ({"images": np.ones((3, 3, 1), np.float32)}, "must be .batch, height"),
        ({"transforms": np.ones((3, 8), np.float32)}, r"the shape \(2, 8\) or \(1, 8"),
        ({"interpolation": "CUBIC"}, "'bilinear', 'nearest'. Received: .*'cubic'"),
        ({"fill_mode": "MIRROR"}, "must be one of 'constant'"),
    ):
        with pytest.raises(ValueError, match=text):
            call(**{**right, **words})


# --- what the layers do ------------------------------------------------------------


@pytest.mark.parametrize("fill_mode", ["wrap", "constant", "nearest", "reflect"])
def test_images_are_moved(fill_mode: str) -> None:
    x = pictures()
    layer = L.RandomTranslation((0.5, 0.5), (-0.25, -0.25), fill_mode, "nearest")
    numpy_mode = {"nearest": "edge", "reflect": "symmetric"}.get(fill_mode, fill_mode)
    padded = np.pad(x, [(0, 0), (3, 3), (2, 2), (0, 0)], numpy_mode)
    np.testing.assert_array_equal(layer(x), padded[:, :6, 4:12])


def test_images_are_turned_and_zoomed() -> None:
    x = pictures(height=5, width=5)
    turned = L.RandomRotation((0.25, 0.25), interpolation="nearest")(x)
    np.testing.assert_array_equal(turned, np.rot90(x, axes=(1, 2)))
    turned = L.RandomRotation((-0.5, -0.5))(x)
    np.testing.assert_allclose(turned, x[:, ::-1, ::-1], atol=1e-3)
    out = L.RandomZoom((1.0, 1.0), fill_mode="constant", fill_value=7.0)(x).numpy()
    np.testing.assert_allclose(out[:, 1:4, 1:4], x[:, ::2, ::2], atol=1e-4)
    assert (out[:, 0] == 7).all() and (out[:, :, 4] == 7).all()
    wide = L.RandomZoom(0.0, (-1.0, -1.0))(x).numpy()
    np.testing.assert_allclose(wide, x[:, :, 2:3].repeat(5, 2), atol=1e-4)


def test_proportions_stay_where_one_factor_is_given() -> None:
    x = pictures(height=8, width=8)
    made = L.RandomZoom(0.5)(x).numpy()
    other = L.RandomZoom(0.5)(x.transpose(0, 2, 1, 3)).numpy()
    assert made.shape == other.shape == x.shape
    tf.random.set_seed(3)
    made = L.RandomZoom(0.5, seed=1)(x).numpy()
    tf.random.set_seed(3)
    other = L.RandomZoom(0.5, seed=1)(x.transpose(0, 2, 1, 3)).numpy()
    np.testing.assert_allclose(made, other.transpose(0, 2, 1, 3), rtol=1e-5)


@pytest.mark.parametrize(
    ("mode", "count"),
    [("horizontal", 2), ("vertical", 2), ("horizontal_and_vertical", 4)],
)
def test_each_image_is_mirrored_or_not(mode: str, count: int) -> None:
    image = pictures(1)
    made = L.RandomFlip(mode)(image.repeat(64, 0)).numpy()
    ways = [image, image[:, :, ::-1], image[:, ::-1], image[:, ::-1, ::-1]]
    if mode == "vertical":
        ways = ways[::2]
    found = [sum((one == way[0]).all() for one in made) for way in ways[:count]]
    assert sum(found) == 64 and min(found) > 4


def test_a_batch_is_cut_alike() -> None:
    x = np.arange(2 * 5 * 6, dtype=np.float32).reshape(2, 5, 6, 1)
    corners = set()
    for _ in range(60):
        made = L.RandomCrop(4, 3)(x).numpy()
        row, column = divmod(int(made[0, 0, 0, 0]), 6)
        part = x[:, row : row + 4, column : column + 3]
        np.testing.assert_array_equal(made, part)
        corners.add((row, column))
    assert len(corners) == 2 * 4
    kept = L.RandomCrop(5, 3)(x, training=False)
    np.testing.assert_array_equal(kept, x[:, :, 1:4])
    assert L.RandomCrop(10, 3)(x).shape == (2, 10, 3, 1)


def test_light() -> None:
    x = pictures(40)
    mean = x.mean((1, 2), keepdims=True)
    made = L.RandomContrast((0.25, 0.5))(x).numpy()
    factors = ((made - mean) / (x - mean)).reshape(40, -1)
    np.testing.assert_allclose(factors.max(1), factors.min(1), rtol=0.02)
    middle = np.median(factors, 1)
    assert 0.75 <= middle.min() < 0.9 and 1.3 < middle.max() <= 1.5
    made = L.RandomBrightness((0.1, 0.2))(x * 0.5).numpy()
    added = (made - x * 0.5).reshape(40, -1)
    np.testing.assert_allclose(added.max(1), added.min(1), rtol=1e-3)
    assert 25.5 <= added.min() < 35 and 45 < added.max() <= 51.1
    assert L.RandomBrightness(0.9, (0, 1))(x / 255).numpy().max() == 1.0


def test_sizes_change_on_the_host() -> None:
    x = pictures(2, 10, 20)
    sizes = {L.RandomHeight((-0.5, 0.5))(x).shape[1] for _ in range(40)}
    assert 5 <= min(sizes) < 8 and 12 < max(sizes) <= 15
    assert {L.RandomHeight(0.9)(x, training=False).shape} == {x.shape}
    made = L.RandomWidth((-0.5, -0.5), "nearest")(x)
    np.testing.assert_array_equal(made, x[:, :, 1::2])
    function = tf.function(L.RandomWidth(0.5))
    with pytest.raises(NotImplementedError, match=r"RandomZoom\(0.0, factor\)"):
        function(x)


# --- what holds for all ------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_alone(name: str) -> None:
    x = pictures()
    layer = LAYERS[name](seed=5)
    assert layer.get_config()["seed"] == 5
    again = L.deserialize(L.serialize(layer))
    results = []
    for one in (layer, again):
        tf.random.set_seed(1)
        results.append([one(x).numpy(), one(x).numpy()])
    np.testing.assert_array_equal(results[0], results[1])
    assert (results[0][0] != results[0][1]).any()
    assert layer(x).dtype == tf.float32 and layer(x.astype(np.uint8)).dtype == "float32"
    single = layer(x[0], training=True)
    assert single.shape == layer(x).shape[1:]
    if name != "crop":
        np.testing.assert_array_equal(layer(x, training=False), x)
    half = LAYERS[name](dtype="float16")(x / 255)
    assert half.dtype == tf.float16 and np.isfinite(half.numpy()).all()
    with pytest.raises(ValueError, match=r"takes images .height, width, channels"):
        layer(np.ones((2, 3), np.float32))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_in_a_program(name: str) -> None:
    x = pictures()
    layer = LAYERS[name]()

    @tf.function(jit_compile=True)
    def steps(images: Any) -> Any:
        total = tf.zeros_like(layer(images, training=False))
        for _ in tf.range(3):
            total += layer(images, training=True)
        return total

    strategy = ipu.ipu_strategy.IPUStrategy()

    def run() -> Any:
        tf.random.set_seed(4)
        return strategy.run(steps, args=(x,)).numpy()

    one, two = run(), run()
    np.testing.assert_array_equal(one, two)
    assert np.isfinite(one).all()


def test_layers_in_training() -> None:
    x, y = pictures(16), RNG.integers(0, 3, 16).astype(np.int32)
    with ipu.ipu_strategy.IPUStrategy().scope():
        model = keras.Sequential(
            [
                L.Input((6, 8, 3)),
                L.Rescaling(1 / 255),
                L.RandomFlip("horizontal"),
                L.RandomTranslation(0.1, 0.1),
                L.RandomRotation(0.1),
                L.RandomZoom(0.1, 0.2),
                L.RandomContrast(0.2),
                L.experimental.preprocessing.RandomCrop(4, 4),
                L.Conv2D(4, 3, activation="relu"),
                L.Flatten(),
                L.Dense(3),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(loss=loss, optimizer="sgd", steps_per_execution=4)
        history = model.fit(x, y, batch_size=4, epochs=2, verbose=0)
        one, two = (model.predict(x, batch_size=4, verbose=0) for _ in range(2))
    assert model.output_shape == (None, 3)
    assert np.isfinite(history.history["loss"]).all()
    np.testing.assert_array_equal(one, two)


def test_gradients_reach_the_images() -> None:
    x = tf.constant(pictures(2))
    layer = L.RandomTranslation((0.5, 0.5), 0.0, "constant", "nearest")
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(layer(x))
    want = np.ones((2, 6, 8, 3), np.float32)
    want[:, 3:] = 0.0
    np.testing.assert_array_equal(tape.gradient(total, x), want)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: L.RandomFlip("sideways"), "Received: mode='sideways'"),
        (lambda: L.RandomZoom(-0.2), "a single number f means"),
        (lambda: L.RandomZoom(2.0), r"must lie in \[-1, 1\]. Received: 2.0"),
        (lambda: L.RandomTranslation(0.1, (0.3, 0.2)), "`width_factor` cannot have"),
        (lambda: L.RandomTranslation("a", 0.2), "`height_factor` must be a number"),
        (lambda: L.RandomRotation((1, 2, 3)), r"a pair \(lower, upper\)"),
        (lambda: L.RandomRotation(0.1, "mirror"), "Received: fill_mode='mirror'"),
        (lambda: L.RandomRotation(0.1, interpolation="cubic"), "'bilinear'"),
        (lambda: L.RandomContrast(-0.1), "Received: factor=-0.1"),
        (lambda: L.RandomContrast((1.5, 2.0)), "the lower one at most 1"),
        (lambda: L.RandomBrightness(1.5), r"must lie in \[-1, 1\]"),
        (lambda: L.RandomBrightness(0.5, (1, 0)), "`value_range` must be"),
        (lambda: L.RandomHeight((-2.0, 0.0)), r"must lie in \[-1, inf\]"),
    ],
)
def test_arguments_that_do_not_do(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_parts_of_the_same_proportions() -> None:
    x = pictures(2, 4, 8)
    small = keras.preprocessing.image.smart_resize(x, (2, 2))
    assert isinstance(small, np.ndarray)
    np.testing.assert_array_equal(small, tf.image.resize(x[:, :, 2:6], (2, 2)))
    np.testing.assert_array_equal(L.Resizing(2, 2, crop_to_aspect_ratio=True)(x), small)
    np.testing.assert_array_equal(L.CenterCrop(2, 2)(x), x[:, 1:3, 3:5])
    np.testing.assert_array_equal(
        L.CenterCrop(8, 8)(x), tf.image.resize(x[:, :, 2:6], (8, 8))
    )
    with pytest.raises(ValueError, match="pair of positive numbers"):
        keras.preprocessing.image.smart_resize(x, (0, 2))
    with pytest.raises(ValueError, match=r"Received: shape \(4, 8\)"):
        keras.preprocessing.image.smart_resize(x[0, ..., 0], (2, 2))
