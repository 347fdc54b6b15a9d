"""Data sets of Keras beside MNIST, from small files that are written as theirs are."""

from __future__ import annotations

import io
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest

from ipu import keras
from ipu.keras.datasets import _download, _official


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def no_network(url: str) -> bytes:
        raise OSError(f"no network for {url}")

    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(_download, "fetch", no_network)
    (tmp_path / "datasets").mkdir()
    return tmp_path / "datasets"


def objects(*lists: list[int]) -> np.ndarray:
    array = np.empty(len(lists), dtype=object)
    array[:] = lists
    return array


def test_imdb(cache: Path) -> None:
    x = objects([1, 2, 9], [3], [4, 5])
    y = np.array([1, 0, 1])
    np.savez(cache / "imdb.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    (xs, ys), (test, _) = keras.datasets.imdb.load_data(num_words=8)
    found = sorted(zip(xs, ys, strict=True))
    # 1 begins, 2 stands for words from 8 on, the rest is moved by 3
    assert found == [([1, 4, 5, 2], 1), ([1, 6], 0), ([1, 7, 2], 1)]
    assert len(test) == 3
    (short, _), _ = keras.datasets.imdb.load_data(maxlen=3)
    assert list(short) == [[1, 6]]


def test_reuters_and_boston(cache: Path) -> None:
    np.savez(
        cache / "reuters.npz", x=objects(*[[n] for n in range(10)]), y=np.arange(10)
    )
    assert len(set(keras.datasets.reuters.get_label_names())) == 46
    (x, y), (_, test) = keras.datasets.reuters.load_data()
    assert len(x) == 8 and len(test) == 2
    assert all(item == [1, label + 3] for item, label in zip(x, y, strict=True))
    features = np.arange(26.0).reshape(2, 13)
    np.savez(cache / "boston_housing.npz", x=features, y=np.array([0.0, 1.0]))
    (x, y), _ = keras.datasets.boston_housing.load_data(test_split=0.5)
    np.testing.assert_array_equal(x, features[y.astype(int)])


def test_cifar(cache: Path) -> None:
    data = np.arange(3072, dtype=np.int64).astype(np.uint8).reshape(1, 3072)
    batch = pickle.dumps({b"data": data, b"labels": [7]}, protocol=2)
    with tarfile.open(cache / "cifar-10-python.tar.gz", "w:gz") as archive:
        for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
            info = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            info.size = len(batch)
            archive.addfile(info, io.BytesIO(batch))
    (x, y), (test, _) = keras.datasets.cifar10.load_data()
    assert x.shape == (5, 32, 32, 3) and y.tolist() == [[7]] * 5
    np.testing.assert_array_equal(test[0, :, :, 0].ravel(), data[0, :1024])


@pytest.mark.parametrize("place", ["", "cifar-10-batches-py-target", "x_extracted"])
def test_cifar_as_keras_unpacks_it(cache: Path, place: str) -> None:
    place = place.replace("x_", "cifar-10-batches-py_")
    folder = cache / place / "cifar-10-batches-py"
    folder.mkdir(parents=True)
    data = np.full((1, 3072), 9, np.uint8)
    batch = pickle.dumps({b"data": data, b"labels": [7]}, protocol=2)
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        (folder / name).write_bytes(batch)
    (x, _), (_, labels) = keras.datasets.cifar10.load_data()
    assert x.shape == (5, 32, 32, 3) and labels.tolist() == [[7]]
    (folder / "test_batch").write_bytes(batch[:9])
    with pytest.raises(ValueError, match="truncated or does not hold CIFAR-10"):
        keras.datasets.cifar10.load_data()


@pytest.mark.parametrize(
    "name", ["cifar-10-batches-py.tar.gz", "cifar-10-batches-py-target_archive"]
)
def test_cifar_under_the_names_of_keras(cache: Path, name: str) -> None:
    batch = pickle.dumps({b"data": np.zeros((1, 3072)), b"labels": [7]}, protocol=2)
    with tarfile.open(cache / name, "w:gz") as archive:
        for member in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
            info = tarfile.TarInfo(f"cifar-10-batches-py/{member}")
            info.size = len(batch)
            archive.addfile(info, io.BytesIO(batch))
    assert keras.datasets.cifar10.load_data()[0][0].shape == (5, 32, 32, 3)


def test_errors(cache: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Ways out: \(1\) connect"):
        keras.datasets.cifar100.load_data()
    (cache / "boston_housing.npz").write_bytes(b"PK broken")
    with pytest.raises(ValueError, match="truncated or does not hold Boston"):
        keras.datasets.boston_housing.load_data()


def test_code_in_a_pickle_is_refused() -> None:
    class Evil:
        def __reduce__(self) -> tuple:
            return print, ("evil",)

    with pytest.raises(pickle.UnpicklingError, match="print"):
        _official.unpickled(pickle.dumps(Evil()))
