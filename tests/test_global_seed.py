# SPDX-License-Identifier: MIT
"""Whatever draws on the host without a seed of its own follows the global one."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipu import keras, tf


def _folder(path: Path) -> Path:
    for name in "ab":
        (path / name).mkdir(exist_ok=True)
        for number in range(12):
            (path / name / f"{number}.txt").write_text(f"{name}{number}")
    return path


def _texts(path: Path) -> Any:
    words = keras.utils.text_dataset_from_directory(
        _folder(path), batch_size=None, verbose=False
    )
    return [bytes(word) for word, _ in words]


def _lines(path: Path) -> Any:
    file = path / "rows.csv"
    file.write_text("a\n" + "".join(f"{n}\n" for n in range(24)))
    rows = tf.data.experimental.make_csv_dataset(str(file), 24, num_epochs=1)
    return [batch["a"].numpy() for batch in rows]


PICTURES = np.arange(8 * 6 * 6 * 3, dtype=np.float32).reshape(8, 6, 6, 3)
SERIES = np.arange(40, dtype=np.float32)
P = keras.preprocessing
# each draws without a seed of its own
DRAWS: dict[str, Callable[[Path], Any]] = {
    "shuffle": lambda path: list(tf.data.Dataset.range(24).shuffle(24)),
    "random": lambda path: list(tf.data.Dataset.random().take(3)),
    "list_files": lambda path: [
        bytes(one) for one in tf.data.Dataset.list_files(str(_folder(path) / "a/*"))
    ],
    "sample_from_datasets": lambda path: list(
        tf.data.Dataset.sample_from_datasets(
            [tf.data.Dataset.range(12), tf.data.Dataset.range(12, 24)]
        )
    ),
    "rejection_resample": lambda path: [
        int(x)
        for _, x in tf.data.Dataset.range(64).rejection_resample(
            lambda x: tf.cast(x % 2, tf.int32), [0.9, 0.1], [0.5, 0.5]
        )
    ],
    "make_csv_dataset": _lines,
    "split_dataset": lambda path: list(
        keras.utils.split_dataset(np.arange(24), 0.5, shuffle=True)[0]
    ),
    "text_dataset_from_directory": _texts,
    "timeseries_dataset_from_array": lambda path: list(
        keras.utils.timeseries_dataset_from_array(SERIES, None, 3, shuffle=True)
    ),
    "ImageDataGenerator": lambda path: next(
        P.image.ImageDataGenerator(rotation_range=40, width_shift_range=3).flow(
            PICTURES, batch_size=8
        )
    ),
    "random_transform": lambda path: P.image.ImageDataGenerator(
        shear_range=9, zoom_range=0.4
    ).random_transform(PICTURES[0]),
    "random_rotation": lambda path: P.image.random_rotation(
        PICTURES[0], 40, row_axis=0, col_axis=1, channel_axis=2
    ),
    "TimeseriesGenerator": lambda path: P.sequence.TimeseriesGenerator(
        SERIES, SERIES, 3, shuffle=True, batch_size=8
    )[0],
    "skipgrams": lambda path: P.sequence.skipgrams([*range(1, 9)], 20),
    "initializers": lambda path: keras.initializers.GlorotUniform()((4, 4)),
    "random.normal": lambda path: tf.random.normal((4,)),
    "Dropout": lambda path: keras.layers.Dropout(0.5)(tf.ones((8, 8)), training=True),
}


@pytest.mark.parametrize("set_seed", [tf.random.set_seed, keras.utils.set_random_seed])
@pytest.mark.parametrize("name", DRAWS)
def test_the_global_seed_decides(
    name: str, set_seed: Callable[[int], None], tmp_path: Path
) -> None:
    def drawn(seed: int, numpy_seed: int) -> Any:
        np.random.seed(numpy_seed)
        random.seed(numpy_seed)
        set_seed(seed)
        made = [DRAWS[name](tmp_path) for _ in range(2)]
        return tf.nest.map_structure(np.array, made)

    first = drawn(5, 1)
    np.testing.assert_equal(drawn(5, 2), first)
    assert repr(drawn(6, 1)) != repr(first)
    assert repr(first[0]) != repr(first[1])  # the stream goes on


def test_numpys_own_seed_decides_where_keras_draws_from_it() -> None:
    code = """
import numpy as np
from ipu import keras
def drawn():
    np.random.seed(3)
    return keras.preprocessing.image.random_shift(
        np.arange(108.).reshape(6, 6, 3), 0.5, 0.5, 0, 1, 2)
assert (drawn() == drawn()).all()
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
