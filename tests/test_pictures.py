# SPDX-License-Identifier: MIT
"""Pictures: decoded, loaded, saved, whole folders of them. Pillow is the oracle."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.tf import errors

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' is not installed")
utils = keras.utils
RNG = np.random.default_rng(5)


def pixels(height: int = 4, width: int = 6, channels: int = 3) -> np.ndarray:
    return RNG.integers(0, 256, (height, width, channels), np.uint8)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of three and two pictures."""
    for name, count in (("cat", 3), ("dog", 2)):
        (tmp_path / name).mkdir()
        for number in range(count):
            picture = Image.fromarray(pixels(5 + number, 6))
            picture.save(tmp_path / name / f"{number}.png")
        (tmp_path / name / "notes.txt").write_text("no picture")
    return tmp_path


# --- decoding ----------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_png_goes_both_ways(channels: int) -> None:
    image = pixels(channels=channels)
    data = tf.io.encode_png(image)
    np.testing.assert_array_equal(tf.io.decode_png(data).numpy(), image)
    made = tf.image.decode_image(data, dtype=tf.float32)
    np.testing.assert_array_equal(made.numpy(), image * np.float32(1 / 255))
    assert tf.io.decode_image(data, channels=3).shape == (4, 6, 3)


def test_other_formats(tmp_path: Path) -> None:
    smooth = np.linspace(0, 255, 4 * 6 * 3).reshape(4, 6, 3).astype(np.uint8)
    jpeg = tf.io.encode_jpeg(smooth, quality=100)
    assert jpeg.numpy()[:2] == b"\xff\xd8"
    made = tf.io.decode_jpeg(jpeg).numpy().astype(int)
    assert abs(made - smooth).max() < 12
    assert tf.image.decode_jpeg(jpeg, channels=1).shape == (4, 6, 1)
    Image.fromarray(smooth).save(tmp_path / "a.bmp")
    data = tf.io.read_file(str(tmp_path / "a.bmp"))
    np.testing.assert_array_equal(tf.io.decode_bmp(data).numpy(), smooth)
    frames = [Image.fromarray(np.full((2, 3), n * 90, np.uint8)) for n in range(3)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    data = tf.io.read_file(str(tmp_path / "a.gif"))
    assert tf.io.decode_image(data).shape == (3, 2, 3, 3)
    assert tf.io.decode_image(data, expand_animations=False).shape == (2, 3, 3)


def test_contents_that_are_no_pictures() -> None:
    whole = tf.io.encode_png(pixels(40, 40)).numpy()
    wrong = errors.InvalidArgumentError
    with pytest.raises(wrong, match="4 bytes that are not a whole picture"):
        tf.io.decode_image(b"text")
    with pytest.raises(wrong, match="not a whole picture"):
        tf.io.decode_png(whole[: len(whole) // 2])
    with pytest.raises(wrong, match="formats BMP"):
        tf.io.decode_bmp(whole)
    with pytest.raises(wrong, match="channels must be"):
        tf.io.decode_png(whole, channels=5)
    with pytest.raises(wrong, match="must be uint8 of shape"):
        tf.io.encode_png(np.zeros((2, 2, 3), np.float32))


def test_maps_over_files(folder: Path) -> None:
    def load(path):
        image = tf.io.decode_png(tf.io.read_file(path), channels=3)
        label = tf.strings.split(path, "/")[-2] == ["cat", "dog"]
        return image, tf.argmax(tf.cast(label, tf.int32))

    files = tf.data.Dataset.list_files(str(folder / "*" / "*.png"), shuffle=False)
    data = files.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    assert data.element_spec[0] == tf.TensorSpec((None, None, 3), tf.uint8)
    assert [(x.shape[0], int(y)) for x, y in data] == [
        (5, 0),
        (6, 0),
        (7, 0),
        (5, 1),
        (6, 1),
    ]
    sized = data.map(lambda x, y: (tf.image.resize(x, (3, 3)) / 255.0, y)).batch(5)
    [(x, y)] = sized
    assert x.shape == (5, 3, 3, 3) and y.numpy().tolist() == [0, 0, 0, 1, 1]


def said(image: Any) -> Any:
    image.set_shape((4, 6, 3))
    return tf.cast(image, tf.float32) / 255


@pytest.mark.parametrize(
    ("shape_it", "shape"),
    [
        (said, (4, 6, 3)),
        (lambda image: tf.ensure_shape(image, (4, 6, 3)), (4, 6, 3)),
        (lambda image: tf.ensure_shape(image, (None, 6, 3)), (None, 6, 3)),
        (lambda image: tf.reshape(image, (4, 6, 3)), (4, 6, 3)),
        (lambda image: tf.reshape(image, (3, -1, 4)), (3, None, None)),
        (lambda image: tf.reshape(image, (72,)), (72,)),
    ],
)
def test_shapes_that_a_map_says(tmp_path: Path, shape_it: Any, shape: Any) -> None:
    """Files of equal size: the program knows it, and `fit` can be compiled for it."""
    path = tmp_path / "a.png"
    path.write_bytes(tf.io.encode_png(pixels()).numpy())

    def load(path: Any) -> Any:
        return shape_it(tf.io.decode_png(tf.io.read_file(path), channels=3))

    data = tf.data.Dataset.from_tensor_slices([str(path)] * 2).map(load)
    assert data.element_spec.shape == shape
    assert data.batch(2).element_spec.shape[1:] == shape
    path.write_bytes(tf.io.encode_png(pixels(5, 6)).numpy())
    if None not in shape and shape != (72,):
        with pytest.raises(Exception, match="4, 6, 3"):
            list(data)


# --- single pictures ---------------------------------------------------------------


def test_load_and_save(tmp_path: Path) -> None:
    image = pixels()
    path = tmp_path / "a.png"
    utils.save_img(path, image, scale=False)
    loaded = keras.preprocessing.image.load_img(path)
    np.testing.assert_array_equal(utils.img_to_array(loaded), image)
    assert utils.img_to_array(loaded, "channels_first", "uint8").shape == (3, 4, 6)
    gray = utils.img_to_array(utils.load_img(path, color_mode="grayscale"))
    assert gray.shape == (4, 6, 1) and gray.dtype == np.float32
    for method in ("nearest", "bilinear", "bicubic"):
        small = utils.load_img(path, target_size=(2, 5), interpolation=method)
        oracle = Image.fromarray(image).resize((5, 2), Image.Resampling[method.upper()])
        assert small.tobytes() == oracle.tobytes()
    kept = utils.load_img(path, target_size=(2, 2), keep_aspect_ratio=True)
    cut = Image.fromarray(image[:, 1:5]).resize((2, 2), Image.Resampling.NEAREST)
    assert kept.tobytes() == cut.tobytes()
    scaled = np.asarray(utils.array_to_img(np.array([[[0.0], [0.5], [1.0]]])))
    assert scaled.tolist() == [[0, 127, 255]]


def test_pictures_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(tf.io.encode_png(pixels(40, 40)).numpy()[:60])
    with pytest.raises(ValueError, match=r"a\.png' is not a picture that can be read"):
        utils.load_img(path)
    with pytest.raises(FileNotFoundError):
        utils.load_img(tmp_path / "b.png")
    with pytest.raises(ValueError, match="color_mode must be"):
        utils.load_img(path, color_mode="cmyk")
    with pytest.raises(ValueError, match="interpolation must be one of"):
        utils.load_img(path, interpolation="best")
    with pytest.raises(ValueError, match="rank 3"):
        utils.array_to_img(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="Received: 5"):
        utils.array_to_img(np.zeros((2, 2, 5)))
    with pytest.raises(ValueError, match="2 or 3 axes"):
        utils.img_to_array(np.zeros(3))


# --- folders -----------------------------------------------------------------------


def test_a_folder_in_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = utils.image_dataset_from_directory(
        folder, image_size=(4, 3), shuffle=False, batch_size=4
    )
    assert capsys.readouterr().out == "Found 5 files belonging to 2 classes.\n"
    assert data.class_names == ["cat", "dog"] and len(data) == 2
    assert data.element_spec[0] == tf.TensorSpec((None, 4, 3, 3), tf.float32)
    (x, y), (_, last) = data
    assert y.numpy().tolist() == [0, 0, 0, 1] and last.numpy().tolist() == [1]
    first = np.asarray(Image.open(folder / "cat" / "0.png"))
    np.testing.assert_array_equal(x[0], tf.image.resize(first, (4, 3)))
    assert data.file_paths[3] == str(folder / "dog" / "0.png")


def test_folders_are_shuffled_and_split(folder: Path) -> None:
    words = {"image_size": (4, 4), "seed": 7, "batch_size": None, "verbose": False}
    make = keras.preprocessing.image_dataset_from_directory
    one, two = (make(folder, **words) for _ in range(2))
    first, second = ([int(y) for _, y in data] for data in (one, two))
    assert first == second and sorted(first) == [0, 0, 0, 1, 1]
    words |= {"validation_split": 0.4}
    train, check = make(folder, subset="both", **words)
    assert len(train) == 3 and len(check) == 2
    assert not {*train.file_paths} & {*check.file_paths}
    same = make(folder, subset="validation", **words)
    assert same.file_paths == check.file_paths


def test_labels_of_all_kinds(folder: Path) -> None:
    def labels(**words):
        data = utils.image_dataset_from_directory(
            folder, shuffle=False, image_size=(2, 2), verbose=False, **words
        )
        [(_, y)] = data
        return y.numpy().tolist()

    assert labels(label_mode="categorical")[2:4] == [[1.0, 0.0], [0.0, 1.0]]
    assert labels(label_mode="binary", class_names=["dog", "cat"])[:2] == [[0.0], [0.0]]
    assert labels(labels=[5, 4, 3, 2, 1]) == [5, 4, 3, 2, 1]
    alone = utils.image_dataset_from_directory(
        folder, labels=None, color_mode="grayscale", crop_to_aspect_ratio=True
    )
    assert alone.element_spec == tf.TensorSpec((None, 256, 256, 1), tf.float32)


def test_a_folder_trains(folder: Path) -> None:
    data = utils.image_dataset_from_directory(folder, image_size=(4, 4), batch_size=2)
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer=keras.optimizers.SGD(1e-6))
    assert len(model.fit(data, epochs=2, verbose=0).history["loss"]) == 2


def test_folders_that_do_not_do(folder: Path, tmp_path_factory) -> None:
    make = utils.image_dataset_from_directory
    with pytest.raises(ValueError, match=r"No classes: .*has no folders in it"):
        make(folder / "cat")
    empty = tmp_path_factory.mktemp("empty")
    (empty / "cat").mkdir()
    with pytest.raises(ValueError, match="No images found in directory"):
        make(empty)
    with pytest.raises(FileNotFoundError):
        make(folder / "nothing")
    for words, text in (
        ({"labels": [1]}, "len.labels. is 1 while we found 5"),
        ({"labels": "all"}, "`labels` must be"),
        ({"label_mode": "two"}, "`label_mode` must be"),
        ({"color_mode": "cmyk"}, "`color_mode` must be"),
        ({"interpolation": "best"}, "`interpolation` is"),
        ({"class_names": ["bird"]}, "did not match"),
        ({"class_names": ["cat"], "label_mode": "binary"}, "exactly 2 classes"),
        ({"class_names": ["cat"], "labels": None}, "can only be specified"),
        ({"validation_split": 2.0, "subset": "training"}, "between 0 and 1"),
        ({"validation_split": 0.5}, "and inversely"),
        ({"validation_split": 0.5, "subset": "test"}, "`subset` must be"),
        ({"validation_split": 0.5, "subset": "training"}, "pass a `seed`"),
    ):
        with pytest.raises(ValueError, match=text):
            make(folder, **words)
    (folder / "dog" / "9.png").write_bytes(b"\x89PNG")
    data = make(folder, shuffle=False)
    with pytest.raises(
        errors.InvalidArgumentError, match=r"dog/9\.png: .*not a whole pict"
    ):
        list(data)


def test_without_pillow() -> None:
    code = (
        "import sys; sys.modules['PIL'] = sys.modules['PIL.Image'] = None\n"
        "from ipu import keras\nkeras.utils.load_img('a.png')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "load_img needs the package pillow" in done.stderr
    assert "pip install 'ipu[images]'" in done.stderr
