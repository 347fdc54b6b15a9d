# SPDX-License-Identifier: MIT
"""ImageDataGenerator and what it gives: numbers, folders, tables, mistakes.

`image_generator_numbers.json` was made with Keras 3.15's own `ImageDataGenerator` (in
its legacy package) and the cases and pictures below: the labels of four batches, the
first picture, and sums over each picture of every batch.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf
from ipu.keras.preprocessing import image

Image = pytest.importorskip("PIL.Image", reason="the extra 'images' is not installed")
Generator = image.ImageDataGenerator
NUMBERS = json.loads(
    (Path(__file__).parent / "image_generator_numbers.json").read_text()
)
CASES: dict[str, dict[str, Any]] = {
    "rotation": {"rotation_range": 40},
    "shear, wrap": {"shear_range": 30.0, "fill_mode": "wrap"},
    "zoom, constant": {
        "zoom_range": 0.5,
        "fill_mode": "constant",
        "cval": 5.0,
        "interpolation_order": 0,
    },
    "zoom range, reflect": {"zoom_range": (0.5, 0.9), "fill_mode": "reflect"},
    "flips": {"horizontal_flip": True, "vertical_flip": True},
    "channel shift": {"channel_shift_range": 60.0},
    "brightness": {"brightness_range": (0.2, 1.4)},
    "brightness beyond": {
        "brightness_range": (0.2, 1.4),
        "rescale": 2.0,
        "samplewise_center": True,
    },
    "all": {
        "rotation_range": 15,
        "shear_range": 10.0,
        "zoom_range": 0.2,
        "horizontal_flip": True,
        "channel_shift_range": 20.0,
        "brightness_range": (0.8, 1.2),
        "samplewise_std_normalization": True,
        "rescale": 1 / 255,
    },
    "featurewise": {
        "featurewise_center": True,
        "featurewise_std_normalization": True,
        "vertical_flip": True,
    },
    "whitening": {"zca_whitening": True, "zca_epsilon": 1e-2},
}


def pictures(count: int = 5, height: int = 4, width: int = 4) -> np.ndarray:
    drawn = np.random.RandomState(9).randint(0, 256, (count, height, width, 3))
    return drawn.astype(np.float32)


# --- numbers -----------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:This ImageDataGenerator specifies")
def test_batches_are_those_of_keras(name: str) -> None:
    words, want = CASES[name], NUMBERS[name]
    generator = Generator(**words)
    if words.get("featurewise_center") or words.get("zca_whitening"):
        augment = not words.get("zca_whitening")
        generator.fit(pictures(), augment=augment, rounds=2, seed=4)
    before = np.random.get_state()[1].tolist()
    flow = generator.flow(pictures(), np.arange(5), batch_size=2, seed=3)
    batches = [next(flow) for _ in range(4)]
    assert [y.tolist() for _, y in batches] == want["labels"]
    first = batches[0][0][0].ravel()
    np.testing.assert_allclose(first, want["first"], rtol=1e-4, atol=2e-3)
    for (x, _), sums in zip(batches, want["sums"], strict=True):
        np.testing.assert_allclose(x.sum((1, 2)), sums, rtol=1e-4, atol=0.02)
    # a seed of its own leaves NumPy's generator alone
    assert np.random.get_state()[1].tolist() == before


def test_shifts_move_what_they_name() -> None:
    row = np.arange(5.0).reshape(1, 5, 1) * np.ones((4, 1, 1))
    down = row.transpose(1, 0, 2)[:4]
    wide = Generator(width_shift_range=[2], fill_mode="constant", cval=-1.0)
    moved = {tuple(wide.random_transform(row)[0, :, 0]) for _ in range(30)}
    assert moved == {(2, 3, 4, -1, -1), (-1, -1, 0, 1, 2)}
    tall = Generator(height_shift_range=[-0.25], fill_mode="constant", cval=-1.0)
    moved = {tuple(tall.random_transform(down)[:, 0, 0]) for _ in range(30)}
    assert moved == {(1, 2, 3, -1), (-1, 0, 1, 2)}
    shares = []
    for seed in range(50):
        one = Generator(width_shift_range=0.5).get_random_transform((4, 10, 3), seed)
        shares.append(one)
        assert one["ty"] == 0 and -5 <= one["tx"] <= 5
    assert max(one["tx"] for one in shares) > 4
    pixels = [
        Generator(height_shift_range=3).get_random_transform((9, 9, 3))["ty"]
        for _ in range(60)
    ]
    assert {*pixels} == {-2, -1, 0, 1, 2}


@pytest.mark.parametrize("fill_mode", ["nearest", "reflect", "constant"])
def test_pictures_that_are_not_square_keep_their_middle(fill_mode: str) -> None:
    x = np.random.default_rng(1).normal(size=(3, 5, 2))
    words: dict[str, Any] = {"row_axis": 0, "col_axis": 1, "channel_axis": 2}
    half = image.apply_affine_transform(x, theta=180, fill_mode=fill_mode, **words)
    np.testing.assert_allclose(half[1:2, 1:4], x[::-1, ::-1][1:2, 1:4], atol=1e-9)
    zoomed = image.apply_affine_transform(x, zx=0.5, zy=0.5, order=0, **words)
    np.testing.assert_array_equal(zoomed[1, 1:4], x[1, [2, 2, 3]])
    first = image.apply_affine_transform(x.transpose(2, 0, 1), tx=1.0, ty=-1.0)
    last = image.apply_affine_transform(x, tx=1.0, ty=-1.0, **words)
    np.testing.assert_array_equal(first.transpose(1, 2, 0), last)
    np.testing.assert_array_equal(last[1:, :4], x[:2, 1:])


@pytest.mark.usefixtures("no_seed")
def test_functions_draw_from_numpy() -> None:
    x = np.random.default_rng(2).uniform(0, 255, (3, 6, 6))
    calls = {
        "random_rotation": (30,),
        "random_shift": (0.5, 0.5),
        "random_shear": (30,),
        "random_zoom": ((0.5, 1.5),),
        "random_channel_shift": (50.0,),
    }
    for name, arguments in calls.items():
        function = getattr(image, name)
        np.random.seed(1)
        one, two = function(x, *arguments), function(x, *arguments)
        np.random.seed(1)
        np.testing.assert_array_equal(function(x, *arguments), one)
        assert one.shape == x.shape and (one != two).any()
    light = image.random_brightness(x.transpose(1, 2, 0), (2.0, 2.0), scale=False)
    assert light.mean() > x.mean() * 1.2


# --- batches -----------------------------------------------------------------------


def test_batches_by_number() -> None:
    flow = Generator().flow(pictures(), np.arange(5), 2, seed=1)
    assert len(flow) == 3 and flow.n == 5
    first = [flow[k][1].tolist() for k in range(3)]
    assert sorted(number for labels in first for number in labels) == [0, 1, 2, 3, 4]
    flow.on_epoch_end()
    assert [flow[k][1].tolist() for k in range(3)] != first
    with pytest.raises(ValueError, match="element 3, but the Sequence has length 3"):
        flow[3]
    alone = Generator().flow(pictures(), batch_size=5, shuffle=False)
    np.testing.assert_array_equal(next(alone), pictures())
    np.testing.assert_array_equal(alone.next(), pictures())


def test_what_goes_along(tmp_path: Path) -> None:
    x, y, w = pictures(), np.arange(5), np.linspace(0, 1, 5)
    flow = Generator(validation_split=0.4).flow(
        (x, y * 10),
        y % 2,
        batch_size=3,
        shuffle=False,
        sample_weight=w,
        subset="training",
        save_to_dir=str(tmp_path),
        save_prefix="made",
    )
    (first, beside), labels, weights = next(flow)
    np.testing.assert_array_equal(first, x[2:])
    assert beside.tolist() == [20, 30, 40] and labels.tolist() == [0, 1, 0]
    np.testing.assert_array_equal(weights, w[2:])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 3 and all(name.startswith("made_") for name in names)
    kept = Generator(data_format="channels_first", vertical_flip=True)
    flow = kept.flow(x.transpose(0, 3, 1, 2), batch_size=1, shuffle=False, seed=2)
    made = next(flow)[0].transpose(1, 2, 0)
    assert any((made == one).all() for one in (x[0], x[0, ::-1]))


def test_pictures_train() -> None:
    x, y = pictures(8), np.arange(8) % 2
    flow = Generator(rescale=1 / 255, horizontal_flip=True).flow(x, y, 4, seed=1)
    spec = (tf.TensorSpec((4, 4, 4, 3), tf.float32), tf.TensorSpec((4,), tf.int32))
    data = tf.data.Dataset.from_generator(lambda: flow, output_signature=spec)
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, optimizer="sgd")
    history = model.fit(data, steps_per_epoch=2, epochs=2, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    # outside of a strategy also as it is, with a last batch of fewer
    uneven = Generator(rescale=1 / 255).flow(x[:7], y[:7], 4, shuffle=False)
    history = model.fit(uneven, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2
    alone = Generator(rescale=1 / 255).flow(x[:7], batch_size=4, shuffle=False)
    want = model.predict(x[:7] / np.float32(255), verbose=0)
    found = model.predict(alone, verbose=0)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, count in (("cat", 3), ("dog", 2)):
        (tmp_path / name / "deep").mkdir(parents=True)
        for number in range(count):
            where = tmp_path / name / ("deep" if number == 2 else "")
            pixels = np.full((4 + number, 5, 3), 40 * number + 10, np.uint8)
            Image.fromarray(pixels).save(where / f"{number}.png")
        (tmp_path / name / "notes.txt").write_text("no picture")
    return tmp_path


def test_folders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flow = Generator(rescale=0.1).flow_from_directory(
        folder, (4, 6), class_mode="sparse", batch_size=4, shuffle=False
    )
    assert capsys.readouterr().out == "Found 5 images belonging to 2 classes.\n"
    assert flow.class_indices == {"cat": 0, "dog": 1} and flow.samples == 5
    assert flow.classes.tolist() == [0, 0, 0, 1, 1] == flow.labels.tolist()
    assert flow.filenames == [
        "cat/0.png",
        "cat/1.png",
        "cat/deep/2.png",
        "dog/0.png",
        "dog/1.png",
    ]
    x, y = next(flow)
    assert x.shape == (4, 4, 6, 3) and y.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(x[:, 0, 0, 0], [1, 5, 9, 1])
    assert next(flow)[0].shape == (1, 4, 6, 3)


def test_labels_of_folders(folder: Path) -> None:
    def batch(**words: Any) -> Any:
        generator = Generator(validation_split=0.5)
        options = {"target_size": (4, 4), "shuffle": False, **words}
        return next(generator.flow_from_directory(folder, **options))

    assert batch()[1].tolist() == [[1, 0]] * 3 + [[0, 1]] * 2
    assert batch(classes=["dog"], class_mode="binary")[1].tolist() == [0, 0]
    x, same = batch(class_mode="input", color_mode="grayscale")
    assert x.shape == (5, 4, 4, 1) and (x == same).all()
    assert batch(class_mode=None, color_mode="rgba").shape == (5, 4, 4, 4)
    assert batch(subset="validation")[1].tolist() == [[1, 0], [0, 1]]
    assert batch(subset="training")[1].tolist() == [[1, 0], [1, 0], [0, 1]]


def test_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = {
        "file": ["cat/0.png", "dog/1.png", "dog/0.png", "none.png", "cat/notes.txt"],
        "kind": ["cat", "dog", "dog", "cat", "cat"],
        "many": [["a"], ["a", "b"], ("b",), ["a"], ["b"]],
        "size": [1.0, 2.0, 3.0, 4.0, 5.0],
    }

    def flow(**words: Any) -> Any:
        options = {"x_col": "file", "y_col": "kind", "target_size": (4, 4), **words}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Generator(validation_split=0.4).flow_from_dataframe(
                table, folder, shuffle=False, **options
            )

    made = flow(weight_col="size")
    text = "Found 3 validated image filenames belonging to 2 classes.\n"
    assert capsys.readouterr().out == text
    x, y, w = next(made)
    assert x[:, 0, 0, 0].tolist() == [10, 50, 10] and w.tolist() == [1, 2, 3]
    assert y.tolist() == [[1, 0], [0, 1], [0, 1]]
    assert next(flow(y_col="many"))[1].tolist() == [[1, 0], [1, 1], [0, 1]]
    assert next(flow(class_mode="sparse", classes=["dog"]))[1].tolist() == [0, 0]
    assert next(flow(y_col="size", class_mode="raw"))[1].tolist() == [1, 2, 3]
    several = next(flow(y_col=["size", "kind"], class_mode="multi_output"))[1]
    assert [one.tolist() for one in several] == [[1, 2, 3], ["cat", "dog", "dog"]]
    assert next(flow(class_mode=None, subset="validation")).shape[0] == 1
    with pytest.raises(ValueError, match=r"none\.png' is not a picture|No such file"):
        try:
            next(flow(validate_filenames=False))
        except FileNotFoundError as error:
            raise ValueError(str(error)) from error
    with pytest.warns(UserWarning, match="Found 2 invalid image filename"):
        Generator().flow_from_dataframe(table, folder, "file", "kind")


def test_a_file_that_cannot_be_read(folder: Path) -> None:
    (folder / "dog" / "9.png").write_bytes(b"\x89PNG")
    flow = Generator().flow_from_directory(folder, batch_size=6)
    with pytest.raises(
        ValueError, match=r"dog/9\.png' is not a picture that can be read"
    ):
        next(flow)


# --- mistakes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"zoom_range": (1, 2, 3)}, "`zoom_range` should be"),
        ({"brightness_range": 0.5}, "`brightness_range` should be"),
        ({"data_format": "last"}, "Received: 'last'"),
        ({"validation_split": 1.5}, "strictly between 0 and 1"),
        ({"fill_mode": "mirror"}, "Received: fill_mode='mirror'"),
        ({"interpolation_order": 3}, "must be 0, the nearest pixel, or 1"),
    ],
)
def test_generators_that_do_not_do(words: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Generator(**words)


def test_data_that_do_not_do(folder: Path) -> None:
    make, x = Generator(validation_split=0.4), pictures()
    for call, text in (
        (lambda: make.flow(x, [1, 2]), "5 pictures and 2 in `y`"),
        (lambda: make.flow(x, sample_weight=[1]), "and 1 in `sample_weight`"),
        (lambda: make.flow((x, np.ones(2))), "and 2 in `x`"),
        (lambda: make.flow(x[0]), r"rank 4. You passed an array with shape \(4, 4, 3"),
        (lambda: make.flow(x, batch_size=0), "`batch_size` must be positive"),
        (lambda: make.flow(x, subset="test"), "Invalid subset name: 'test'"),
        (lambda: make.flow(x, np.arange(5), subset="training"), "different number of"),
        (lambda: make.fit(x[0]), "Input to `.fit\\(\\)` should have rank 4"),
        (lambda: next(make.flow(x[:0])), "no pictures to make a batch of"),
        (
            lambda: make.flow_from_directory(folder, class_mode="two"),
            "Invalid class_mode",
        ),
        (
            lambda: make.flow_from_directory(folder, color_mode="cmyk"),
            "color_mode must",
        ),
        (lambda: image.apply_affine_transform(x), "has three axes"),
        (lambda: image.apply_affine_transform(x[0], channel_axis=1), "has three axes"),
    ):
        with pytest.raises(ValueError, match=text):
            call()
    with pytest.raises(TypeError, match=r"'target'.* Did you mean 'target_size'"):
        make.flow_from_directory(folder, target=(3, 3))
    for table, words, text in (
        ({"filename": [1]}, {}, "must be strings"),
        ({"filename": ["a.png"], "class": [1]}, {}, "type str or list or tuple"),
        ({"filename": [], "class": []}, {"class_mode": "multi_output"}, "be a list"),
        (
            {"filename": ["a"], "w": ["b"]},
            {"class_mode": None, "weight_col": "w"},
            "num",
        ),
    ):
        with (
            pytest.raises(TypeError, match=text),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            make.flow_from_dataframe(table, folder, **words)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({"featurewise_std_normalization": True}, "setting of `featurewise_center`"),
        ({"samplewise_std_normalization": True}, "setting of `samplewise_center`"),
        ({"zca_whitening": True}, "specifies `zca_whitening`"),
    ],
)
def test_what_is_settled_is_said(words: dict[str, Any], text: str) -> None:
    with pytest.warns(UserWarning, match=text):
        made = Generator(**words)
    if "samplewise_std_normalization" not in words:
        with pytest.warns(UserWarning, match="has not been fit on any training data"):
            made.standardize(pictures())
