"""save_weights and load_weights: whole files or none, and nothing half loaded."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from ipu import keras


def model(units: int = 3, name: str | None = None) -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Dense(units, input_shape=(4,), name=name),
            keras.layers.Dense(2, bias_initializer="ones"),
        ]
    )


def same(one: keras.Model, other: keras.Model) -> bool:
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def test_round_trip_by_order_and_by_name(tmp_path: Path) -> None:
    source, target = model(), model()
    path = tmp_path / "w.safetensors"
    source.save_weights(path)
    assert not same(source, target)
    target.load_weights(path)
    assert same(source, target)
    stored = load_file(path)
    assert sorted(stored) == sorted(w.name.split(":")[0] for w in source.weights)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~_umask()
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_of_another_program_is_taken_by_name(tmp_path: Path) -> None:
    source = model()
    path = tmp_path / "w.safetensors"
    arrays = {w.name.split(":")[0]: w.numpy() * 2 for w in source.weights}
    save_file(arrays, path)
    source.load_weights(path)
    np.testing.assert_array_equal(source.get_weights()[0], next(iter(arrays.values())))


def test_suffix_is_added_and_foreign_ones_are_refused(tmp_path: Path) -> None:
    one = model()
    one.save_weights(str(tmp_path / "plain"))
    assert (tmp_path / "plain.safetensors").exists()
    one.load_weights(str(tmp_path / "plain"))
    with pytest.raises(ValueError, match=r"ends in .safetensors"):
        one.save_weights("w.npz")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        one.save_weights(str(tmp_path / "plain"), overwrite=False)


def test_a_damaged_file_changes_nothing(tmp_path: Path) -> None:
    source, target = model(), model()
    path = tmp_path / "w.safetensors"
    source.save_weights(path)
    whole = path.read_bytes()
    before = target.get_weights()
    for size in [0, 4, 8, 60, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="damaged or not a safetensors file"):
            target.load_weights(path)
    path.write_bytes(b"PK\x03\x04" + whole)
    with pytest.raises(ValueError, match="nothing was loaded"):
        target.load_weights(path)
    for old, new in zip(before, target.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_file_of_another_model_changes_nothing(tmp_path: Path) -> None:
    target = model()
    before = target.get_weights()
    path = tmp_path / "w.safetensors"
    model(5).save_weights(path)
    with pytest.raises(ValueError, match=r"nothing was loaded:\n.*\(4, 3\)"):
        target.load_weights(path)
    keras.Sequential([keras.layers.Dense(1, input_shape=(4,))]).save_weights(path)
    with pytest.raises(ValueError, match="It has 2 weights, the model 4"):
        target.load_weights(path)
    save_file({"other": np.zeros(3, np.float32)}, path)
    with pytest.raises(ValueError, match="not in the model"):
        target.load_weights(path)
    # the last weight is wrong: the ones before it must not have been loaded
    arrays = {w.name.split(":")[0]: w.numpy() + 1 for w in target.weights}
    arrays[target.weights[-1].name.split(":")[0]] = np.zeros(2, np.int32)
    save_file(arrays, path)
    with pytest.raises(ValueError, match="nothing was loaded"):
        target.load_weights(path)
    for old, new in zip(before, target.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    with pytest.raises(FileNotFoundError, match="no weights file"):
        target.load_weights(tmp_path / "none.safetensors")


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "w.safetensors"
    source = model()
    source.save_weights(path)
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        model().save_weights(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_an_unbuilt_model_has_no_weights_to_save(tmp_path: Path) -> None:
    unbuilt = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(ValueError, match="not yet been created"):
        unbuilt.save_weights(tmp_path / "w")
    with pytest.raises(ValueError, match="not yet been created"):
        unbuilt.load_weights(tmp_path / "w")


def rewritten(path: Path, change: Callable[[dict[str, str]], object]) -> None:
    """The file with other metadata: what `change` gives, or makes of it in place."""
    about = safe_open(path, "np").metadata()
    given = change(about)
    save_file(load_file(path), path, about if given is None else given)


DAMAGES: dict[str, Callable[[dict[str, str]], object]] = {
    "no order": lambda about: about.pop("order") and None,
    "no JSON": lambda about: about.update(order="["),
    "a number": lambda about: about.update(order="1"),
    "no names": lambda about: about.update(order="[1, 2, null, {}]"),
    "a nest": lambda about: about.update(order="[[], [], [], []]"),
    "too few": lambda about: about.update(order="[]"),
    "twice": lambda about: about.update(
        order=json.dumps([json.loads(about["order"])[0]] * 4)
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_metadata(tmp_path: Path, damage: str) -> None:
    source, target = model(), model()
    before = target.get_weights()
    path = tmp_path / "w.safetensors"
    source.save_weights(path)
    rewritten(path, DAMAGES[damage])
    with pytest.raises(ValueError, match=r"is damaged .*nothing was loaded"):
        target.load_weights(path)
    assert all(map(np.array_equal, before, target.get_weights()))


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b"{}{}",
        b'{"w": 1}',
        b'{"w": {}}',
        b'{"w": {"dtype": "F32"}}',
        b'{"w": {"dtype": "F99", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"w": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
        b'{"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 400]}}',
        b'{"__metadata__": 1}',
        b'{"__metadata__": {"format": 1}}',
        b'{"__metadata__": {"format": "ipu.keras.weights"}}',
        b'{"\xff": {}}',
    ],
)
def test_malformed_headers(tmp_path: Path, header: bytes) -> None:
    target = model()
    path = tmp_path / "w.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ValueError, match=r"damaged|is not one of model"):
        target.load_weights(path)
    path.write_bytes((2**63).to_bytes(8, "little") + header)
    with pytest.raises(ValueError, match="is damaged"):
        target.load_weights(path)
